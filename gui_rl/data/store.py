"""Storage of trajectories: two TFDS datasets in ArrayRecord files, and a card that says what they hold.

In: an iterable of `Episode`s. Out: a directory

    episodes/    a record an episode, without its turns
    turns/       a record a turn, in the order of the episodes: a training sample is read without its episode
    card.json    counts, sources, licences, annotators, what was dropped and why, SHA-256 of every file (and card.md)
    index.json   turns of each episode, and the turns that are no training samples

Both datasets open with `tfds.builder_from_directory`; `EpisodeSource` reads them by random access with the decoder of
`data.example`, which gives the episodes back exactly (ids, log-probabilities and PNG bytes included).
A store is written under another name and renamed when it is complete and counted: a half-written one never has the
final name. TensorFlow is not needed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
from array_record.python.array_record_data_source import ArrayRecordDataSource
from tensorflow_datasets.core import dataset_info, sequential_writer

from gui_rl.data import card
from gui_rl.data.example import Features, RecordError, decode
from gui_rl.data.schema import Episode, RoleCall, Turn, TurnRecord
from gui_rl.errors import UserError

VERSION = "2.2.0"
SPLIT = "train"
TURNS_PER_EPISODE = 16
INDEX = "index.json"
EPISODES, TURNS = "episodes", "turns"
TEXTS = (
    "id", "suite", "task", "device", "instruction", "outcome", "source", "codec", "remaining", "origin", "licence",
)  # fmt: skip
INTEGERS = ("seed", "progress", "total", "policy_version")
JSONS = ("score", "rewards", "checkpoints", "tools", "made_by")
TURN_JSONS = (
    "temperature", "policy_spans", "thought", "conclusion", "action", "parse_error", "tool_result", "target_box",
    "seconds", "state_hash", "use", "calls", "device",
)  # fmt: skip


def features() -> dict[str, tfds.features.FeaturesDict]:
    """The stored features of both datasets. Optional and nested values are JSON texts, and so are numbers in double
    precision, since the files hold no floats but float32.
    """
    feature = tfds.features
    integer, text = feature.Scalar(np.int64), feature.Text()
    image = feature.Image(encoding_format="png")
    episode = {
        **{name: text for name in (*TEXTS, *JSONS)},
        **{name: integer for name in INTEGERS},
        "screen_size": feature.Tensor(shape=(2,), dtype=np.int64),
        "final_screenshot": feature.Sequence(image),
    }
    turn = {
        "episode": integer,
        "index": integer,
        "screenshot": image,
        "policy_version": integer,
        "text": text,
        **{name: text for name in TURN_JSONS},
        "prompt_ids": feature.Sequence(feature.Scalar(np.int32)),
        "image_grids": feature.Tensor(shape=(None, 3), dtype=np.int64),
        "image_turns": feature.Sequence(integer),
        "response_ids": feature.Sequence(feature.Scalar(np.int32)),
        "behaviour_logp": feature.Sequence(feature.Scalar(np.float32)),
    }
    return {EPISODES: feature.FeaturesDict(episode), TURNS: feature.FeaturesDict(turn)}


@contextlib.contextmanager
def episode_writer(path: str | os.PathLike, episodes_per_file: int = 512) -> Iterator[EpisodeWriter]:
    """Writes a store as episodes come in; it appears under `path` when the block ends without an error.

    Raises:
      UserError: when `path` exists already, nothing was written, or the disk did not take it all.
    """
    target = Path(path)
    if target.exists():
        raise UserError(f"{target} exists already: a dataset is never overwritten, choose another name or remove it")
    work = target.parent / f".{target.name}.writing-{uuid.uuid4().hex[:8]}"
    try:
        try:
            work.mkdir(parents=True)
            writer = EpisodeWriter(work, episodes_per_file)
        except OSError as error:
            raise _not_taken(target, error) from error
        yield writer
        writer.finish(target)
        os.replace(work, target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def write_episodes(path: str | os.PathLike, episodes: Iterable[Episode], episodes_per_file: int = 512) -> int:
    """Writes a store from an iterable, in its order; returns the number of episodes."""
    with episode_writer(path, episodes_per_file) as writer:
        for episode in episodes:
            writer.add(episode)
    return len(writer.turn_counts)


class EpisodeWriter:
    """Adds episodes to a store that is being written (see `episode_writer`)."""

    def __init__(self, directory: Path, episodes_per_file: int):
        self.turn_counts: list[int] = []
        self.counts = card.Counts()
        self._unused: list[int] = []
        self._directory = directory
        self._writers = {}
        for name, stored in features().items():
            (directory / name).mkdir()
            identity = dataset_info.DatasetIdentity(
                name=name, version=tfds.core.Version(VERSION), data_dir=str(directory / name), module_name=__name__
            )
            self._writers[name] = sequential_writer.SequentialWriter(
                tfds.core.DatasetInfo(builder=identity, features=stored),
                max_examples_per_shard=episodes_per_file * (TURNS_PER_EPISODE if name == TURNS else 1),
                file_format="array_record",
            )
            self._writers[name].initialize_splits([SPLIT])

    def add(self, episode: Episode) -> None:
        """Appends one episode."""
        number, first = len(self.turn_counts), sum(self.turn_counts)
        try:
            self._writers[EPISODES].add_examples({SPLIT: [_encode_episode(episode)]})
            self._writers[TURNS].add_examples({SPLIT: [_encode_turn(number, turn) for turn in episode.turns]})
        except (OSError, RuntimeError) as error:
            raise _not_taken(self._directory, error) from error
        self.turn_counts.append(len(episode.turns))
        self._unused += [first + turn.index for turn in episode.turns if not turn.use]
        self.counts.add(episode)

    def drop(self, reason: str, count: int = 1) -> None:
        """Counts episodes that were left out, for the card."""
        self.counts.dropped[reason] += count

    def finish(self, target: Path) -> None:
        """Closes all files, counts what they hold, and makes sure that they are on the disk."""
        if not self.turn_counts:
            raise UserError(f"no episode was written to {target}: there is nothing to store")
        wanted = {EPISODES: len(self.turn_counts), TURNS: sum(self.turn_counts)}
        try:
            for writer in self._writers.values():
                writer.close_all()
            index = {"counts": self.turn_counts, "unused": self._unused}
            (self._directory / INDEX).write_text(json.dumps(index))
            for name, count in wanted.items():
                found = len(ArrayRecordDataSource(_files(self._directory / name))) if count else 0
                if found != count:
                    raise OSError(f"{found} of {count} records arrived in {name}")
            card.write(self._directory, target.name, VERSION, self.counts)
            for file in filter(Path.is_file, self._directory.rglob("*")):
                with open(file, "rb") as handle:
                    os.fsync(handle.fileno())
        except (OSError, RuntimeError) as error:
            raise _not_taken(target, error) from error


def _not_taken(path: Path, error: Exception) -> UserError:
    free = next((shutil.disk_usage(p).free for p in (path, *path.parents) if p.exists()), 0)
    return UserError(
        f"{path}: the dataset could not be written ({error}); {free / 2**20:.0f} MiB are free there: make room or "
        "choose another place; nothing was left behind"
    )


class EpisodeSource:
    """Random access to the stored episodes, and to single turns, in the order in which they were written.

    A grain data source of episodes. Raises UserError for a directory without a store, RecordError (naming file and
    record) for a record that cannot be read.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        if not (self.path / INDEX).is_file():
            raise UserError(f"{self.path} holds no dataset: expected a directory written by gui_rl.data.store")
        index = json.loads((self.path / INDEX).read_text())
        self.turn_counts: tuple[int, ...] = tuple(index["counts"])
        self.unused: tuple[int, ...] = tuple(index["unused"])
        self._open()

    def _open(self) -> None:
        self._starts = np.concatenate([[0], np.cumsum(self.turn_counts)]).astype(np.int64)
        self._episodes = ArrayRecordDataSource(_files(self.path / EPISODES))
        self._turns = ArrayRecordDataSource(_files(self.path / TURNS)) if self._starts[-1] else ()

    def __len__(self) -> int:
        return len(self.turn_counts)

    def __getitem__(self, index: int) -> Episode:
        index = range(len(self))[index]
        numbers = range(int(self._starts[index]), int(self._starts[index + 1]))
        turns = [_decode_turn(record) for record in self._read(TURNS, numbers)]
        return _decode_episode(self._read(EPISODES, [index])[0], turns)

    def turn(self, number: int) -> TurnRecord:
        """Turn `number`, counted through all episodes, with the screens of its prompt."""
        (record,) = self._read(TURNS, [number])
        turn, index = _decode_turn(record), int(record["episode"][0])
        first = number - turn.index
        earlier = sorted({first + shown for shown in turn.image_turns} - {number})
        seen = dict(zip(earlier, self._read(TURNS, earlier), strict=True)) if earlier else {}
        screens = {number: turn.screenshot, **{n: other["screenshot"][0] for n, other in seen.items()}}
        episode = _decode_episode(self._read(EPISODES, [index])[0], ())
        return TurnRecord(episode, turn, tuple(screens[first + shown] for shown in turn.image_turns))

    def _read(self, name: str, numbers: Sequence[int]) -> list[Features]:
        source = self._turns if name == TURNS else self._episodes
        try:
            return [decode(record) for record in source.__getitems__(list(numbers))] if len(numbers) else []
        except (RecordError, RuntimeError, ValueError, IndexError) as error:
            raise RecordError(f"{self.path / name}: records {list(numbers)[:3]}: {error}") from error

    def __repr__(self) -> str:
        return f"EpisodeSource({str(self.path)!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "turn_counts": self.turn_counts, "unused": self.unused}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()


