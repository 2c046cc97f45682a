"""Optimizers and learning-rate schedules, from optax.

In: learning rates, the model's parameter specs. Out: `optax.GradientTransformation`s that clip the gradient by its
global norm and then apply AdamW, or Muon to the matrices and Adam to everything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import jax
import optax
import optax.contrib

from gui_rl.model.config import ModelConfig
from gui_rl.model.params import ParamSpec, is_spec, param_specs

Schedule = float | optax.Schedule
ADAM_AXES = ("vocab", "vision_positions")
"""Logical axes that mark a table rather than a matrix: token embeddings, the head, learned positions."""


BATCH_AXES = ("layers", "experts")
"""Logical axes along which matrices are stacked."""


def learning_rate(
    peak: float, steps: int, warmup: int = 100, shape: Literal["cosine", "constant"] = "cosine", end: float = 0.1
) -> optax.Schedule:
    """Linear warm-up from 0 to `peak`, then a cosine to `end * peak` at `steps`, or a constant.

    Raises:
      ValueError: for an unknown shape, or a cosine that would end before its warm-up does.
    """
    if shape == "constant":
        return optax.warmup_constant_schedule(0.0, peak, warmup)
    if shape != "cosine":
        raise ValueError(f"unknown schedule {shape!r}: choose 'cosine' or 'constant'")
    if steps <= warmup:
        raise ValueError(f"a cosine over {steps} steps cannot follow a warm-up of {warmup} steps")
    return optax.warmup_cosine_decay_schedule(0.0, peak, warmup, steps, end * peak)


def adamw(
    rate: Schedule,
    weight_decay: float = 0.0,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    clip: float = 1.0,
) -> optax.GradientTransformation:
    """AdamW after clipping the gradient's global norm to `clip`. The decay applies to every parameter."""
    return optax.chain(
        optax.clip_by_global_norm(clip), optax.adamw(rate, b1=b1, b2=b2, eps=eps, weight_decay=weight_decay)
    )


def muon(
    cfg: ModelConfig,
    rate: Schedule,
    adam_rate: Schedule,
    weight_decay: float = 0.0,
    beta: float = 0.95,
    b1: float = 0.9,
    b2: float = 0.999,
    clip: float = 1.0,
    adam_axes: Sequence[str] = ADAM_AXES,
) -> optax.GradientTransformation:
    """Muon on the matrices and Adam on the rest, after clipping the gradient's global norm to `clip`.

    Each layer's matrix is orthogonalised by itself: the stacking axis is a batch axis. Adam has Nesterov momentum here,
    as in optax's Muon.

    Args:
      cfg: the policy, whose parameter specs say what is a matrix.
      rate: Muon's learning rate (for `gui-tiny` 0.01).
      adam_rate: Adam's learning rate (for `gui-tiny` 3e-3).
      weight_decay: decay of the matrices.
      beta: Muon's momentum.
      b1, b2: Adam's moments.
      clip: bound on the gradient's global norm.
      adam_axes: a parameter with one of these logical axes is left to Adam although it has two dimensions.
    """
    return optax.chain(
        optax.clip_by_global_norm(clip),
        optax.contrib.muon(
            rate,
            beta=beta,
            weight_decay=weight_decay,
            adam_b1=b1,
            adam_b2=b2,
            adam_learning_rate=adam_rate,
            muon_weight_dimension_numbers=matrix_dimensions(cfg, adam_axes),
        ),
    )


def matrix_dimensions(cfg: ModelConfig, adam_axes: Sequence[str] = ADAM_AXES) -> Any:
    """For every parameter, which axes are its matrix's in and out axes (`MuonDimensionNumbers`), or None for Adam."""

    def dimensions(spec: ParamSpec):
        own = [axis for axis in spec.logical_axes if axis not in BATCH_AXES]
        if len(own) != 2 or any(axis in adam_axes for axis in own):
            return None
        return optax.contrib.MuonDimensionNumbers(len(spec.shape) - 2, len(spec.shape) - 1)

    return jax.tree.map(dimensions, param_specs(cfg), is_leaf=is_spec)
