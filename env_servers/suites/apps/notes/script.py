"""The phone's scripts: from any state the next move towards what a subtask wants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...virtual.app import Element, Move, Slots, State
from ..mobile import HAND, look_through, shows, tap_in, write
from .state import listed, note_of

Found = Sequence[Element]


def to_app(state: State, elements: Found, app: str) -> Move | None:
    """Towards an app with nothing over it, by the home screen; None where it is open."""
    if state["open"] == "home":
        return HAND.tap(elements, f"{app} app")
    if state["dialog"]:
        return HAND.tap(elements, "keep" if state["dialog"] in ("delete", "remove") else "close")
    return None if state["open"] == app else HAND.system("Home")


def to_list(state: State, elements: Found) -> Move | None:
    """Towards the list of notes; None where it is open."""
    if move := to_app(state, elements, "notes"):
        return move
    return None if state["screens"]["notes"] == "list" else HAND.tap(elements, "back")


def find(state: State, elements: Found, title: str) -> Move | None:
    """Towards a list in which the note is in sight; None where it is. The list of all notes is looked through."""
    nowhere = note_of(state, title) is None
    if nowhere and state["folder"] and state["open"] == "notes" and (move := _all_notes(state, elements)):
        return move
    if move := to_list(state, elements):
        return move
    if title not in listed(state) and (state["query"] or state["folder"]):
        return HAND.tap(elements, "clear search" if state["query"] else "folders")
    if nowhere:
        return look_through(elements, [f"note {other or 'untitled'}" for other in listed(state)])
    if shows(elements, f"note {title}"):
        return None
    return tap_in(elements, f"note {title}", [f"note {other or 'untitled'}" for other in listed(state)])


def _all_notes(state: State, elements: Found) -> Move | None:
    return HAND.tap(elements, "all notes") if state["dialog"] == "folders" else None


def is_open(state: State, title: str) -> bool:
    """Whether the note is the screen."""
    here = state["open"] == "notes" and state["screens"]["notes"] == "note"
    one = note_of(state, title)
    return here and one is not None and one["id"] == state["item"]


def to_note(state: State, elements: Found, title: str) -> Move | None:
    """Towards the note's own screen with nothing over it; None where it is open."""
    if state["open"] == "notes" and note_of(state, title) and (move := _all_notes(state, elements)):
        return move
    if is_open(state, title):
        return to_app(state, elements, "notes")
    return find(state, elements, title) or HAND.tap(elements, f"note {title}")


def by_holding(state: State, elements: Found, title: str, *names: str) -> Move:
    """Hold the note in the list, or open it where it is the screen, then tap `names`, one on each sheet."""
    one = note_of(state, title)
    if one and state["open"] == "notes" and (state["held"] or state["item"]) == one["id"] and state["dialog"]:
        at = {"actions": 0, "move": 1, "delete": 1}.get(state["dialog"])
        if at is not None and at < len(names) and (at == 0 or names[0] == state["dialog"]):
            return HAND.tap(elements, names[at]) if shows(elements, names[at]) else HAND.give_up()
    if state["open"] == "notes" and one and (move := _all_notes(state, elements)):
        return move
    if is_open(state, title) and not state["dialog"]:
        return HAND.tap(elements, names[0])
    return find(state, elements, title) or HAND.hold(elements, f"note {title}")


def deleting(slot: str) -> Callable[[State, Slots, Found], Move]:
    """Towards a list without the note that the slot names."""
    return lambda state, slots, elements: by_holding(state, elements, slots[slot], "delete", "confirm delete")


def text(state: State, elements: Found, title: str, old: str, more: str) -> Move:
    """Towards a note whose text is `old` and, after it, `more`."""
    if move := to_note(state, elements, title):
        return move
    now = note_of(state, title)["text"]
    if now == old and old:
        return HAND.type(more) if state["focus"] == "text" else HAND.tap(elements, "text")
    return write(elements, state["focus"], "text", now, old + more) or HAND.finish()


def add_item(state: State, elements: Found, title: str, item: str) -> Move:
    """Towards a list that has one item more."""
    if move := to_note(state, elements, title):
        return move
    if not shows(elements, "add item"):
        return HAND.swipe("up")
    return write(elements, state["focus"], "new item", state["entry"], item) or HAND.tap(elements, "add item")


def tick(state: State, slots: Slots, elements: Found) -> Move:
    """Towards a ticked item."""
    if move := to_note(state, elements, slots["tick"]):
        return move
    items = [f"item {text}" for text, _ in note_of(state, slots["tick"])["items"]]
    return tap_in(elements, f"item {slots['tick_item']}", items)


