"""The script's moves through the app `market`, by what the page has shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...virtual.app import Slots, State
from ...virtual.gestures import Element, Move
from ..web import HAND, shown, towards
from .content import DELIVERIES, PAYMENTS
from .state import listed, order_of, product

Found = Sequence[Element]
FIELDS = ("name", "street", "city")


def wanted(slots: Slots, kind: str) -> dict[str, Any]:
    """What the subtask `kind` wants to be ordered; where it says no address, the account's, which is `usual`."""
    line = {"name": slots[kind], "option": slots[f"{kind}_option"], "count": slots[f"{kind}_count"]}
    more = {key: slots.get(f"{kind}_{key}", "") for key in (*FIELDS, "delivery", "pay")}
    return {"lines": [line], "coupon": "", "gift": kind == "gift", "usual": slots["usual"], **more}


def seek(elements: Found, name: str, order: Sequence[str]) -> Move:
    """A click on `name` among the page's names from top to bottom, or the scroll towards it; once the end of a page
    that lacks it is in sight, the end of the task."""
    if name in order:
        return towards(elements, name, order) or HAND.tap(elements, name)
    return HAND.give_up() if not order or shown(elements, order[-1]) else HAND.scroll("down")


def _aside(state: State, elements: Found) -> Move | None:
    if not state["dialog"]:
        return None
    return HAND.tap(elements, state["dialog"].get("cancel") or state["dialog"]["ok"])


def _to(state: State, elements: Found, page: str, **more: str) -> Move | None:
    """The way to a page that the bar leads to; None where it is open."""
    if move := _aside(state, elements):
        return move
    return None if state["at"] == {"page": page, **more} else HAND.tap(elements, page)


def to_product(state: State, elements: Found, name: str) -> Move | None:
    """Search for the article and open it; None where it is open."""
    if move := _aside(state, elements):
        return move
    at, view = state["at"], state["view"]
    if at == {"page": "product", "name": name}:
        return None
    plain = not (view["category"] or view["brand"] or view["price"])
    if at["page"] == "list" and view["query"].lower() == name.lower() and plain:
        return seek(elements, f"article {name}", [f"article {one['name']}" for one in listed(state)])
    return HAND.enter(elements, "search box", name + "\n")


# --- the cart and the checkout ---------------------------------------------------------------------------------------
def _add(state: State, elements: Found, line: dict[str, Any]) -> Move:
    if move := to_product(state, elements, line["name"]):
        return move
    chosen, options = state["chosen"], product(state, line["name"])["options"]
    rows = ["heart", *(f"colour {option}" for option in options), "count list", "add to cart"]
    if chosen["option"] != line["option"]:
        if line["option"] in options:
            return seek(elements, f"colour {line['option']}", rows)
        return seek(elements, f"colour {line['option']}", rows[1:-2])
    if chosen["count"] != str(line["count"]):
        return towards(elements, "count list", rows) or HAND.select(elements, "count list", str(line["count"]))
    return seek(elements, "add to cart", rows)


def _cart_rows(state: State) -> list[str]:
    coupon = ["remove coupon"] if state["cart"]["coupon"] else ["coupon box", "apply"]
    return [*(f"remove {line['name']}" for line in state["cart"]["lines"]), *coupon, "checkout"]


def fill_cart(state: State, elements: Found, want: dict[str, Any]) -> Move | None:
    """Towards the cart that `want` asks for; None where it is so."""
    (line,), cart = want["lines"], state["cart"]
    if cart["lines"] == [line] and cart["coupon"] in ("", want["coupon"]):
        return None
    if cart["lines"]:
        wrong = f"remove {cart['lines'][0]['name']}" if cart["lines"] != [line] else "remove coupon"
        return _to(state, elements, "cart") or seek(elements, wrong, _cart_rows(state))
    return _add(state, elements, line)


def add(state: State, slots: Slots, elements: Found) -> Move:
    return fill_cart(state, elements, wanted(slots, "add")) or HAND.tap(elements, "cart")


