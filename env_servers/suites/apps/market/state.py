"""Market's states, what its screens say, and what a task's deeds do to them.

State JSON: layout {theme, brand, side, columns, cats} · at (the place) {page: home|list|product|cart|checkout|orders|
order|return|wish|account, and of some a name or number} · past · scroll · typed (in the search box) · view {category,
query, brand, price, sort} of the list · goods [{name, category, brand, price (cents), rating, options, hue, text,
facts, reviews [{stars, words}] of the customer}] · chosen {option, count} of the open article · review {stars, words}
being written · cart {lines [{name, option, count}], coupon} · code (typed coupon) · form {name, street, city, mail,
delivery, pay, gift} (the checkout) · back {reason, words} (the return being written) · orders [{number, date, status,
lines, name, street, city, gift, delivery, pay, coupon, returns {article: reason}, new}] · wish [names] · profile {name,
street, city, mail} · edit (of the profile) or null · letter (newsletter) · coupons [[code, per cent]] · dialog ·
toast · answer.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from ...virtual.app import State, generator
from ...virtual.words import fact, yes
from ..web import address, layout, people
from .content import CATEGORIES, COUPONS, DELIVERIES, PAYMENTS, REASONS, WORDS, orders, products, profile

NAME = "market"
BRAND_NAMES = ("Corner Store", "Everyday", "Homely", "Bazaar", "Good Finds")
PRICES = {"Under 20": (0, 2000), "20 to 50": (2000, 5000), "Over 50": (5000, 10**6)}
SORTS = ("Our choice", "Price up", "Price down", "Rating")


def product(state: State, name: str) -> dict[str, Any] | None:
    """The article of this name, or None."""
    return next((one for one in state["goods"] if one["name"] == name), None)


def order_of(state: State, number: str) -> dict[str, Any] | None:
    """The order of this number, or None."""
    return next((one for one in state["orders"] if one["number"] == number), None)


def euros(cents: int) -> str:
    """ "12.50"."""
    return f"{cents // 100}.{cents % 100:02d}"


def total(state: State, order: dict[str, Any]) -> int:
    """Cents of an order: articles less the coupon, and delivery."""
    sum_ = sum(product(state, line["name"])["price"] * line["count"] for line in order["lines"])
    off = sum_ * dict(map(tuple, state["coupons"])).get(order["coupon"], 0) // 100
    return sum_ - off + dict(DELIVERIES)[order["delivery"]]


def blank(state: State) -> dict[str, Any]:
    """The checkout as it opens: the account's address, nothing chosen."""
    return {**state["profile"], "delivery": "", "pay": "", "gift": False}


def _content(rng: random.Random) -> State:
    (name,) = people(rng, 1)
    goods, about = products(rng), profile(rng, name, address(name))
    names = [one["name"] for one in goods]
    return {
        "layout": {
            **layout(rng, brand=BRAND_NAMES, side=("left", "left", "right"), columns=(3, 4)),
            "cats": rng.sample(CATEGORIES, len(CATEGORIES)),
        },
        "at": {"page": "home"}, "past": [], "scroll": 0, "typed": "",
        "view": {"category": "", "query": "", "brand": "", "price": "", "sort": SORTS[0]},
        "goods": goods, "chosen": {"option": "", "count": "1"}, "review": {"stars": "", "words": ""},
        "cart": {"lines": [], "coupon": ""}, "code": "", "form": None, "back": {"reason": "", "words": ""},
        "orders": orders(rng, goods, about), "wish": sorted(rng.sample(names, rng.randint(2, 4))),
        "profile": about, "edit": None, "letter": rng.random() < 0.5,
        "coupons": [list(one) for one in rng.sample(COUPONS, 2)], "dialog": None, "toast": "", "answer": "",
    }  # fmt: skip


def initial(seed: int) -> State:
    """The first page; thirty articles, seven orders, an empty cart."""
    return _content(generator(NAME, "initial", seed))


