"""Food's scripts: from any state the next move towards what a subtask wants, by what the screen has shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...virtual.app import Element, Move, Slots, State
from ..mobile import HAND, shows, tap_in, write
from .content import TIPS
from .state import BARE, dishes_of, found, listed, place_of, rows_of

Found = Sequence[Element]


def wanted(slots: Slots, kind: str) -> dict[str, Any]:
    """What the subtask `kind` wants to be ordered; address and pay "": the default, which is `usual`."""
    extra = slots.get(f"{kind}_extra", "")
    line = {
        "dish": slots[f"{kind}_dish"],
        "size": slots[f"{kind}_size"],
        "extras": [extra] if extra else [],
        "count": slots[f"{kind}_count"],
    }
    return {
        "place": slots[kind],
        "lines": [line],
        "voucher": "",
        "address": slots.get(f"{kind}_to", ""),
        "time": slots.get(f"{kind}_time", "Now"),
        "pay": slots.get(f"{kind}_pay", ""),
        "usual": slots["usual"],
    }


def seek(elements: Found, name: str, order: Sequence[str]) -> Move:
    """A tap on `name` in the list that shows `order`, or the swipe towards it; once the end of a list that lacks it is
    in sight, the end of the task."""
    if name in order:
        return tap_in(elements, name, order)
    return HAND.give_up() if not order or shows(elements, order[-1]) else HAND.swipe("up")


def to_tab(state: State, elements: Found, tab: str) -> Move | None:
    """The move towards the tab's own screen with nothing over it, None where it is open."""
    if state["dialog"]:
        keep = {"cancel": "keep order", "replace": "keep cart"}.get(state["dialog"], "close")
        return HAND.tap(elements, keep)
    if state["screen"] == tab:
        return None
    return HAND.tap(elements, "back" if state["screen"] in BARE else tab)


def to_place(state: State, elements: Found, name: str) -> Move | None:
    """Towards the restaurant `name`, by the list or by the search; None where it is open."""
    if state["screen"] == "restaurant" and state["place"] == name and not state["dialog"]:
        return None
    if state["screen"] == "search":
        typed = write(elements, state["focus"], "search", state["query"], name)
        return typed or seek(elements, name, found(state))
    if move := to_tab(state, elements, "home"):
        return move
    return HAND.tap(elements, name if shows(elements, name) else "search")


# --- ordering --------------------------------------------------------------------------------------------------------
def _add(state: State, elements: Found, want: dict[str, Any]) -> Move:
    """Towards the one line of `want` in the cart, which is empty."""
    (line,), draft = want["lines"], state["line"]
    if state["screen"] != "dish" or state["place"] != want["place"] or draft["dish"] != line["dish"]:
        menu = [dish["name"] for dish in dishes_of(place_of(state, want["place"]) or {"menu": []})]
        return to_place(state, elements, want["place"]) or seek(elements, line["dish"], menu)
    if state["dialog"]:
        return HAND.tap(elements, "keep cart")
    place = place_of(state, want["place"])
    extras = [f"extra {name}" for name, _ in place["extras"]]
    rows = [*(f"size {size}" for size in ("Small", "Regular", "Large")), *extras, "fewer portions", "more portions"]
    if draft["size"] != line["size"]:
        return tap_in(elements, f"size {line['size']}", rows)
    for name in sorted(set(draft["extras"]) ^ set(line["extras"])):
        return seek(elements, f"extra {name}", rows if f"extra {name}" in extras else extras)
    if draft["count"] != line["count"]:
        return tap_in(elements, f"{'more' if draft['count'] < line['count'] else 'fewer'} portions", rows)
    return HAND.tap(elements, "add to cart")


def fill_cart(state: State, elements: Found, want: dict[str, Any]) -> Move | None:
    """Towards the cart that `want` asks for; None where it is so."""
    cart = state["cart"]
    if cart["place"] == want["place"] and cart["lines"] == want["lines"] and cart["voucher"] in ("", want["voucher"]):
        return None
    if cart["lines"]:
        return to_tab(state, elements, "cart") or HAND.tap(elements, "empty cart")
    return _add(state, elements, want)


def put(state: State, slots: Slots, elements: Found) -> Move:
    return fill_cart(state, elements, wanted(slots, "cart"))


