"""Attention for every caller: training rows with segments and branches, images in the vision encoder, and cached decoding.

In: queries, keys, values and a boolean mask. Out: the mixed values. The masks are the only place where "who sees whom" is decided.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


def causal_mask(segments: Int[Array, "B T"], branches: Int[Array, "B T"]) -> Bool[Array, "B T T"]:
    """Query q sees key k iff they share a non-zero segment, k is not after q, and k is in the trunk or in q's branch."""
    length = segments.shape[1]
    order = jnp.tril(jnp.ones((length, length), bool))
    same = (segments[:, :, None] == segments[:, None, :]) & (segments[:, None, :] > 0)
    visible = (branches[:, None, :] == 0) | (branches[:, None, :] == branches[:, :, None])
    return order & same & visible


def block_mask(segments: Int[Array, "B P"]) -> Bool[Array, "B P P"]:
    """Patches see the patches of their own image; padding (0) sees nothing and is not seen."""
    return (segments[:, :, None] == segments[:, None, :]) & (segments[:, None, :] > 0)


def attend(
    query: Float[Array, "B T H Dh"],
    key: Float[Array, "B S K Dh"],
    value: Float[Array, "B S K Dh"],
    mask: Bool[Array, "B T S"],
) -> Float[Array, "B T H*Dh"]:
    """Grouped-query attention with the softmax in fp32; H is a multiple of K. A query that sees no key gets a finite, meaningless value."""
    batch, length, heads, dim = query.shape
    mixed = jax.nn.dot_product_attention(query, key, value, mask=mask[:, None], scale=dim**-0.5)
    return mixed.reshape(batch, length, heads * dim)
