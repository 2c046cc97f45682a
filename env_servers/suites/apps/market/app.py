"""Market, a shop on the web: categories and filters, articles, cart and coupons, a checkout, orders, returns."""

from __future__ import annotations

import random

from ...virtual.app import START, Slots, State, Subtask, ToolSpec
from ...virtual.words import without
from ..goals import answered, reached, touched, with_goals
from ..web import CITIES, WEB, call, people
from . import content, script
from .content import ARTICLES, CATEGORIES, COUPONS, DELIVERIES, NUMBERS, OPTIONS, PAYMENTS, REASONS, WORDS
from .effects import ANSWERS, EFFECTS
from .state import NAME, initial, outcome, sample_state, screen_facts

_PASSING = ("add", "coupon")  # what comes after them may undo them


# --- the DAG ---------------------------------------------------------------------------------------------------------
def _buying(kind: str):
    def tool(slots: Slots):
        want = script.wanted(slots, kind)
        (line,) = want["lines"]
        given = {key: want[key] for key in ("delivery", "pay", *script.FIELDS) if want[key]}
        gift = {"gift": True} if want["gift"] else {}
        return call(NAME, "buy", article=line["name"], colour=line["option"], count=line["count"], **given, **gift)

    return tool


def _task(name: str, text: str, after: tuple[str, ...], at: str, actions: int, needs: tuple[str, ...] = (), **more):
    move = script.ordering(name) if name in ("buy", "gift") else getattr(script, name)
    if name in ANSWERS:
        return Subtask(name, text, answered(name), move, (START, *after), at, actions, needs=needs, **more)
    return Subtask(name, text, reached(name, outcome), move, more.pop("starts", (START,)) + after, at, actions,
                   touches=touched(name), lasting=name not in _PASSING, needs=needs, **more)  # fmt: skip


def _browsed(state: State, slots: Slots) -> bool:
    view = state["view"]
    plain = not (view["price"] or view["query"])
    chosen = view["category"] == slots["browse"] and view["brand"] == slots["browse_brand"]
    return state["at"] == {"page": "list"} and plain and chosen


SUBTASKS = (
    Subtask("category", "Open the category {category}.",
            lambda state, slots: state["at"] == {"page": "list"} and state["view"]["category"] == slots["category"],
            script.category, (START,), "list", 0, lasting=False),
    Subtask("browse", "List what the brand {browse_brand} has in the category {browse}.", _browsed, script.browse,
            (START, "category"), "list", 1, lasting=False),
    _task("wish", "Put the {wish} on the wish list.", ("category", "browse"), "home", 3, ("wish",), ends="product",
          tool=lambda s: call(NAME, "set_wish", article=s["wish"], wished=True)),
    _task("cheapest", "Put the cheapest article of the category {cheapest} on the wish list.", ("wish", "browse"),
          "list", 2),
    _task("unwish", "Take the {unwish} off the wish list.", ("wish", "cheapest"), "wish", 1, ("unwish",),
          tool=lambda s: call(NAME, "set_wish", article=s["unwish"], wished=False)),
    _task("letter", "Turn the newsletter {letter_words}.", ("unwish", "category"), "account", 1),
    _task("relocate", "Change the address in the account to {relocate_street} in {relocate_city}.",
          ("letter", "wish"), "account", 4,
          tool=lambda s: call(NAME, "set_address", street=s["relocate_street"], city=s["relocate_city"])),
    _task("review", 'Review the {review} with {review_stars} stars and the words "{review_words}".',
          ("browse", "unwish", "letter"), "home", 7, ("review",), ends="product",
          tool=lambda s: call(NAME, "review", article=s["review"], stars=int(s["review_stars"]),
                              words=s["review_words"])),
    _task("buy", "Buy {buy_count} {buy} in {buy_option}, {buy_delivery} delivery, paid by {buy_pay}.",
          ("wish", "relocate", "cheapest"), "home", 9, ("buy", "buy_option"), ends="order", tool=_buying("buy")),
    _task("gift", "Send the {gift} in {gift_option} as a gift to {gift_name}, {gift_street}, {gift_city}: "
          "{gift_delivery} delivery, paid by {gift_pay}.", ("unwish", "letter"), "home", 12, ("gift", "gift_option"),
          ends="order", tool=_buying("gift")),
    _task("cancel", "Cancel the order {cancel}.", ("buy", "gift", "review", "wish"), "orders", 3, ("cancel",),
          ends="order", tool=lambda s: call(NAME, "cancel_order", number=s["cancel"])),
    _task("send_back", 'Send the {send_back} of the order {return_order} back; the reason is "{return_reason}".',
          ("cancel", "buy", "relocate"), "orders", 4, ("return_order",), ends="order",
          tool=lambda s: call(NAME, "send_back", number=s["return_order"], article=s["send_back"],
                              reason=s["return_reason"])),
    _task("add", "Put {add_count} {add} in {add_option} into the cart.", ("cancel", "relocate", "unwish"), "home", 5,
          ("add", "add_option"), ends="product"),
    _task("coupon", "Use the coupon {coupon} for the cart.", ("add",), "cart", 2, ("coupon",), starts=()),
    _task("checkout", "Order what is in the cart: {checkout_delivery} delivery, paid by {checkout_pay}.",
          ("add", "coupon"), "cart", 4, starts=(), ends="order"),
    _task("move", "Move the {move} from the wish list into the cart.", ("cancel", "send_back", "letter", "gift"),
          "wish", 1, ("move",)),
    _task("ask_price", "How many euros does the {ask_price} cost? Answer like 12.50.", ("send_back", "move", "wish"),
          "home", 2, ("ask_price",), ends="product"),
    _task("ask_fact", "What is given as {fact_words} of the {ask_fact}?", ("cancel", "cheapest", "checkout"), "home",
          2, ("ask_fact",), ends="product"),
    _task("ask_date", "When was the order {ask_date} placed?", ("review", "relocate", "move"), "orders", 2,
          ("ask_date",), ends="order"),
    _task("compare", "Which has the better rating, the {compare} or the {compare_with}?", ("buy", "letter", "browse"),
          "home", 4, ("compare", "compare_with"), ends="product"),
    Subtask("missing", "Put the {missing} on the wish list.", lambda state, slots: False, script.missing,
            (START, "cheapest", "letter"), "home", 1, feasible=False),
)  # fmt: skip


