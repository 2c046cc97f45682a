"""Tickets' scripts: from any state the next move towards what a subtask wants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...virtual.app import Element, Move, Slots, State
from ..mobile import HAND, look_through, money, shows, tap_in, write
from .state import film_of, listed, runs_of, ticket_of

Found = Sequence[Element]
TABS = {"films": "films", "trains": "trains", "mine": "tickets"}


def to_tab(state: State, elements: Found, tab: str) -> Move | None:
    """The move towards a tab's own screen with nothing over it, None where it is open."""
    if state["dialog"]:
        return HAND.tap(elements, "keep ticket" if state["dialog"] == "refund" else "close")
    if state["screen"] == tab:
        return None
    return HAND.tap(elements, "back" if state["screen"] in ("seats", "basket") else TABS[tab])


def to_film(state: State, elements: Found, title: str) -> Move | None:
    """Towards the film's own screen; None where it is open."""
    if state["screen"] == "film" and state["item"] == title:
        return None
    if move := to_tab(state, elements, "films"):
        return move
    if film_of(state, title) is None:  # searched for, and not found
        return write(elements, state["focus"], "search", state["query"], title) or HAND.give_up()
    if not shows(elements, title) and title not in listed(state):
        return HAND.tap(elements, "clear search" if state["query"] else "all")
    return tap_in(elements, title, listed(state))


def to_results(state: State, elements: Found, start: str, to: str, day: str) -> Move | None:
    """Towards the trains between two cities; None where they are listed."""
    trip = state["trip"]
    want = {"from": start, "to": to, "day": day}
    if state["screen"] == "results" and trip == want:
        return None
    if state["screen"] == "trains" and state["dialog"] in ("from", "to"):
        city = want[state["dialog"]]
        return tap_if_there(elements, "close" if trip[state["dialog"]] == city else f"city {city}")
    if move := to_tab(state, elements, "trains"):
        return move
    for slot in ("from", "to"):
        if trip[slot] != want[slot]:
            return HAND.tap(elements, slot)
    return HAND.tap(elements, day if trip["day"] != day else "find trains")


def _to_offer(state: State, elements: Found, want: dict[str, Any]) -> Move:
    """Towards the plan of seats of what is wanted."""
    if state["screen"] in ("seats", "basket") and not state["dialog"]:
        return HAND.tap(elements, "back")
    if want["kind"] == "train":
        move = to_results(state, elements, want["from"], want["to"], want["day"])
        times = [f"train {run['time']}" for run in runs_of(state, want["from"], want["to"])]
        return move or tap_in(elements, f"train {want['time']}", times)
    if move := to_film(state, elements, want["title"]):
        return move
    rows = [*state["days"], *(f"show {show['time']}" for show in film_of(state, want["title"])["shows"])]
    return tap_in(elements, want["day"] if state["day"] != want["day"] else f"show {want['time']}", rows)


def _to_seats(state: State, elements: Found, wanted: Sequence[str], onward: str) -> Move:
    """In the plan: a seat more or less, then onward."""
    chosen = state["draft"]["seats"]
    for name in (*(name for name in chosen if name not in wanted), *(name for name in wanted if name not in chosen)):
        rows = sorted(element.name for element in elements if element.name.startswith("seat "))
        return tap_in(elements, f"seat {name}", sorted({*rows, f"seat {name}"}))
    return HAND.tap(elements, onward)


def _to_basket(state: State, elements: Found, want: dict[str, Any]) -> Move:
    draft = state["draft"]
    if state["dialog"] == "payment":
        return tap_if_there(elements, want["pay"])
    if state["dialog"]:
        return HAND.tap(elements, "close")
    if draft["seats"] != want["seats"]:
        return HAND.tap(elements, "back")
    names = [name for name, _ in state["extras"][want["kind"]]]
    rows = [*(f"more {name}" for name in names), "code", "payment"]
    for name in names:
        missing = want["extras"].get(name, 0) - draft["extras"].get(name, 0)
        if missing:
            return tap_in(elements, f"{'more' if missing > 0 else 'fewer'} {name}", rows)
    if draft["code"] != want["code"] and not shows(elements, "code"):
        return tap_in(elements, "code", rows)
    if move := write(elements, state["focus"], "code", draft["code"], want["code"]):
        return move
    return tap_in(elements, "payment", rows) if draft["pay"] != want["pay"] else HAND.tap(elements, "pay")


