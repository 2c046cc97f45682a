"""What each subtask of food does to a state, and what it asks for."""

from __future__ import annotations

from typing import Any

from ...virtual.app import Slots, State
from ..mobile import money
from .script import wanted
from .state import dishes_of, order_from, place_of, total


def _order(state: State, lines: list[dict[str, Any]], want: dict[str, Any]) -> None:
    """A new order, after which the cart is empty."""
    state["orders"].insert(0, {
        "number": max(one["number"] for one in state["orders"]) + 1, "place": want["place"], "lines": lines,
        "voucher": want["voucher"], "address": want["address"] or state["address"], "time": want["time"],
        "pay": want["pay"] or state["pay"], "tip": 0, "status": "Placed", "courier": "", "mins": 0, "stars": 0,
        "words": "",
    })  # fmt: skip
    state["cart"] = {"place": "", "lines": [], "voucher": ""}


def _ordering(kind: str):
    def effect(state: State, slots: Slots) -> None:
        want = wanted(slots, kind)
        _order(state, want["lines"], want)

    return effect


def _put(state: State, slots: Slots) -> None:
    want = wanted(slots, "cart")
    state["cart"] = {"place": want["place"], "lines": want["lines"], "voucher": ""}


def _checkout(state: State, slots: Slots) -> None:
    cart = state["cart"]
    _order(state, cart["lines"], {**wanted(slots, "cart"), "voucher": cart["voucher"], "address": slots["checkout"]})


def _reorder(state: State, slots: Slots) -> None:
    old = order_from(state, slots["reorder"], "Delivered")
    _order(state, old["lines"], {"place": old["place"], "voucher": "", "address": "", "time": "Now", "pay": ""})


EFFECTS = {
    "favourite": lambda state, slots: state["favourites"].append(slots["favourite"]),
    "unfavourite": lambda state, slots: state["favourites"].remove(slots["unfavourite"]),
    "cart": _put,
    "voucher": lambda state, slots: state["cart"].update(voucher=slots["voucher"]),
    "checkout": _checkout,
    **{kind: _ordering(kind) for kind in ("order", "extra", "later")},
    "reorder": _reorder,
    "cancel": lambda state, slots: order_from(state, slots["cancel"], "Placed").update(status="Cancelled"),
    "rate": lambda state, slots: order_from(state, slots["rate"], "Delivered").update(
        stars=slots["rate_stars"], words=slots["rate_words"]
    ),
    "tip": lambda state, slots: order_from(state, slots["tip"], "Delivered").update(tip=slots["tip_tip"]),
    "new": lambda state, slots: state["addresses"].update({slots["new_label"]: slots["new_street"]}),
    "default": lambda state, slots: state.update(address=slots["default"]),
    "remove": lambda state, slots: state["addresses"].pop(slots["remove"]),
    "card": lambda state, slots: state.update(pay=slots["card"]),
}


def _price(state: State, slots: Slots) -> str:
    dishes = dishes_of(place_of(state, slots["ask_price"]))
    return f"${money(next(dish['price'] for dish in dishes if dish['name'] == slots['ask_price_dish']))}"


ANSWERS = {
    "ask_courier": lambda state, slots: order_from(state, slots["ask_courier"], "Preparing", "On the way")["courier"],
    "ask_total": lambda state, slots: f"${money(total(state, order_from(state, slots['ask_total'], 'Delivered')))}",
    "ask_price": _price,
    "cheapest": lambda state, slots: min(state["places"], key=lambda place: place["fee"])["name"],
}
