"""Food's states, what its screens say, and what a task's deeds do to them.

State JSON: layout · screen home|search|restaurant|dish|cart|checkout|orders|order|review|account|address|new ·
dialog ""|filter|address|time|payment|cancel|replace|voucher|refused · focus · query · kind, sort (of the home screen) ·
places [{name, kind, rating, mins, fee (cents), hue, menu [{section, dishes [{name, price, sized}]}], extras [[name,
cents]]}] · place (the open one) · line {dish, size, extras, count} (of the open dish) · cart {place, lines, voucher} ·
code (typed voucher) · check {address, time, pay, tip} (the checkout) · orders [{number, place, lines, voucher, address,
time, pay, tip, status, courier, mins (0: ordered now), stars, words}] · number (the open order) · segment active|past ·
stars, text (of the review being written) · addresses {label: street}, address (default label), label (the open one),
draft {label, street} · favourites · cards, pay · codes [[code, per cent]] · slots · answer.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from ...virtual.app import State, generator
from ...virtual.words import fact, yes
from ..mobile import look, money
from .content import CARDS, CODES, COURIERS, LABELS, SIZES, SLOTS, STREETS, TIPS, WORDS, restaurants

NAME = "food"
STAGES = ("Placed", "Preparing", "On the way", "Delivered")
BARE = ("search", "dish", "checkout", "review", "new")  # screens without the tabs


def place_of(state: State, name: str) -> dict[str, Any] | None:
    """The restaurant of this name, or None."""
    return next((place for place in state["places"] if place["name"] == name), None)


def dishes_of(place: dict[str, Any]) -> list[dict[str, Any]]:
    """The dishes of a restaurant in the order of its menu."""
    return [dish for part in place["menu"] for dish in part["dishes"]]


def order_from(state: State, name: str, *statuses: str) -> dict[str, Any] | None:
    """The oldest order from a restaurant (of these statuses), or None."""
    fitting = (one for one in reversed(state["orders"]) if one["place"] == name)
    return next((one for one in fitting if not statuses or one["status"] in statuses), None)


def cost(state: State, name: str, line: dict[str, Any]) -> int:
    """Cents of a line of a cart or an order."""
    place = place_of(state, name)
    one = next(dish["price"] for dish in dishes_of(place) if dish["name"] == line["dish"])
    one += dict(SIZES).get(line["size"], 0) + sum(cents for extra, cents in place["extras"] if extra in line["extras"])
    return one * line["count"]


def total(state: State, order: dict[str, Any]) -> int:
    """Cents of an order: dishes less the voucher, delivery, tip."""
    dishes = sum(cost(state, order["place"], line) for line in order["lines"])
    off = dishes * dict(map(tuple, state["codes"])).get(order["voucher"], 0) // 100
    return dishes - off + place_of(state, order["place"])["fee"] + 100 * order["tip"]


def _line(rng: random.Random, place: dict[str, Any], dish: dict[str, Any]) -> dict[str, Any]:
    extras = sorted(rng.sample([extra for extra, _ in place["extras"]], rng.choice((0, 0, 1))))
    size = rng.choice(SIZES)[0] if dish["sized"] else ""
    return {"dish": dish["name"], "size": size, "extras": extras, "count": rng.choice((1, 1, 2, 3))}


def _lines(rng: random.Random, place: dict[str, Any]) -> list[dict[str, Any]]:
    return [_line(rng, place, dish) for dish in rng.sample(dishes_of(place), rng.choice((1, 2, 2)))]


def _orders(rng: random.Random, state: State) -> list[dict[str, Any]]:
    """Newest first: three that are under way, four that have come."""
    number, made = rng.randrange(2000, 8000), []
    statuses = (*("Delivered",) * 4, *rng.sample(("Placed", "Placed", "Preparing", "On the way"), 3))
    for k, (place, status) in enumerate(zip(rng.sample(state["places"], 7), statuses, strict=True)):
        made.append({
            "number": number + k, "place": place["name"], "lines": _lines(rng, place), "voucher": "",
            "address": rng.choice(sorted(state["addresses"])), "time": rng.choice(("Now", "Now", *state["slots"])),
            "pay": rng.choice(state["cards"]), "tip": 0, "status": status,
            "courier": "" if status == "Placed" else rng.choice(COURIERS), "mins": rng.randrange(8, 45),
            "stars": 0, "words": "",
        })  # fmt: skip
    return made[::-1]


def _content(rng: random.Random) -> State:
    labels = ["Home", *rng.sample(LABELS[1:], 3)]
    streets = rng.sample(STREETS, 4)
    state: State = {
        "layout": {
            **look(rng),
            "brand": rng.choice(("Forkful", "Dishdash", "Tasty Go", "Bring It")),
            "cards": rng.choice(("photo", "row")),
            "account": rng.sample(("addresses", "payment", "favourites"), 3),
        },
        "screen": "home", "dialog": "", "focus": "", "query": "", "kind": "", "sort": "",
        "places": restaurants(rng, 10), "place": "", "line": None,
        "cart": {"place": "", "lines": [], "voucher": ""}, "code": "",
        "check": {"address": "", "time": "Now", "pay": "", "tip": 0},
        "number": 0, "segment": "active", "stars": 0, "text": "",
        "addresses": {label: f"{rng.randint(1, 98)} {street}" for label, street in zip(labels, streets, strict=True)},
        "address": rng.choice(labels[:2]), "label": "", "draft": {"label": "", "street": ""},
        "cards": rng.sample(CARDS, 4), "slots": sorted(rng.sample(SLOTS, 5)),
        "codes": [list(row) for row in rng.sample(CODES, 2)], "answer": "",
    }  # fmt: skip
    state["pay"] = rng.choice(state["cards"])
    state["orders"] = _orders(rng, state)
    state["favourites"] = sorted(rng.sample([place["name"] for place in state["places"]], rng.randint(2, 3)))
    return state


def initial(seed: int) -> State:
    """The restaurants; the cart is empty, three orders are under way, four have come."""
    return _content(generator(NAME, "initial", seed))


def sample_state(seed: int) -> State:
    """Any screen of the app, with any sheet over it that it can have."""
    rng = generator(NAME, "sample", seed)
    state = _content(rng)
    place = rng.choice(state["places"])
    if rng.random() < 0.5:
        state["cart"] = {"place": place["name"], "lines": _lines(rng, place), "voucher": ""}
    if state["cart"]["lines"] and rng.random() < 0.3:
        state["cart"]["voucher"] = state["codes"][0][0]
    screens = ("home", "search", "restaurant", "dish", "cart", "orders", "order", "account", "address", "new", "review")
    screen = rng.choice((*screens, "checkout") if state["cart"]["lines"] else screens)
    state["screen"] = screen
    match screen:
        case "home":
            state |= {"kind": rng.choice(("", place["kind"])), "sort": rng.choice(("", "rating", "fee", "time"))}
            state["dialog"] = rng.choice(("", "", "filter"))
        case "search":
            dish = rng.choice(dishes_of(place))["name"]
            state |= {"focus": "search", "query": rng.choice(("", place["name"], place["name"][:3], dish))}
        case "restaurant":
            state["place"] = place["name"]
        case "dish":
            state |= {"place": place["name"], "line": _line(rng, place, rng.choice(dishes_of(place)))}
        case "checkout":
            state["check"] = {
                "address": state["address"], "time": rng.choice(("Now", *state["slots"])), "pay": state["pay"],
                "tip": rng.choice((0, 0, *TIPS)),
            }  # fmt: skip
            state["dialog"] = rng.choice(("", "", "address", "time", "payment"))
        case "orders":
            state["segment"] = rng.choice(("active", "past"))
        case "order":
            order = rng.choice(state["orders"])
            if order["status"] == "Delivered":
                order |= {"stars": rng.choice((0, 3, 5)), "tip": rng.choice((0, *TIPS))}
            state["number"] = order["number"]
            state["dialog"] = rng.choice(("", "cancel")) if order["status"] == "Placed" else ""
        case "review":
            past = [order for order in state["orders"] if order["status"] == "Delivered"]
            state |= {
                "number": rng.choice(past)["number"],
                "stars": rng.randint(0, 5),
                "text": rng.choice(("", *WORDS)),
            }
        case "address":
            state["label"] = rng.choice(sorted(state["addresses"]))
        case "new":
            state["draft"]["label"] = rng.choice(("", "Cabin", "Boat house"))
    return state


def listed(state: State) -> list[str]:
    """Names of the restaurants that the home screen lists, in its order."""
    key = {
        "": lambda place: 0, "rating": lambda place: -float(place["rating"]),
        "fee": lambda place: place["fee"], "time": lambda place: place["mins"],
    }[state["sort"]]  # fmt: skip
    return [place["name"] for place in sorted(state["places"], key=key) if state["kind"] in ("", place["kind"])]


def found(state: State) -> list[str]:
    """Names of the restaurants that the search lists."""
    wanted = state["query"].strip().lower()
    words = (
        (one["name"], [one["name"], one["kind"], *(dish["name"] for dish in dishes_of(one))]) for one in state["places"]
    )
    return [name for name, texts in words if any(wanted in text.lower() for text in texts)]


def rows_of(state: State) -> list[str]:
    """Places of the orders that the orders' screen lists."""
    active = state["segment"] == "active"
    return [one["place"] for one in state["orders"] if (one["status"] in STAGES[:3]) == active]


