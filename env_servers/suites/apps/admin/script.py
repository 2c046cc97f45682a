"""The script's moves through the app `admin`: every one works from any state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...virtual.app import Slots, State
from ...virtual.gestures import Element, Move
from ..web import HAND, shown
from .content import TABLES

ANSWERS = {"delete": "Keep", "export": "Close", "": "OK"}


def row_of(state: State, tab: str, key: str) -> dict[str, Any] | None:
    """The row of this key."""
    return next((row for row in state["tables"][tab] if row[TABLES[tab].key] == key), None)


def filtered(state: State, tab: str) -> list[dict[str, Any]]:
    """The rows that the search and the filter of a table leave."""
    view, field = state["views"][tab], TABLES[tab].choice
    return [
        row
        for row in state["tables"][tab]
        if view["filter"] in ("All", row[field])
        and any(view["query"].lower() in str(value).lower() for value in row.values())
    ]


def _to(state: State, elements: Sequence[Element], tab: str) -> Move | None:
    """To a table, with nothing lying over it."""
    if state["dialog"]:
        return HAND.tap(elements, ANSWERS[state["dialog"]["then"]])
    if state["form"]:
        return HAND.tap(elements, "cancel")
    return None if state["at"]["page"] == tab else HAND.tap(elements, f"{tab} tab")


def _find(state: State, elements: Sequence[Element], tab: str, key: str, part: str) -> Move | None:
    """Makes `part` of the row visible; None where it is. What is nowhere is searched for, then given up."""
    if move := _to(state, elements, tab):
        return move
    if shown(elements, part):
        return None
    view = state["views"][tab]
    if view["filter"] != "All":
        return HAND.tap(elements, "reset")
    if view["query"] != key:
        return HAND.enter(elements, "search box", key + "\n")
    return HAND.tap(elements, "first page") if row_of(state, tab, key) else HAND.give_up()


def missing(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """A search that does not find the user."""
    return _find(state, elements, "users", slots["missing"], f"tick of {slots['missing']}") or HAND.give_up()


def edit(tab: str, field: str, slot: str, value: str):
    """A cell of the row that `slot` names to the slot `value`."""

    def move(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
        part = f"{field} of {slots[slot]}"
        found = _find(state, elements, tab, slots[slot], part)
        return found or HAND.enter(elements, part, f"{slots[value]}\n")

    return move


def _choose(state: State, elements: Sequence[Element], tab: str, keys: Sequence[str]) -> Move | None:
    """Ticks these rows and no others; None where that is so."""
    chosen = state["views"][tab]["chosen"]
    if set(chosen) - set(keys):
        return _to(state, elements, tab) or HAND.tap(elements, "clear")
    for key in keys:
        if key not in chosen:
            return _find(state, elements, tab, key, f"box of {key}") or HAND.tap(elements, f"box of {key}")
    return None


def set_rows(tab: str, keys: Callable[[Slots], Sequence[str]], value: str):
    """Ticks rows and sets the bulk field of all of them."""

    def move(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
        wanted = [
            key for key in keys(slots) if (row := row_of(state, tab, key)) is None or _differs(row, tab, slots[value])
        ]
        found = _choose(state, elements, tab, wanted) or _to(state, elements, tab)
        return found or HAND.select(elements, "set list", slots[value])

    return move


def _differs(row: dict[str, Any], tab: str, value: str) -> bool:
    return row[TABLES[tab].choice] != value


def delete(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """Find, tick, delete, yes."""
    dialog, chosen = state["dialog"], state["views"]["users"]["chosen"]
    if dialog and dialog["then"] == "delete" and state["at"]["page"] == "users" and chosen == [slots["delete"]]:
        return HAND.tap(elements, "Yes, delete")
    found = _choose(state, elements, "users", [slots["delete"]]) or _to(state, elements, "users")
    return found or HAND.tap(elements, "delete")


def add(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """The form from top to bottom, and save."""
    if state["dialog"] or not state["form"]:
        return _to(state, elements, "users") or HAND.tap(elements, "add")
    form = state["form"]
    if form["city"]:
        return HAND.tap(elements, "cancel")
    for field in ("name", "mail"):
        if form[field].strip() != slots[f"add_{field}"]:
            return HAND.enter(elements, f"{field} box", slots[f"add_{field}"])
    if form["role"] != slots["add_role"]:
        return HAND.select(elements, "role list", slots["add_role"])
    return HAND.tap(elements, "save")


def contact(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """The order is looked up first (the search for it stays in its table); then its customer's role is set."""
    if row_of(state, "orders", slots["contact"]) is None:
        return _find(state, elements, "orders", slots["contact"], f"box of {slots['contact']}") or HAND.give_up()
    if state["views"]["orders"]["query"] != slots["contact"]:
        return _to(state, elements, "orders") or HAND.enter(elements, "search box", slots["contact"] + "\n")
    return set_rows("users", lambda slots: [slots["contact_user"]], "contact_role")(state, slots, elements)


