"""The batch: what every learner fills and the one train step reads.

In: nothing. Out: `Batch`, a pytree of arrays with static shapes. SFT fills `ce_weight`; reinforcement learning fills
`pg_weight`, `advantage` and `behaviour_logp`; distillation fills `kl_weight` and `teacher_logp`; a mixture fills
several. The three weight streams never share a denominator.
"""

from __future__ import annotations

import dataclasses

import flax.struct
import jax
import numpy as np
from jaxtyping import Array, Float, Int

from gui_rl.model.inputs import ModelInputs

STREAMS = ("ce_weight", "pg_weight", "kl_weight", "advantage", "behaviour_logp", "teacher_logp")
"""The per-token float fields of a batch, in the order in which they are declared."""


@flax.struct.dataclass
class Batch:
    """Packed rows with per-token targets and weights; `[B, T]` here, `[A, B, T]` with a micro-batch axis.

    The arrays are aligned with `targets`: entry `t` belongs to the prediction, made at position `t`, of the token that
    follows it in its own sample. Positions without such a token, and padding, have target 0 and weight 0.

    Attributes:
      inputs: what the model reads.
      targets: token ids to predict.
      ce_weight: weight of the cross-entropy of the target.
      pg_weight: weight of the policy-gradient term.
      kl_weight: weight of the divergence from the teacher.
      advantage: advantage of the target token.
      behaviour_logp: log-probability (nats) of the target under the policy that sampled it.
      teacher_logp: log-probability (nats) of the target under the teacher.
      teacher_hidden: the teacher's hidden state (after its last norm) at the position, padded to the widest teacher's;
        with it and the teachers' heads the divergence is exact over the vocabulary. None where that is not asked for.
      teacher: which teacher it is of; None likewise.
    """

    inputs: ModelInputs
    targets: Int[Array, "*A B T"]
    ce_weight: Float[Array, "*A B T"]
    pg_weight: Float[Array, "*A B T"]
    kl_weight: Float[Array, "*A B T"]
    advantage: Float[Array, "*A B T"]
    behaviour_logp: Float[Array, "*A B T"]
    teacher_logp: Float[Array, "*A B T"]
    teacher_hidden: Float[Array, "*A B T E"] | None = None
    teacher: Int[Array, "*A B T"] | None = None


def stack(batches: list[Batch]) -> Batch:
    """Stacks batches of equal shapes along a new leading micro-batch axis (host, numpy).

    Raises:
      ValueError: when there is nothing to stack or the shapes differ.
    """
    if not batches:
        raise ValueError("stack needs at least one batch")
    return jax.tree.map(lambda *arrays: np.stack(arrays), *batches)


def split(batch: Batch, parts: int) -> Batch:
    """Splits the rows `[B, ...]` of a batch into `parts` micro-batches `[parts, B / parts, ...]` (host, numpy).

    Raises:
      ValueError: when the rows do not divide by `parts`.
    """
    rows = batch.targets.shape[0]
    if parts < 1 or rows % parts:
        raise ValueError(f"{rows} rows cannot be split into {parts} micro-batches: choose a divisor of {rows}")
    return jax.tree.map(lambda array: np.asarray(array).reshape(parts, rows // parts, *array.shape[1:]), batch)


def with_streams(batch: Batch, **streams: Float[np.ndarray, "*A B T"]) -> Batch:
    """Replaces float streams of a batch, e.g. `teacher_logp` once the teacher has scored the rows.

    Raises:
      ValueError: for an unknown stream or a shape that is not the shape of `targets`.
    """
    for name, values in streams.items():
        if name not in STREAMS:
            raise ValueError(f"unknown stream {name!r}: the streams of a batch are {', '.join(STREAMS)}")
        if values.shape != batch.targets.shape:
            raise ValueError(f"{name} has shape {values.shape} but the batch's targets have {batch.targets.shape}")
    return dataclasses.replace(batch, **streams)
