"""A policy small enough to compile in a second, golden cases, and samples to pack."""

import json
from pathlib import Path

import jax
import pytest
from smallest import build_config, build_samples

from gui_rl.model.config import ModelConfig

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


@pytest.fixture(scope="session")
def golden():
    """`golden(name)` gives the cases of a golden file."""
    return lambda name: json.loads((GOLDEN / f"{name}.json").read_text())["cases"]


@pytest.fixture(scope="session")
def cfg() -> ModelConfig:
    return build_config()


@pytest.fixture(scope="session")
def make_samples():
    return build_samples


@pytest.fixture(scope="session")
def params(cfg):
    """The policy's initial parameters."""
    from gui_rl.model.params import init_params

    return jax.jit(init_params, static_argnums=0)(cfg, jax.random.key(1))
