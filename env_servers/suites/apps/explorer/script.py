"""The scripts of the explorer: the next move of each subtask from any state, by what the windows have shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...virtual.app import Element, Move, Slots, State
from ..office import HAND, HEIGHT, WIDTH, escape, fill_box, shown
from .state import WINDOW, front, listed

Found = Sequence[Element]
WHEEL = 200  # css px
DOCK = 90  # css px that a dock on the left keeps free of windows


def _open(state: State, elements: Found, path: str, keep: str = "") -> Move | None:
    """The folder `path` of one or two steps below the home folder (or "Home", "Bin") in front, with nothing over it but
    `keep`; None when it is. A place that the window lacks at its side is searched for before it ends the task."""
    if move := escape(state, keep):
        return move
    own = front(state)
    if own is None:
        return HAND.tap(elements, "home icon")
    if own["path"] == path:
        return HAND.tap(elements, "clear search") if own["query"] else None
    place, *inner = path.removeprefix("Home/").split("/")
    if inner and own["path"] == f"Home/{place}":
        return HAND.tap(elements, "clear search") if own["query"] else _item(state, elements, inner[0], HAND.double)
    if shown(elements, f"place {place}"):
        return HAND.tap(elements, f"place {place}")
    return _search(state, elements, place) or HAND.give_up()


def _item(state: State, elements: Found, name: str, hand: Any) -> Move:
    """`hand` on the entry `name` of the front window, or the wheel towards it; once the end of a list that lacks it is
    in sight, the end of the task."""
    names = [row[1] for row in listed(state, front(state))]
    if shown(elements, name):
        return hand(elements, name)
    seen = [other for other in names if shown(elements, other)]
    if name not in names and (not names or shown(elements, names[-1])):
        return HAND.give_up()
    above = name in names and seen and names.index(name) < names.index(seen[0])
    return HAND.wheel(elements, seen[0] if seen else "entries", WHEEL if above else -WHEEL)


def _choose(state: State, elements: Found, path: str, name: str, keep: str = "") -> Move | None:
    """The entry marked, alone; None when it is."""
    if move := _open(state, elements, path, keep):
        return move
    return None if front(state)["chosen"] == [name] else _item(state, elements, name, HAND.tap)


def _context(state: State, elements: Found, path: str, name: str, entry: str) -> Move:
    """A line of the menu that a right click on the entry opens."""
    if state["menu"] == "item" and front(state)["path"] == path and front(state)["chosen"] == [name]:
        return HAND.tap(elements, entry)
    return _open(state, elements, path) or _item(state, elements, name, HAND.context)


# --- files -----------------------------------------------------------------------------------------------------------
def _drag(state: State, elements: Found, path: str, name: str, onto: str) -> Move:
    """The entry dragged to what `onto` names; what is not in sight ends the task."""
    if move := _open(state, elements, path):
        return move
    if not shown(elements, name) or state["pointer"] != name:
        return _item(state, elements, name, HAND.hover)
    return HAND.drag(elements, name, onto) if shown(elements, onto) else HAND.give_up()


def move(state: State, slots: Slots, elements: Found) -> Move:
    return _drag(state, elements, f"Home/{slots['move_from']}", slots["move"], f"place {slots['move_to']}")


def across(state: State, slots: Slots, elements: Found) -> Move:
    """From window to window; where the other one is hidden or closed, to the folder's line at the side."""
    window = f"{slots['across_to']} window"
    onto = window if shown(elements, window) else f"place {slots['across_to']}"
    return _drag(state, elements, f"Home/{slots['across_from']}", slots["across"], onto)


def copy(state: State, slots: Slots, elements: Found) -> Move:
    """Copied by key, pasted by key."""
    origin = f"Home/{slots['copy_from']}"
    if state["clip"] != {"cut": False, "path": origin, "names": [slots["copy"]]}:
        return _choose(state, elements, origin, slots["copy"]) or HAND.keys("ctrl", "c")
    return _open(state, elements, f"Home/{slots['copy_to']}") or HAND.keys("ctrl", "v")


def rename(state: State, slots: Slots, elements: Found) -> Move:
    path = f"Home/{slots['rename_in']}"
    if move := _choose(state, elements, path, slots["rename"], "rename"):
        return move
    if state["dialog"]["kind"] != "rename":
        return HAND.keys("f2")
    typed = fill_box(elements, state, "name box", state["dialog"]["name"], slots["rename_to"])
    return typed or HAND.tap(elements, "rename")


def folder(state: State, slots: Slots, elements: Found) -> Move:
    if move := _open(state, elements, f"Home/{slots['folder_in']}", "folder"):
        return move
    if state["dialog"]["kind"] != "folder":
        return HAND.tap(elements, "new folder")
    typed = fill_box(elements, state, "name box", state["dialog"]["name"], slots["folder"])
    return typed or HAND.tap(elements, "create")


