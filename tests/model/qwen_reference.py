"""The independent reference of the model tests:

transformers' Qwen3-VL (dense, or a mixture of experts) with random weights, and rows built for both sides.
"""

import functools
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np
import torch
from transformers import (
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    Qwen3VLMoeConfig,
    Qwen3VLMoeForConditionalGeneration,
)

from gui_rl.model import cache, forward
from gui_rl.model.inputs import ModelInputs
from gui_rl.model.rope import mrope_positions
from gui_rl.model.vision import vision_indices

IMAGE, VOCAB, MERGE, SIDE = 60, 97, 2, 5
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 24}
Model = Qwen3VLForConditionalGeneration | Qwen3VLMoeForConditionalGeneration
torch.set_num_threads(2)


def make(
    directory: Path,
    tied: bool,
    deepstack: tuple[int, ...] = (0, 1),
    experts: bool = False,
    text: dict | None = None,
    vision: dict | None = None,
) -> Model:
    """A small model whose every parameter is random (norms and biases too), saved to `directory`.

    `text` and `vision` change settings of the decoder and of the encoder.
    """
    torch.manual_seed(0)
    kind, config_kind = Qwen3VLForConditionalGeneration, Qwen3VLConfig
    if experts:
        kind, config_kind = Qwen3VLMoeForConditionalGeneration, Qwen3VLMoeConfig
    config = config_kind(
        text_config={
            "vocab_size": VOCAB,
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [4, 2, 2]},
            **(EXPERTS if experts else {}),
            **(text or {}),
        },
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_heads": 4,
            "out_hidden_size": 64,
            "num_position_embeddings": SIDE**2,
            "deepstack_visual_indexes": list(deepstack),
            **(vision or {}),
        },
        image_token_id=IMAGE,
        video_token_id=61,
        vision_start_token_id=62,
        vision_end_token_id=63,
        tie_word_embeddings=tied,
        attn_implementation="eager",
    )
    model = kind(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            centre = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            inputs = parameter.shape[-1] if "experts" in name else parameter[0].numel()
            spread = 0.3 if parameter.ndim == 1 else 1.5 * inputs**-0.5
            parameter.copy_(centre + spread * torch.randn_like(parameter))
    model.save_pretrained(directory)
    return model


our_hidden = jax.jit(forward.hidden, static_argnums=1)
our_prefill = jax.jit(forward.prefill, static_argnums=(1, 3))


@functools.partial(jax.jit, static_argnums=1)
def our_decode(params, cfg, kv, tokens, active):
    """One step, settled at once: hidden states and the cache."""
    hidden, recent = forward.decode(params, cfg, kv, cache.recent(kv, 1), tokens, active)
    return hidden, cache.settle(kv, recent)


our_head = jax.jit(forward.logits, static_argnums=1)


def our_logits(params, cfg, inputs: ModelInputs) -> np.ndarray:
    """The logits [B, T, V] under test."""
    return np.asarray(our_head(params, cfg, our_hidden(params, cfg, inputs)))


@dataclass(frozen=True)
class Sample:
    """Token ids with expanded placeholders, and the images' grids and patches."""

    ids: np.ndarray
    grids: list[tuple[int, int, int]]
    patches: list[np.ndarray]


def sample(seed: int, text: int, grids: list[tuple[int, int, int]]) -> Sample:
    """`text` random tokens before, between and after the images."""
    rng = np.random.default_rng(seed)
    ids = list(rng.integers(0, 59, text))
    patches = []
    for grid in grids:
        count = int(np.prod(grid))
        patches.append(rng.uniform(-1, 1, (count, 1536)).astype(np.float32))
        ids += [62, *[IMAGE] * (count // MERGE**2), 63, *rng.integers(0, 59, text)]
    return Sample(np.array(ids, np.int32), grids, patches)


def torch_logits(model: Model, item: Sample) -> torch.Tensor:
    """transformers' logits [T, V] of one sample, in the model's dtype, to be differentiated."""
    ids = torch.tensor(item.ids, dtype=torch.long)[None]
    images = {}
    if item.grids:
        images = {
            "pixel_values": torch.tensor(np.concatenate(item.patches)).to(model.dtype),
            "image_grid_thw": torch.tensor(item.grids),
            "mm_token_type_ids": (ids == IMAGE).int(),
        }
    return model(input_ids=ids, **images, use_cache=False).logits[0]


def reference_logits(model: Model, item: Sample) -> np.ndarray:
    """transformers' logits [T, V] of one sample, as fp32."""
    with torch.no_grad():
        return torch_logits(model, item).float().numpy()


def pack(rows: list[list[Sample]], length: int = 40, count: int = 56) -> ModelInputs:
    """Rows of packed samples as `ModelInputs`, padded to `length` tokens and `count` patches (none without images)."""
    count = count if any(item.grids for row in rows for item in row) else 0
    batch = len(rows)
    out = ModelInputs(
        tokens=np.zeros((batch, length), np.int32),
        positions=np.zeros((batch, 3, length), np.int32),
        segments=np.zeros((batch, length), np.int32),
        branches=np.zeros((batch, length), np.int32),
        visual_index=np.full((batch, length), -1, np.int32),
        patches=np.zeros((batch, count, 1536), np.float32),
        patch_segments=np.zeros((batch, count), np.int32),
        patch_yx=np.zeros((batch, count, 2), np.int32),
        patch_table=np.zeros((batch, count, 4), np.int32),
        patch_table_weight=np.zeros((batch, count, 4), np.float32),
    )
    for row, samples in enumerate(rows):
        at = patch_at = image = 0
        for segment, item in enumerate(samples, start=1):
            span = slice(at, at + len(item.ids))
            out.tokens[row, span] = item.ids
            out.positions[row, :, span] = mrope_positions(item.ids, item.grids, IMAGE, MERGE)[0]
            out.segments[row, span] = segment
            places = at + np.flatnonzero(item.ids == IMAGE)
            out.visual_index[row, places] = patch_at // MERGE**2 + np.arange(len(places))
            at = span.stop
            for grid, values in zip(item.grids, item.patches, strict=True):
                image += 1
                patch_span = slice(patch_at, patch_at + len(values))
                out.patches[row, patch_span] = values
                out.patch_segments[row, patch_span] = image
                yx, table, weight = vision_indices(grid, SIDE, MERGE)
                out.patch_yx[row, patch_span] = yx
                out.patch_table[row, patch_span] = table
                out.patch_table_weight[row, patch_span] = weight
                patch_at = patch_span.stop
    return out
