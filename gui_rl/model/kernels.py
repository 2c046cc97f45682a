"""Attention kernels of libraries, behind one signature: splash attention (Pallas, TPU) and cuDNN (GPU).

In: queries that are already scaled, keys and values of one shard, and who sees whom. Out: the mixed values. When they
are used is decided in `gui_rl.model.attention`, whose XLA implementation is the reference for both.
"""

import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as kernel
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks
from jaxtyping import Array, Bool, Float, Int

TILES = (512, 256, 128)  # tiles of queries and keys: the largest that divides the padded row
LANES = 128  # rows are padded to a multiple of it


def splash(
    query: Float[Array, "B T H Dh"],
    key: Float[Array, "B T K Dh"],
    value: Float[Array, "B T K Dh"],
    segments: Int[Array, "B T"],
    *,
    causal: bool,
    interpret: bool = False,
) -> Float[Array, "B T H*Dh"]:
    """Attention inside segments, only backwards where `causal`; scores exist one tile at a time, forward and backward.

    Padding (segment 0) attends to padding: finite and meaningless. Rows are padded to a multiple of 128 with more of
    it. `interpret` runs the kernel's Python on any platform.
    """
    batch, length, heads, dim = query.shape
    padded = -(-length // LANES) * LANES
    tile = next(size for size in TILES if padded % size == 0)
    sizes = kernel.BlockSizes(
        block_q=tile,
        block_kv=tile,
        block_q_dkv=tile,
        block_kv_dkv=tile,
        block_q_dq=tile,
        block_kv_dq=tile,
    )
    one_head = masks.CausalMask((padded, padded)) if causal else masks.FullMask((padded, padded))
    attend = kernel.make_splash_mha(
        masks.MultiHeadMask([one_head] * heads), block_sizes=sizes, head_shards=1, q_seq_shards=1, interpret=interpret
    )

    def heads_first(x: Array) -> Array:
        return jnp.pad(x, ((0, 0), (0, padded - length), (0, 0), (0, 0))).transpose(0, 2, 1, 3)

    ids = jnp.pad(segments, ((0, 0), (0, padded - length)))
    mixed = jax.vmap(attend)(heads_first(query), heads_first(key), heads_first(value), kernel.SegmentIds(ids, ids))
    return mixed[:, :, :length].transpose(0, 2, 1, 3).reshape(batch, length, heads * dim)


def cudnn(
    query: Float[Array, "B T H Dh"],
    key: Float[Array, "B S K Dh"],
    value: Float[Array, "B S K Dh"],
    mask: Bool[Array, "B T S"],
) -> Float[Array, "B T H*Dh"]:
    """cuDNN's flash attention; the mask becomes a bias of the inputs' dtype, [T, S] once for all heads of a row."""
    mixed = jax.nn.dot_product_attention(query, key, value, mask=mask[:, None], scale=1.0, implementation="cudnn")
    return mixed.reshape(*query.shape[:2], -1)
