"""What each subtask of the market does to a state, and what it asks for."""

from __future__ import annotations

from typing import Any

from ...virtual.app import Slots, State
from .script import FIELDS, wanted
from .state import euros, order_of, product


def _order(state: State, lines: list[dict[str, Any]], want: dict[str, Any]) -> None:
    """A new order, after which the cart is empty."""
    given = {key: want[key] or state["profile"][key] for key in FIELDS}
    kept = {key: want[key] for key in ("gift", "delivery", "pay", "coupon")}
    made = {"number": "", "date": "today", "status": "Being packed", "returns": {}, "new": True}
    state["orders"].insert(0, {"lines": lines, **made, **given, **kept})
    state["cart"] = {"lines": [], "coupon": ""}


def _ordering(kind: str):
    def effect(state: State, slots: Slots) -> None:
        want = wanted(slots, kind)
        _order(state, want["lines"], want)

    return effect


def _checkout(state: State, slots: Slots) -> None:
    cart = state["cart"]
    given = {"delivery": slots["checkout_delivery"], "pay": slots["checkout_pay"], "coupon": cart["coupon"]}
    _order(state, cart["lines"], {**wanted(slots, "add"), **given})


def _move(state: State, slots: Slots) -> None:
    name = slots["move"]
    state["wish"].remove(name)
    state["cart"]["lines"].append({"name": name, "option": product(state, name)["options"][0], "count": 1})


def _cheapest(state: State, slots: Slots) -> None:
    goods = [one for one in state["goods"] if one["category"] == slots["cheapest"]]
    state["wish"].append(min(goods, key=lambda one: one["price"])["name"])


def _review(state: State, slots: Slots) -> None:
    written = {"stars": slots["review_stars"], "words": slots["review_words"]}
    product(state, slots["review"])["reviews"].append(written)


EFFECTS = {
    "wish": lambda state, slots: state["wish"].append(slots["wish"]),
    "unwish": lambda state, slots: state["wish"].remove(slots["unwish"]),
    "cheapest": _cheapest,
    "move": _move,
    "add": lambda state, slots: state["cart"].update(lines=wanted(slots, "add")["lines"]),
    "coupon": lambda state, slots: state["cart"].update(coupon=slots["coupon"]),
    "checkout": _checkout,
    "buy": _ordering("buy"),
    "gift": _ordering("gift"),
    "cancel": lambda state, slots: order_of(state, slots["cancel"]).update(status="Cancelled"),
    "send_back": lambda state, slots: order_of(state, slots["return_order"])["returns"].update(
        {slots["send_back"]: slots["return_reason"]}
    ),
    "review": _review,
    "relocate": lambda state, slots: state["profile"].update(
        street=slots["relocate_street"], city=slots["relocate_city"]
    ),
    "letter": lambda state, slots: state.update(letter=not state["letter"]),
}


def _better(state: State, slots: Slots) -> str:
    return max((slots["compare"], slots["compare_with"]), key=lambda name: float(product(state, name)["rating"]))


ANSWERS = {
    "ask_price": lambda state, slots: euros(product(state, slots["ask_price"])["price"]),
    "ask_fact": lambda state, slots: product(state, slots["ask_fact"])["facts"][slots["fact"]],
    "ask_date": lambda state, slots: order_of(state, slots["ask_date"])["date"],
    "compare": _better,
}
