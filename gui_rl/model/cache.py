"""The key-value cache of sampling: fixed shapes, one row a sequence, so that a decoding step compiles once.

In: keys and values of prefilled rows (`KVCache`), then of one token a step (`Recent`). Out: who sees what (`visible`),
and the cache with the decoded tokens in it (`settle`). Slots fill from 0 on; a row may be replaced by another row while
its neighbours go on (`insert`), or be repeated for a group that shares its prompt (`take`).
While tokens are decoded the cache is only read: a step writes one slice, at the same place for all rows, into the few
slots of `Recent`. Rows of different lengths would each have to be written at a place of their own. Keys and values are
stacked over layers, or, for layers that are run one by one, each layer's by themselves (`apart`).
"""

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from gui_rl.model.config import ModelConfig


@struct.dataclass
class KVCache:
    """Axes: L layers, B rows, K key-value heads, S slots (capacity), Dh head size.

    key, value a tuple of L arrays where layers are apart, the keys' turned: [B, K, Dh, S] and [B, K, S, Dh]
    lengths    filled slots of every row
    positions  rotary position of the next token (after an image it is not the number of tokens)
    """

    key: Float[Array, "L B K S Dh"] | tuple[Float[Array, "B K Dh S"], ...]
    value: Float[Array, "L B K S Dh"] | tuple[Float[Array, "B K S Dh"], ...]
    lengths: Int[Array, " B"]
    positions: Int[Array, " B"]

    @property
    def capacity(self) -> int:
        """Tokens that there is room for."""
        return _slots(self.value)


@struct.dataclass
class Recent:
    """What was decoded since the cache was last settled: R steps at most.

    steps   steps taken
    counts  tokens that a row got: in its first `counts` slots. A row that is left out of a step gets no more.
    """

    key: Float[Array, "L B K R Dh"] | tuple[Float[Array, "B K Dh R"], ...]
    value: Float[Array, "L B K R Dh"] | tuple[Float[Array, "B K R Dh"], ...]
    steps: Int[Array, ""]
    counts: Int[Array, " B"]


def empty(cfg: ModelConfig, rows: int, capacity: int) -> KVCache:
    """A cache without content, in the compute dtype."""
    text = cfg.text
    shape = (text.num_hidden_layers, rows, text.num_key_value_heads, capacity, text.head_dim)
    return KVCache(
        key=jnp.zeros(shape, cfg.dtype),
        value=jnp.zeros(shape, cfg.dtype),
        lengths=jnp.zeros(rows, jnp.int32),
        positions=jnp.zeros(rows, jnp.int32),
    )


def from_rows(
    key: Float[Array, "L B T K Dh"],
    value: Float[Array, "L B T K Dh"],
    lengths: Int[Array, " B"],
    positions: Int[Array, " B"],
    capacity: int,
) -> KVCache:
    """A cache that starts with right-padded rows. `ValueError` if they do not fit."""
    length = key.shape[2]
    if length > capacity:
        raise ValueError(f"a cache of {capacity} slots cannot hold rows of {length} tokens")
    room = ((0, 0), (0, 0), (0, 0), (0, capacity - length), (0, 0))
    key, value = (jnp.pad(store.swapaxes(2, 3), room) for store in (key, value))
    return KVCache(key=key, value=value, lengths=lengths, positions=positions)


def take(cache: KVCache, rows: Int[Array, " N"]) -> KVCache:
    """The cache with rows `rows` of this one; a row may be taken several times (a group shares a prefill)."""
    return KVCache(
        key=cache.key[:, rows], value=cache.value[:, rows], lengths=cache.lengths[rows], positions=cache.positions[rows]
    )


def insert(cache: KVCache, rows: Int[Array, " N"], new: KVCache) -> KVCache:
    """Replaces rows `rows` by the rows of `new` (of the same capacity); a row number beyond the last is ignored."""
    return KVCache(
        key=cache.key.at[:, rows].set(new.key, mode="drop"),
        value=cache.value.at[:, rows].set(new.value, mode="drop"),
        lengths=cache.lengths.at[rows].set(new.lengths, mode="drop"),
        positions=cache.positions.at[rows].set(new.positions, mode="drop"),
    )