def _redeem(state: State, elements: Found, code: str) -> Move | None:
    """Towards the voucher on the cart; what the app refuses is given up."""
    if state["cart"]["voucher"] == code:
        return None
    if state["screen"] == "cart" and state["dialog"] == "voucher" and state["code"] == code:
        return HAND.give_up()
    if move := to_tab(state, elements, "cart"):
        return move
    rows = [f"more {line['dish']}" for line in state["cart"]["lines"]]
    if not shows(elements, "code") and not shows(elements, "apply"):
        return tap_in(elements, "code", [*rows, "code"])
    return write(elements, state["focus"], "code", state["code"], code) or HAND.tap(elements, "apply")


def voucher(state: State, slots: Slots, elements: Found) -> Move:
    want = {**wanted(slots, "cart"), "voucher": slots["voucher"]}
    return fill_cart(state, elements, want) or _redeem(state, elements, want["voucher"]) or HAND.tap(elements, "cart")


def _pay(state: State, elements: Found, want: dict[str, Any]) -> Move:
    """On the checkout, with the right cart: what is not as `want` says, then the order."""
    check = state["check"]
    address, pay = (want[key] or want["usual"][key] for key in ("address", "pay"))
    match state["dialog"]:
        case "address":
            return seek(elements, f"to {address}", [f"to {label}" for label in sorted(state["addresses"])])
        case "time":
            return seek(elements, want["time"], ["Now", *state["slots"]])
        case "payment":
            return seek(elements, pay, state["cards"])
    rows = ["address", "time", "payment", *(f"tip {n}" for n in TIPS)]
    if check["address"] != address:
        return tap_in(elements, "address", rows)
    if check["time"] != want["time"]:
        return tap_in(elements, "time", rows)
    if check["pay"] != pay:
        return tap_in(elements, "payment", rows)
    if check["tip"]:
        return tap_in(elements, f"tip {check['tip']}", rows)
    return HAND.tap(elements, "place order")


def _buy(state: State, elements: Found, want: dict[str, Any]) -> Move:
    """From the right cart to the order."""
    if want["voucher"] and (move := _redeem(state, elements, want["voucher"])):
        return move
    if state["screen"] == "checkout":
        return _pay(state, elements, want)
    return to_tab(state, elements, "cart") or HAND.tap(elements, "checkout")


def ordering(kind: str):
    """The script of a whole order."""

    def move(state: State, slots: Slots, elements: Found) -> Move:
        want = wanted(slots, kind)
        return fill_cart(state, elements, want) or _buy(state, elements, want)

    return move


def checkout(state: State, slots: Slots, elements: Found) -> Move:
    want = {**wanted(slots, "cart"), "voucher": slots.get("voucher", ""), "address": slots["checkout"]}
    return fill_cart(state, elements, want) or _buy(state, elements, want)


# --- orders ----------------------------------------------------------------------------------------------------------
def _open(state: State) -> dict[str, Any]:
    return next((one for one in state["orders"] if one["number"] == state["number"]), {"place": "", "status": ""})


def to_order(state: State, elements: Found, name: str, segment: str) -> Move | None:
    """Towards the order from `name` among those that are active or past; None where it is open."""
    past = _open(state)["status"] in ("Delivered", "Cancelled")
    if state["screen"] in ("order", "review") and _open(state)["place"] == name and past == (segment == "past"):
        return None
    if move := to_tab(state, elements, "orders"):
        return move
    if state["segment"] != segment:
        return HAND.tap(elements, segment)
    return seek(elements, f"order {name}", [f"order {place}" for place in rows_of(state)])


def _on_order(state: State, elements: Found, name: str, segment: str, control: str) -> Move:
    """`control` of an open order."""
    if move := to_order(state, elements, name, segment):
        return move
    if state["dialog"] or state["screen"] == "review":
        return to_tab(state, elements, "orders")
    return tap_in(elements, control, [control])


def reorder(state: State, slots: Slots, elements: Found) -> Move:
    old = next(
        (o for o in reversed(state["orders"]) if o["place"] == slots["reorder"] and o["status"] == "Delivered"), None
    )
    cart = state["cart"]
    if old and cart["place"] == old["place"] and cart["lines"] == old["lines"] and not cart["voucher"]:
        want = {"voucher": "", "address": "", "time": "Now", "pay": "", "usual": slots["usual"]}
        return _buy(state, elements, want)
    if cart["lines"]:
        return to_tab(state, elements, "cart") or HAND.tap(elements, "empty cart")
    return _on_order(state, elements, slots["reorder"], "past", "order again")


def cancel(state: State, slots: Slots, elements: Found) -> Move:
    if move := to_order(state, elements, slots["cancel"], "active"):
        return move
    if state["dialog"] == "cancel":
        return HAND.tap(elements, "confirm cancel")
    return _on_order(state, elements, slots["cancel"], "active", "cancel order")