# --- slots -----------------------------------------------------------------------------------------------------------
def fill(rng: random.Random, path: tuple[str, ...], state: State) -> Slots:
    """An article of its own for every subtask, and details that differ from what is there."""
    goods = {one["name"]: one for one in state["goods"]}
    bought = [line["name"] for order in state["orders"] for line in order["lines"]]
    top = {
        min((g for g in state["goods"] if g["category"] == c), key=lambda g: g["price"])["name"]: c for c in CATEGORIES
    }
    free = without(goods, bought, state["wish"], top)
    rng.shuffle(free)
    packed = [one["number"] for one in state["orders"] if one["status"] == "Being packed"]
    come = [one for one in state["orders"] if one["status"] == "Delivered"]
    back, first = rng.choice(come), rng.choice(list(goods))
    unwish, move = rng.sample(state["wish"], 2)
    others = [name for name in goods if float(goods[name]["rating"]) != float(goods[first]["rating"])]
    fact = rng.choice(("Material", "Weight", "Warranty"))
    slots: Slots = {
        "category": rng.choice(CATEGORIES),
        "wish": free[0], "buy": free[1], "gift": free[2], "add": free[3],
        "unwish": unwish, "move": move,
        "cheapest": rng.choice([top[name] for name in top if name not in state["wish"]]),
        "letter_words": "off" if state["letter"] else "on",
        "relocate_street": content.street(rng),
        "relocate_city": rng.choice(without(CITIES, [state["profile"]["city"]])),
        "review": rng.choice(bought), "review_stars": rng.choice("12345"), "review_words": rng.choice(WORDS),
        "gift_name": people(rng, 1)[0], "gift_street": content.street(rng), "gift_city": rng.choice(CITIES),
        "cancel": rng.choice(packed), "return_order": back["number"],
        "send_back": rng.choice(back["lines"])["name"], "return_reason": rng.choice(REASONS),
        "ask_price": rng.choice(list(goods)), "ask_fact": rng.choice(list(goods)), "fact": fact,
        "fact_words": f"the {fact.lower()}", "ask_date": rng.choice(state["orders"])["number"],
        "compare": first, "compare_with": rng.choice(others),
        "missing": rng.choice([name for name in ARTICLES if name not in goods]),
        "checkout_delivery": rng.choice(DELIVERIES)[0], "checkout_pay": rng.choice(PAYMENTS),
    }  # fmt: skip
    slots["browse"] = (some := rng.choice(state["goods"]))["category"]
    slots["browse_brand"] = some["brand"]
    for kind in ("buy", "gift", "add"):
        slots[f"{kind}_option"] = rng.choice(goods[slots[kind]]["options"])
        slots[f"{kind}_count"] = 1 if kind == "gift" else rng.randint(1, 3)
        if kind != "add":
            slots[f"{kind}_delivery"], slots[f"{kind}_pay"] = rng.choice(DELIVERIES)[0], rng.choice(PAYMENTS)
    if "coupon" in path:
        slots["coupon"] = rng.choice(state["coupons"])[0]
    moved = {key: slots[f"relocate_{key}"] for key in ("street", "city")} if "relocate" in path else {}
    slots["usual"] = {**state["profile"], **moved}
    answers = {name: answer for name, answer in ANSWERS.items() if name in path}
    return with_goals(path, state, slots, outcome, EFFECTS, answers, _PASSING)


