"""What each subtask of the explorer does to a state, and what it asks for."""

from __future__ import annotations

import copy

from ...virtual.app import Slots, State
from .content import zipped
from .state import is_folder, node_at, walk


def _items(state: State, place: str):
    return node_at(state, f"Home/{place}")["items"]


def _moved(name: str):
    def effect(state: State, slots: Slots) -> None:
        taken = _items(state, slots[f"{name}_from"]).pop(slots[name])
        _items(state, slots[f"{name}_to"])[slots[name]] = taken

    return effect


def _copy(state: State, slots: Slots) -> None:
    _items(state, slots["copy_to"])[slots["copy"]] = copy.deepcopy(_items(state, slots["copy_from"])[slots["copy"]])


def _rename(state: State, slots: Slots) -> None:
    items = _items(state, slots["rename_in"])
    items[slots["rename_to"]] = items.pop(slots["rename"])


def _bin(state: State, folder: str, name: str) -> None:
    state["bin"].append({"from": f"Home/{folder}", "name": name, "node": _items(state, folder).pop(name)})


def _clear(state: State, slots: Slots) -> None:
    folder = f"{slots['clear_in']}/{slots['clear']}"
    for name in sorted(_items(state, folder)):
        _bin(state, folder, name)


def _restore(state: State, slots: Slots) -> None:
    gone = next(one for one in state["bin"] if one["name"] == slots["restore"])
    state["bin"].remove(gone)
    node_at(state, gone["from"])["items"][gone["name"]] = gone["node"]


def _compress(state: State, slots: Slots) -> None:
    items = _items(state, slots["compress_in"])
    inner = {slots["compress"]: copy.deepcopy(items[slots["compress"]])}
    name = f"{slots['compress'].rsplit('.', 1)[0]}.zip"
    items[name] = {"items": inner, "size": zipped(inner), "date": "today", "star": False}


def _extract(state: State, slots: Slots) -> None:
    items = _items(state, slots["extract_in"])
    inner = copy.deepcopy(items[slots["extract"]]["items"])
    items[slots["extract"].removesuffix(".zip")] = {"items": inner, "date": "today", "star": False}


EFFECTS = {
    "move": _moved("move"),
    "across": _moved("across"),
    "copy": _copy,
    "rename": _rename,
    "folder": lambda state, slots: _items(state, slots["folder_in"]).update(
        {slots["folder"]: {"items": {}, "date": "today", "star": False}}
    ),
    "delete": lambda state, slots: _bin(state, slots["delete_from"], slots["delete"]),
    "clear": _clear,
    "restore": _restore,
    "empty": lambda state, slots: state.update(bin=[]),
    "compress": _compress,
    "extract": _extract,
    "star": lambda state, slots: _items(state, slots["star_in"])[slots["star"]].update(star=True),
}


def largest(state: State, place: str) -> list[str]:
    """The files of a folder, the largest first."""
    files = {name: node for name, node in _items(state, place).items() if not is_folder(node)}
    return sorted(files, key=lambda name: -files[name]["size"])


ANSWERS = {
    "size": lambda state, slots: f"{_items(state, slots['size_in'])[slots['size']]['size']} KB",
    "big": lambda state, slots: largest(state, slots["big"])[0],
    "find": lambda state, slots: next(path for path, name, _ in walk(state) if name == slots["find"]).split("/")[-1],
}
