"""What the seed draws folders and files from."""

from __future__ import annotations

import random
from typing import Any

from ..office import day

Node = dict[str, Any]

PLACES = (
    "Documents", "Downloads", "Pictures", "Music", "Videos", "Projects", "Receipts", "Travel", "Recipes", "School",
    "Letters", "Contracts",
)  # fmt: skip
"""Folders of the home folder."""
FOLDERS = (
    "Old drafts", "Spring trip", "Tax papers", "Band practice", "Garden plans", "Photo album", "Sketches", "Club",
    "Family", "House", "Insurance", "Favourites", "To sort", "Backups", "Shared",
)  # fmt: skip
"""Folders inside those, and what a new one may be called."""
STEMS = (
    "Budget", "Invoice", "Holiday", "Report", "Garden", "Minutes", "Beach", "Portrait", "Ticket", "Contract", "Summary",
    "Poster", "Lecture", "Recital", "Logo", "Map", "Packing list", "Menu", "Timetable", "Letter", "Sunset", "Plan",
    "Speech", "Lesson", "Survey", "Receipt", "Manual", "Diary", "Song", "Interview", "Forecast", "Quote", "Recipe",
    "Checklist", "Harbour", "Wedding", "Schedule", "Offer",
)  # fmt: skip
KINDS = {"pdf": (40, 900), "odt": (12, 300), "png": (200, 4000), "mp3": (1800, 9000), "txt": (1, 40), "csv": (2, 120)}
"""Endings, and sizes in KB from and to."""
FILES = tuple(f"{stem}.{end}" for stem in STEMS for end in (*KINDS, "zip"))
"""Everything that a file may be called."""
NEW_STEMS = ("Final", "Checked", "Old", "Copy for Ada", "Version 2", "Signed", "Draft", "Spare")
_ENDS = ("pdf", "pdf", "odt", "png", "png", "mp3", "txt", "csv")


def new_file(rng: random.Random, end: str) -> Node:
    """A file of this kind."""
    return {"size": rng.randint(*KINDS[end]), "date": day(rng), "star": False}


def zipped(items: dict[str, Node]) -> int:
    """KB of an archive."""
    return sum(total(node) for node in items.values()) * 3 // 5 + 1


def total(node: Node) -> int:
    """KB of a file, an archive, or all that is in a folder."""
    return node["size"] if "size" in node else sum(map(total, node["items"].values()))


def tree(rng: random.Random) -> tuple[dict[str, Node], list[dict[str, Any]], list[str]]:
    """(the home folder's items, the bin, the names of its folders): no file's name is used twice."""
    places, folders = sorted(rng.sample(PLACES, 5)), rng.sample(FOLDERS, 3)
    stems = iter(rng.sample(STEMS, len(STEMS)))

    def files(count: int) -> dict[str, Node]:
        made = {}
        for _ in range(count):
            end = rng.choice(_ENDS)
            made[f"{next(stems)}.{end}"] = new_file(rng, end)
        return made

    home: dict[str, Node] = {}
    for name in places:
        items = files(rng.randint(3, 4))
        sizes = rng.sample(range(0, 40), len(items))  # no two sizes of a place are alike
        for node, more in zip(items.values(), sizes, strict=True):
            node["size"] = node["size"] // 40 * 40 + more + 1
        home[name] = {"items": items, "date": day(rng), "star": False}
    for name, inner in zip(rng.sample(places, 3), folders, strict=True):
        home[name]["items"][inner] = {"items": files(2), "date": day(rng), "star": False}
    for name in rng.sample(places, 2):
        inner = files(1)
        home[name]["items"][f"{next(stems)}.zip"] = {
            "items": inner,
            "size": zipped(inner),
            "date": day(rng),
            "star": False,
        }
    gone = [{"from": f"Home/{rng.choice(places)}", "name": name, "node": node} for name, node in files(2).items()]
    return home, gone, places
