"""A run's episodes as files to look at. In: `Episode`s. Out: runs/NAME/trajectories/ID.json, with PNGs beside it.

ID.json is `Episode.to_dict()`, except that a screenshot is the name of a PNG file in the same folder instead of base64:
the JSON stays readable, and any image viewer opens the screens. index.jsonl holds a line per written episode (`Entry`),
so that ten thousand of them are listed without opening any; where an episode was written twice its last line counts,
and what the index misses is read from the episodes.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from gui_rl.data.schema import Episode
from gui_rl.errors import UserError

FOLDER = "trajectories"
INDEX = "index.jsonl"


@dataclass(frozen=True)
class Entry:
    """What a list shows of a stored episode; `file` is the stem of its JSON, the rest as in `Episode`."""

    file: str
    id: str
    device: str
    suite: str
    task: str
    seed: int
    instruction: str
    source: str
    policy_version: int
    outcome: str
    reward: float
    steps: int
    progress: int
    total: int

    @classmethod
    def of(cls, episode: Episode) -> Entry:
        """The entry of an episode. reward: the sum of its components where it has any, else its score."""
        return cls(
            file=_stem(episode.id),
            reward=sum(episode.rewards.values()) if episode.rewards else episode.score,
            steps=len(episode.turns),
            **{
                name: getattr(episode, name)
                for name in ("id", "device", "suite", "task", "seed", "instruction", "source", "policy_version")
            },
            **{name: getattr(episode, name) for name in ("outcome", "progress", "total")},
        )


def write_trajectory(run_dir: str | os.PathLike, episode: Episode) -> Path:
    """Writes an episode and its screenshots; an episode of the same id is replaced. Returns the JSON's path."""
    folder = Path(run_dir) / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    stem = _stem(episode.id)
    document = episode.to_dict()
    for turn, kept in zip(document["turns"], episode.turns, strict=True):
        turn["screenshot"] = _write_png(folder / f"{stem}-{kept.index:02}.png", kept.screenshot)
    if episode.final_screenshot is not None:
        document["final_screenshot"] = _write_png(folder / f"{stem}-final.png", episode.final_screenshot)
    path = folder / f"{stem}.json"
    temporary = folder / f"{stem}.json.new"
    temporary.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(temporary, path)
    with (folder / INDEX).open("a", encoding="utf-8") as index:
        index.write(json.dumps(asdict(Entry.of(episode)), ensure_ascii=False) + "\n")
    return path


def list_trajectories(run_dir: str | os.PathLike) -> list[Entry]:
    """Entries of the stored episodes, in the order in which they were written; those that the index misses are last.

    Raises:
        UserError: an episode that the index misses and that cannot be read; names its file.
    """
    folder = Path(run_dir) / FOLDER
    entries: dict[str, Entry] = {}
    path = folder / INDEX
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            entry = Entry(**json.loads(line))
        except (ValueError, TypeError):  # a line that was being written when its writer died
            continue
        entries.pop(entry.file, None)
        entries[entry.file] = entry
    stored = (
        {file.name.removesuffix(".json") for file in os.scandir(folder) if file.name.endswith(".json")}
        if folder.is_dir()
        else set()
    )
    found = [entry for entry in entries.values() if entry.file in stored]
    return found + [Entry.of(_read(folder / f"{stem}.json")) for stem in sorted(stored - entries.keys())]


def read_trajectory(run_dir: str | os.PathLike, file: str) -> Episode:
    """One stored episode by its entry's `file`. Raises UserError where it is none."""
    return _read(Path(run_dir) / FOLDER / f"{file}.json")


def read_trajectories(run_dir: str | os.PathLike) -> tuple[Episode, ...]:
    """The episodes that a run stored to be looked at, by file name. A screenshot whose file is gone is empty bytes.

    Raises:
        UserError: a file that is no episode, or a screenshot that is no PNG; names it.
    """
    return tuple(_read(path) for path in sorted((Path(run_dir) / FOLDER).glob("*.json")))


def _read(path: Path) -> Episode:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        final = document.pop("final_screenshot", None)
        files = [turn.pop("screenshot") for turn in document["turns"]]
        # Decoded as if they held no pictures, which are then read from their own files.
        episode = Episode.from_dict(
            {**document, "turns": [{**turn, "screenshot": ""} for turn in document["turns"]], "final_screenshot": None}
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(f"{path}: not a stored episode ({error}); remove the file or run again") from error
    turns = [replace(t, screenshot=_png(path, name)) for t, name in zip(episode.turns, files, strict=True)]
    return replace(episode, turns=tuple(turns), final_screenshot=_png(path, final) if final else None)


def _png(document: Path, name: str) -> bytes:
    file = document.parent / Path(str(name)).name  # never outside the folder
    data = file.read_bytes() if file.is_file() else b""
    if data and not data.startswith(b"\x89PNG"):
        raise UserError(f"{file}: an unreadable image, a screenshot must be a PNG; remove it or run again")
    return data


def _write_png(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return path.name


def _stem(identity: str) -> str:
    """The id as a file name; an id that had to be changed gets a digest, so that two of them never meet."""
    safe = re.sub(r"[^A-Za-z0-9._=-]+", "_", identity).lstrip(".")[:80]
    return safe if safe == identity else f"{safe}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"