def screen_facts(state: State) -> list[tuple[str, str]]:
    """Questions that the present screen answers."""
    if state["dialog"]:
        titles = {
            "filter": "filter",
            "address": "address",
            "time": "time",
            "payment": "payment",
            "cancel": "cancel order",
            "replace": "new cart",
            "voucher": "not valid",
            "refused": "not possible",
        }
        return [("Which dialog is open?", titles[state["dialog"]])]
    match state["screen"]:
        case "home":
            return [("Which kind of food is chosen?", state["kind"] or "all")]
        case "search":
            return [("What is in the search box?", state["query"] or "nothing"),
                    ("How many restaurants were found?", str(len(found(state))))]  # fmt: skip
        case "restaurant":
            place = place_of(state, state["place"])
            return [
                ("Which restaurant is open?", place["name"]),
                ("What is the rating?", place["rating"]),
                ("How much is the delivery?", f"${money(place['fee'])}"),
                ("Is it a favourite?", yes(place["name"] in state["favourites"])),
            ]
        case "dish":
            line = state["line"]
            return [("Which dish is open?", line["dish"]), ("How many portions are chosen?", str(line["count"]))]
        case "cart" if state["cart"]["lines"]:
            cart = state["cart"]
            return [
                ("Which restaurant is the cart from?", cart["place"]),
                *((f"How many {line['dish']} are in the cart?", str(line["count"])) for line in cart["lines"]),
            ]
        case "checkout":
            check = state["check"]
            return [("Where is it delivered to?", check["address"]), ("Which payment is chosen?", check["pay"]),
                    ("When is it delivered?", check["time"])]  # fmt: skip
        case "orders":
            return [("How many orders are listed?", str(len(rows_of(state))))]
        case "order":
            order = next(one for one in state["orders"] if one["number"] == state["number"])
            bring = [("Who brings the order?", order["courier"])] if order["courier"] else []
            return [
                ("Which restaurant is the order from?", order["place"]),
                ("What is the status of the order?", order["status"]),
                ("How much is the order?", f"${money(total(state, order))}"),
                *bring,
            ]
        case "review":
            return [("How many stars are given?", str(state["stars"]))]
        case "address":
            return [("Which street is it?", state["addresses"][state["label"]])]
        case "account" if state["layout"]["account"][0] == "payment":
            return [("What is the default payment?", state["pay"])]
        case "account" if state["layout"]["account"][0] == "addresses":
            return [("Which address is the default?", state["address"])]
    return [("Which screen is open?", state["screen"])]


def _words(line: dict[str, Any]) -> str:
    return " ".join((str(line["count"]), line["size"], line["dish"], *line["extras"]))


def outcome(state: State) -> dict[str, Any]:
    """Favourites, addresses, payment, cart, the orders there were, and what has been ordered and not cancelled."""
    cart = state["cart"]
    made = Counter(
        fact(
            "new",
            one["place"],
            *sorted(map(_words, one["lines"])),
            *(str(one[k]) for k in ("voucher", "address", "time", "pay", "tip")),
        )
        for one in state["orders"]
        if one["mins"] == 0 and one["status"] != "Cancelled"
    )
    return {
        "pay": state["pay"],
        "address": state["address"],
        "cart": [cart["place"], sorted(map(_words, cart["lines"])), cart["voucher"]] if cart["lines"] else [],
        **{fact("favourite", name): True for name in state["favourites"]},
        **{fact("street", label): street for label, street in state["addresses"].items()},
        **{
            fact(key, one["place"]): one[key]
            for one in state["orders"]
            if one["mins"]
            for key in ("status", "stars", "words", "tip")
        },
        **made,
    }
