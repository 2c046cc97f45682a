"""Optimizers and learning-rate schedules, from optax.

In: learning rates, the model's parameter specs. Out: `optax.GradientTransformation`s that clip the gradient by its
global norm and then apply AdamW, or Muon to the matrices and Adam to everything else. For bfloat16 parameters, whose
last place is too coarse for small updates, wrap either of them: `master_weights(adamw(...))` keeps a float32 copy of
the parameters, `stochastic_rounding(adamw(...))` rounds up or down by chance, which is right on average and needs no
copy. The state of both is sharded like the parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
import optax.contrib
from jaxtyping import Array, BFloat16, Float32, Int

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


def project_conflicts(grads: Any, key: Array) -> tuple[Any, Array]:
    """The sum of several gradients, none of which points against another (gradient surgery, 2001.06782, algorithm 1).

    Every gradient, in a random order, loses its component along each other one with which its dot product is negative.
    All of it happens in the span of the gradients: only their dot products are needed.

    Args:
      grads: a tree of arrays `[F, ...]`: F gradients.
      key: of the order.
    Returns:
      The sum, a tree of arrays `[...]`, and the cosines `[F, F]` of the gradients as they came (0 for one that is 0).
    """
    flat = [leaf.reshape(leaf.shape[0], -1).astype(jnp.float32) for leaf in jax.tree.leaves(grads)]
    dots = sum(jnp.matmul(leaf, leaf.T, precision="highest") for leaf in flat)
    count, squares = dots.shape[0], jnp.diag(dots)
    norms = jnp.sqrt(squares)
    scale = jnp.outer(norms, norms)
    cosines = jnp.where(scale > 0, dots / jnp.where(scale > 0, scale, 1.0), 0.0)

    def project(own: Array, key: Array) -> Array:
        def against(parts: Array, other: Array):
            dot = parts @ dots[:, other]
            remove = jnp.where(
                (other != own) & (dot < 0), dot / jnp.where(squares[other] > 0, squares[other], 1.0), 0.0
            )
            return parts.at[other].add(-remove), None

        return jax.lax.scan(against, jnp.eye(count)[own], jax.random.permutation(key, count))[0]

    parts = jax.vmap(project)(jnp.arange(count), jax.random.split(key, count)).sum(0)
    return jax.tree.map(lambda leaf: jnp.tensordot(parts, leaf.astype(jnp.float32), 1), grads), cosines


class MasterState(NamedTuple):
    """The float32 parameters, and the state of the optimizer that moves them."""

    master: Any
    inner: Any


def master_weights(inner: optax.GradientTransformation) -> optax.GradientTransformation:
    """Runs `inner` on a float32 copy of the parameters; the parameters are that copy, rounded.

    The gradient is still taken at the rounded parameters. Costs 4 bytes a parameter, and float32 moments.
    """

    def init(params: Any) -> MasterState:
        master = optax.tree.cast(params, jnp.float32)
        return MasterState(master, inner.init(master))

    def update(grads: Any, state: MasterState, params: Any) -> tuple[Any, MasterState]:
        updates, moments = inner.update(optax.tree.cast(grads, jnp.float32), state.inner, state.master)
        master = optax.apply_updates(state.master, updates)
        rounded = jax.tree.map(lambda new, old: new.astype(old.dtype), master, params)
        return _difference(rounded, params), MasterState(master, moments)

    return optax.GradientTransformation(init, update)


class RoundingState(NamedTuple):
    """Number of updates made, and the state of the optimizer that makes them."""

    count: Int[Array, ""]
    inner: Any


def stochastic_rounding(inner: optax.GradientTransformation, seed: int = 0) -> optax.GradientTransformation:
    """Runs `inner` in float32 and rounds bfloat16 parameters by chance (`round_by_chance`); others are left exact.

    The draws are a function of the seed, the number of the update and the parameter: a resumed run makes the same ones,
    on any mesh.
    """

    def init(params: Any) -> RoundingState:
        return RoundingState(jnp.zeros((), jnp.int32), inner.init(optax.tree.cast(params, jnp.float32)))

    def update(grads: Any, state: RoundingState, params: Any) -> tuple[Any, RoundingState]:
        wide = optax.tree.cast(params, jnp.float32)
        updates, moments = inner.update(optax.tree.cast(grads, jnp.float32), state.inner, wide)
        key = jax.random.fold_in(jax.random.key(seed), state.count)
        leaves, structure = jax.tree.flatten(params)
        moved = jax.tree.leaves(optax.apply_updates(wide, updates))
        rounded = [
            round_by_chance(new, jax.random.fold_in(key, number)) if old.dtype == jnp.bfloat16 else new
            for number, (new, old) in enumerate(zip(moved, leaves, strict=True))
        ]
        return _difference(structure.unflatten(rounded), params), RoundingState(state.count + 1, moments)

    return optax.GradientTransformation(init, update)


def round_by_chance(x: Float32[Array, "*n"], key: Array) -> BFloat16[Array, "*n"]:
    """To one of the two neighbouring bfloat16 values, to the nearer one with the greater probability: E[result] = x.

    A random number below one unit in the last place is added to the magnitude, which is then cut off. Infinities and
    NaN stay.
    """
    bits = jax.lax.bitcast_convert_type(x, jnp.uint32)
    noise = jax.random.bits(key, x.shape, jnp.uint16).astype(jnp.uint32)
    cut = jax.lax.bitcast_convert_type((bits + noise) & jnp.uint32(0xFFFF0000), jnp.float32)
    return jnp.where(jnp.isfinite(x), cut, x).astype(jnp.bfloat16)


def _difference(new: Any, old: Any) -> Any:
    """What `optax.apply_updates` has to add to `old` for `new` to come out: float32, so that it does to the bit."""
    return jax.tree.map(lambda a, b: a.astype(jnp.float32) - b.astype(jnp.float32), new, old)