_ARTICLE, _TEXT = {"type": "string", "description": "name of an article"}, {"type": "string"}
_NUMBER = {"type": "string", "description": 'number of an order, as "M-3005"'}

TOOLS = (
    ToolSpec.of(
        f"{NAME}.buy",
        "Buy an article, sent to the account's name and address unless told otherwise.",
        {"article": _ARTICLE, "colour": _TEXT, "count": {"type": "integer", "description": "1 to 9"},
         "delivery": {**_TEXT, "enum": [name for name, _ in DELIVERIES]}, "pay": {**_TEXT, "enum": list(PAYMENTS)}},
        {"name": _TEXT, "street": _TEXT, "city": _TEXT, "gift": {"type": "boolean"}},
    ),
    ToolSpec.of(f"{NAME}.set_wish", "Put an article on the wish list or take it off.",
                {"article": _ARTICLE, "wished": {"type": "boolean"}}),
    ToolSpec.of(f"{NAME}.cancel_order", "Cancel an order that is still being packed.", {"number": _NUMBER}),
    ToolSpec.of(f"{NAME}.send_back", "Announce a return.",
                {"number": _NUMBER, "article": _ARTICLE, "reason": {**_TEXT, "enum": list(REASONS)}}),
    ToolSpec.of(f"{NAME}.review", "Review an article.",
                {"article": _ARTICLE, "stars": {"type": "integer", "description": "1 to 5"}, "words": _TEXT}),
    ToolSpec.of(f"{NAME}.set_address", "Change the address in the account.", {"street": _TEXT, "city": _TEXT}),
    ToolSpec.of(f"{NAME}.find", "Articles that a search finds, with their prices.", {"query": _TEXT}),
)  # fmt: skip

APP = WEB.app(
    NAME,
    ("sweetalert2",),
    subtasks=SUBTASKS,
    tools=TOOLS,
    initial=initial,
    sample_state=sample_state,
    facts=screen_facts,
    fill=fill,
    outcome=outcome,
    home="home",
    names=(
        *(f"{part} {name}" for part in ("article", "heart of", "remove", "open", "to cart", "unwish", "return")
          for name in ARTICLES),
        *(f"{name} category" for name in CATEGORIES), *(f"order {number}" for number in NUMBERS),
        *(f"colour {option}" for option in OPTIONS), *(f"{name} delivery" for name, _ in DELIVERIES),
        *(f"{name} payment" for name in PAYMENTS), "home", "search box", "search", "wish", "orders", "account", "cart",
        *("brand list", "price list", "sort list", "reset filters", "heart", "count list", "add to cart", "stars list"),
        *("review box", "send review", "coupon box", "apply", "remove coupon", "checkout", "gift", "place order"),
        *("name box", "street box", "city box", "mail box", "cancel order", "reason list", "words box", "send return"),
        *("edit account", "save account", "cancel edit", "newsletter", "back", "OK", "Yes, cancel it", "Keep it"),
    ),
    most_actions=18,
    pools={
        **dict.fromkeys(("wish", "unwish", "move", "buy", "gift", "add", "review", "ask_price", "ask_fact"), ARTICLES),
        **dict.fromkeys(("compare", "compare_with"), ARTICLES),
        **dict.fromkeys(("buy_option", "gift_option", "add_option"), OPTIONS),
        **dict.fromkeys(("cancel", "return_order", "ask_date"), NUMBERS),
        "coupon": tuple(code for code, _ in COUPONS),
    },
)  # fmt: skip
