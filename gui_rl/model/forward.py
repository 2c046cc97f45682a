"""What callers use: hidden states, log-probabilities, logits, image encoding, and cached decoding, as functions of
(params, cfg, ...).

In: parameters (`gui_rl.model.params`) and `ModelInputs`. Out: arrays. Nothing here has state; jit it with `cfg` static.
How arrays are split over a mesh is declared around the call (`layout.on_mesh`).
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from gui_rl.model import attention, cache, moe, rope, text, vision
from gui_rl.model.cache import KVCache, Recent
from gui_rl.model.config import ModelConfig
from gui_rl.model.inputs import ModelInputs, VisualFeatures

LOGITS = 2**25
"""Logits that exist at a time (128 MiB): 220 tokens of Qwen's vocabulary."""


def encode_images(params: Any, cfg: ModelConfig, inputs: ModelInputs) -> VisualFeatures:
    """The visual tokens of every row: features [B, M, D] and DeepStack features [n, B, M, D]."""
    return vision.encode(params["vision"], cfg.vision, inputs, cfg.dtype, cfg.scan_layers, cfg.remat)


def hidden(params: Any, cfg: ModelConfig, inputs: ModelInputs) -> Float[Array, "B T D"]:
    """Final hidden states (after the last norm) of packed rows."""
    return hidden_and_balance(params, cfg, inputs)[0]


def hidden_and_balance(
    params: Any, cfg: ModelConfig, inputs: ModelInputs
) -> tuple[Float[Array, "B T D"], Float[Array, ""]]:
    """Like `hidden`, with the load-balancing loss of the experts (`moe.balance_loss`; 0 in a dense model).

    Training adds it to its loss, times `cfg.text.router_aux_loss_coef`. Padding does not count.
    """
    visual = encode_images(params, cfg, inputs) if inputs.patches.shape[1] else None
    out, load = _hidden(params, cfg, inputs, visual)
    if load is None:
        return out, jnp.zeros((), jnp.float32)
    return out, moe.balance_loss(load, cfg.text.num_experts_per_tok)


def hidden_from_features(
    params: Any,
    cfg: ModelConfig,
    inputs: ModelInputs,
    visual: VisualFeatures | None,
) -> Float[Array, "B T D"]:
    """Like `hidden`, with the images already encoded (None: rows without images)."""
    return _hidden(params, cfg, inputs, visual)[0]


def _hidden(
    params: Any, cfg: ModelConfig, inputs: ModelInputs, visual: VisualFeatures | None
) -> tuple[Float[Array, "B T D"], Float[Array, "L 2 E"] | None]:
    mask = attention.causal_mask(inputs.segments, inputs.branches)

    def attend(number: Any, state: None, query: Array, key: Array, value: Array) -> tuple[Array, None, None]:
        return attention.attend(query, key, value, mask), state, None

    out, _, _, load = _decode(params, cfg, inputs, visual, attend, None)
    return out, load


def logits(params: Any, cfg: ModelConfig, hidden: Float[Array, "*n D"]) -> Float[Array, "*n V"]:
    """fp32 logits over the vocabulary. For a few positions (sampling); training uses `token_logprobs`."""
    if cfg.tie_word_embeddings:
        return _head("...d,vd->...v", hidden, params["text"]["embed"])
    return _head("...d,dv->...v", hidden, params["text"]["head"])


