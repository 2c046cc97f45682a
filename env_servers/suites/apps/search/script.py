"""The script's moves through the app `search`: every one works from any state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...virtual.app import Slots, State
from ...virtual.gestures import Element, Move
from ..web import DAYS, HAND, fill_in, look_through, reach, towards
from .content import EXTRAS, NOUN, PAYMENTS, month_of

FIELDS = ("name", "mail", "phone", "option", "count", "date", "pay", "extras", "code", "remark", "terms")
CONTROL = {
    "name": "name box", "mail": "mail box", "phone": "phone box", "code": "code box", "remark": "remark box",
    "option": "option list", "count": "persons list",
}  # fmt: skip


def page_of(state: State, name: str) -> dict[str, Any] | None:
    """The page of this name."""
    return next((page for page in state["pages"] if page["name"] == name), None)


def results(state: State) -> list[dict[str, Any]]:
    """The pages that the search has found, in the page's order."""
    words, found = state["query"].lower().split(), []
    for page in state["pages"]:
        text = " ".join([page["name"], page["city"], NOUN[page["kind"]], page["kind"], *page["lines"]]).lower()
        fits = state["tab"] in ("All", page["kind"]) and state["region"] in ("", page["city"])
        if fits and all(word in text for word in words):
            found.append(page)
    return found


def _aside(state: State, elements: Sequence[Element]) -> Move | None:
    """What lies over the page goes first."""
    if not state["dialog"]:
        return None
    return HAND.tap(elements, "Keep it" if state["dialog"]["then"] else "OK")


def _found(state: State, elements: Sequence[Element], name: str, what: str) -> Move:
    """`what` ("link", "star of") of a page in the list of results, searching for it first."""
    if move := _aside(state, elements):
        return move
    if page_of(state, name) is None and state["at"]["page"] == "results" and state["query"] == name:
        return HAND.give_up()
    listed = [page["name"] for page in results(state)] if state["at"]["page"] == "results" else []
    if name in listed:
        return reach(elements, f"{what} {name}", [f"{what} {other}" for other in listed])
    return HAND.enter(elements, "search box", name + "\n")


def _on_page(state: State, elements: Sequence[Element], name: str) -> Move | None:
    """Open a page; None where it is open."""
    page = page_of(state, name)
    if page and state["at"] == {"page": "page", "id": page["id"]}:
        return _aside(state, elements)
    return _found(state, elements, name, "link")