def sample_state(seed: int) -> State:
    """Any page of the shop."""
    rng = generator(NAME, "sample", seed)
    state = _content(rng)
    one, order = rng.choice(state["goods"]), rng.choice(state["orders"])
    if rng.random() < 0.5:
        others = rng.sample(state["goods"], rng.randint(1, 3))
        lines = [{"name": it["name"], "option": rng.choice(it["options"]), "count": rng.randint(1, 3)} for it in others]
        state["cart"] = {"lines": lines, "coupon": rng.choice(("", state["coupons"][0][0]))}
    pages = ("home", "list", "list", "product", "product", "cart", "orders", "order", "return", "wish", "account")
    page = rng.choice((*pages, "checkout", "checkout") if state["cart"]["lines"] else pages)
    state["at"] = {"page": page}
    match page:
        case "list":
            state["view"] |= rng.choice(({"category": one["category"]}, {"query": one["name"].split()[-1].lower()}))
            state["view"]["sort"] = rng.choice(SORTS)
            state["typed"] = state["view"]["query"]
        case "product":
            state["at"]["name"] = one["name"]
            state["chosen"] = {"option": rng.choice(("", *one["options"])), "count": rng.choice("123")}
        case "checkout":
            state["form"] = blank(state) | {"delivery": rng.choice(("", "Express")), "pay": rng.choice(("", *PAYMENTS))}
            if rng.random() < 0.2:
                state["dialog"] = {
                    "icon": "error",
                    "title": "Something is missing",
                    "text": "Please choose the delivery.",
                    "ok": "OK",
                }
        case "order":
            state["at"]["number"] = order["number"]
        case "return":
            past = next(one for one in state["orders"] if one["status"] == "Delivered")
            state["at"] |= {"number": past["number"], "name": past["lines"][0]["name"]}
            state["back"] = {"reason": rng.choice(("", *REASONS)), "words": rng.choice(("", *WORDS))}
        case "account" if rng.random() < 0.4:
            state["edit"] = dict(state["profile"])
    return state


def listed(state: State) -> list[dict[str, Any]]:
    """The articles of the list page, in its order."""
    view = state["view"]
    words = view["query"].lower().split()

    def fits(one: dict[str, Any]) -> bool:
        text = f"{one['name']} {one['brand']} {one['category']}".lower()
        low, high = PRICES.get(view["price"], (0, 10**6))
        right = view["category"] in ("", one["category"]) and view["brand"] in ("", one["brand"])
        return right and low <= one["price"] < high and all(word in text for word in words)

    key = {
        "Our choice": lambda one: 0, "Price up": lambda one: one["price"], "Price down": lambda one: -one["price"],
        "Rating": lambda one: -float(one["rating"]),
    }[view["sort"]]  # fmt: skip
    return sorted(filter(fits, state["goods"]), key=key)


def screen_facts(state: State) -> list[tuple[str, str]]:
    """Questions that the present screen answers."""
    at = state["at"]
    match at["page"]:
        case "list":
            return [
                ("How many articles are found?", str(len(listed(state)))),
                ("How is the list sorted?", state["view"]["sort"]),
                ("Which category is chosen?", state["view"]["category"] or "all"),
            ]
        case "product":
            one = product(state, at["name"])
            return [
                ("Which article is open?", one["name"]),
                ("What is the price?", f"{euros(one['price'])} euros"),
                ("Which brand is it?", one["brand"]),
                ("What is the rating?", one["rating"]),
                ("Is it on the wish list?", yes(one["name"] in state["wish"])),
            ]
        case "cart":
            lines = state["cart"]["lines"]
            return [("How many articles are in the cart?", str(len(lines)))] + [
                (f"Which colour of {line['name']} is in the cart?", line["option"]) for line in lines
            ]
        case "checkout":
            return [("Which payment is chosen?", state["form"]["pay"] or "none")]
        case "orders":
            return [(f"What is the status of order {one['number']}?", one["status"]) for one in state["orders"][:4]]
        case "order":
            order = order_of(state, at["number"])
            return [
                ("Which order is open?", order["number"]),
                ("When was the order placed?", order["date"]),
                ("How much is the order?", f"{euros(total(state, order))} euros"),
            ]
        case "return":
            return [
                ("Which article is sent back?", at["name"]),
                ("Which reason is chosen?", state["back"]["reason"] or "none"),
            ]
        case "wish":
            return [("How many articles are on the wish list?", str(len(state["wish"])))]
        case "account":
            return [("Which city is in the account?", state["profile"]["city"])]
    return [("How many articles are in the cart?", str(sum(line["count"] for line in state["cart"]["lines"])))]


def _words(line: dict[str, Any]) -> str:
    return f"{line['count']} {line['option']} {line['name']}"


_ADDRESS = ("name", "street", "city", "gift", "delivery", "pay", "coupon")


def outcome(state: State) -> dict[str, Any]:
    """Wish list, cart, account, newsletter, reviews, the orders there were, and what has been ordered since."""
    cart, orders_ = state["cart"], state["orders"]
    made = Counter(
        fact("new", *sorted(map(_words, one["lines"])), *(str(one[key]) for key in _ADDRESS))
        for one in orders_
        if one["new"] and one["status"] != "Cancelled"
    )
    return {
        "cart": [sorted(map(_words, cart["lines"])), cart["coupon"]] if cart["lines"] else [],
        "letter": state["letter"],
        **{fact("profile", key): value for key, value in state["profile"].items()},
        **{fact("wish", name): True for name in state["wish"]},
        **{fact("reviews", one["name"]): one["reviews"] for one in state["goods"] if one["reviews"]},
        **{fact("status", one["number"]): one["status"] for one in orders_ if not one["new"]},
        **{fact("return", one["number"], name): reason for one in orders_ for name, reason in one["returns"].items()},
        **made,
    }
