"""The compiled programs of the sampler: encode images, prefill prompts, take rows in, decode.

In: host arrays of static shapes and the device's state (`Features`, `Slots`), which every program takes over and gives
back. Out: the next state. The host decides which rows are which (`engine`); nothing here depends on values.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int, UInt32

from gui_rl.model import cache, forward
from gui_rl.model.cache import KVCache, Recent
from gui_rl.model.config import ModelConfig
from gui_rl.model.inputs import ModelInputs, VisualFeatures

STOPS = 4
"""End tokens that one request may have."""


@struct.dataclass
class Features:
    """Visual tokens of the images in use; which cells belong to which image is known to the host. Axes: C cells."""

    merged: Float[Array, "C D"]
    deepstack: Float[Array, "n C D"]


@struct.dataclass
class Slots:
    """Responses that are being sampled. Axes: R slots, N longest response.

    hidden        final hidden state after the last token that the cache holds
    tokens, logps what was sampled so far (`counts` of them)
    budget        tokens that the response may have
    active        still being sampled
    stops         end tokens, -1 where there are fewer
    """

    hidden: Float[Array, "R D"]
    kv: KVCache
    tokens: Int[Array, "R N"]
    logps: Float[Array, "R N"]
    counts: Int[Array, " R"]
    budget: Int[Array, " R"]
    active: Bool[Array, " R"]
    keys: UInt32[Array, " R"]
    temperature: Float[Array, " R"]
    stops: Int[Array, "R 4"]


def empty_features(cfg: ModelConfig, cells: int) -> Features:
    """Room for `cells` visual tokens."""
    levels, width = len(cfg.vision.deepstack_visual_indexes), cfg.text.hidden_size
    return Features(jnp.zeros((cells, width), cfg.dtype), jnp.zeros((levels, cells, width), cfg.dtype))


def empty_slots(cfg: ModelConfig, rows: int, capacity: int) -> Slots:
    """`rows` free slots for prompt and response of `capacity` tokens together."""

    def zeros(*shape: int, dtype: Any = jnp.int32) -> Array:
        return jnp.zeros(shape, dtype)

    return Slots(
        hidden=zeros(rows, cfg.text.hidden_size, dtype=cfg.dtype),
        kv=cache.empty(cfg, rows, capacity),
        tokens=zeros(rows, capacity),
        logps=zeros(rows, capacity, dtype=jnp.float32),
        counts=zeros(rows),
        budget=zeros(rows),
        active=zeros(rows, dtype=bool),
        keys=zeros(rows, dtype=jnp.uint32),
        temperature=zeros(rows, dtype=jnp.float32),
        stops=jnp.full((rows, STOPS), -1),
    )


@functools.partial(jax.jit, static_argnames="cfg", donate_argnames="features")
def encode(params: Any, features: Features, inputs: ModelInputs, cells: Int[Array, "B M"], *, cfg: ModelConfig):
    """Encodes one image a row and keeps its visual tokens in `cells` (a cell beyond the last: nowhere)."""
    visual = forward.encode_images(params, cfg, inputs)
    return Features(
        features.merged.at[cells].set(visual.features.astype(features.merged.dtype), mode="drop"),
        features.deepstack.at[:, cells].set(visual.deepstack.astype(features.deepstack.dtype), mode="drop"),
    )


@functools.partial(jax.jit, static_argnames=("cfg", "capacity"))
def prefill(
    params: Any, features: Features, inputs: ModelInputs, cells: Int[Array, "B M"], *, cfg: ModelConfig, capacity: int
) -> tuple[Float[Array, "B D"], KVCache]:
    """Hidden state at every row's last token, and the rows' cache; `cells` say where a row's visual tokens are."""
    visual = VisualFeatures(features.merged[cells], features.deepstack[:, cells]) if cells.shape[1] else None
    return forward.prefill_from_features(params, cfg, inputs, visual, capacity)


