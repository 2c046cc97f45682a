"""Small pieces shared by the decoder and the vision encoder: norms, linear maps, gathers, and the loop over stacked
layers.

In: activations and one layer's parameters. Out: activations of the same shape (a new last axis for `linear`).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

DENSE_GATHER_BELOW = 512  # up to so many rows a gather is a one-hot matmul: its gradient is a matmul, not a scatter


def linear(x: Float[Array, "*n i"], weight: Float[Array, "i o"]) -> Float[Array, "*n o"]:
    """x @ weight in the activations' dtype."""
    return x @ weight.astype(x.dtype)


def rms_norm(x: Float[Array, "*n D"], weight: Float[Array, " D"], eps: float) -> Float[Array, "*n D"]:
    """Root-mean-square norm, statistics in fp32."""
    wide = x.astype(jnp.float32)
    scale = jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + eps)
    return (wide * scale).astype(x.dtype) * weight.astype(x.dtype)


def layer_norm(
    x: Float[Array, "*n D"], weight: Float[Array, " D"], bias: Float[Array, " D"], eps: float = 1e-6
) -> Float[Array, "*n D"]:
    """Mean and variance norm with bias, in fp32."""
    wide = x.astype(jnp.float32)
    centred = wide - jnp.mean(wide, axis=-1, keepdims=True)
    scale = jax.lax.rsqrt(jnp.mean(centred * centred, axis=-1, keepdims=True) + eps)
    return (centred * scale * weight.astype(jnp.float32) + bias.astype(jnp.float32)).astype(x.dtype)


def gather_rows(rows: Float[Array, "B M D"], index: Int[Array, "B T"]) -> Float[Array, "B T D"]:
    """rows[b, index[b, t]]; zero where the index is negative."""
    if rows.shape[1] <= DENSE_GATHER_BELOW:
        return jnp.einsum("btm,bmd->btd", jax.nn.one_hot(index, rows.shape[1], dtype=rows.dtype), rows)
    taken = jnp.take_along_axis(rows, jnp.maximum(index, 0)[..., None], axis=1)
    return jnp.where(index[..., None] >= 0, taken, 0)


def run_layers(
    step: Callable[[Any, Any, Any], tuple[Any, Any]], carry: Any, stacked: Any, count: int, scan: bool, remat: bool
) -> tuple[Any, Any]:
    """`carry, kept = step(carry, layer number, layer parameters)` for each layer; returns (carry, stacked `kept`).

    `scan` compiles one layer and loops over them (the number is then traced); otherwise the layers are unrolled (the
    number is then an int). `remat` recomputes a layer's activations in the backward pass instead of keeping them.
    """
    if scan:
        body = jax.checkpoint(step) if remat else step
        return jax.lax.scan(lambda carry, layer: body(carry, *layer), carry, (jnp.arange(count), stacked))
    body = jax.checkpoint(step, static_argnums=1) if remat else step
    kept = []
    for number in range(count):
        carry, item = body(carry, number, jax.tree.map(lambda leaf: leaf[number], stacked))  # noqa: B023
        kept.append(item)
    return carry, jax.tree.map(lambda *items: jnp.stack(items), *kept)