def rate(state: State, slots: Slots, elements: Found) -> Move:
    if move := to_order(state, elements, slots["rate"], "past"):
        return move
    if state["screen"] != "review":
        return _on_order(state, elements, slots["rate"], "past", "write review")
    if state["stars"] != slots["rate_stars"]:
        return HAND.tap(elements, f"star {slots['rate_stars']}")
    typed = write(elements, state["focus"], "review", state["text"], slots["rate_words"])
    return typed or HAND.tap(elements, "send review")


def tip(state: State, slots: Slots, elements: Found) -> Move:
    return _on_order(state, elements, slots["tip"], "past", f"tip {slots['tip_tip']}")


def missing(state: State, slots: Slots, elements: Found) -> Move:
    return to_order(state, elements, slots["missing"], "active") or HAND.give_up()


# --- the rest --------------------------------------------------------------------------------------------------------
def favourite(state: State, slots: Slots, elements: Found) -> Move:
    return to_place(state, elements, slots["favourite"]) or HAND.tap(elements, "add favourite")


def _rows(state: State) -> list[str]:
    """Names of the account's rows from top to bottom."""
    parts = {
        "addresses": [*(f"address {label}" for label in sorted(state["addresses"])), "add address"],
        "payment": state["cards"],
        "favourites": state["favourites"],
    }
    return [name for part in state["layout"]["account"] for name in parts[part]]


def account_row(state: State, elements: Found, name: str) -> Move:
    return to_tab(state, elements, "account") or seek(elements, name, _rows(state))


def unfavourite(state: State, slots: Slots, elements: Found) -> Move:
    name = slots["unfavourite"]
    if state["screen"] == "restaurant" and state["place"] == name and name in state["favourites"]:
        return HAND.tap(elements, "remove favourite")
    return account_row(state, elements, name)


def _on_address(slot: str, control: str):
    def move(state: State, slots: Slots, elements: Found) -> Move:
        if state["screen"] == "address" and state["label"] == slots[slot] and not state["dialog"]:
            return HAND.tap(elements, control)
        return account_row(state, elements, f"address {slots[slot]}")

    return move


default, remove = _on_address("default", "make default"), _on_address("remove", "delete address")


def new(state: State, slots: Slots, elements: Found) -> Move:
    if state["screen"] != "new" or state["dialog"]:
        return account_row(state, elements, "add address")
    for field in ("label", "street"):
        if move := write(elements, state["focus"], field, state["draft"][field], slots[f"new_{field}"]):
            return move
    return HAND.tap(elements, "save address")


def card(state: State, slots: Slots, elements: Found) -> Move:
    return account_row(state, elements, slots["card"])


def _filter(state: State, elements: Found, choice: str) -> Move:
    if state["screen"] == "home" and state["dialog"] == "filter":
        return HAND.tap(elements, choice)
    return to_tab(state, elements, "home") or HAND.tap(elements, "filter")


def kind(state: State, slots: Slots, elements: Found) -> Move:
    if state["kind"] == slots["kind"]:
        return to_tab(state, elements, "home") or HAND.tap(elements, "home")
    return _filter(state, elements, f"only {slots['kind']}")


def ask_courier(state: State, slots: Slots, elements: Found) -> Move:
    answer = HAND.answer(slots.get("ask_courier_answer", ""))
    return to_order(state, elements, slots["ask_courier"], "active") or answer


def ask_total(state: State, slots: Slots, elements: Found) -> Move:
    move = to_order(state, elements, slots["ask_total"], "past")
    if not move and state["screen"] == "review":
        return HAND.tap(elements, "back")
    return move or HAND.answer(slots["ask_total_answer"])


def ask_price(state: State, slots: Slots, elements: Found) -> Move:
    """The menu shows the price beside the dish."""
    if move := to_place(state, elements, slots["ask_price"]):
        return move
    if shows(elements, slots["ask_price_dish"]):
        return HAND.answer(slots["ask_price_answer"])
    return seek(
        elements, slots["ask_price_dish"], [dish["name"] for dish in dishes_of(place_of(state, state["place"]))]
    )


def cheapest(state: State, slots: Slots, elements: Found) -> Move:
    """The list by delivery fee, its first line."""
    if state["kind"]:
        return _filter(state, elements, "all kinds")
    if state["sort"] != "fee":
        return _filter(state, elements, "sort by fee")
    if move := to_tab(state, elements, "home"):
        return move
    return HAND.answer(slots["cheapest_answer"]) if shows(elements, listed(state)[0]) else HAND.swipe("down")
