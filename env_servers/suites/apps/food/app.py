"""Food delivery: find restaurants and dishes, fill the cart, order, follow, cancel, review orders, keep addresses."""

from __future__ import annotations

import random

from ...virtual.app import START, CallDict, Slots, State, Subtask, ToolSpec
from ...virtual.words import without
from ..goals import answered, reached, touched, with_goals
from ..mobile import PHONE
from . import script
from .content import CARDS, CODES, DISHES, EXTRAS, KINDS, LABELS, NAMES, SIZES, SLOTS, STREETS, TIPS, WORDS
from .effects import ANSWERS, EFFECTS
from .state import NAME, dishes_of, initial, outcome, place_of, sample_state, screen_facts

CABINS = ("Cabin", "Boat house", "Grandma", "Office 2", "Choir room", "Allotment")
_ORDERS = ("order", "extra", "later", "reorder")
_PASSING = ("cart", "voucher")  # what comes after them may undo them


# --- the DAG ---------------------------------------------------------------------------------------------------------
def _call(tool: str, **arguments: object) -> CallDict:
    return {"name": f"{NAME}.{tool}", "arguments": arguments}


def _buying(kind: str):
    def call(slots: Slots) -> CallDict:
        want = script.wanted(slots, kind)
        (line,) = want["lines"]
        given = {"size": line["size"], "extra": "".join(line["extras"]), "address": want["address"], "pay": want["pay"]}
        given["time"] = "" if want["time"] == "Now" else want["time"]
        known = {key: value for key, value in given.items() if value}
        return _call("order", restaurant=want["place"], dish=line["dish"], count=line["count"], **known)

    return call


def _task(name: str, text: str, after: tuple[str, ...], at: str, actions: int, needs: tuple[str, ...] = (), **more):
    made = script.ordering(name) if name in ("order", "extra", "later") else getattr(script, name, None)
    move = made or script.put
    if name in ANSWERS:
        return Subtask(name, text, answered(name), move, (START, *after), at, actions, needs=needs, **more)
    return Subtask(name, text, reached(name, outcome), move, more.pop("starts", (START,)) + after, at, actions,
                   touches=touched(name), lasting=name not in _PASSING, needs=needs, **more)  # fmt: skip


SUBTASKS = (
    Subtask("kind", "Show only restaurants for {kind} on the first screen.",
            lambda state, slots: state["screen"] == "home" and state["kind"] == slots["kind"] and not state["dialog"],
            script.kind, (START,), "home", 2, lasting=False),
    _task("favourite", "Add {favourite} to the favourites.", ("kind",), "home", 2, ("favourite",), ends="restaurant",
          tool=lambda s: _call("set_favourite", restaurant=s["favourite"], favourite=True)),
    _task("unfavourite", "Remove {unfavourite} from the favourites.", ("favourite",), "account", 2,
          ("unfavourite",), ends="restaurant",
          tool=lambda s: _call("set_favourite", restaurant=s["unfavourite"], favourite=False)),
    _task("new", 'Save the new address "{new_label}": {new_street}.', ("favourite", "kind"), "account", 6,
          tool=lambda s: _call("add_address", label=s["new_label"], street=s["new_street"])),
    _task("default", 'Make "{default}" the default address.', ("new", "favourite"), "account", 2, ("default",),
          ends="address"),
    _task("remove", 'Delete the address "{remove}".', ("new", "default", "unfavourite"), "account", 2, ("remove",)),
    _task("card", "Make {card} the default payment.", ("default", "remove"), "account", 1, ("card",)),
    _task("cart", "Put {cart_count} {cart_words}{cart_dish} from {cart} into the cart.",
          ("favourite", "card", "remove"), "home", 6, ("cart", "cart_dish"), ends="restaurant"),
    _task("voucher", "Use the voucher {voucher} for the cart.", ("cart",), "cart", 3, ("voucher",), starts=()),
    _task("checkout", 'Order what is in the cart, delivered to "{checkout}".', ("cart", "voucher"), "cart", 4,
          ("checkout",), starts=(), ends="order"),
    _task("order", "Order {order_count} {order_words}{order_dish} from {order}.",
          ("favourite", "new", "default", "card"), "home", 9, ("order", "order_dish"), ends="order",
          tool=_buying("order")),
    _task("extra", 'Order {extra_count} {extra_words}{extra_dish} with {extra_extra} from {extra}, delivered to '
          '"{extra_to}".', ("kind", "unfavourite"), "home", 11,
          ("extra", "extra_dish", "extra_extra", "extra_to"), ends="order", tool=_buying("extra")),
    _task("later",
          "Order {later_count} {later_words}{later_dish} from {later} for {later_time}, paid with {later_pay}.",
          ("default", "remove"), "home", 12, ("later", "later_dish", "later_pay"), ends="order", tool=_buying("later")),
    _task("reorder", "Order the same from {reorder} as last time.", ("card", "default", "new"), "orders", 5,
          ("reorder",), ends="order"),
    _task("cancel", "Cancel the order from {cancel}.", (*_ORDERS, "checkout", "favourite"), "orders", 3, ("cancel",),
          ends="order", tool=lambda s: _call("cancel", restaurant=s["cancel"])),
    _task("rate", 'Review the past order from {rate}: {rate_stars} stars and the words "{rate_words}".',
          (*_ORDERS, "cancel", "checkout"), "orders", 7, ("rate",), ends="order",
          tool=lambda s: _call("review", restaurant=s["rate"], stars=s["rate_stars"], words=s["rate_words"])),
    _task("tip", "Tip the courier of the past order from {tip} ${tip_tip}.", ("rate", "cancel", "reorder"), "orders", 3,
          ("tip",), ends="order"),
    _task("ask_courier", "Who brings the order from {ask_courier}?", ("cancel", "tip", "favourite", "order"), "orders",
          2, ("ask_courier",), ends="order"),
    _task("ask_total", "How much was the past order from {ask_total} in total?", ("rate", "card", "remove"), "orders",
          3, ("ask_total",), ends="order"),
    _task("ask_price", "How much is {ask_price_dish} at {ask_price}?", ("kind", "tip", "cancel"), "home", 4,
          ("ask_price", "ask_price_dish"), ends="restaurant"),
    _task("cheapest", "Which restaurant has the lowest delivery fee?", ("unfavourite", "tip", "checkout"), "home", 3),
    Subtask("missing", "Cancel the order from {missing}.", lambda state, slots: False, script.missing,
            (START, "favourite", "rate"), "orders", 1, feasible=False),
)  # fmt: skip


