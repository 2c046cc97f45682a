"""The learners' batch (declared beside the packing that makes it) and its way to the devices.

In: host batches `[B, T]`. Out: `Batch`, the helpers that give it a micro-batch axis, and `global_weights`, the three
denominators that belong to a whole batch.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from gui_rl.data.batch import STREAMS, Batch, split, stack, with_streams

__all__ = ["STREAMS", "Batch", "StreamWeights", "global_weights", "split", "stack", "with_streams"]


class StreamWeights(NamedTuple):
    """Sum of the weights of each stream over everything that takes part in one optimisation step."""

    ce: Float[Array, ""]
    pg: Float[Array, ""]
    kl: Float[Array, ""]


def global_weights(batch: Batch) -> StreamWeights:
    """The denominators of the three streams, over every micro-batch and every device (one number each, float32)."""
    return StreamWeights(jnp.sum(batch.ce_weight), jnp.sum(batch.pg_weight), jnp.sum(batch.kl_weight))
