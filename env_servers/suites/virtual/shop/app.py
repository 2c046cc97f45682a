"""Shop, a web shop: search by typing, filter by colour, put things into the cart, change amounts, check out.

State JSON: layout {bar, chips, header, dx, dy, theme, buttons} · page shop|cart|paid · catalogue [things] ·
chips [colours] · text (in the box), focus, query (searched for), colour (filter), scroll (screen of results) ·
cart [[thing, amount]] · row (selected) · bought [[thing, amount]] · answer.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from ..app import START, App, CallDict, Element, Move, Slots, State, Subtask, ToolSpec, generator
from ..gestures import Hand
from ..icons import COLOURS, THINGS
from ..pages import assemble
from ..words import fact, facts, without, yes

NAME, DEVICE, WIDTH, HEIGHT = "shop", "web", 160, 128
SHOWN = 3  # cards on one screen
HAND = Hand(DEVICE, WIDTH, HEIGHT)


# --- states ----------------------------------------------------------------------------------------------------------
def _content(rng: random.Random) -> State:
    chips = rng.sample(sorted(COLOURS), 3)
    coloured = [rng.choice([name for name in sorted(THINGS) if THINGS[name].colour == colour]) for colour in chips]
    catalogue = coloured + rng.sample(without(sorted(THINGS), coloured), 5)
    rng.shuffle(catalogue)
    in_cart = rng.sample(without(sorted(THINGS), catalogue), 2)
    return {
        "layout": {
            "bar": rng.choice(("top", "top", "bottom")),
            "chips": rng.choice(("left", "row")),
            "header": rng.choice(("box", "cart")),
            "dx": rng.randint(0, 4),
            "dy": rng.randint(0, 6),
            "theme": rng.randint(0, 5),
            "buttons": rng.sample(("minus", "plus", "trash"), 3),
        },
        "page": "shop",
        "catalogue": catalogue,
        "chips": chips,
        "text": "",
        "focus": False,
        "query": "",
        "colour": "",
        "scroll": 0,
        "cart": [[name, rng.randint(2, 4)] for name in in_cart],
        "row": "",
        "bought": [],
        "answer": "",
    }


def initial(seed: int) -> State:
    """The shop with eight things for sale, nothing searched or filtered, and two other things in the cart."""
    return _content(generator(NAME, "initial", seed))


def _results(state: State) -> list[str]:
    return [
        name
        for name in state["catalogue"]
        if state["query"] in ("", name) and state["colour"] in ("", THINGS[name].colour)
    ]


def _visible(state: State) -> list[str]:
    return _results(state)[state["scroll"] * SHOWN :][:SHOWN]


def sample_state(seed: int) -> State:
    """Any screen of the app: typed and searched text, filters, scrolled results, carts, a receipt."""
    rng = generator(NAME, "sample", seed)
    state = _content(rng)
    names = rng.sample(sorted(THINGS), rng.randint(0, 4))
    state["cart"] = cart = [[name, rng.randint(1, 9)] for name in names]
    state["page"] = page = rng.choice(("shop", "shop", "shop", "cart", "cart", "paid"))
    if page == "cart" and cart and rng.random() < 0.6:
        state["row"] = rng.choice(cart)[0]
    if page == "paid":
        state["bought"], state["cart"] = cart or [[rng.choice(state["catalogue"]), 1]], []
    if page == "shop":
        match rng.randint(0, 4):
            case 0:
                state["colour"] = rng.choice(state["chips"])
            case 1:
                state["text"] = state["query"] = rng.choice((*state["catalogue"], *sorted(THINGS)))
            case 2:
                state["focus"], state["text"] = True, rng.choice(("", *sorted(THINGS)))
        pages = -(-len(_results(state)) // SHOWN)
        state["scroll"] = rng.randint(0, max(0, pages - 1))
    return state


def _count(rows: Sequence[Sequence[object]], thing: str) -> int:
    return next((amount for name, amount in rows if name == thing), 0)


def _wanted(state: State, thing: str) -> int:
    """How many of a thing are in the cart or bought."""
    return _count(state["cart"], thing) + _count(state["bought"], thing)


def screen_facts(state: State) -> list[tuple[str, str]]:
    """Questions that the present screen answers."""
    page = state["page"]
    found = [("Which page is open?", page)]
    if page == "shop":
        found.append(("Which chip is on?", state["colour"] or "none"))
        found.append(("What is in the box?", state["text"] or "nothing"))
        found.append(("How many things are shown?", str(len(_visible(state)))))
        found.append(("Is the cart empty?", yes(not state["cart"])))
    if page == "cart":
        found += [(f"How many {THINGS[name].plural} are in the cart?", str(amount)) for name, amount in state["cart"]]
        found.append(("Is the cart empty?", yes(not state["cart"])))
        found.append(("What is selected?", state["row"] or "none"))
    if page == "paid":
        found += [(f"How many {THINGS[name].plural} are bought?", str(amount)) for name, amount in state["bought"]]
    return found


def outcome(state: State) -> dict[str, object]:
    """What is in the cart or bought, and whether the shopper has paid."""
    things = {name for name, _ in (*state["cart"], *state["bought"])}
    return {"paid": bool(state["bought"]), **{fact("buy", name): _wanted(state, name) for name in things}}


# --- script ----------------------------------------------------------------------------------------------------------
def _to_shop(state: State, elements: Sequence[Element]) -> Move | None:
    if state["page"] == "shop":
        return None
    return HAND.tap(elements, "back" if state["page"] == "cart" else "home")


def _to_cart(state: State, elements: Sequence[Element]) -> Move | None:
    if state["page"] == "cart":
        return None
    return HAND.tap(elements, "cart") if state["page"] == "shop" else HAND.tap(elements, "home")


def _search(state: State, elements: Sequence[Element], thing: str) -> Move:
    if move := _to_shop(state, elements):
        return move
    if state["text"] == thing:
        return HAND.tap(elements, "search")
    return HAND.type(thing) if state["focus"] and not state["text"] else HAND.tap(elements, "box")


def _row(state: State, elements: Sequence[Element], thing: str, control: str) -> Move:
    """Open the cart, select the row of `thing`, use `control` on it; give up where there is no such row."""
    if move := _to_cart(state, elements):
        return move
    if not _count(state["cart"], thing):
        return HAND.give_up()
    return HAND.tap(elements, control if state["row"] == thing else thing)


def _add(slot: str):
    def move(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
        thing = slots[slot]
        if _wanted(state, thing) > 1:
            return _row(state, elements, thing, "minus")
        if not _count(state["cart"], thing) and len(state["cart"]) >= 4:
            return HAND.give_up()
        if move := _to_shop(state, elements):
            return move
        if thing not in state["catalogue"] and state["query"] == thing:  # searched for, and not found
            return HAND.give_up()
        return HAND.tap(elements, thing) if thing in _visible(state) else _search(state, elements, thing)

    return move


def _set(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    missing = slots["set_amount"] - _count(state["cart"], slots["set"])
    return _row(state, elements, slots["set"], "plus" if missing > 0 else "minus")


def _checkout(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    return HAND.give_up() if not state["cart"] else _to_cart(state, elements) or HAND.tap(elements, "check")


def _filter(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    if move := _to_shop(state, elements):
        return move
    return HAND.tap(elements, f"{slots['filter']} chip") if slots["filter"] in state["chips"] else HAND.give_up()


def _scroll(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    if move := _to_shop(state, elements):
        return move
    if state["scroll"] != 1 and len(_results(state)) > SHOWN:
        return HAND.scroll("down" if state["scroll"] == 0 else "up")
    if state["colour"]:  # a filter that leaves too little to scroll: the same chip takes it off
        return HAND.tap(elements, f"{state['colour']} chip")
    return HAND.tap(elements, f"{state['chips'][0]} chip")


def _ask(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    return _to_cart(state, elements) or HAND.answer(str(_count(state["cart"], slots["ask"])))


# --- the DAG ---------------------------------------------------------------------------------------------------------
def _call(tool: str, **arguments: object) -> CallDict:
    return {"name": f"{NAME}.{tool}", "arguments": arguments}


def _added(slot: str):
    return lambda state, slots: _wanted(state, slots[slot]) == 1


def _bought(slot: str):
    return lambda slots: facts(fact("buy", slots[slot]))


_ADDING = ("add", "buy")
_CART = ("set", "remove")

SUBTASKS = (
    Subtask(
        "add", "Add the {add} to the cart.",
        _added("add"),
        _add("add"),
        after=(START,), at="shop", actions=1,
        touches=_bought("add"),
        tool=lambda slots: _call("add_to_cart", thing=slots["add"], amount=1),
        needs=("add",),
    ),
    Subtask(
        "buy", "Find the {buy} and add one.",
        _added("buy"),
        _add("buy"),
        after=(START, "add"), at="shop", actions=4,
        touches=_bought("buy"),
        tool=lambda slots: _call("add_to_cart", thing=slots["buy"], amount=1),
        needs=("buy",),
    ),
    Subtask(
        "set", "Change the {set} to {set_amount}.",
        lambda state, slots: _wanted(state, slots["set"]) == slots["set_amount"],
        _set,
        after=(START, *_ADDING), at="cart", actions=2,
        touches=_bought("set"),
        needs=("set",),
    ),
    Subtask(
        "remove", "Remove the {remove} from the cart.",
        lambda state, slots: not _wanted(state, slots["remove"]),
        lambda state, slots, elements: _row(state, elements, slots["remove"], "trash"),
        after=(START, *_ADDING, "set"), at="cart", actions=2,
        touches=_bought("remove"),
        tool=lambda slots: _call("remove_from_cart", thing=slots["remove"]),
        needs=("remove",),
    ),
    Subtask(
        "checkout", "Check out.",
        lambda state, slots: bool(state["bought"]) and not state["cart"],
        _checkout,
        after=(START, *_ADDING, *_CART), at="cart", actions=1, ends="paid",
        touches=lambda slots: facts("paid"),
        tool=lambda slots: _call("checkout"),
    ),
    Subtask(
        "cart", "Open the cart.",
        lambda state, slots: state["page"] == "cart",
        lambda state, slots, elements: _to_cart(state, elements) or HAND.tap(elements, "back"),
        after=(START, *_ADDING), at="cart", actions=0, lasting=False,
    ),
    Subtask(
        "filter", "Show the {filter} things.",
        lambda state, slots: state["page"] == "shop" and state["colour"] == slots["filter"],
        _filter,
        after=(START, *_ADDING, *_CART), at="shop", actions=1, lasting=False,
        needs=("filter",),
    ),
    Subtask(
        "scroll", "Scroll down.",
        lambda state, slots: state["page"] == "shop" and state["scroll"] == 1,
        _scroll,
        after=(START, "add", *_CART), at="shop", actions=1, lasting=False,
    ),
    Subtask(
        "find", "Search for the {find}.",
        lambda state, slots: state["page"] == "shop" and state["query"] == slots["find"],
        lambda state, slots, elements: _search(state, elements, slots["find"]),
        after=(START, *_ADDING, *_CART, "filter"), at="shop", actions=3, lasting=False,
    ),
    Subtask(
        "ask", "How many {ask_words} are in the cart?",
        lambda state, slots: state["answer"] == str(_count(state["cart"], slots["ask"])),
        _ask,
        after=(START, *_ADDING, "set"), at="cart", actions=1,
    ),
    Subtask(
        "missing", "Remove the {missing} from the cart.",
        lambda state, slots: False,
        lambda state, slots, elements: _row(state, elements, slots["missing"], "trash"),
        after=(START,), at="shop", actions=1, feasible=False,
    ),
)  # fmt: skip


def fill(rng: random.Random, path: tuple[str, ...], state: State) -> Slots:
    """Things to add from the first screen, to buy from the others, and different rows of the cart to change."""
    slots: Slots = {}
    used: set[str] = set()
    in_cart = [name for name, _ in state["cart"]]
    pools = {
        "add": state["catalogue"][:SHOWN],
        "buy": state["catalogue"][SHOWN:],
        "find": state["catalogue"],
        "filter": state["chips"],
        "set": in_cart,
        "remove": in_cart,
        "ask": in_cart,
        "missing": without(sorted(THINGS), in_cart),
    }
    for name, pool in pools.items():
        if name in path:
            slots[name] = rng.choice(without(pool, used))
            used.add(slots[name])
    if "set" in path:
        slots["set_amount"] = _count(state["cart"], slots["set"]) + rng.choice((-1, 1))
    if "ask" in path:
        slots["ask_words"] = THINGS[slots["ask"]].plural
    return slots


_THING = {"type": "string", "description": "name of a thing"}
_AMOUNT = {"type": "integer", "description": "how many"}

TOOLS = (
    ToolSpec.of(f"{NAME}.add_to_cart", "Put a thing into the cart.", {"thing": _THING, "amount": _AMOUNT}),
    ToolSpec.of(f"{NAME}.remove_from_cart", "Take a thing out of the cart.", {"thing": _THING}),
    ToolSpec.of(f"{NAME}.checkout", "Buy what is in the cart.", {}),
)

NAMES = (
    *(f"{colour} chip" for colour in COLOURS),
    *("box", "search", "cart", "back", "home", "plus", "minus", "trash", "check"),
)

APP = App(
    name=NAME,
    device=DEVICE,
    width=WIDTH,
    height=HEIGHT,
    page=assemble(NAME, WIDTH, HEIGHT),
    subtasks=SUBTASKS,
    tools=TOOLS,
    initial=initial,
    sample_state=sample_state,
    facts=screen_facts,
    fill=fill,
    outcome=outcome,
    home="shop",
    names=(*sorted(THINGS), *NAMES),
    pools={
        **dict.fromkeys((*_ADDING, *_CART), sorted(THINGS)),
        "filter": sorted(COLOURS),
    },
)