# --- slots -----------------------------------------------------------------------------------------------------------
def _dish(rng: random.Random, state: State, kind: str, place: str, mains: bool = False) -> Slots:
    """A dish of `place` with size and count."""
    dish = rng.choice([dish for dish in dishes_of(place_of(state, place)) if dish["sized"] or not mains])
    size = rng.choice(("Small", "Large")) if dish["sized"] else ""
    return {
        f"{kind}_dish": dish["name"],
        f"{kind}_size": size,
        f"{kind}_words": f"{size.lower()} " if size else "",
        f"{kind}_count": rng.randint(1, 3),
    }


def fill(rng: random.Random, path: tuple[str, ...], state: State) -> Slots:
    """A restaurant and an address of its own for every subtask, and details that differ from what is there."""
    names = [place["name"] for place in state["places"]]
    status = {order["place"]: order["status"] for order in state["orders"]}
    free, labels = without(names, status), sorted(state["addresses"])
    past = [name for name in status if status[name] == "Delivered"]
    rng.shuffle(free), rng.shuffle(past), rng.shuffle(labels)
    others = without(labels, [state["address"]])
    slots: Slots = {
        "kind": rng.choice(state["places"])["kind"],
        "favourite": rng.choice(without(names, state["favourites"])),
        "unfavourite": rng.choice(state["favourites"]),
        "new_label": rng.choice(CABINS), "new_street": f"{rng.randint(1, 98)} {rng.choice(STREETS)}",
        "default": others[0], "remove": others[1], "checkout": others[2], "extra_to": others[2],
        "card": rng.choice(without(state["cards"], [state["pay"]])),
        "cancel": rng.choice([name for name in status if status[name] == "Placed"]),
        "reorder": past[0], "rate": past[1], "tip": past[2], "ask_total": past[3],
        "rate_stars": rng.randint(1, 5), "rate_words": rng.choice(WORDS), "tip_tip": rng.choice(TIPS),
        "missing": rng.choice([name for name in NAMES if name not in names]),
        "order": free[0], "extra": free[1], "later": free[2], "cart": free[0], "ask_price": rng.choice(names),
    }  # fmt: skip
    if "voucher" in path:
        slots["voucher"] = rng.choice(state["codes"])[0]
    for kind in ("cart", "order", "later"):
        slots |= _dish(rng, state, kind, slots[kind])
    slots |= _dish(rng, state, "extra", slots["extra"], mains=True)
    slots["extra_extra"] = rng.choice(place_of(state, slots["extra"])["extras"])[0]
    slots["later_time"] = rng.choice(state["slots"])
    slots["later_pay"] = rng.choice(without(state["cards"], [state["pay"], slots["card"]]))
    slots["ask_price_dish"] = rng.choice(dishes_of(place_of(state, slots["ask_price"])))["name"]
    coming = [name for name in status if status[name] in ("Preparing", "On the way")]
    slots["ask_courier"] = rng.choice(coming)
    slots["usual"] = {  # where to and how an order of this path goes unless the task says so
        "address": slots["default"] if "default" in path else state["address"],
        "pay": slots["card"] if "card" in path else state["pay"],
    }
    return with_goals(path, state, slots, outcome, EFFECTS, {k: v for k, v in ANSWERS.items() if k in path}, _PASSING)