def missing(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """A search that does not find the page."""
    return _found(state, elements, slots["missing"], "star of")


def open_page(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """Search, and a click on the result."""
    return _on_page(state, elements, slots["open"]) or HAND.wait(1)


def search(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """The words into the box, and Enter."""
    return _aside(state, elements) or HAND.enter(elements, "search box", slots["search"] + "\n")


def _searched(state: State, elements: Sequence[Element], query: str) -> Move | None:
    if move := _aside(state, elements):
        return move
    if state["at"]["page"] == "results" and state["query"].lower() == query.lower():
        return None
    return HAND.enter(elements, "search box", query + "\n")


def tab(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """Search, then the tab; a region in the way is taken off by searching anew."""
    query = slots["tab_query"]
    if move := _searched(state, elements, query):
        return move
    if state["region"]:
        return HAND.enter(elements, "search box", query + "\n")
    return HAND.tap(elements, f"{slots['tab']} tab")


def region(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """Search, then the region from the list."""
    if move := _searched(state, elements, slots["region_query"]):
        return move
    if state["tab"] != "All":
        return HAND.tap(elements, "All tab")
    return HAND.select(elements, "region list", slots["region"])


def bookmark(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """The star of the result, or the button of the page that is open."""
    page = page_of(state, slots["bookmark"])
    if page and state["at"] == {"page": "page", "id": page["id"]}:
        return _aside(state, elements) or reach(elements, "bookmark")
    return _found(state, elements, slots["bookmark"], "star of")


def told(slot: str):
    """Open a page and answer with what it says."""

    def move(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
        return _on_page(state, elements, slots[slot]) or HAND.answer(slots[f"{slot}_answer"])

    return move


def cheaper(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """Both pages are read, then the answer given."""
    for name in (slots["cheaper"], slots["other"]):
        page = page_of(state, name)
        if page is None or page["id"] not in state["visited"]:
            return _found(state, elements, name, "link")
    return _aside(state, elements) or HAND.answer(slots["cheaper_answer"])


# --- the form --------------------------------------------------------------------------------------------------------
def _order(kind: str) -> list[str]:
    """The names of a form of this kind, from top to bottom."""
    days = [f"day {number}" for number in range(1, 32)]
    return [
        *("name box", "mail box", "phone box", "option list", "persons list", "date box"),
        *("previous month", "next month"),
        *days, *(f"{name} button" for name in PAYMENTS), *(f"{name} box" for name in EXTRAS[kind]),
        *("code box", "remark box", "terms box", "send", "page"),
    ]  # fmt: skip


def _to_form(state: State, elements: Sequence[Element]) -> Move | None:
    """The form of the booking that was started before."""
    if move := _aside(state, elements):
        return move
    if str(state["started"]) not in state["drafts"]:
        return HAND.give_up()
    if state["at"] == {"page": "form", "id": state["started"]}:
        return None
    return HAND.tap(elements, "started booking")


def _set(state: State, elements: Sequence[Element], field: str, value: Any) -> Move | None:
    """The next move that makes a field of the open form hold `value`; None where it does."""
    page = state["pages"][state["at"]["id"]]
    form, order = state["drafts"][str(page["id"])], _order(page["kind"])
    held = form[field].strip() if isinstance(form[field], str) else form[field]
    if held == value:
        return None
    match field:
        case "option" | "count":
            name = CONTROL[field]
            return towards(elements, name, order) or HAND.select(elements, name, value)
        case "date":
            return _pick(state, elements, value, order)
        case "pay":
            return reach(elements, f"{value} button", order)
        case "extras":
            return reach(elements, f"{sorted(set(held) ^ set(value))[0]} box", order)
        case "terms":
            return reach(elements, "terms box", order)
    return fill_in(elements, CONTROL[field], value, order)


def _pick(state: State, elements: Sequence[Element], date: str, order: Sequence[str]) -> Move:
    """A date by the calendar: open it, turn to the month, take the day."""
    month, open_at = month_of(date), state["picker"]
    if open_at < 0:
        return reach(elements, "date box", order)
    if open_at == month:
        names = [f"day {number + 1}" for number in range(DAYS[month])]
        return reach(elements, f"day {date.split()[0]}", ["date box", *names, *order[-10:]])
    forward = (month - open_at) % 12 <= 6
    return reach(elements, "next month" if forward else "previous month", order)


def change(*fields: str):
    """Fields of the started booking to the slots of the same names."""

    def move(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
        if move := _to_form(state, elements):
            return move
        for field in fields:
            if found := _set(state, elements, field, slots[f"form_{field}"]):
                return found
        return HAND.wait(1)

    return move


def extra(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """One more box ticked."""
    if move := _to_form(state, elements):
        return move
    kind = state["pages"][state["started"]]["kind"]
    return reach(elements, f"{slots['extra']} box", _order(kind))


def code(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """The news are read first; then the code that they give goes into the form."""
    offer = page_of(state, slots["offer"])
    if offer is None or offer["id"] not in state["visited"]:
        return _found(state, elements, slots["offer"], "link")
    return _to_form(state, elements) or _set(state, elements, "code", slots["code"]) or HAND.wait(1)


def send(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """Accept the terms and send."""
    if move := _to_form(state, elements):
        return move
    kind = state["pages"][state["started"]]["kind"]
    return _set(state, elements, "terms", True) or reach(elements, "send", _order(kind))


def book(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """Search, open the page, book, fill in the form from top to bottom, send."""
    if move := _aside(state, elements):
        return move
    page = page_of(state, slots["book"])
    if page and any(booking["id"] == page["id"] for booking in state["bookings"]):  # in another way: that can be seen
        return HAND.give_up() if state["at"]["page"] == "bookings" else HAND.tap(elements, "bookings")
    if page is None or state["at"] != {"page": "form", "id": page["id"]}:
        return _on_page(state, elements, slots["book"]) or reach(elements, "book")
    for field in FIELDS:
        if found := _set(state, elements, field, slots["booking"][field]):
            return found
    return reach(elements, "send", _order(page["kind"]))


def cancel(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """The button beside the booking, and yes."""
    if state["dialog"] and state["dialog"]["then"] == slots["cancel"]:
        return HAND.tap(elements, "Yes, cancel it")
    if move := _aside(state, elements):
        return move
    if state["at"]["page"] != "bookings":
        return HAND.tap(elements, "bookings")
    names = [f"cancel {state['pages'][booking['id']]['name']}" for booking in state["bookings"]]
    name = f"cancel {slots['cancel']}"
    return reach(elements, name, names) if name in names else look_through(elements, names)