def _redeem(state: State, elements: Found, code: str) -> Move | None:
    """Towards the coupon on the cart; what the shop refuses is given up."""
    if state["cart"]["coupon"] == code:
        return None
    if state["dialog"] and state["at"]["page"] == "cart" and state["code"].strip() == code:
        return HAND.give_up()
    if move := _to(state, elements, "cart"):
        return move
    rows = _cart_rows(state)
    if state["code"].strip() == code:
        return seek(elements, "apply", rows)
    return towards(elements, "coupon box", rows) or HAND.enter(elements, "coupon box", code)


def coupon(state: State, slots: Slots, elements: Found) -> Move:
    want = {**wanted(slots, "add"), "coupon": slots["coupon"]}
    return fill_cart(state, elements, want) or _redeem(state, elements, slots["coupon"]) or HAND.tap(elements, "cart")


def _buy(state: State, elements: Found, want: dict[str, Any]) -> Move:
    """From the right cart through the checkout's form to the order."""
    if want["coupon"] and (move := _redeem(state, elements, want["coupon"])):
        return move
    if state["at"] != {"page": "checkout"}:
        return _to(state, elements, "cart") or seek(elements, "checkout", _cart_rows(state))
    if move := _aside(state, elements):
        return move
    form = state["form"]
    rows = [
        *(f"{key} box" for key in (*FIELDS, "mail")), *(f"{name} delivery" for name, _ in DELIVERIES), "gift",
        *(f"{name} payment" for name in PAYMENTS), "place order",
    ]  # fmt: skip
    for key in FIELDS:
        text = want[key] or want["usual"][key]
        if form[key].strip() != text:
            return towards(elements, f"{key} box", rows) or HAND.enter(elements, f"{key} box", text)
    if form["delivery"] != want["delivery"]:
        return seek(elements, f"{want['delivery']} delivery", rows)
    if form["gift"] != want["gift"]:
        return seek(elements, "gift", rows)
    if form["pay"] != want["pay"]:
        return seek(elements, f"{want['pay']} payment", rows)
    return seek(elements, "place order", rows)


def ordering(kind: str):
    """The script of a whole order."""

    def move(state: State, slots: Slots, elements: Found) -> Move:
        want = wanted(slots, kind)
        return fill_cart(state, elements, want) or _buy(state, elements, want)

    return move


def checkout(state: State, slots: Slots, elements: Found) -> Move:
    given = {"coupon": slots.get("coupon", ""), "delivery": slots["checkout_delivery"], "pay": slots["checkout_pay"]}
    want = {**wanted(slots, "add"), **given}
    return fill_cart(state, elements, want) or _buy(state, elements, want)


# --- articles --------------------------------------------------------------------------------------------------------
def _on_product(slot: str, control: str):
    def move(state: State, slots: Slots, elements: Found) -> Move:
        one = product(state, slots[slot]) or {"options": []}
        rows = ["heart", *(f"colour {option}" for option in one["options"]), "count list", "add to cart"]
        return to_product(state, elements, slots[slot]) or seek(elements, control, rows)

    return move


wish, missing = _on_product("wish", "heart"), _on_product("missing", "heart")


def _on_wish(slot: str, control: str):
    """`control` of a line of the wish list."""

    def move(state: State, slots: Slots, elements: Found) -> Move:
        lines = [f"{word} {name}" for name in state["wish"] for word in ("open", "to cart", "unwish")]
        return _to(state, elements, "wish") or seek(elements, f"{control} {slots[slot]}", lines)

    return move


unwish, move = _on_wish("unwish", "unwish"), _on_wish("move", "to cart")


def review(state: State, slots: Slots, elements: Found) -> Move:
    """The form at the foot of the article."""
    if step := to_product(state, elements, slots["review"]):
        return step
    rows = ["heart", "count list", "add to cart", "stars list", "review box", "send review"]
    written = state["review"]
    if written["stars"] != slots["review_stars"]:
        return towards(elements, "stars list", rows) or HAND.select(elements, "stars list", slots["review_stars"])
    if written["words"].strip() != slots["review_words"]:
        return towards(elements, "review box", rows) or HAND.enter(elements, "review box", slots["review_words"])
    return seek(elements, "send review", rows)