@functools.partial(jax.jit, static_argnames="cfg")
def extend(
    params: Any,
    features: Features,
    kv: KVCache,
    source: Int[Array, " B"],
    matched: Int[Array, " B"],
    inputs: ModelInputs,
    cells: Int[Array, "B M"],
    *,
    cfg: ModelConfig,
) -> tuple[Float[Array, "B D"], KVCache]:
    """Like `prefill`, for rows that begin like what slot `source` holds: `inputs` has the tokens after `matched`."""
    visual = VisualFeatures(features.merged[cells], features.deepstack[:, cells]) if cells.shape[1] else None
    begun = cache.take(kv, source).replace(lengths=matched)
    return forward.extend(params, cfg, begun, inputs, visual)


@functools.partial(jax.jit, donate_argnames="slots")
def admit(
    slots: Slots,
    hidden: Float[Array, "B D"],
    kv: KVCache,
    owner: Int[Array, " A"],
    rows: Int[Array, " A"],
    budget: Int[Array, " A"],
    keys: UInt32[Array, " A"],
    temperature: Float[Array, " A"],
    stops: Int[Array, "A 4"],
) -> Slots:
    """Puts copies of prefilled rows `owner` into slots `rows` (a slot beyond the last: nowhere)."""

    def put(old: Array, new: Any) -> Array:
        return old.at[rows].set(new, mode="drop")

    return Slots(
        hidden=put(slots.hidden, hidden[owner]),
        kv=cache.insert(slots.kv, rows, cache.take(kv, owner)),
        tokens=slots.tokens,
        logps=slots.logps,
        counts=put(slots.counts, 0),
        budget=put(slots.budget, budget),
        active=put(slots.active, True),
        keys=put(slots.keys, keys),
        temperature=put(slots.temperature, temperature),
        stops=put(slots.stops, stops),
    )


def for_decoding(params: Any) -> Any:
    """The parameters as `advance` reads them best here: on CPU each layer's by itself (a copy of the decoder).

    A layer of a stack is copied on CPU before it is used: for every token, all weights. Other platforms read it where
    it lies.
    """
    if jax.default_backend() != "cpu" or isinstance(params["text"]["layers"], tuple):
        return params
    return {**params, "text": {**params["text"], "layers": _unstack(params["text"]["layers"])}}


@jax.jit
def _unstack(layers: Any) -> tuple[Any, ...]:
    count = jax.tree.leaves(layers)[0].shape[0]
    return tuple(jax.tree.map(lambda leaf, n=n: leaf[n], layers) for n in range(count))


@functools.partial(jax.jit, static_argnames=("cfg", "rows", "stride"), donate_argnames="slots")
def advance(params: Any, slots: Slots, banned: Bool[Array, " V"], *, cfg: ModelConfig, rows: int, stride: int) -> Slots:
    """Samples up to `stride` tokens in each of the first `rows` slots; the others are not active.

    Log-probabilities are those of the full softmax at the request's temperature (1 where it is 0), in fp32: banned
    tokens are never drawn, but nothing is renormalised, so that the trainer computes the same number (R9, R14).
    """
    whole, slots = slots, _leading(slots, rows)
    greedy = slots.temperature <= 0
    scale = jnp.where(greedy, 1.0, slots.temperature)[:, None]
    row, kv, begun = jnp.arange(rows), slots.kv, slots.counts
    read = cache.apart(kv) if isinstance(params["text"]["layers"], tuple) else kv
    # Drawn for all steps at once: an active row is at token `begun` + steps.
    uniform = jax.vmap(lambda step: _uniform(slots.keys, begun + step))(jnp.arange(stride))

    def step(carry: tuple[Slots, Recent]) -> tuple[Slots, Recent]:
        s, recent = carry
        scores = forward.logits(params, cfg, s.hidden).astype(jnp.float32) / scale
        powers = jnp.exp(scores - jnp.max(scores, axis=-1, keepdims=True))
        drawn = draw(jnp.where(banned, 0.0, powers), uniform[recent.steps])
        best = largest(jnp.where(banned, -jnp.inf, scores))
        token = jnp.where(greedy, best, drawn)
        chosen = jnp.take_along_axis(powers, token[:, None], -1)[:, 0]
        logp = jnp.log(chosen / jnp.sum(powers, axis=-1))
        place = jnp.where(s.active, s.counts, s.tokens.shape[1])  # beyond the last: the write is dropped
        counts = s.counts + s.active
        active = s.active & (counts < s.budget) & ~(token[:, None] == s.stops).any(-1)
        hidden, recent = forward.decode(params, cfg, read, recent, token, active)
        return s.replace(
            hidden=hidden,
            tokens=s.tokens.at[row, place].set(token, mode="drop"),
            logps=s.logps.at[row, place].set(logp, mode="drop"),
            counts=counts,
            active=active,
        ), recent

    def going(carry: tuple[Slots, Recent]) -> Bool[Array, ""]:
        return (carry[1].steps < stride) & carry[0].active.any()

    done, recent = jax.lax.while_loop(going, step, (slots.replace(kv=None), cache.recent(read, stride)))
    return _with_leading(whole, done.replace(kv=cache.settle(kv, recent)), rows)


