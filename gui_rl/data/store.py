"""Storage of trajectories: TFDS datasets in ArrayRecord files.

In: an iterable of `Episode`s. Out: a directory that `tfds.builder_from_directory` opens, and `EpisodeSource`, which
gives the episodes back exactly (ids, log-probabilities and PNG bytes included) by random access.
A dataset is written under another name and renamed when it is complete: a half-written one never has the final name.
Fields of a turn that vary in length (token ids, log-probabilities, image grids) are stored end to end for the whole
episode beside their lengths per turn. TensorFlow is not needed.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
from tensorflow_datasets.core import dataset_info, sequential_writer

from gui_rl.data.schema import Episode, Turn
from gui_rl.errors import UserError

VERSION = "1.0.0"
SPLIT = "train"
COUNTS = "turn_counts.json"
TEXTS = ("id", "suite", "task", "device", "instruction", "outcome", "source", "codec")
INTEGERS = ("seed", "progress", "total", "policy_version")
JSONS = ("score", "rewards", "checkpoints", "tools")
TURN_JSONS = (
    "temperature", "policy_spans", "thought", "conclusion", "action", "parse_error", "tool_result", "target_box",
    "seconds",
)  # fmt: skip


def features() -> tfds.features.FeaturesDict:
    """The stored features. Optional and nested values are JSON texts, and so are numbers in double precision, since the
    files hold no floats but float32.
    """
    feature = tfds.features
    integer, text = feature.Scalar(np.int64), feature.Text()
    image = feature.Image(encoding_format="png")
    return feature.FeaturesDict(
        {
            **{name: text for name in (*TEXTS, *JSONS)},
            **{name: integer for name in INTEGERS},
            "screen_size": feature.Tensor(shape=(2,), dtype=np.int64),
            "final_screenshot": feature.Sequence(image),
            "turns": feature.Sequence(
                {
                    "index": integer,
                    "screenshot": image,
                    "prompt_length": integer,
                    "image_count": integer,
                    "response_length": integer,
                    "logp_length": integer,
                    "policy_version": integer,
                    "text": text,
                    **{name: text for name in TURN_JSONS},
                }
            ),
            "prompt_ids": feature.Sequence(feature.Scalar(np.int32)),
            "image_grids": feature.Tensor(shape=(None, 3), dtype=np.int64),
            "image_turns": feature.Sequence(integer),
            "response_ids": feature.Sequence(feature.Scalar(np.int32)),
            "behaviour_logp": feature.Sequence(feature.Scalar(np.float32)),
        }
    )


@contextlib.contextmanager
def episode_writer(path: str | os.PathLike, episodes_per_file: int = 512) -> Iterator[EpisodeWriter]:
    """Writes a dataset as episodes come in; the dataset appears under `path` when the block ends without an error.

    Raises:
      UserError: when `path` exists already, or nothing was written.
    """
    target = Path(path)
    if target.exists():
        raise UserError(f"{target} exists already: a dataset is never overwritten, choose another name or remove it")
    target.parent.mkdir(parents=True, exist_ok=True)
    work = target.parent / f".{target.name}.writing-{uuid.uuid4().hex[:8]}"
    work.mkdir()
    try:
        writer = EpisodeWriter(work, episodes_per_file)
        yield writer
        writer.finish(target)
        os.replace(work, target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def write_episodes(path: str | os.PathLike, episodes: Iterable[Episode], episodes_per_file: int = 512) -> int:
    """Writes a dataset from an iterable, in its order; returns the number of episodes."""
    with episode_writer(path, episodes_per_file) as writer:
        for episode in episodes:
            writer.add(episode)
    return len(writer.turn_counts)


class EpisodeWriter:
    """Adds episodes to a dataset that is being written (see `episode_writer`)."""

    def __init__(self, directory: Path, episodes_per_file: int):
        identity = dataset_info.DatasetIdentity(
            name="episodes", version=tfds.core.Version(VERSION), data_dir=str(directory), module_name=__name__
        )
        self.turn_counts: list[int] = []
        self._directory = directory
        self._writer = sequential_writer.SequentialWriter(
            tfds.core.DatasetInfo(builder=identity, features=features()),
            max_examples_per_shard=episodes_per_file,
            file_format="array_record",
        )
        self._writer.initialize_splits([SPLIT])

    def add(self, episode: Episode) -> None:
        """Appends one episode."""
        self._writer.add_examples({SPLIT: [_encode(episode)]})
        self.turn_counts.append(len(episode.turns))

    def finish(self, target: Path) -> None:
        """Closes all files and makes sure that they are on the disk."""
        if not self.turn_counts:
            raise UserError(f"no episode was written to {target}: there is nothing to store")
        self._writer.close_all()
        (self._directory / COUNTS).write_text(json.dumps(self.turn_counts))
        for file in self._directory.iterdir():
            with open(file, "rb") as handle:
                os.fsync(handle.fileno())


class EpisodeSource:
    """Random access to the stored episodes, in the order in which they were written (a grain data source)."""

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        if not (self.path / "dataset_info.json").is_file():
            raise UserError(f"{self.path} holds no dataset: expected a directory written by gui_rl.data.store")
        self.turn_counts: tuple[int, ...] = tuple(json.loads((self.path / COUNTS).read_text()))
        self._open()

    def _open(self) -> None:
        raw = _EncodedImages()
        self._records = tfds.builder_from_directory(self.path).as_data_source(
            SPLIT, decoders={"turns": {"screenshot": raw}, "final_screenshot": raw}
        )

    def __len__(self) -> int:
        return len(self.turn_counts)

    def __getitem__(self, index: int) -> Episode:
        return _decode(self._records[index])

    def __repr__(self) -> str:
        return f"EpisodeSource({str(self.path)!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "turn_counts": self.turn_counts}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()


class _EncodedImages(tfds.decode.SkipDecoding):
    """Leaves a sequence of images as the encoded bytes that they are stored as."""

    def decode_batch_example_np(self, serialized_examples):
        return serialized_examples


def _encode(episode: Episode) -> dict[str, Any]:
    """The example of an episode."""
    turns = episode.turns
    document = {name: getattr(episode, name) for name in (*TEXTS, *INTEGERS, "screen_size")}
    document |= {name: json.dumps(getattr(episode, name)) for name in JSONS}
    final = episode.final_screenshot
    document["final_screenshot"] = [] if final is None else [io.BytesIO(final)]
    document["turns"] = [
        {
            "index": turn.index,
            "screenshot": io.BytesIO(turn.screenshot),
            "prompt_length": len(turn.prompt_ids),
            "image_count": len(turn.image_grids),
            "response_length": len(turn.response_ids),
            "logp_length": len(turn.behaviour_logp),
            "policy_version": turn.policy_version,
            "text": turn.text,
            **{name: json.dumps(getattr(turn, name)) for name in TURN_JSONS},
        }
        for turn in turns
    ]
    grids = np.array([grid for turn in turns for grid in turn.image_grids], np.int64).reshape(-1, 3)
    return document | {
        "prompt_ids": np.array([i for turn in turns for i in turn.prompt_ids], np.int32),
        "image_grids": grids,
        "image_turns": np.array([i for turn in turns for i in turn.image_turns], np.int64),
        "response_ids": np.array([i for turn in turns for i in turn.response_ids], np.int32),
        "behaviour_logp": np.array([v for turn in turns for v in turn.behaviour_logp], np.float32),
    }


def _decode(record: dict[str, Any]) -> Episode:
    """The episode of an example."""
    stored = record["turns"]
    lengths = {
        "prompt_ids": stored["prompt_length"],
        "image_grids": stored["image_count"],
        "image_turns": stored["image_count"],
        "response_ids": stored["response_length"],
        "behaviour_logp": stored["logp_length"],
    }
    pieces = {name: np.split(record[name], np.cumsum(length)[:-1]) for name, length in lengths.items()}
    turns = tuple(
        Turn(
            index=int(stored["index"][number]),
            screenshot=bytes(stored["screenshot"][number]),
            policy_version=int(stored["policy_version"][number]),
            text=_text(stored["text"][number]),
            **{name: json.loads(_text(stored[name][number])) for name in TURN_JSONS if name in stored},
            **{name: piece[number].tolist() for name, piece in pieces.items()},
        )
        for number in range(len(stored["index"]))
    )
    final = record["final_screenshot"]
    return Episode(
        **{name: _text(record[name]) for name in TEXTS},
        **{name: int(record[name]) for name in INTEGERS},
        **{name: json.loads(_text(record[name])) for name in JSONS},
        screen_size=tuple(record["screen_size"].tolist()),
        turns=turns,
        final_screenshot=bytes(final[0]) if len(final) else None,
    )


def _text(value: bytes | str) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)
