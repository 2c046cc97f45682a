"""Attention for every caller: training rows with segments and branches, images in the vision encoder, cached decoding.

In: queries, keys, values, and who sees whom: a `Visibility` (described by segments and branches, never stored as a
[T, T] array) or a boolean array. Out: the mixed values.
The XLA implementation here is the reference and runs everywhere. Where the caller has said how arrays are split
(`layout.on_mesh`), the kernel of the mesh's platform is used instead: splash attention (Pallas) on TPU, cuDNN on GPU
(`gui_rl.model.kernels`). `choose` is the one place that says when, and why not.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from gui_rl.model import kernels, layout

QUERY_BLOCK = 1024  # longer rows are attended to a block of queries at a time, so that [T, S] scores never exist whole
BLOCK_SCORES = 2**22  # most scores of one head in a block: very long rows get smaller blocks
SHORT_ROW = 256  # shorter rows go to XLA: their scores are small, and a kernel's smallest tile is 128

PLATFORM_KERNELS = {"tpu": "splash", "gpu": "cudnn", "cuda": "cudnn"}


@struct.dataclass
class Visibility:
    """Which keys of its own row a query sees: those of its segment (not 0), and further

    causal    none after the query in row order
    branches  (where given) only the trunk's (0) and those of its own branch
    """

    segments: Int[Array, "B T"]
    branches: Int[Array, "B T"] | None = None
    causal: bool = struct.field(pytree_node=False, default=False)

    def rows(self, start: Int[Array, ""] | int = 0, count: int | None = None) -> Bool[Array, "B count T"]:
        """The mask of `count` queries from `start` on (all of them by default); queries past the end see nothing."""
        length = self.segments.shape[1]
        query = start + jnp.arange(length if count is None else count)
        segment = jnp.take(self.segments, query, axis=1, mode="fill", fill_value=0)[:, :, None]
        seen = (segment == self.segments[:, None, :]) & (segment > 0)
        if self.causal:
            seen &= query[:, None] >= jnp.arange(length)
        if self.branches is not None:
            branch = jnp.take(self.branches, query, axis=1, mode="fill", fill_value=0)[:, :, None]
            seen &= (self.branches[:, None, :] == 0) | (self.branches[:, None, :] == branch)
        return seen

    def simple(self) -> Bool[Array, ""]:
        """Whether segments (and order) alone decide: no segment has a trunk after a branch, or a second branch.

        Segments are contiguous in their row, as packing makes them.
        """
        if self.branches is None:
            return jnp.bool_(True)
        before, after = self.branches[:, :-1], self.branches[:, 1:]
        together = self.segments[:, :-1] == self.segments[:, 1:]
        return ~jnp.any(together & (before != 0) & (before != after))


Mask = Visibility | Bool[Array, "B T S"]


def causal_mask(segments: Int[Array, "B T"], branches: Int[Array, "B T"]) -> Visibility:
    """Query q sees key k iff they share a non-zero segment, k is not after q, and k is in the trunk or q's branch."""
    return Visibility(segments, branches, causal=True)


def block_mask(segments: Int[Array, "B P"]) -> Visibility:
    """Each sees all of its own segment (in the vision encoder: image); padding (0) sees nothing and is not seen."""
    return Visibility(segments)


def choose(where: layout.Layout | None, query: Array, key: Array, mask: Mask) -> tuple[str, str]:
    """Which implementation attends, "xla", "splash" or "cudnn", and why it is not a kernel ("" where it is).

    Looks at shapes, dtypes and platform alone. One more reason depends on values, and is found by the compiled
    program for each shard: rows in which one trunk has several branches go to XLA on TPU, since splash attention
    knows segments and order only. The cuDNN kernel takes any mask, as a bias.
    """
    if where is None:
        return "xla", "the caller did not say how its arrays are split"
    kernel = PLATFORM_KERNELS.get(where.platform, "xla") if where.kernel == "auto" else where.kernel
    if kernel == "xla":
        return "xla", "it was asked for" if where.kernel == "xla" else f"there is no kernel for {where.platform}"
    if not isinstance(mask, Visibility):
        return "xla", "the mask is an array (a step of cached decoding)"
    length, head_dim = query.shape[1], query.shape[3]
    if length < SHORT_ROW:
        return "xla", f"rows of {length} are shorter than {SHORT_ROW}"
    for axis, size in (("batch", query.shape[0]), ("heads", query.shape[2]), ("kv_heads", key.shape[2])):
        if size % where.ways(axis):
            return "xla", f"{size} {axis} cannot be split {where.ways(axis)} ways"
    if kernel == "cudnn":
        if query.dtype not in (jnp.bfloat16, jnp.float16):
            return "xla", f"cuDNN does not attend in {query.dtype}"
        if length % 2 or head_dim % 8 or head_dim > 128:
            return "xla", f"cuDNN takes even lengths and head sizes of 8, 16, ... 128, not {length} and {head_dim}"
    return kernel, ""