def _sorted(state: State, elements: Sequence[Element], tab: str, field: str, direction: str) -> Move | None:
    if move := _to(state, elements, tab):
        return move
    wanted = {"field": field, "dir": direction}
    return None if state["views"][tab]["sort"] == wanted else HAND.tap(elements, f"{field} header")


def sort(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """Clicks on the header until the order is right."""
    return _sorted(state, elements, "orders", slots["sort"], slots["sort_dir"]) or HAND.wait(1)


def cheapest(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """Sort by price, then the first row."""
    view = state["views"]["stock"]
    if move := _to(state, elements, "stock"):
        return move
    if view["query"] or view["filter"] != "All":
        return HAND.tap(elements, "reset")
    if move := _sorted(state, elements, "stock", "price", "asc"):
        return move
    if view["page"] != 1:
        return HAND.tap(elements, "first page")
    if row_of(state, "stock", slots["cheapest"]) is None:  # deleted: another item stands there now
        return HAND.give_up()
    return HAND.enter(elements, f"count of {slots['cheapest']}", f"{slots['cheapest_count']}\n")


def _filtered_by(state: State, elements: Sequence[Element], status: str) -> Move | None:
    if move := _to(state, elements, "orders"):
        return move
    view = state["views"]["orders"]
    if view["query"]:
        return HAND.tap(elements, "reset")
    return None if view["filter"] == status else HAND.select(elements, "filter list", status)


def filter_orders(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """The status from the list."""
    return _filtered_by(state, elements, slots["filter"]) or HAND.wait(1)


def bulk(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """Filter, tick all, set."""
    chosen = state["views"]["orders"]["chosen"]
    wanted = sorted(row["number"] for row in state["tables"]["orders"] if row["status"] == slots["bulk_from"])
    if set(chosen) - set(wanted):
        return _to(state, elements, "orders") or HAND.tap(elements, "clear")
    if move := _filtered_by(state, elements, slots["bulk_from"]):
        return move
    if not wanted:
        return HAND.give_up()
    return (
        HAND.select(elements, "set list", slots["bulk_to"]) if chosen == wanted else HAND.tap(elements, "all rows box")
    )


def _summary(state: State, elements: Sequence[Element], status: str) -> Move | None:
    """Filter the orders and ask for their export; None where the dialog says what it will hold."""
    view, dialog = state["views"]["orders"], state["dialog"]
    right = state["at"]["page"] == "orders" and view["filter"] == status and not view["query"]
    if right and dialog and dialog["then"] == "export":
        return None
    return _filtered_by(state, elements, status) or HAND.tap(elements, "export")


def export(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """Filter, export, download."""
    return _summary(state, elements, slots["export"]) or HAND.tap(elements, "Download")


def total(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """Filter, export, read the sum."""
    return _summary(state, elements, slots["total"]) or HAND.answer(slots["total_answer"])


def _searched(state: State, elements: Sequence[Element], text: str) -> Move | None:
    if move := _to(state, elements, "users"):
        return move
    view = state["views"]["users"]
    if view["filter"] != "All":
        return HAND.tap(elements, "reset")
    return None if view["query"] == text else HAND.enter(elements, "search box", text + "\n")


def search(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """The town into the box, and Enter."""
    return _searched(state, elements, slots["search"]) or HAND.wait(1)


def count(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """Search for the town and count the rows."""
    return _searched(state, elements, slots["live"]) or HAND.answer(slots["live_answer"])


def page(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """A click on the number of the page."""
    if move := _to(state, elements, "stock"):
        return move
    view = state["views"]["stock"]
    if view["query"] or view["filter"] != "All":
        return HAND.tap(elements, "reset")
    return HAND.tap(elements, f"page {slots['page']}")
