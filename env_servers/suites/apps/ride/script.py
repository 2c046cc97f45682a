"""Ride's scripts: from any state the next move towards what a subtask wants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...virtual.app import Element, Move, Slots, State
from ..mobile import HAND, HEIGHT, WIDTH, look_through, money, reach, shows, tap_in, write
from .state import BLOCK, found, price, ride_to

Found = Sequence[Element]


def to_tab(state: State, elements: Found, tab: str) -> Move | None:
    """The move towards the tab's own screen with nothing over it, None where it is open."""
    if state["dialog"]:
        return HAND.tap(elements, "keep ride" if state["dialog"] == "cancel" else "close")
    if state["screen"] == tab:
        return None
    return HAND.tap(elements, "back" if state["screen"] in ("search", "route") else tab)


def pick(state: State, elements: Found, name: str) -> Move:
    """In the search: the place called `name`; given up once the search has not found it."""
    if shows(elements, name):
        return HAND.tap(elements, name)
    if move := write(elements, state["focus"], "search", state["query"], name):
        return move
    return tap_in(elements, name, found(state)) if name in found(state) else HAND.give_up()


def look_up(state: State, elements: Found, name: str) -> Move:
    """The search for a place that may be nowhere."""
    if state["screen"] == "search" and state["slot"] == "to":
        return pick(state, elements, name)
    return to_tab(state, elements, "map") or HAND.tap(elements, "where to")


def set_time(one: dict[str, Any], want: dict[str, Any], elements: Found) -> Move:
    """In the time sheet of the ride `one`: what brings it to the wanted day and time."""
    if not want["day"]:
        return HAND.tap(elements, "now")
    for key in ("day", "time"):
        if one[key] != want[key]:
            return HAND.tap(elements, want[key])
    return HAND.tap(elements, "done")


def book(state: State, elements: Found, want: dict[str, Any]) -> Move:
    """Towards the order of the ride `want`; one to the same place that is not it goes first."""
    to, draft = want["to"], state["draft"]
    if ride_to(state, to):
        return cancel(state, elements, to)
    if state["screen"] == "search" and state["slot"] == "to":
        return pick(state, elements, to)
    if state["screen"] not in ("route", "search") or draft["to"] != to:
        return to_tab(state, elements, "map") or HAND.tap(elements, "where to")
    if state["screen"] == "search":
        return pick(state, elements, want["from"]) if state["slot"] == "from" else HAND.tap(elements, "back")
    if state["dialog"] == "time":
        return set_time(draft, want, elements)
    if state["dialog"] == "payment":
        return in_rows(elements, want["pay"], state["cards"])
    if state["dialog"]:
        return HAND.tap(elements, "close")
    rows = ["pick-up", "time", "payment", *(name for name, *_ in state["classes"])]
    changes = (
        (draft["from"] != want["from"], "pick-up"),
        ((draft["day"], draft["time"]) != (want["day"], want["time"]), "time"),
        (want["pay"] and draft["pay"] != want["pay"], "payment"),
        (draft["class"] != want["class"], want["class"]),
    )
    for wrong, name in changes:
        if wrong:
            return tap_in(elements, name, rows)
    return HAND.tap(elements, "order")


def to_item(state: State, elements: Found, screen: str, to: str) -> Move | None:
    """Towards the planned ride (`ride`) or the past trip (`receipt`) to `to`; None where it is open."""
    if state["screen"] == screen and state["item"] == to:
        return None
    if move := to_tab(state, elements, "trips"):
        return move
    segment, word, rows = ("planned", "ride", "rides") if screen == "ride" else ("past", "trip", "trips")
    if state["segment"] != segment:
        return HAND.tap(elements, segment)
    return in_rows(elements, f"{word} {to}", [f"{word} {one['to']}" for one in state[rows]])


def in_rows(elements: Found, name: str, rows: Sequence[str]) -> Move:
    """A tap on a row, or the swipe towards it; rows without it are looked through and given up."""
    return tap_in(elements, name, rows) if name in rows else look_through(elements, rows)


