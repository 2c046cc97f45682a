"""A run's episodes as files to look at. In: `Episode`s. Out: runs/NAME/trajectories/ID.json, with PNGs beside it.

ID.json is `Episode.to_dict()`, except that a screenshot is the name of a PNG file in the same folder instead of base64:
the JSON stays readable, and any image viewer opens the screens.
"""

import hashlib
import json
import os
import re
from dataclasses import replace
from pathlib import Path

from gui_rl.data.schema import Episode
from gui_rl.errors import UserError

FOLDER = "trajectories"


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
    return path


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