_PLACE = {"type": "string", "description": "name of a restaurant"}
_TEXT = {"type": "string"}

TOOLS = (
    ToolSpec.of(
        f"{NAME}.order",
        "Order a dish: to the default address, now, with the default payment, unless told otherwise.",
        {"restaurant": _PLACE, "dish": _TEXT, "count": {"type": "integer", "description": "1 to 9"}},
        {"size": {**_TEXT, "enum": [size for size, _ in SIZES]}, "extra": _TEXT, "pay": _TEXT,
         "address": {**_TEXT, "description": "label of an address"}, "time": {**_TEXT, "description": "HH:MM"}},
    ),
    ToolSpec.of(f"{NAME}.cancel", "Cancel an order that is not being prepared yet.", {"restaurant": _PLACE}),
    ToolSpec.of(
        f"{NAME}.review", "Review a past order.",
        {"restaurant": _PLACE, "stars": {"type": "integer", "description": "1 to 5"}, "words": _TEXT},
    ),
    ToolSpec.of(
        f"{NAME}.set_favourite", "Add a restaurant to the favourites or remove it.",
        {"restaurant": _PLACE, "favourite": {"type": "boolean"}},
    ),
    ToolSpec.of(f"{NAME}.add_address", "Save a new address.", {"label": _TEXT, "street": _TEXT}),
)  # fmt: skip

APP = PHONE.app(
    NAME,
    ("framework7",),
    subtasks=SUBTASKS,
    tools=TOOLS,
    initial=initial,
    sample_state=sample_state,
    facts=screen_facts,
    fill=fill,
    outcome=outcome,
    home="home",
    names=(
        *NAMES, *DISHES, *CARDS, *SLOTS, "Now",
        *(f"order {name}" for name in NAMES), *(f"extra {name}" for name in EXTRAS),
        *(f"{word} {dish}" for word in ("more", "fewer") for dish in (*DISHES, "portions")),
        *(f"size {size}" for size, _ in SIZES), *(f"only {kind}" for kind in KINDS), "all kinds",
        *(f"{word} {label}" for word in ("address", "to") for label in (*LABELS, *CABINS)),
        *(f"sort by {key}" for key in ("place", "rating", "fee", "time")),
        *(f"star {n}" for n in range(1, 6)), *(f"tip {n}" for n in TIPS),
        *("home", "cart", "orders", "account", "search", "clear search", "filter", "back", "close", "add favourite"),
        *("remove favourite", "view cart", "add to cart", "empty cart", "code", "clear code", "apply"),
        *("checkout", "address", "time", "payment", "place order", "active", "past", "cancel order", "keep order"),
        *("confirm cancel", "order again", "write review", "review", "clear review", "send review", "add address"),
        *("make default", "delete address", "label", "clear label", "street", "clear street", "save address"),
        *("keep cart", "new cart", "remove voucher"),
    ),
    most_actions=22,
    pools={
        **dict.fromkeys(("favourite", "unfavourite", "cart", *_ORDERS, "cancel", "rate", "tip"), NAMES),
        **dict.fromkeys(("ask_courier", "ask_total", "ask_price"), NAMES),
        **dict.fromkeys(("cart_dish", "order_dish", "extra_dish", "later_dish", "ask_price_dish"), DISHES),
        **dict.fromkeys(("default", "remove", "checkout", "extra_to"), LABELS),
        **dict.fromkeys(("card", "later_pay"), CARDS),
        "extra_extra": EXTRAS,
        "voucher": tuple(code for code, _ in CODES),
    },
)  # fmt: skip
