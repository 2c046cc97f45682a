"""Small pieces shared by the decoder and the vision encoder: norms, linear maps, gathers, and the loop over stacked
layers.

In: activations and one layer's parameters. Out: activations of the same shape (a new last axis for `linear`).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float, Int

from gui_rl.model.config import Remat

DENSE_GATHER_BELOW = 512  # up to so many rows a gather is a one-hot matmul: its gradient is a matmul, not a scatter


_POLICIES = jax.checkpoint_policies
# What a layer's backward pass finds again (`ModelConfig.remat`). The names are given where the values are computed.
KEPT = {
    "dots": _POLICIES.save_from_both_policies(
        _POLICIES.dots_with_no_batch_dims_saveable, _POLICIES.save_only_these_names("experts")
    ),
    "attention": _POLICIES.save_only_these_names("attention"),
    "full": _POLICIES.nothing_saveable,
}


def keep_attention(*values: Array) -> tuple[Array, ...]:
    """Marks what `remat="attention"` keeps: queries, keys, values and what attention makes of them."""
    return tuple(checkpoint_name(value, "attention") for value in values)


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
    step: Callable[[Any, Any, Any], tuple[Any, Any]], carry: Any, layers: Any, count: int, scan: bool, remat: Remat
) -> tuple[Any, Any]:
    """`carry, kept = step(carry, layer number, layer parameters)` for each layer; returns (carry, stacked `kept`).

    `scan` compiles one layer and loops over them (the number is then traced); otherwise the layers are unrolled (the
    number is then an int), and so are layers that come as a tuple instead of stacked. `remat` says which of a layer's
    activations the backward pass computes again.
    """
    if scan and not isinstance(layers, tuple):
        body = rematerialised(step, remat)
        return jax.lax.scan(lambda carry, layer: body(carry, *layer), carry, (jnp.arange(count), layers))
    body = rematerialised(step, remat, static_argnums=1)
    kept = []
    for number in range(count):
        carry, item = body(carry, number, _layer(layers, number))
        kept.append(item)
    return carry, jax.tree.map(lambda *items: jnp.stack(items), *kept)


def rematerialised(function: Callable, remat: Remat, **options: Any) -> Callable:
    """`function`, of which the backward pass finds again what `remat` says; `options` are `jax.checkpoint`'s."""
    return function if remat == "none" else jax.checkpoint(function, policy=KEPT[remat], **options)


def _layer(layers: Any, number: int) -> Any:
    if isinstance(layers, tuple):
        return layers[number]
    return jax.tree.map(lambda leaf: leaf[number], layers)