def new_note(state: State, slots: Slots, elements: Found) -> Move:
    """Towards a new note with a title and a text."""
    one: dict[str, Any] | None = next((one for one in state["notes"] if one["id"] == state["item"]), None)
    if state["dialog"] or state["open"] != "notes":
        return to_app(state, elements, "notes")
    mine = one is not None and (int(one["id"][1:]) >= slots["first_id"]) and not one["list"]
    if state["screens"]["notes"] != "note" or not mine:
        if note_of(state, slots["new"]):
            return to_note(state, elements, slots["new"])
        return to_list(state, elements) or HAND.tap(elements, "new note")
    return (
        write(elements, state["focus"], "title", one["title"], slots["new"])
        or write(elements, state["focus"], "text", one["text"], slots["new_text"])
        or HAND.finish()
    )


def new_folder(state: State, slots: Slots, elements: Found) -> Move:
    """Towards one folder more."""
    if state["open"] == "notes" and state["dialog"] == "folders":
        written = write(elements, state["focus"], "new folder", state["entry"], slots["new_folder"])
        return written or HAND.tap(elements, "create folder")
    return to_list(state, elements) or HAND.tap(elements, "folders")


def rename(state: State, slots: Slots, elements: Found) -> Move:
    """Towards another title; the note is known by its id from when its title has gone."""
    one = next((one for one in state["notes"] if one["id"] == slots["rename_id"]), None)
    if one is None or slots["rename"] != slots["rename_from"]:
        return find(state, elements, slots["rename"]) or HAND.tap(elements, f"note {slots['rename']}")
    if state["item"] != one["id"] or state["open"] != "notes" or state["screens"]["notes"] != "note":
        return to_note(state, elements, one["title"])
    if state["dialog"]:
        return to_app(state, elements, "notes")
    return write(elements, state["focus"], "title", one["title"], slots["rename_to"]) or HAND.finish()


def search(state: State, slots: Slots, elements: Found) -> Move:
    """Towards the notes that hold a word."""
    if state["open"] == "notes" and (move := _all_notes(state, elements)):
        return move
    if move := to_list(state, elements):
        return move
    return write(elements, state["focus"], "search", state["query"], slots["find"]) or HAND.tap(elements, "folders")


def to_cities(state: State, elements: Found) -> Move | None:
    """Towards the list of cities; None where it is open."""
    if move := to_app(state, elements, "weather"):
        return move
    return None if state["screens"]["weather"] == "cities" else HAND.tap(elements, "back")


def to_city(state: State, elements: Found, city: str) -> Move | None:
    """Towards the weather of a saved city; None where it is open. The saved cities are looked through for another."""
    if state["open"] == "weather" and state["screens"]["weather"] == "city" and state["city"] == city:
        return to_app(state, elements, "weather")
    if move := to_cities(state, elements):
        return move
    rows = [f"city {name}" for name in state["cities"]]
    return tap_in(elements, f"city {city}", rows) if city in state["cities"] else look_through(elements, rows)


def unsaved(state: State, elements: Found, *cities: str) -> Move | None:
    """Towards the end of the saved cities where one of `cities` is none of them; None where all are saved."""
    return next((to_city(state, elements, city) for city in cities if city not in state["cities"]), None)


def add_city(state: State, elements: Found, city: str) -> Move:
    """Towards one saved city more."""
    if state["open"] == "weather" and state["screens"]["weather"] == "add":
        if shows(elements, f"add {city}"):
            return HAND.tap(elements, f"add {city}")
        return write(elements, state["focus"], "city", state["place"], city) or HAND.give_up()
    return to_cities(state, elements) or HAND.tap(elements, "add city")


def remove_city(state: State, slots: Slots, elements: Found) -> Move:
    """Towards one saved city less."""
    city = slots["remove_city"]
    if state["open"] == "weather" and state["city"] == city and state["dialog"] == "remove":
        return HAND.tap(elements, "confirm remove")
    return to_city(state, elements, city) or HAND.tap(elements, "remove city")


def first_seen(state: State, elements: Found, *things: str) -> Move | None:
    """Towards what has to be looked at before it is known ("cities", "city Porto", "note Trip"); None where it was."""
    for thing in things:
        if thing in state["history"]:
            continue
        kind, _, name = thing.partition(" ")
        if kind == "cities":
            return to_cities(state, elements)
        return to_city(state, elements, name) if kind == "city" else to_note(state, elements, name)
    return None
