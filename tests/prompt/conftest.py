"""Vocabularies that several tests of this room read."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from gui_rl.prompt.tokenizer import Tokenizer


@pytest.fixture(scope="session")
def qwen_ranks() -> Path:
    """Qwen's real BPE ranks, as they ship with the package `dashscope`."""
    return Path(find_spec("dashscope").origin).parent / "resources" / "qwen.tiktoken"


@pytest.fixture(scope="session")
def qwen(qwen_ranks) -> Tokenizer:
    return Tokenizer.from_qwen_tiktoken(qwen_ranks)


@pytest.fixture(scope="session")
def tiny() -> Tokenizer:
    return Tokenizer.load("gui-tiny")
