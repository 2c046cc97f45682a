"""Input pipelines: a seeded, sharded, resumable order over stored episodes or their turns (grain).

In: a random-access source. Out: an iterator of batches whose order is a function of the seed alone, and whose state is
a small JSON document: put back into a new iterator over the same source, it goes on with the very next batch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import grain
import numpy as np

from gui_rl.data.schema import Episode, Turn
from gui_rl.errors import UserError


class Source(Protocol):
    """Anything with a length and items by index."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


class TurnRecord(NamedTuple):
    """A turn and the episode that it belongs to."""

    episode: Episode
    turn: Turn


class TurnSource:
    """All turns of a source of episodes, episode after episode: a turn is a sample."""

    def __init__(self, episodes: Source, turn_counts: Sequence[int] | None = None, cached_episodes: int = 64):
        """Takes the numbers of turns from the source (`EpisodeSource` knows them) where they are not given."""
        counts = getattr(episodes, "turn_counts", None) if turn_counts is None else turn_counts
        if counts is None:
            counts = [len(episodes[index].turns) for index in range(len(episodes))]
        if len(counts) != len(episodes):
            raise ValueError(f"{len(counts)} turn counts for {len(episodes)} episodes")
        self._episodes, self._cached = episodes, cached_episodes
        self._ends = np.cumsum(np.asarray(counts, np.int64))
        self._episode = functools.lru_cache(maxsize=cached_episodes)(episodes.__getitem__)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __getitem__(self, index: int) -> TurnRecord:
        if not 0 <= index < len(self):
            raise IndexError(f"turn {index} of {len(self)}")
        number = int(np.searchsorted(self._ends, index, side="right"))
        episode = self._episode(number)
        return TurnRecord(episode, episode.turns[index - int(self._ends[number]) + len(episode.turns)])

    def __repr__(self) -> str:
        return f"TurnSource({self._episodes!r})"


class BatchIterator:
    """An iterator of batches with a state."""

    def __init__(self, iterator: grain.DatasetIterator):
        self._iterator = iterator

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._iterator)

    def get_state(self) -> dict[str, Any]:
        """A JSON document of the position, to be kept with the checkpoint of what was learned so far."""
        return self._iterator.get_state()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Moves to a position of an iterator that was made with the same arguments."""
        self._iterator.set_state(dict(state))


def batches(
    source: Source,
    batch_size: int,
    *,
    seed: int = 0,
    shuffle: bool = True,
    epochs: int | None = None,
    transform: Callable[[Any], Any] | None = None,
    collate: Callable[[list[Any]], Any] = list,
    shard: tuple[int, int] = (0, 1),
    threads: int = 0,
) -> BatchIterator:
    """Batches of items in an order that is a function of `seed`.

    Args:
      source: the items.
      batch_size: items in a batch of this shard.
      seed: of the order; every epoch has another order.
      shuffle: whether to shuffle; else the source's order.
      epochs: passes over the items; None goes on without end. A last, incomplete batch is given too.
      transform: applied to each item.
      collate: makes the batch of the list of its items.
      shard: `(this process, number of processes)`; the shards are disjoint and together hold every item.
      threads: that read ahead; 0 reads when asked.
    Raises:
      UserError: for an empty source or a shard without items.
      ValueError: for a batch size below 1 or a shard that does not exist.
    """
    part, parts = shard
    if batch_size < 1 or not 0 <= part < parts:
        raise ValueError(f"batches needs batch_size >= 1 and 0 <= shard < shards, not {batch_size} and {shard}")
    if len(source) <= part:
        raise UserError(f"{source!r} has {len(source)} items, none of them for process {part} of {parts}")
    dataset = grain.MapDataset.source(source)[part::parts]
    if shuffle:
        dataset = dataset.shuffle(seed=seed)
    dataset = dataset.repeat(epochs)
    if transform is not None:
        dataset = dataset.map(transform)
    dataset = dataset.batch(batch_size, drop_remainder=False, batch_fn=lambda items: collate(list(items)))
    options = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=2 * threads)
    return BatchIterator(iter(dataset.to_iter_dataset(options)))
