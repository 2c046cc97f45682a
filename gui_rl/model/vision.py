"""The vision encoder: flattened patches in, merged visual tokens and DeepStack features out.

Host side: `vision_indices` prepares rotary coordinates and position-table neighbours of an image's patches. Device
side: `encode`. Patches come in the image processor's order (2x2 merge blocks are contiguous), so that merging is a
reshape. Reference: Qwen3-VL in transformers (`Qwen3VLVisionModel`): tanh-approximated GELU in the blocks, exact (erf)
GELU in the mergers.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from gui_rl.model import attention, layout, rope
from gui_rl.model.config import Remat, VisionConfig
from gui_rl.model.inputs import ModelInputs, VisualFeatures
from gui_rl.model.layers import DENSE_GATHER_BELOW, keep_attention, layer_norm, linear, rematerialised, run_layers


def vision_indices(
    grid_thw: Sequence[int], side: int, merge: int
) -> tuple[Int[np.ndarray, "n 2"], Int[np.ndarray, "n 4"], Float[np.ndarray, "n 4"]]:
    """For the patches of one image: rotary coordinates (row, column), position-table neighbours, bilinear weights.

    `grid_thw` = (frames, height, width) in patches, `side` = side of the square position table, `merge` = side of a
    merge block. The table is stretched over the image corner to corner. Raises `ValueError` for a grid that merge
    blocks do not tile.
    """
    frames, height, width = (int(size) for size in grid_thw)
    if height % merge or width % merge or min(frames, height, width) < 1:
        raise ValueError(f"image grid {(frames, height, width)} cannot be tiled by {merge}x{merge} merge blocks")
    yx = np.indices((height, width)).reshape(2, height // merge, merge, width // merge, merge)
    yx = np.tile(yx.transpose(1, 3, 2, 4, 0).reshape(-1, 2), (frames, 1)).astype(np.int32)
    low_y, high_y, part_y = _neighbours(yx[:, 0], height, side)
    low_x, high_x, part_x = _neighbours(yx[:, 1], width, side)
    table = np.stack(
        [low_y * side + low_x, low_y * side + high_x, high_y * side + low_x, high_y * side + high_x], axis=-1
    )
    weight = np.stack(
        [(1 - part_y) * (1 - part_x), (1 - part_y) * part_x, part_y * (1 - part_x), part_y * part_x], axis=-1
    )
    return yx, table.astype(np.int32), weight.astype(np.float32)


def _neighbours(index: np.ndarray, size: int, side: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    place = index.astype(np.float32) * np.float32(side - 1) / np.float32(max(size - 1, 1))
    low = np.floor(place).astype(np.int32)
    return low, np.minimum(low + 1, side - 1), place - low.astype(np.float32)


def encode(params: Any, cfg: VisionConfig, inputs: ModelInputs, dtype: str, scan: bool, remat: Remat) -> VisualFeatures:
    """Merged features [B, M, D] and DeepStack features [n, B, M, D] of all patches; padding gives meaningless rows."""
    batch, count, _ = inputs.patches.shape
    with jax.named_scope("vision"):
        flat = inputs.patches.reshape(batch * count, -1).astype(dtype)  # 2-D matmuls: see text.decode_layers
        x = linear(flat, params["patch"]) + params["patch_bias"].astype(dtype)
        positions = _interpolate(params["positions"], inputs.patch_table, inputs.patch_table_weight)
        x = x + positions.reshape(x.shape).astype(dtype)
        rotary = rope.vision_rotary(inputs.patch_yx, cfg.head_dim, cfg.rope_theta)
        mask = attention.block_mask(inputs.patch_segments)
        block = rematerialised(partial(_block, cfg=cfg, rows=(batch, count), rotary=rotary, mask=mask), remat)
        x = layout.split_rows(x.reshape(batch, count, -1)).reshape(x.shape)
        x, taps = _blocks(block, x, params["blocks"], cfg, scan)
        features = _merge(params["merger"], cfg, x, norm_after_merge=False)
        deepstack = [
            _merge(jax.tree.map(lambda leaf: leaf[number], params["deepstack"]), cfg, tap, norm_after_merge=True)  # noqa: B023
            for number, tap in enumerate(taps)
        ]
    merged = (batch, count // cfg.merge_unit, cfg.out_hidden_size)
    stacked = jnp.stack(deepstack) if deepstack else jnp.zeros((0, *features.shape), features.dtype)
    return VisualFeatures(features=features.reshape(merged), deepstack=stacked.reshape(len(deepstack), *merged))


def _interpolate(
    table: Float[Array, "N D"], index: Int[Array, "B P 4"], weight: Float[Array, "B P 4"]
) -> Float[Array, "B P D"]:
    """Weighted sum of four rows of the learned position table."""
    if table.shape[0] <= DENSE_GATHER_BELOW:
        mixing = jnp.einsum("bpfn,bpf->bpn", jax.nn.one_hot(index, table.shape[0], dtype=weight.dtype), weight)
        return mixing @ table.astype(weight.dtype)
    return jnp.einsum("bpfd,bpf->bpd", table[index].astype(weight.dtype), weight)


def _blocks(
    block: Callable[[Array, Any], Array], x: Float[Array, "B*P D"], layers: Any, cfg: VisionConfig, scan: bool
) -> tuple[Float[Array, "B*P D"], Sequence[Array]]:
    """All blocks; activations after the last one, and after each of those that DeepStack takes features from.

    Scanned, one block is compiled: it writes its result into the slot of its level, or, where it has none, into one
    more slot that nobody reads.
    """
    levels = cfg.deepstack_visual_indexes

    def step(carry: tuple[Array, Any], number: Any, p: Any) -> tuple[tuple[Array, Any], None]:
        x, taps = carry
        x = block(x, p)
        if not scan:
            return (x, (*taps, x) if number in levels else taps), None
        slot = jnp.array([levels.index(n) if n in levels else len(levels) for n in range(cfg.depth)])[number]
        return (x, jax.lax.dynamic_update_index_in_dim(taps, x, slot, 0)), None

    taps = jnp.zeros((len(levels) + 1, *x.shape), x.dtype) if scan else ()
    (x, taps), _ = run_layers(step, (x, taps), layers, cfg.depth, scan, "none")
    return x, taps[: len(levels)]


def _block(
    x: Float[Array, "B*P D"],
    p: Any,
    cfg: VisionConfig,
    rows: tuple[int, int],
    rotary: rope.Rotary,
    mask: Array,
) -> Float[Array, "B*P D"]:
    with jax.named_scope("vision_block"):
        normed = layer_norm(x, p["attention_norm"], p["attention_norm_bias"])
        qkv = linear(normed, p["qkv"]) + p["qkv_bias"].astype(x.dtype)
        query, key, value = (part.reshape(*rows, cfg.num_heads, cfg.head_dim) for part in jnp.split(qkv, 3, axis=-1))
        query, key, value = keep_attention(rope.rotate(query, rotary), rope.rotate(key, rotary), value)
        (mixed,) = keep_attention(attention.attend(query, key, value, mask))
        x = x + linear(mixed.reshape(x.shape), p["output"]) + p["output_bias"].astype(x.dtype)
        normed = layer_norm(x, p["mlp_norm"], p["mlp_norm_bias"])
        hidden = jax.nn.gelu(linear(normed, p["up"]) + p["up_bias"].astype(x.dtype), approximate=True)
        x = x + linear(hidden, p["down"]) + p["down_bias"].astype(x.dtype)
        return layout.split_rows(x.reshape(*rows, -1)).reshape(x.shape)


def _merge(p: Any, cfg: VisionConfig, x: Float[Array, "B*P D"], norm_after_merge: bool) -> Float[Array, "B*M E"]:
    """Joins each merge block into one visual token; the main merger normalises before, the DeepStack mergers after."""
    joined = (x.shape[0] // cfg.merge_unit, x.shape[1] * cfg.merge_unit)
    x = x.reshape(joined) if norm_after_merge else x
    x = layer_norm(x, p["norm"], p["norm_bias"]).reshape(joined)
    hidden = jax.nn.gelu(linear(x, p["up"]) + p["up_bias"].astype(x.dtype), approximate=False)
    return linear(hidden, p["down"]) + p["down_bias"].astype(x.dtype)