def token_logprobs(
    params: Any,
    cfg: ModelConfig,
    hidden: Float[Array, "B T D"],
    targets: Int[Array, "B T"],
    temperature: float | Array = 1.0,
    chunk: int | None = None,
) -> tuple[Float[Array, "B T"], Float[Array, "B T"]]:
    """log p(target) and the entropy of p, with p = softmax(logits / temperature), in fp32.

    Logits exist for about `chunk` tokens at a time, in the backward pass too: never as a [tokens, vocabulary] tensor.
    By default as many tokens as make `LOGITS` of them.
    """

    def one_chunk(item: tuple[Array, Array]) -> tuple[Array, Array]:
        scaled = logits(params, cfg, item[0]) / temperature
        log_normaliser = jax.nn.logsumexp(scaled, axis=-1)
        chosen = jnp.take_along_axis(scaled, item[1][..., None], axis=-1)[..., 0]
        expected = jnp.sum(jnp.exp(scaled - log_normaliser[..., None]) * scaled, axis=-1)
        return chosen - log_normaliser, log_normaliser - expected

    return _in_chunks(one_chunk, (hidden, targets), LOGITS // cfg.text.vocab_size if chunk is None else chunk)


def reverse_kl(
    params: Any,
    cfg: ModelConfig,
    hidden: Float[Array, "B T D"],
    heads: Sequence[Float[Array, "_ V"]],
    teacher_hidden: Float[Array, "B T E"],
    teacher: Int[Array, "B T"],
    temperature: float | Array = 1.0,
    chunk: int | None = None,
) -> Float[Array, "B T"]:
    """Exact KL(p, q) over the whole vocabulary at every position, in fp32: p the policy's distribution, q that of
    `heads[teacher]` on the teacher's hidden state, both at `temperature`. Chunked like `token_logprobs`.

    A head that is narrower than E reads the first entries of the hidden state alone: the others are padding.
    """

    def one_chunk(item: tuple[Array, Array, Array]) -> tuple[Array]:
        def of(head: Array) -> Array:
            return _head("...d,dv->...v", item[1][..., : head.shape[0]], head)

        theirs = of(heads[0])
        for number, head in enumerate(heads[1:], 1):
            theirs = jnp.where((item[2] == number)[..., None], of(head), theirs)
        return (full_reverse_kl(logits(params, cfg, item[0]) / temperature, theirs / temperature),)

    chunk = LOGITS // (cfg.text.vocab_size * (1 + len(heads))) if chunk is None else chunk
    return _in_chunks(one_chunk, (hidden, teacher_hidden, teacher), chunk)[0]


def full_reverse_kl(mine: Float[Array, "*S V"], theirs: Float[Array, "*S V"]) -> Float[Array, "*S"]:
    """KL(softmax(mine), softmax(theirs)) over the last axis, in nats."""
    logp, teacher = jax.nn.log_softmax(mine), jax.nn.log_softmax(theirs)
    return jnp.sum(jnp.exp(logp) * (logp - teacher), axis=-1)


def _in_chunks(function: Callable[[Any], tuple[Array, ...]], arrays: tuple[Array, ...], chunk: int) -> Any:
    """`function` of about `chunk` tokens at a time of arrays `[B, T, ...]`; results `[B, T]`. What it computes within
    is made anew in the backward pass."""
    batch, length = arrays[0].shape[:2]
    step = min(length, max(1, chunk // batch))
    count = -(-length // step)

    def cut(x: Array) -> Array:
        padded = jnp.pad(x, ((0, 0), (0, count * step - length), *[(0, 0)] * (x.ndim - 2)))
        return padded.reshape(batch, count, step, *x.shape[2:]).swapaxes(0, 1)

    with jax.named_scope("head"):
        parts = jax.lax.map(jax.checkpoint(function), tuple(map(cut, arrays)))
    return tuple(part.swapaxes(0, 1).reshape(batch, count * step)[:, :length] for part in parts)


def prefill(params: Any, cfg: ModelConfig, inputs: ModelInputs, capacity: int) -> tuple[Float[Array, "B D"], KVCache]:
    """Runs right-padded rows of one segment each; returns the hidden state at every row's last token, and a cache of
    `capacity` slots.

    A row of padding alone gives a meaningless hidden state and a cache row of length 0. Branches are not looked at.
    """
    visual = encode_images(params, cfg, inputs) if inputs.patches.shape[1] else None
    return prefill_from_features(params, cfg, inputs, visual, capacity)


def prefill_from_features(
    params: Any,
    cfg: ModelConfig,
    inputs: ModelInputs,
    visual: VisualFeatures | None,
    capacity: int,
) -> tuple[Float[Array, "B D"], KVCache]:
    """Like `prefill`, with the images already encoded (None: rows without images)."""
    mask = attention.causal_mask(inputs.segments, jnp.zeros_like(inputs.segments))

    def attend(number: Any, state: None, query: Array, key: Array, value: Array) -> tuple[Array, None, Any]:
        return attention.attend(query, key, value, mask), state, (key, value)

    out, _, (key, value), _ = _decode(params, cfg, inputs, visual, attend, None)
    filled = inputs.segments > 0
    lengths = jnp.sum(filled, axis=1, dtype=jnp.int32)
    following = jnp.max(jnp.where(filled[:, None], inputs.positions, -1), axis=(1, 2)) + 1
    last = jnp.take_along_axis(out, jnp.maximum(lengths - 1, 0)[:, None, None], axis=1)[:, 0]
    return last, cache.from_rows(key, value, lengths, following.astype(jnp.int32), capacity)


def extend(
    params: Any,
    cfg: ModelConfig,
    kv: KVCache,
    inputs: ModelInputs,
    visual: VisualFeatures | None,
) -> tuple[Float[Array, "B D"], KVCache]:
    """Appends right-padded rows to the rows of a cache; the hidden state at every row's last token. Donate `kv`.

    `inputs` holds the new tokens alone, at their positions in the whole sequence; every row has at least one, and what
    the cache holds with it must fit.
    """
    filled = inputs.segments > 0
    places = kv.lengths[:, None] + jnp.arange(filled.shape[1])
    rows, slots = jnp.arange(filled.shape[0])[:, None], jnp.where(filled, places, kv.capacity)
    mask = jnp.arange(kv.capacity) <= places[..., None]

    def attend(number: Any, state: Any, query: Array, key: Array, value: Array) -> tuple[Array, Any, None]:
        keys, values = (
            store.at[number, rows, :, slots].set(new.astype(store.dtype), mode="drop")
            for store, new in zip(state, (key, value), strict=True)
        )
        held = keys[number].swapaxes(1, 2), values[number].swapaxes(1, 2)
        return attention.attend(query, *held, mask), (keys, values), None

    out, (key, value), _, _ = _decode(params, cfg, inputs, visual, attend, (kv.key, kv.value))
    added = jnp.sum(filled, axis=1, dtype=jnp.int32)
    following = jnp.max(jnp.where(filled[:, None], inputs.positions, -1), axis=(1, 2)) + 1
    last = jnp.take_along_axis(out, jnp.maximum(added - 1, 0)[:, None, None], axis=1)[:, 0]
    return last, KVCache(key=key, value=value, lengths=kv.lengths + added, positions=following.astype(jnp.int32))


def decode(
    params: Any,
    cfg: ModelConfig,
    kv: KVCache,
    recent: Recent,
    tokens: Int[Array, " B"],
    active: Bool[Array, " B"],
) -> tuple[Float[Array, "B D"], Recent]:
    """One step: appends `tokens` to the active rows and returns the hidden state after them. Donate `recent`.

    The cache itself stays as it is until `cache.settle`. Inactive rows get nothing (their hidden state is meaningless),
    and so does a row whose cache is full.
    """
    grows = cache.growing(kv, recent, active)
    seen = cache.visible(kv, recent)

    def attend(number: Any, state: Any, query: Array, key: Array, value: Array) -> tuple[Array, Any, None]:
        keys = cache.add(state[0], number, key, recent.steps, keys=True)
        values = cache.add(state[1], number, value, recent.steps, keys=False)
        stores = ((kv.key, kv.value), (keys, values))
        parts = [(cache.keys(k, number), v[number], mask) for (k, v), mask in zip(stores, seen, strict=True)]
        return attention.attend_to_stores(query[:, 0], parts)[:, None], (keys, values), None

    x = text.embed(params["text"], cfg, tokens[:, None])
    places = kv.positions + recent.counts
    positions = jnp.broadcast_to(places[:, None, None], (tokens.shape[0], 3, 1))
    rotary = rope.text_rotary(positions, cfg.text.head_dim, cfg.text.rope_theta, cfg.text.mrope_section)
    with jax.named_scope("decoder"):
        out, (key, value), _, _ = text.decode_layers(
            params["text"], cfg, x, rotary, attend, (recent.key, recent.value), None, None, active[:, None]
        )
    counts = recent.counts + grows.astype(jnp.int32)
    return out[:, 0], Recent(key=key, value=value, steps=recent.steps + 1, counts=counts)


def _head(equation: str, hidden: Array, weight: Array) -> Array:
    return jnp.einsum(equation, hidden, weight.astype(hidden.dtype), preferred_element_type=jnp.float32)


def _decode(
    params: Any,
    cfg: ModelConfig,
    inputs: ModelInputs,
    visual: VisualFeatures | None,
    attend: text.Attend,
    state: Any,
) -> tuple[Array, Any, Any, Array | None]:
    x = text.embed(params["text"], cfg, inputs.tokens)
    if visual is not None:
        x = text.place_features(x, visual, inputs.visual_index)
    rotary = rope.text_rotary(inputs.positions, cfg.text.head_dim, cfg.text.rope_theta, cfg.text.mrope_section)
    with jax.named_scope("decoder"):
        return text.decode_layers(
            params["text"],
            cfg,
            x,
            rotary,
            attend,
            state,
            visual,
            inputs.visual_index if visual is not None else None,
            inputs.segments > 0,
        )
