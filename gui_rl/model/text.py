"""The decoder: token embeddings with visual features in place, then a stack of pre-norm blocks (grouped-query
attention, SwiGLU or a mixture of experts).

In: embeddings, rotary tables, and an `attend` function that decides where keys and values live (a training row, or a
cache). Out: the normalised hidden states. DeepStack features are added after the first layers at image positions.
Reference: Qwen3-VL in transformers (`Qwen3VLTextModel`, `Qwen3VLMoeTextModel`).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from gui_rl.model import layout, moe, rope
from gui_rl.model.config import ModelConfig, TextConfig
from gui_rl.model.inputs import VisualFeatures
from gui_rl.model.layers import gather_rows, keep_attention, linear, rms_norm, run_layers

# attend(layer number, state, query, key, value) -> (mixed values [B, T, H*Dh], state, kept)
# `state` travels through the layers; `kept` is stacked over them.
Attend = Callable[[Any, Any, Array, Array, Array], tuple[Array, Any, Any]]


def embed(params: Any, cfg: ModelConfig, tokens: Int[Array, "B T"]) -> Float[Array, "B T D"]:
    """Token embeddings in the compute dtype."""
    return params["embed"][tokens].astype(cfg.dtype)


def place_features(
    x: Float[Array, "B T D"], visual: VisualFeatures, visual_index: Int[Array, "B T"]
) -> Float[Array, "B T D"]:
    """Puts the visual tokens in the place of the image placeholders."""
    return jnp.where(visual_index[..., None] >= 0, gather_rows(visual.features.astype(x.dtype), visual_index), x)


def decode_layers(
    params: Any,
    cfg: ModelConfig,
    x: Float[Array, "B T D"],
    rotary: rope.Rotary,
    attend: Attend,
    state: Any,
    visual: VisualFeatures | None,
    visual_index: Int[Array, "B T"] | None,
    counted: Bool[Array, "B T"],
) -> tuple[Float[Array, "B T D"], Any, Any, Float[Array, "L 2 E"] | None]:
    """All layers and the final norm. Returns (hidden, attend's state, attend's kept items stacked over layers, the
    experts' load by the `counted` tokens (`moe.mlp`), None where there are no experts).

    `visual=None` (with no index) is for steps that hold no image position, like decoding.
    Between the layers activations are flat, [B*T, D]: on CPU the gradients of 2-D matmuls are several times faster.
    """
    shape = x.shape
    levels = 0 if visual is None else visual.deepstack.shape[0]

    def boundary(x: Array) -> Array:
        return layout.split_rows(x.reshape(shape)).reshape(-1, shape[-1])

    def add_deepstack(x: Array, number: Any) -> Array:
        features = gather_rows(visual.deepstack[number].astype(x.dtype), visual_index)
        return x + features.reshape(x.shape)

    def step(carry: tuple[Array, Any], number: Any, p: Any) -> tuple[tuple[Array, Any], Any]:
        x, state = carry
        x, state, kept = _attention(x, p, cfg.text, shape[:2], rotary, attend, number, state)
        x, load = _mlp(x, p, cfg.text, counted.reshape(-1))
        if not cfg.scan_layers:
            x = add_deepstack(x, number) if number < levels else x
        elif levels:
            deep = jnp.minimum(number, levels - 1)
            x = jax.lax.cond(number < levels, lambda x: add_deepstack(x, deep), lambda x: x, x)
        return (boundary(x), state), (kept, load)

    carry = (boundary(x), state)
    (x, state), (kept, load) = run_layers(
        step, carry, params["layers"], cfg.text.num_hidden_layers, cfg.scan_layers, cfg.remat
    )
    return rms_norm(x, params["norm"], cfg.text.rms_norm_eps).reshape(shape), state, kept, load


def _attention(
    x: Float[Array, "B*T D"],
    p: Any,
    cfg: TextConfig,
    rows: tuple[int, int],
    rotary: rope.Rotary,
    attend: Attend,
    number: Any,
    state: Any,
) -> tuple[Float[Array, "B*T D"], Any, Any]:
    with jax.named_scope("attention"):
        normed = rms_norm(x, p["attention_norm"], cfg.rms_norm_eps)
        query = linear(normed, p["query"]).reshape(*rows, cfg.num_attention_heads, cfg.head_dim)
        key = linear(normed, p["key"]).reshape(*rows, cfg.num_key_value_heads, cfg.head_dim)
        value = linear(normed, p["value"]).reshape(*rows, cfg.num_key_value_heads, cfg.head_dim)
        query = rope.rotate(rms_norm(query, p["query_norm"], cfg.rms_norm_eps), rotary)
        key = rope.rotate(rms_norm(key, p["key_norm"], cfg.rms_norm_eps), rotary)
        mixed, state, kept = attend(number, state, *keep_attention(query, key, value))
        (mixed,) = keep_attention(mixed)
        return x + linear(mixed.reshape(x.shape[0], -1), p["output"]), state, kept


def _mlp(
    x: Float[Array, "B*T D"], p: Any, cfg: TextConfig, counted: Bool[Array, " B*T"]
) -> tuple[Float[Array, "B*T D"], Float[Array, "2 E"] | None]:
    with jax.named_scope("mlp"):
        normed = rms_norm(x, p["mlp_norm"], cfg.rms_norm_eps)
        if not cfg.num_experts:
            return x + linear(jax.nn.silu(linear(normed, p["gate"])) * linear(normed, p["up"]), p["down"]), None
        added, load = moe.mlp(p, cfg, normed, counted)
        return x + added, load
