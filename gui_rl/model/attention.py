"""Attention for every caller: training rows with segments and branches, images in the vision encoder, cached decoding.

In: queries, keys, values and a boolean mask. Out: the mixed values. The masks alone decide who sees whom.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

QUERY_BLOCK = 1024  # longer rows are attended to a block of queries at a time, so that [T, S] scores never exist whole


def causal_mask(segments: Int[Array, "B T"], branches: Int[Array, "B T"]) -> Bool[Array, "B T T"]:
    """Query q sees key k iff they share a non-zero segment, k is not after q, and k is in the trunk or q's branch."""
    length = segments.shape[1]
    order = jnp.tril(jnp.ones((length, length), bool))
    visible = (branches[:, None, :] == 0) | (branches[:, None, :] == branches[:, :, None])
    return order & visible & block_mask(segments)


def block_mask(segments: Int[Array, "B P"]) -> Bool[Array, "B P P"]:
    """Each sees all of its own segment (in the vision encoder: image); padding (0) sees nothing and is not seen."""
    return (segments[:, :, None] == segments[:, None, :]) & (segments[:, None, :] > 0)


def attend(
    query: Float[Array, "B T H Dh"],
    key: Float[Array, "B S K Dh"],
    value: Float[Array, "B S K Dh"],
    mask: Bool[Array, "B T S"],
) -> Float[Array, "B T H*Dh"]:
    """Grouped-query attention, H a multiple of K, scores and softmax in fp32.

    A query that sees no key gets a finite, meaningless value.
    """
    batch, length, heads, dim = query.shape
    groups = key.shape[2]
    grouped = (query * dim**-0.5).reshape(batch, length, groups, heads // groups, dim).transpose(0, 2, 3, 1, 4)
    key, value = key.transpose(0, 2, 1, 3), value.transpose(0, 2, 1, 3)
    if length > QUERY_BLOCK:
        mixed = _mix_in_blocks(grouped, key, value, mask)
    else:
        mixed = _mix(grouped, key, value, mask)
    return mixed.transpose(0, 3, 1, 2, 4).reshape(batch, length, heads * dim)


def _mix_in_blocks(
    query: Float[Array, "B K G T Dh"],
    key: Float[Array, "B K S Dh"],
    value: Float[Array, "B K S Dh"],
    mask: Bool[Array, "B T S"],
) -> Float[Array, "B K G T Dh"]:
    length = query.shape[3]
    count = -(-length // QUERY_BLOCK)
    extra = count * QUERY_BLOCK - length
    queries = jnp.pad(query, ((0, 0), (0, 0), (0, 0), (0, extra), (0, 0)))
    masks = jnp.pad(mask, ((0, 0), (0, extra), (0, 0)))

    @jax.checkpoint
    def one_block(number: Array) -> Array:
        start = number * QUERY_BLOCK
        part = jax.lax.dynamic_slice_in_dim(queries, start, QUERY_BLOCK, axis=3)
        return _mix(part, key, value, jax.lax.dynamic_slice_in_dim(masks, start, QUERY_BLOCK, axis=1))

    blocks = jax.lax.map(one_block, jnp.arange(count))
    return jnp.moveaxis(blocks, 0, 3).reshape(*query.shape[:3], -1, query.shape[4])[:, :, :, :length]


@jax.custom_vjp
def _mix(
    query: Float[Array, "B K G T Dh"],
    key: Float[Array, "B K S Dh"],
    value: Float[Array, "B K S Dh"],
    mask: Bool[Array, "B T S"],
) -> Float[Array, "B K G T Dh"]:
    """softmax(query key^T) value. The backward pass is written out: half the CPU time of the derived one."""
    return _mix_forward(query, key, value, mask)[0]


def _mix_forward(query: Array, key: Array, value: Array, mask: Array) -> tuple[Array, tuple[Array, ...]]:
    shape, queries = query.shape, _flat(query)
    scores = jnp.einsum("bkqd,bksd->bkqs", queries, key, preferred_element_type=jnp.float32)
    scores = jnp.where(mask[:, None, None], scores.reshape(*shape[:4], -1), jnp.float32(-1e30))
    powers = jnp.exp(scores - jnp.max(scores, axis=-1, keepdims=True))
    weights = _flat((powers / jnp.sum(powers, axis=-1, keepdims=True)).astype(value.dtype))
    mixed = jnp.einsum("bkqs,bksd->bkqd", weights, value).reshape(shape)
    return mixed, (query, key, value, weights, mixed)


def _mix_backward(saved: tuple[Array, ...], grad: Array) -> tuple[Array | None, ...]:
    query, key, value, weights, mixed = saved
    queries, grads = _flat(query), _flat(grad)
    grad_value = jnp.einsum("bkqs,bkqd->bksd", weights, grads)
    grad_weights = jnp.einsum("bkqd,bksd->bkqs", grads, value, preferred_element_type=jnp.float32)
    expected = jnp.sum(grads.astype(jnp.float32) * _flat(mixed).astype(jnp.float32), axis=-1, keepdims=True)
    grad_scores = (weights.astype(jnp.float32) * (grad_weights - expected)).astype(query.dtype)
    grad_query = jnp.einsum("bkqs,bksd->bkqd", grad_scores, key).reshape(query.shape)
    return grad_query, jnp.einsum("bkqs,bkqd->bksd", grad_scores, queries), grad_value, None


def _flat(x: Float[Array, "B K G T d"]) -> Float[Array, "B K G*T d"]:
    return x.reshape(*x.shape[:2], -1, x.shape[4])


_mix.defvjp(_mix_forward, _mix_backward)