def attend(
    query: Float[Array, "B T H Dh"], key: Float[Array, "B S K Dh"], value: Float[Array, "B S K Dh"], mask: Mask
) -> Float[Array, "B T H*Dh"]:
    """Grouped-query attention, H a multiple of K, scores and softmax in fp32.

    A query that sees no key gets a finite, meaningless value.
    """
    where = layout.current()
    kernel, _ = choose(where, query, key, mask)
    query = query * query.shape[3] ** -0.5
    if kernel == "xla":
        return _attend_xla(query, key, value, mask)

    def splash(query: Array, key: Array, value: Array, mask: Visibility) -> Array:
        interpret = where.platform != "tpu"  # slow; for tests
        return kernels.splash(query, key, value, mask.segments, causal=mask.causal, interpret=interpret)

    def one_shard(query: Array, key: Array, value: Array, mask: Visibility) -> Array:
        if kernel == "cudnn":
            return kernels.cudnn(query, key, value, mask.rows())
        if mask.branches is None:
            return splash(query, key, value, mask)
        # Recomputed, so that the XLA side keeps nothing but its arguments for the backward pass.
        return jax.lax.cond(mask.simple(), splash, jax.checkpoint(_attend_xla), query, key, value, mask)

    rows, heads, kv_heads = (
        where.rules.spec(axes) for axes in (("batch",), ("batch", None, "heads"), ("batch", None, "kv_heads"))
    )
    split = jax.shard_map(
        one_shard, mesh=where.mesh, in_specs=(heads, kv_heads, kv_heads, rows), out_specs=heads, check_vma=False
    )
    return split(query, key, value, mask)


def attend_to_stores(
    query: Float[Array, "B H Dh"], stores: Sequence[tuple[Array, Array, Array]]
) -> Float[Array, "B H*Dh"]:
    """One query a row over several stores at once: keys [B, K, Dh, S], values [B, K, S, Dh] and a mask [B, S] each.

    As `attend` gives for the stores joined, which they need not be.
    """
    batch, heads, dim = query.shape
    groups = stores[0][0].shape[1]
    grouped = (query * dim**-0.5).reshape(batch, groups, heads // groups, dim)
    scores = [jnp.einsum("bkgd,bkds->bkgs", grouped, key, preferred_element_type=jnp.float32) for key, _, _ in stores]
    seen = jnp.concatenate([mask for _, _, mask in stores], axis=-1)[:, None, None]
    weights = jax.nn.softmax(jnp.where(seen, jnp.concatenate(scores, axis=-1), jnp.float32(-1e30)), axis=-1)
    parts = jnp.split(weights, np.cumsum([key.shape[3] for key, _, _ in stores])[:-1], axis=-1)
    mixed = sum(
        jnp.einsum("bkgs,bksd->bkgd", part.astype(value.dtype), value)
        for part, (_, value, _) in zip(parts, stores, strict=True)
    )
    return mixed.reshape(batch, heads * dim)


def _attend_xla(query: Array, key: Array, value: Array, mask: Mask) -> Float[Array, "B T H*Dh"]:
    """The reference; `query` is already scaled."""
    batch, length, heads, dim = query.shape
    groups = key.shape[2]
    grouped = query.reshape(batch, length, groups, heads // groups, dim).transpose(0, 2, 3, 1, 4)
    key, value = key.transpose(0, 2, 1, 3), value.transpose(0, 2, 1, 3)
    if length > QUERY_BLOCK:
        mixed = _mix_in_blocks(grouped, key, value, mask)
    else:
        mixed = _mix(grouped, key, value, mask.rows() if isinstance(mask, Visibility) else mask)
    return mixed.transpose(0, 3, 1, 2, 4).reshape(batch, length, heads * dim)


def _mix_in_blocks(
    query: Float[Array, "B K G T Dh"], key: Float[Array, "B K S Dh"], value: Float[Array, "B K S Dh"], mask: Mask
) -> Float[Array, "B K G T Dh"]:
    length = query.shape[3]
    block = min(QUERY_BLOCK, max(128, BLOCK_SCORES // key.shape[2]))
    count = -(-length // block)
    extra = count * block - length
    queries = jnp.pad(query, ((0, 0), (0, 0), (0, 0), (0, extra), (0, 0)))
    if not isinstance(mask, Visibility):
        mask = jnp.pad(mask, ((0, 0), (0, extra), (0, 0)))

    @jax.checkpoint
    def one_block(number: Array) -> Array:
        start = number * block
        part = jax.lax.dynamic_slice_in_dim(queries, start, block, axis=3)
        if isinstance(mask, Visibility):
            seen = mask.rows(start, block)
        else:
            seen = jax.lax.dynamic_slice_in_dim(mask, start, block, axis=1)
        return _mix(part, key, value, seen)

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
