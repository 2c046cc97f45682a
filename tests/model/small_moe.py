"""A mixture of experts of a size that compiles in a second: one layer, and a model."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from gui_rl.model.config import ModelConfig, TextConfig, VisionConfig
from gui_rl.model.inputs import ModelInputs
from gui_rl.model.params import init_params

CONFIG = ModelConfig(
    text=TextConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        mrope_section=(2, 1, 1),
        num_experts=8,
        num_experts_per_tok=3,
        moe_intermediate_size=12,
    ),
    vision=VisionConfig(depth=1, hidden_size=8, intermediate_size=8, num_heads=2, out_hidden_size=16, patch_size=2),
    init_style="scaled",
)


def layer(tokens: int, seed: int = 0):
    """(text config, the experts' parameters of one layer, activations [tokens, D])"""
    params = init_params(CONFIG, jax.random.key(seed))["text"]["layers"]
    p = {name: params[name][0] for name in ("router", "experts_gate", "experts_up", "experts_down")}
    return CONFIG.text, p, jnp.asarray(np.random.default_rng(seed).normal(size=(tokens, 16)), jnp.float32)


def model(rows: int = 4, length: int = 12, **change):
    """(config, parameters, text rows)"""
    cfg = dataclasses.replace(CONFIG, **change)
    rng = np.random.default_rng(1)
    zeros = np.zeros((rows, length), np.int32)
    segments = np.where(np.arange(length) < 10, 1, 0) * np.ones_like(zeros)
    patches = np.zeros((rows, 0), np.int32)
    inputs = ModelInputs(
        tokens=rng.integers(0, 32, zeros.shape).astype(np.int32),
        positions=np.broadcast_to(np.arange(length, dtype=np.int32), (rows, 3, length)),
        segments=segments.astype(np.int32),
        branches=zeros,
        visual_index=zeros - 1,
        patches=np.zeros((rows, 0, 24), np.float32),
        patch_segments=patches,
        patch_yx=np.zeros((rows, 0, 2), np.int32),
        patch_table=np.zeros((rows, 0, 4), np.int32),
        patch_table_weight=np.zeros((rows, 0, 4), np.float32),
    )
    return cfg, init_params(cfg, jax.random.key(2)), inputs