def apart(cache: KVCache) -> KVCache:
    """The cache with each layer's keys and values by themselves: to be read many times, where reading a layer of the
    stack would copy it each time. Keys are turned, since a query multiplies rows of slots twice as fast on CPU."""
    return cache.replace(key=tuple(key.swapaxes(-1, -2) for key in cache.key), value=tuple(cache.value))


def keys(store: Any, number: Any) -> Float[Array, "B K Dh S"]:
    """A layer's keys, turned."""
    return store[number] if isinstance(store, tuple) else store[number].swapaxes(-1, -2)


def recent(cache: KVCache, steps: int) -> Recent:
    """Room for `steps` steps of decoding (no more than the cache has slots), stacked or apart like the cache."""
    room = min(steps, cache.capacity)
    value = jax.tree.map(lambda v: jnp.zeros((*v.shape[:-2], room, v.shape[-1]), v.dtype), cache.value)
    key = tuple(layer.swapaxes(-1, -2) for layer in value) if isinstance(value, tuple) else value
    return Recent(key, value, jnp.int32(0), jnp.zeros(cache.lengths.shape, jnp.int32))


def add(store: Any, number: Any, new: Float[Array, "B 1 K Dh"], step: Int[Array, ""], keys: bool) -> Any:
    """The recent keys, or values, with those of one more step in layer `number`."""
    new = new.swapaxes(1, 2)
    if isinstance(store, tuple):
        new, axis = (new.swapaxes(2, 3), 3) if keys else (new, 2)
        layer = jax.lax.dynamic_update_slice_in_dim(store[number], new.astype(store[number].dtype), step, axis)
        return (*store[:number], layer, *store[number + 1 :])
    return jax.lax.dynamic_update_slice(store, new[None].astype(store.dtype), (number, 0, 0, step, 0))


def growing(cache: KVCache, recent: Recent, active: Bool[Array, " B"]) -> Bool[Array, " B"]:
    """The rows that the next step gives a token: the active ones that are not full."""
    return active & (cache.lengths + recent.counts < cache.capacity)


def visible(cache: KVCache, recent: Recent) -> tuple[Bool[Array, "B S"], Bool[Array, "B R"]]:
    """What the next step sees: the filled slots, and of the recent ones those of its row and its own."""
    held = jnp.arange(cache.capacity) < cache.lengths[:, None]
    return held, jnp.arange(_slots(recent.value)) <= recent.counts[:, None]


def settle(cache: KVCache, recent: Recent) -> KVCache:
    """The (stacked) cache with the recent tokens appended to their rows. Donate `cache`."""
    slots, key, value = _slots(recent.value), recent.key, recent.value
    if isinstance(value, tuple):
        key, value = jnp.stack(key).swapaxes(-1, -2), jnp.stack(value)

    def row(store: Array, new: Array, length: Array, count: Array) -> Array:
        start = jnp.minimum(length, store.shape[2] - slots)  # near the end the window begins before the new tokens
        old = jax.lax.dynamic_slice_in_dim(store, start, slots, axis=2)
        place = jnp.arange(slots) - (length - start)
        moved = jnp.take(new, jnp.maximum(place, 0), axis=2)
        merged = jnp.where(((place >= 0) & (place < count))[:, None], moved, old)
        return jax.lax.dynamic_update_slice_in_dim(store, merged, start, axis=2)

    rows = jax.vmap(row, in_axes=(1, 1, 0, 0), out_axes=1)
    return KVCache(
        key=rows(cache.key, key, cache.lengths, recent.counts),
        value=rows(cache.value, value, cache.lengths, recent.counts),
        lengths=cache.lengths + recent.counts,
        positions=cache.positions + recent.counts,
    )


def _slots(store: Any) -> int:
    return jax.tree.leaves(store)[0].shape[-2]