def _filtered(state: State, elements: Found, want: dict[str, str]) -> Move | None:
    """Towards the list with the view `want`; None where it is open."""
    if step := _aside(state, elements):
        return step
    view = state["view"]
    if state["at"] != {"page": "list"} or view["category"] != want["category"] or view["query"]:
        return HAND.tap(elements, f"{want['category']} category")
    for key in ("brand", "price", "sort"):
        if key in want and view[key] != want[key]:
            return HAND.select(elements, f"{key} list", want[key])
    return None


def browse(state: State, slots: Slots, elements: Found) -> Move:
    want = {"category": slots["browse"], "brand": slots["browse_brand"]}
    return _filtered(state, elements, want) or HAND.tap(elements, f"{slots['browse']} category")


def category(state: State, slots: Slots, elements: Found) -> Move:
    return _aside(state, elements) or HAND.tap(elements, f"{slots['category']} category")


def cheapest(state: State, slots: Slots, elements: Found) -> Move:
    """The category by price, the heart of its first article."""
    want = {"category": slots["cheapest"], "brand": "", "price": "", "sort": "Price up"}
    if step := _filtered(state, elements, want):
        return step
    names = [one["name"] for one in listed(state)]
    return seek(
        elements, f"heart of {names[0]}", [f"{part} {name}" for name in names for part in ("heart of", "article")]
    )


# --- orders and the account ------------------------------------------------------------------------------------------
def to_order(state: State, elements: Found, number: str) -> Move | None:
    """Towards the order of this number; None where it is open."""
    if state["at"] == {"page": "order", "number": number}:
        return _aside(state, elements)
    rows = [f"order {one['number']}" for one in state["orders"]]
    return _to(state, elements, "orders") or seek(elements, f"order {number}", rows)


def cancel(state: State, slots: Slots, elements: Found) -> Move:
    if state["dialog"] and state["at"] == {"page": "order", "number": slots["cancel"]}:
        return HAND.tap(elements, state["dialog"]["ok"])
    return to_order(state, elements, slots["cancel"]) or seek(elements, "cancel order", ["cancel order"])


def send_back(state: State, slots: Slots, elements: Found) -> Move:
    """The order, the article, the reason."""
    at = {"page": "return", "number": slots["return_order"], "name": slots["send_back"]}
    if state["at"] == at:
        if step := _aside(state, elements):
            return step
        if state["back"]["reason"] != slots["return_reason"]:
            return HAND.select(elements, "reason list", slots["return_reason"])
        return HAND.tap(elements, "send return")
    if step := to_order(state, elements, slots["return_order"]):
        return step
    lines = order_of(state, slots["return_order"])["lines"]
    return seek(elements, f"return {slots['send_back']}", [f"return {line['name']}" for line in lines])


def relocate(state: State, slots: Slots, elements: Found) -> Move:
    if step := _to(state, elements, "account"):
        return step
    if state["edit"] is None:
        return HAND.tap(elements, "edit account")
    for key in ("street", "city"):
        if state["edit"][key].strip() != slots[f"relocate_{key}"]:
            return HAND.enter(elements, f"{key} box", slots[f"relocate_{key}"])
    return HAND.tap(elements, "save account")


def letter(state: State, slots: Slots, elements: Found) -> Move:
    return _to(state, elements, "account") or HAND.tap(elements, "newsletter")


# --- questions -------------------------------------------------------------------------------------------------------
def _asked(name: str, slot: str):
    def step(state: State, slots: Slots, elements: Found) -> Move:
        return to_product(state, elements, slots[slot]) or HAND.answer(slots[f"{name}_answer"])

    return step


ask_price, ask_fact = _asked("ask_price", "ask_price"), _asked("ask_fact", "ask_fact")


def ask_date(state: State, slots: Slots, elements: Found) -> Move:
    return to_order(state, elements, slots["ask_date"]) or HAND.answer(slots["ask_date_answer"])


def compare(state: State, slots: Slots, elements: Found) -> Move:
    """Both articles are looked at: the first is open or among the places left before the second is looked for."""
    seen = {"page": "product", "name": slots["compare"]} in (*state["past"], state["at"])
    target = slots["compare_with" if seen else "compare"]
    return to_product(state, elements, target) or HAND.answer(slots["compare_answer"])