def cancel(state: State, elements: Found, to: str) -> Move:
    if move := to_item(state, elements, "ride", to):
        return move
    if state["dialog"] == "cancel":
        return HAND.tap(elements, "confirm cancel")
    return HAND.tap(elements, "close" if state["dialog"] else "cancel ride")


def move_ride(state: State, slots: Slots, elements: Found) -> Move:
    if move := to_item(state, elements, "ride", slots["move"]):
        return move
    if state["dialog"] == "time":
        want = {"day": slots["move_day"], "time": slots["move_time"]}
        return set_time(ride_to(state, slots["move"]), want, elements)
    return HAND.tap(elements, "keep ride" if state["dialog"] else "change time")


def write_note(state: State, slots: Slots, elements: Found) -> Move:
    if move := to_item(state, elements, "ride", slots["note"]):
        return move
    if state["dialog"]:
        return HAND.tap(elements, "keep ride" if state["dialog"] == "cancel" else "close")
    written = write(elements, state["focus"], "note", state["text"], slots["note_text"])
    return written or HAND.tap(elements, "save note")


def to_pin(state: State, elements: Found, name: str) -> Move | None:
    """Towards the screen of a pinned place; None where it is open."""
    if state["screen"] == "place" and state["place"] == name:
        return None
    if name not in state["pins"]:
        return look_up(state, elements, name)
    if move := to_tab(state, elements, "map"):
        return move
    if shows(elements, f"pin {name}"):
        return HAND.tap(elements, f"pin {name}")
    at = next(place for place in state["places"] if place["name"] == name)
    scale = 2 ** state["view"]["z"]
    dx, dy = ((state["view"][key] - at[key] * BLOCK) * scale for key in "xy")
    if max(abs(dx), abs(dy)) < 40:  # under another pin: closer they stand apart
        return HAND.tap(elements, "zoom in")
    if state["view"]["z"] > -1 and (abs(dx) > 0.8 * WIDTH or abs(dy) > 0.8 * HEIGHT):
        return HAND.tap(elements, "zoom out")
    return HAND.slide(dx, dy)


def account_rows(state: State) -> list[str]:
    """Names of the account's rows from top to bottom."""
    parts = {"payment": state["cards"], "saved": ["home", "work"], "liked": state["favourites"]}
    return [name for part in state["layout"]["account"] for name in parts[part]]


def tap_row(state: State, elements: Found, name: str) -> Move:
    return to_tab(state, elements, "account") or in_rows(elements, name, account_rows(state))


def unlike(state: State, slots: Slots, elements: Found) -> Move:
    name = slots["unfavourite"]
    if state["screen"] == "place" and state["place"] == name:
        return HAND.tap(elements, "remove favourite")
    return tap_row(state, elements, name)


def set_home(state: State, slots: Slots, elements: Found) -> Move:
    if state["screen"] == "search" and state["slot"] == "home":
        return pick(state, elements, slots["set_home"])
    return tap_row(state, elements, "home")


def zoom(state: State, slots: Slots, elements: Found) -> Move:
    return to_tab(state, elements, "map") or HAND.tap(elements, "zoom in")


def ask_price(state: State, slots: Slots, elements: Found) -> Move:
    to, draft = slots["quote"], state["draft"]
    if state["screen"] == "search" and state["slot"] == "to":
        return pick(state, elements, to)
    if state["screen"] != "route" or draft["to"] != to or draft["from"] != state["here"]:
        return to_tab(state, elements, "map") or HAND.tap(elements, "where to")
    if state["dialog"]:
        return HAND.tap(elements, "close")
    rows = ["pick-up", "time", "payment", *(name for name, *_ in state["classes"])]
    return reach(elements, slots["quote_class"], rows) or HAND.answer(quoted(state, slots))


def quoted(state: State, slots: Slots) -> str:
    return f"${money(price(state, slots['quote_class'], state['here'], slots['quote']))}"


def said(state: State, text: str) -> bool:
    return state["answer"].lstrip("$") == text.lstrip("$")
