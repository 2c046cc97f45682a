"""The key-value cache of sampling: fixed shapes, one row a sequence, so that a decoding step compiles once.

In: keys and values of prefilled rows, then of one token a step. Out: the filled part, through `visible`. Slots fill
from 0 on; a row may be replaced by another row while its neighbours go on (`insert`), or be repeated for a group that
shares its prompt (`take`).
"""

import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from gui_rl.model.config import ModelConfig


@struct.dataclass
class KVCache:
    """Axes: L layers, B rows, S slots (capacity), K key-value heads, Dh head size.

    lengths    filled slots of every row
    positions  rotary position of the next token (after an image it is not the number of tokens)
    """

    key: Float[Array, "L B S K Dh"]
    value: Float[Array, "L B S K Dh"]
    lengths: Int[Array, " B"]
    positions: Int[Array, " B"]

    @property
    def capacity(self) -> int:
        return self.key.shape[2]


def empty(cfg: ModelConfig, rows: int, capacity: int) -> KVCache:
    """A cache without content, in the compute dtype."""
    text = cfg.text
    shape = (text.num_hidden_layers, rows, capacity, text.num_key_value_heads, text.head_dim)
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
    room = ((0, 0), (0, 0), (0, capacity - length), (0, 0), (0, 0))
    return KVCache(key=jnp.pad(key, room), value=jnp.pad(value, room), lengths=lengths, positions=positions)


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


def visible(cache: KVCache) -> Bool[Array, "B 1 S"]:
    """The mask of a step that writes one token a row: it sees the filled slots and itself."""
    return (jnp.arange(cache.capacity)[None, :] <= cache.lengths[:, None])[:, None, :]
