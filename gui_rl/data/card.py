"""The card of a dataset: what it holds, where that is from, and on which terms.

In: the episodes as they are written. Out: card.json (exact; equal data give equal cards) and card.md (to read).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections import Counter
from pathlib import Path

from gui_rl.data.schema import Episode

JSON, TEXT = "card.json", "card.md"
UNKNOWN = "not stated"


@dataclasses.dataclass
class Counts:
    """What was written, counted by the values that a reader asks about, and what was left out and why."""

    episodes: int = 0
    turns: int = 0
    samples: int = 0
    by: dict[str, Counter] = dataclasses.field(
        default_factory=lambda: {
            name: Counter() for name in ("source", "origin", "licence", "suite", "device", "outcome", "annotator")
        }
    )
    dropped: Counter = dataclasses.field(default_factory=Counter)

    def add(self, episode: Episode) -> None:
        """Counts one episode."""
        self.episodes += 1
        self.turns += len(episode.turns)
        self.samples += sum(turn.use for turn in episode.turns)
        for name in ("source", "suite", "device", "outcome"):
            self.by[name][getattr(episode, name)] += 1
        self.by["origin"][episode.origin or "made here"] += 1
        self.by["licence"][episode.licence or (UNKNOWN if episode.origin else "the project's")] += 1
        self.by["annotator"].update(f"{what}: {who}" for what, who in episode.made_by.items())


def write(directory: Path, name: str, version: str, counts: Counts) -> None:
    """Writes both files into the directory of a dataset that is otherwise complete. Raises OSError."""
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    document = {
        "name": name,
        "version": version,
        "episodes": counts.episodes,
        "turns": counts.turns,
        "samples": counts.samples,
        **{kind: dict(sorted(counter.items())) for kind, counter in counts.by.items()},
        "dropped": dict(sorted(counts.dropped.items())),
        "sha256": {str(path.relative_to(directory)): _digest(path) for path in files},
    }
    (directory / JSON).write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    lines = [
        f"# {name}",
        f"{counts.episodes} episodes, {counts.turns} turns, {counts.samples} of them training samples; "
        f"form {version} of `gui_rl.data.store`.",
    ]
    for kind in (*counts.by, "dropped"):
        if document[kind]:
            rows = [f"| {value} | {count} |" for value, count in document[kind].items()]
            lines += ["", f"| {kind} | episodes |", "|---|---|", *rows]
    (directory / TEXT).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _digest(path: Path) -> str:
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
