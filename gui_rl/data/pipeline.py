"""Input pipelines: a seeded, sharded, resumable order over stored turns, mixed, read ahead, and packed (grain).

In: random-access sources. Out: a `Feed` of batches. Where an item stands in the order is a function of the seed, the
weights of the mixture and the number of hosts; grain's `MapDataset`s give the item at any place of that order. So a
position is a small JSON document, `{"next": n, "pending": [...]}`: the next place to read, and the places that were
read but not yet given out. Put back into a new feed over the same sources, it goes on with the very next batch,
whatever the number of threads or worker processes was.
"""

from __future__ import annotations

import functools
import itertools
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import grain
import numpy as np
from absl import flags

from gui_rl.data.example import RecordError
from gui_rl.data.packing import PackingError
from gui_rl.data.schema import SchemaError, TurnRecord
from gui_rl.errors import UserError

_log = logging.getLogger(__name__)
BROKEN = (RecordError, SchemaError, PackingError, UserError)
"""What is wrong with one item, and no reason to stop."""
FEW, SHARE = 10, 0.05


class Source(Protocol):
    """Anything with a length and items by index."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


class Broken(str):
    """Stands for an item that could not be read or made; its text says which and why."""


class Transformed:
    """A source with `transform` applied to its items; what is broken becomes `Broken`, at its place in the order."""

    def __init__(self, source: Source, transform: Callable[[Any], Any] | None):
        self.source, self.transform = source, transform

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> Any:
        try:
            item = self.source[index]
            return item if self.transform is None else self.transform(item)
        except BROKEN as error:
            return Broken(f"item {index} of {self.source!r}: {error}")

    def __repr__(self) -> str:
        return repr(self.source)


class TurnSource:
    """The training samples among the turns of a source of episodes, episode after episode: a turn is a sample.

    A stored source gives single turns (`EpisodeSource.turn`); of any other, whole episodes are asked and the last few
    of them kept.
    """

    def __init__(self, episodes: Source, turn_counts: Sequence[int] | None = None, cached_episodes: int = 64):
        """Takes the numbers of turns from the source (`EpisodeSource` knows them) where they are not given."""
        counts = getattr(episodes, "turn_counts", None) if turn_counts is None else turn_counts
        unused = getattr(episodes, "unused", None)
        if counts is None:
            counts = [len(episodes[index].turns) for index in range(len(episodes))]
        if len(counts) != len(episodes):
            raise ValueError(f"{len(counts)} turn counts for {len(episodes)} episodes")
        self._episodes, self._cached = episodes, cached_episodes
        self._ends = np.cumsum(np.asarray(counts, np.int64))
        numbers = np.arange(self._ends[-1] if len(counts) else 0)
        if unused is None:
            turns = (turn for index in range(len(episodes)) for turn in episodes[index].turns)
            unused = [number for number, turn in enumerate(turns) if not turn.use]
        self._numbers = np.delete(numbers, list(unused))
        self._episode = functools.lru_cache(maxsize=cached_episodes)(episodes.__getitem__)

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, index: int) -> TurnRecord:
        if not 0 <= index < len(self):
            raise IndexError(f"turn {index} of {len(self)}")
        number = int(self._numbers[index])
        if hasattr(self._episodes, "turn"):
            return self._episodes.turn(number)
        which = int(np.searchsorted(self._ends, number, side="right"))
        episode = self._episode(which)
        turn = episode.turns[number - int(self._ends[which]) + len(episode.turns)]
        return TurnRecord(episode, turn, tuple(episode.turns[shown].screenshot for shown in turn.image_turns))

    def __repr__(self) -> str:
        return f"TurnSource({self._episodes!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_episode"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._episode = functools.lru_cache(maxsize=self._cached)(self._episodes.__getitem__)


def ordered(
    sources: Source | Mapping[str, tuple[Source, float]],
    *,
    seed: int = 0,
    shuffle: bool = True,
    epochs: int | None = None,
    transform: Callable[[Any], Any] | None = None,
    shard: tuple[int, int] = (0, 1),
) -> grain.MapDataset:
    """The items of one source, or of several by weight, in an order that is a function of `seed`.

    Args:
      sources: the items; or, by name, sources and their weights (relative frequencies, above 0) in an endless mixture.
      seed: of the order; every epoch has another order.
      shuffle: whether to shuffle; else the source's order.
      epochs: passes over the items; None goes on without end (a mixture always does).
      transform: applied to each item.
      shard: `(this host, number of hosts)`; the shards are disjoint and together hold every item.
    Raises:
      UserError: for an empty source, a shard without items, or a weight that is not above 0.
    """
    part, parts = shard
    if not 0 <= part < parts:
        raise ValueError(f"need 0 <= shard < shards, not {shard}")

    def one(source: Source, seed: int, epochs: int | None) -> grain.MapDataset:
        if len(source) <= part:
            raise UserError(f"{source!r} has {len(source)} items, none of them for process {part} of {parts}")
        dataset = grain.MapDataset.source(Transformed(source, transform))[part::parts]
        return (dataset.shuffle(seed=seed) if shuffle else dataset).repeat(epochs)

    if isinstance(sources, Mapping):
        for name, (_, weight) in sources.items():
            if not weight > 0:
                raise UserError(f"mixture: {name} has weight {weight}; give a number above 0, or leave the source out")
        if not sources or epochs is not None:
            raise ValueError("a mixture needs sources, and has no epochs")
        streams = [one(source, seed + number, None) for number, (source, _) in enumerate(sources.values())]
        return grain.MapDataset.mix(streams, [weight for _, weight in sources.values()])
    return one(sources, seed, epochs)


Take = Callable[[Iterator[tuple[int, Any]], list[tuple[int, Any]]], tuple[Any, list[tuple[int, Any]]]]
"""(items that follow with their places, items kept from before) -> (a batch, items to keep). It raises StopIteration
where neither gives another batch."""


class Feed:
    """An iterator of batches with a state.

    Args:
      dataset: the order (see `ordered`).
      take: makes the next batch of what follows and what was kept.
      threads: that read and transform items ahead; 0 reads when asked.
      workers: processes that do; 0 reads in this one.
      ahead: batches made ahead in a thread of their own.

    Items that are broken are left out, counted in `dropped`, and named in the log.

    Raises (when asked for a batch):
      UserError: when more than one in twenty items is broken.
    """

    def __init__(self, dataset: grain.MapDataset, take: Take, *, threads: int = 0, workers: int = 0, ahead: int = 0):
        self._dataset, self._take = dataset, take
        self._options = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=max(2 * threads, 1))
        self._workers, self._ahead = workers, ahead
        self.dropped = 0
        self._pool: ThreadPoolExecutor | None = None
        self._state: dict[str, Any] = {"next": 0, "pending": []}
        self._begin()

    def _begin(self) -> None:
        start, kept = self._state["next"], self._state["pending"]
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        self._pool = ThreadPoolExecutor(1, "feed") if self._ahead else None
        self._coming: deque[Future] = deque()
        self._place = start
        self._items: Iterator[tuple[int, Any]] | None = None
        self._kept: list[tuple[int, Any]] = []
        self._to_read = list(kept)

    def _make(self) -> tuple[Any, dict[str, Any]] | None:
        """The next batch and the state after it; None at the end."""
        if self._items is None:
            dataset = self._dataset[self._place :].to_iter_dataset(self._options)
            if self._workers:
                if not flags.FLAGS.is_parsed():  # grain's processes read their settings there
                    flags.FLAGS.mark_as_parsed()
                dataset = dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=self._workers))
            self._items = self._counted(iter(dataset), self._place)
            self._kept = [(place, self._dataset[place]) for place in self._to_read]
            self._begun = self._place
        try:
            batch, self._kept = self._take(self._items, self._kept)
        except StopIteration:
            return None
        return batch, {"next": self._place, "pending": [place for place, _ in self._kept]}

    def _counted(self, items: Iterator[Any], start: int) -> Iterator[tuple[int, Any]]:
        for place, item in enumerate(items, start):
            self._place = place + 1
            if not isinstance(item, Broken):
                yield place, item
                continue
            self.dropped += 1
            _log.warning("left out: %s", item)
            if self.dropped > max(FEW, SHARE * (self._place - self._begun)):
                raise UserError(f"{self.dropped} broken items so far, the last: {item}; repair or rewrite the dataset")

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._pool is None:
            made = self._make()
        else:
            while len(self._coming) <= self._ahead:
                self._coming.append(self._pool.submit(self._make))
            made = self._coming.popleft().result()
        if made is None:
            raise StopIteration
        batch, self._state = made
        return batch

    def get_state(self) -> dict[str, Any]:
        """A JSON document of the position after the last batch that was given out, to be kept with the checkpoint."""
        return self._state

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Moves to a position of a feed over the same sources with the same seed, mixture and hosts."""
        self._state = {"next": int(state["next"]), "pending": list(state["pending"])}
        self._begin()

    def close(self) -> None:
        """Stops reading ahead, and the processes that read."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        self._items = None


def by_count(batch_size: int, collate: Callable[[list[Any]], Any] = list) -> Take:
    """Batches of `batch_size` items; a last, incomplete one is given too."""
    if batch_size < 1:
        raise ValueError(f"need batch_size >= 1, not {batch_size}")

    def take(items: Iterator[tuple[int, Any]], kept: list[tuple[int, Any]]) -> tuple[Any, list[tuple[int, Any]]]:
        batch = [item for _, item in itertools.islice(items, batch_size)]
        if not batch:
            raise StopIteration
        return collate(batch), []

    return take


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
    **reading: int,
) -> Feed:
    """Batches of a number of items: `ordered`, `by_count` and a `Feed` (`reading`: its threads, workers, ahead)."""
    dataset = ordered(source, seed=seed, shuffle=shuffle, epochs=epochs, transform=transform, shard=shard)
    return Feed(dataset, by_count(batch_size, collate), **reading)