def delete(state: State, slots: Slots, elements: Found) -> Move:
    chosen = _choose(state, elements, f"Home/{slots['delete_from']}", slots["delete"])
    return chosen or HAND.keys("delete")


def clear(state: State, slots: Slots, elements: Found) -> Move:
    if move := _open(state, elements, f"Home/{slots['clear_in']}/{slots['clear']}"):
        return move
    everything = sorted(name for _, name, _ in listed(state, front(state)))
    return HAND.keys("delete") if sorted(front(state)["chosen"]) == everything else HAND.keys("ctrl", "a")


def restore(state: State, slots: Slots, elements: Found) -> Move:
    return _choose(state, elements, "Bin", slots["restore"]) or HAND.tap(elements, "restore")


def empty(state: State, slots: Slots, elements: Found) -> Move:
    if move := _open(state, elements, "Bin", "empty"):
        return move
    return HAND.tap(elements, "delete for good" if state["dialog"]["kind"] else "empty bin")


def compress(state: State, slots: Slots, elements: Found) -> Move:
    return _context(state, elements, f"Home/{slots['compress_in']}", slots["compress"], "compress")


def extract(state: State, slots: Slots, elements: Found) -> Move:
    return _context(state, elements, f"Home/{slots['extract_in']}", slots["extract"], "extract here")


def star(state: State, slots: Slots, elements: Found) -> Move:
    return _context(state, elements, f"Home/{slots['star_in']}", slots["star"], "add star")


# --- questions -------------------------------------------------------------------------------------------------------
def size(state: State, slots: Slots, elements: Found) -> Move:
    path = f"Home/{slots['size_in']}"
    own = front(state)
    if state["dialog"]["kind"] == "properties" and own["path"] == path and own["chosen"] == [slots["size"]]:
        return HAND.answer(slots["size_answer"])
    return _context(state, elements, path, slots["size"], "properties")


def big(state: State, slots: Slots, elements: Found) -> Move:
    """As a list, the largest first."""
    if step := _open(state, elements, f"Home/{slots['big']}"):
        return step
    own = front(state)
    if own["view"] != "list":
        return HAND.tap(elements, "list view")
    if own["sort"] != {"by": "size", "down": True}:
        return HAND.tap(elements, "size header")
    if shown(elements, slots["big_answer"]):
        return HAND.answer(slots["big_answer"])
    return _item(state, elements, slots["big_answer"], HAND.tap)


def _search(state: State, elements: Found, name: str) -> Move | None:
    """The home folder searched for `name`, which is then in sight; what is not found ends the task."""
    if step := escape(state):
        return step
    own = front(state)
    if own is None or own["path"] != "Home":
        return _open(state, elements, "Home")
    if step := fill_box(elements, state, "search box", own["query"], name):
        return step
    return None if shown(elements, name) else HAND.give_up()


def find(state: State, slots: Slots, elements: Found) -> Move:
    return _search(state, elements, slots["find"]) or HAND.answer(slots["find_answer"])


def missing(state: State, slots: Slots, elements: Found) -> Move:
    return _search(state, elements, slots["missing"]) or HAND.tap(elements, slots["missing"])


# --- windows ---------------------------------------------------------------------------------------------------------
def visit(state: State, slots: Slots, elements: Found) -> Move:
    return _open(state, elements, f"Home/{slots['visit_in']}/{slots['visit']}") or HAND.keys("escape")


def view(state: State, slots: Slots, elements: Found) -> Move:
    return _open(state, elements, f"Home/{slots['view']}") or HAND.tap(elements, f"{slots['view_words']} view")


def close(state: State, slots: Slots, elements: Found) -> Move:
    return _open(state, elements, f"Home/{slots['close']}") or HAND.tap(elements, f"close {slots['close']}")


def mini(state: State, slots: Slots, elements: Found) -> Move:
    return _open(state, elements, f"Home/{slots['mini']}") or HAND.tap(elements, f"minimise {slots['mini']}")


def snap(state: State, slots: Slots, elements: Found) -> Move:
    """The title bar dragged to the screen's edge."""
    if step := _open(state, elements, f"Home/{slots['snap']}"):
        return step
    title = f"title of {slots['snap']}"
    if state["pointer"] != title:
        return HAND.hover(elements, title)
    x = WIDTH - 6 if slots["side"] == "right" else 6
    return HAND.drag_to(title, f"{slots['side']} edge", x, min(front(state)["y"] + 17, HEIGHT - 1))


def snapped(state: State, path: str, side: str) -> bool:
    """Whether the window on `path` stands at that side of the screen."""
    near = DOCK if state["layout"]["dock"] == "left" else 0
    return any(
        own["path"] == path and own["x"] == (WIDTH - WINDOW[0] if side == "right" else near) for own in state["windows"]
    )