def _uniform(keys: UInt32[Array, " R"], tokens: Int[Array, " R"]) -> Float[Array, "R 2"]:
    """Two numbers from [0, 1) for a row's token: a function of its key and the token's number alone."""
    return jax.vmap(lambda key, n: jax.random.uniform(jax.random.fold_in(jax.random.key(key), n), (2,)))(keys, tokens)


def largest(scores: Float[Array, "B V"]) -> Int[Array, " B"]:
    """The first index of each row's largest score: `argmax` by two reductions that vectorise on CPU, where it does not
    and takes ten times as long."""
    indices = jnp.arange(scores.shape[1], dtype=jnp.int32)
    is_largest = scores == jnp.max(scores, axis=-1, keepdims=True)
    return jnp.min(jnp.where(is_largest, indices, scores.shape[1] - 1), axis=-1)


def draw(powers: Float[Array, "B V"], uniform: Float[Array, "B 2"]) -> Int[Array, " B"]:
    """A token a row, with a probability in proportion to its power; one that has none is never drawn.

    One uniform number chooses among blocks of about sqrt(V) tokens, one inside the block: neither sum is long, and a
    token's probability is right to about 2^-23 of its block's. Two numbers a row cost less than Gumbel noise for every
    token of the vocabulary, which was most of the time of a step on CPU.
    """
    vocabulary = powers.shape[1]
    size = max(1, round(vocabulary**0.5))
    blocks = jnp.pad(powers, ((0, 0), (0, -vocabulary % size))).reshape(powers.shape[0], -1, size)
    block = _point(jnp.sum(blocks, axis=-1), uniform[:, 0])
    inside = jnp.take_along_axis(blocks, block[:, None, None], axis=1)[:, 0]
    return block * size + _point(inside, uniform[:, 1])


def _point(weights: Float[Array, "B N"], uniform: Float[Array, " B"]) -> Int[Array, " B"]:
    """The first index whose cumulative weight is above `uniform` times the sum."""
    cumulative = jnp.cumsum(weights, axis=-1)
    index = jnp.sum(cumulative <= uniform[:, None] * cumulative[:, -1:], axis=-1, dtype=jnp.int32)
    last = weights.shape[1] - 1 - jnp.argmax(weights[:, ::-1] > 0, axis=-1).astype(jnp.int32)
    return jnp.minimum(index, last)  # rounding never leads past the last that has a weight


def _leading(slots: Slots, rows: int) -> Slots:
    kv = slots.kv
    part = KVCache(kv.key[:, :rows], kv.value[:, :rows], kv.lengths[:rows], kv.positions[:rows])
    rest = jax.tree.map(lambda leaf: leaf[:rows], slots.replace(kv=None))
    return rest.replace(kv=part)


def _with_leading(whole: Slots, part: Slots, rows: int) -> Slots:
    if whole.active.shape[0] == rows:
        return part
    kv = cache.insert(whole.kv, jnp.arange(rows), part.kv)
    rest = jax.tree.map(lambda old, new: old.at[:rows].set(new), whole.replace(kv=None), part.replace(kv=None))
    return rest.replace(kv=kv)