def _files(directory: Path) -> list[str]:
    """The ArrayRecord files of a dataset, in the order of their shards."""
    return sorted(map(str, directory.glob("*.array_record*")))


def _encode_episode(episode: Episode) -> dict[str, Any]:
    final = episode.final_screenshot
    return {
        **{name: getattr(episode, name) for name in (*TEXTS, *INTEGERS, "screen_size")},
        **{name: json.dumps(getattr(episode, name)) for name in JSONS},
        "final_screenshot": [] if final is None else [io.BytesIO(final)],
    }


def _encode_turn(episode: int, turn: Turn) -> dict[str, Any]:
    return {
        "episode": episode,
        "index": turn.index,
        "screenshot": io.BytesIO(turn.screenshot),
        "policy_version": turn.policy_version,
        "text": turn.text,
        **{name: json.dumps(getattr(turn, name), default=dataclasses.asdict) for name in TURN_JSONS},
        "prompt_ids": np.array(turn.prompt_ids, np.int32),
        "image_grids": np.array(turn.image_grids, np.int64).reshape(-1, 3),
        "image_turns": np.array(turn.image_turns, np.int64),
        "response_ids": np.array(turn.response_ids, np.int32),
        "behaviour_logp": np.array(turn.behaviour_logp, np.float32),
    }


def _decode_turn(record: Features) -> Turn:
    values = {name: json.loads(_text(record, name)) for name in TURN_JSONS if name in record}
    values["calls"] = [RoleCall(**call) for call in values.get("calls", ())]  # stores before 2.1 have none
    return Turn(
        index=int(record["index"][0]),
        screenshot=record["screenshot"][0],
        policy_version=int(record["policy_version"][0]),
        text=_text(record, "text"),
        **values,
        image_grids=np.asarray(record["image_grids"], np.int64).reshape(-1, 3).tolist(),
        **{
            name: np.asarray(record[name]).tolist()
            for name in ("prompt_ids", "image_turns", "response_ids", "behaviour_logp")
        },
    )


def _decode_episode(record: Features, turns: Iterable[Turn]) -> Episode:
    final = record["final_screenshot"]
    return Episode(
        **{name: _text(record, name) for name in TEXTS},
        **{name: int(record[name][0]) for name in INTEGERS},
        **{name: json.loads(_text(record, name)) for name in JSONS},
        screen_size=tuple(record["screen_size"].tolist()),
        turns=tuple(turns),
        final_screenshot=final[0] if len(final) else None,
    )


def _text(record: Features, name: str) -> str:
    return record[name][0].decode("utf-8")