def buy(state: State, elements: Found, want: dict[str, Any]) -> Move:
    """Towards the ticket `want`; one for the same thing that is not it goes first."""
    if ticket_of(state, want["title"]):
        return refund(state, elements, want["title"])
    here = all(state["draft"][key] == want[key] for key in ("title", "day", "time")) and not state["draft"]["of"]
    if here and state["screen"] == "basket":
        return _to_basket(state, elements, want)
    if here and state["screen"] == "seats" and not state["dialog"]:
        return _to_seats(state, elements, want["seats"], "continue")
    return _to_offer(state, elements, want)


def to_ticket(state: State, elements: Found, title: str) -> Move | None:
    """Towards the user's ticket for `title`; None where it is open."""
    if state["screen"] == "ticket" and state["item"] == title:
        return None
    if move := to_tab(state, elements, "mine"):
        return move
    rows = [f"ticket {one['title']}" for one in state["tickets"]]
    return tap_in(elements, f"ticket {title}", rows) if ticket_of(state, title) else look_through(elements, rows)


def tap_if_there(elements: Found, name: str) -> Move:
    """A choice of the sheet that is open; given up where it has none of this name."""
    return HAND.tap(elements, name) if shows(elements, name) else HAND.give_up()


def buy_taken(state: State, slots: Slots, elements: Found) -> Move:
    """Towards a seat that is taken: the plan shows that."""
    want = {"kind": "film", "title": slots["full"], "day": slots["full_day"], "time": slots["full_time"]}
    here = all(state["draft"][key] == want[key] for key in ("title", "day", "time")) and not state["draft"]["of"]
    if here and state["screen"] == "seats" and not state["dialog"]:
        return HAND.give_up()
    return _to_offer(state, elements, want)


def refund(state: State, elements: Found, title: str) -> Move:
    """Towards a refund."""
    return to_ticket(state, elements, title) or HAND.tap(
        elements, "confirm refund" if state["dialog"] == "refund" else "refund"
    )


def reseat(state: State, slots: Slots, elements: Found) -> Move:
    """Towards other seats on a ticket."""
    title = slots["reseat"]
    if state["screen"] == "seats" and state["draft"]["of"] == title:
        if state["dialog"]:
            return HAND.tap(elements, "close")
        return _to_seats(state, elements, slots["reseat_seats"], "save seats")
    if move := to_ticket(state, elements, title):
        return move
    return HAND.tap(elements, "keep ticket" if state["dialog"] else "change seats")


def send(state: State, slots: Slots, elements: Found) -> Move:
    """Towards a ticket that another person has."""
    if move := to_ticket(state, elements, slots["send"]):
        return move
    if state["dialog"]:
        return HAND.tap(elements, "keep ticket")
    written = write(elements, state["focus"], "person", state["text"], slots["send_person"])
    return written or HAND.tap(elements, "send")


def search(state: State, slots: Slots, elements: Found) -> Move:
    """Towards a list of films by their name."""
    if move := to_tab(state, elements, "films"):
        return move
    return write(elements, state["focus"], "search", state["query"], slots["search"]) or HAND.tap(elements, "all")


def ask_train(state: State, slots: Slots, elements: Found) -> Move:
    """Towards the price of a train."""
    move = to_results(state, elements, slots["ask_train"], slots["ask_train_to"], slots["ask_train_day"])
    return move or HAND.answer(slots["ask_train_price"])


def price_of(state: State, start: str, to: str, time: str) -> str:
    """What the train at `time` costs, as the screen says it."""
    return next(f"${money(run['price'])}" for run in runs_of(state, start, to) if run["time"] == time)
