"""A policy's folder: weights in Hugging Face form, and the form of its prompts.

In: a folder with config.json and safetensors. Out: `Policy`. `policy.json` beside them says which vocabulary the policy
reads and how its context is put together, e.g.

    {"tokenizer": "gui-tiny", "context": {"history_turns": 0, "screenshot_first": true}}

`tokenizer` is a packaged name, or a file or folder relative to the policy's. Without policy.json, the folder's own
tokenizer.json is read with the default context; without that either, the policy is taken for a gui-tiny.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from gui_rl.errors import UserError
from gui_rl.model import hf
from gui_rl.model.config import ModelConfig
from gui_rl.prompt.context import TINY_CONTEXT, ContextConfig
from gui_rl.prompt.tokenizer import Tokenizer

FORM = "policy.json"


@dataclasses.dataclass(frozen=True, eq=False)
class Policy:
    """Everything that is needed to act: the model, its vocabulary, its context. `name` is the folder's."""

    name: str
    cfg: ModelConfig
    params: Any
    tokenizer: Tokenizer
    context: ContextConfig


def load(folder: str | Path) -> Policy:
    """Reads a policy. Raises UserError for a folder that holds none, and for a vocabulary that is not the model's."""
    folder = Path(folder)
    cfg, params = hf.load(folder)
    tokenizer, context = read_form(folder)
    if tokenizer.image_id != cfg.image_token_id or tokenizer.vocab_size > cfg.text.vocab_size:
        raise UserError(
            f"{folder}: the vocabulary {tokenizer.source} ({tokenizer.vocab_size} ids, image placeholder "
            f"{tokenizer.image_id}) is not the model's ({cfg.text.vocab_size} ids, placeholder {cfg.image_token_id}): "
            f"name the right one in {FORM}"
        )
    return Policy(folder.resolve().name, cfg, params, tokenizer, context)


def read_form(folder: Path) -> tuple[Tokenizer, ContextConfig]:
    """The vocabulary and the context of a policy's folder. Raises UserError for a `policy.json` that does not fit."""
    path = folder / FORM
    if not path.is_file():
        own = (folder / "tokenizer.json").is_file()
        return (Tokenizer.load(folder), ContextConfig()) if own else (Tokenizer.load("gui-tiny"), TINY_CONTEXT)
    try:
        document = json.loads(path.read_text())
        unknown = sorted(set(document) - {"tokenizer", "context"})
        if unknown:
            raise ValueError(f"unknown keys {', '.join(unknown)}")
        name, context = document["tokenizer"], ContextConfig(**document["context"])
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f'{path}: need {{"tokenizer": name, "context": {{...}}}}: {error}') from None
    beside = folder / name
    return Tokenizer.load(beside if beside.exists() else name), context


def write_form(folder: str | Path, tokenizer: str, context: ContextConfig) -> None:
    """Writes `policy.json`; for whoever calls `hf.save`."""
    document = {"tokenizer": tokenizer, "context": dataclasses.asdict(context)}
    (Path(folder) / FORM).write_text(json.dumps(document, indent=1))
