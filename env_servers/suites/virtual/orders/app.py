"""Orders, a phone app of three tabs: list (open, star, mark, delete things), form (order a thing), done (saved orders).

State JSON: layout {bar, columns, dx, dy, theme, tabs, buttons, amount, back} · screen list|detail|form|done ·
item (open thing) · things, starred, marked · scroll 0|1 · choices, form {pick, amount} · orders [[thing, amount]] ·
order (selected row) · answer.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from ..app import START, App, CallDict, Element, Move, Slots, State, Subtask, ToolSpec, generator
from ..gestures import Hand
from ..icons import THINGS
from ..pages import assemble
from ..words import counted, fact, facts, without, yes

NAME, DEVICE, WIDTH, HEIGHT = "orders", "mobile", 128, 160
SHOWN = 4  # things on one screen of the list
HAND = Hand(DEVICE, WIDTH, HEIGHT)


# --- states ----------------------------------------------------------------------------------------------------------
def _layout(rng: random.Random) -> dict[str, object]:
    return {
        "bar": rng.choice(("bottom", "bottom", "top")),
        "columns": rng.choice((1, 2)),
        "dx": rng.randint(0, 5),
        "dy": rng.randint(0, 4),
        "theme": rng.randint(0, 5),
        "tabs": rng.sample(("list", "form", "done"), 3),
        "buttons": rng.sample(("back", "star", "trash"), 3),
        "amount": rng.sample(("minus", "plus"), 2),
        "back": rng.random() < 0.7,
    }


def _content(rng: random.Random) -> State:
    names = rng.sample(sorted(THINGS), 12)
    things = names[: rng.choice((4, 4, 4, 5, 6))]
    starred, marked = rng.sample(things[:SHOWN], 2)
    return {
        "layout": _layout(rng),
        "screen": "list",
        "item": "",
        "things": things,
        "starred": [starred],
        "marked": [marked],
        "scroll": 0,
        "choices": names[6:9],
        "form": {"pick": "", "amount": rng.randint(1, 3)},
        "orders": [[name, rng.randint(1, 5)] for name in names[9 : rng.choice((11, 12))]],
        "order": "",
        "answer": "",
    }


def initial(seed: int) -> State:
    """The list with one thing starred and another marked, an empty form, and two or three saved orders."""
    return _content(generator(NAME, "initial", seed))


def sample_state(seed: int) -> State:
    """Any screen of the app, with any flags, form, orders and selection."""
    rng = generator(NAME, "sample", seed)
    state = _content(rng)
    things = state["things"]
    state["things"] = things = things[: rng.randint(1, len(things))] if rng.random() < 0.3 else things
    state["starred"] = sorted(name for name in things if rng.random() < 0.3)
    state["marked"] = sorted(name for name in things if rng.random() < 0.3)
    state["orders"] += [[name, rng.randint(1, 9)] for name in state["choices"] if rng.random() < 0.3]
    state["orders"] = state["orders"][rng.choice((0, 0, 0, 1, 2, 4)) :]
    state["screen"] = screen = rng.choice(("list", "list", "detail", "form", "done"))
    state["form"] = {"pick": rng.choice(("", *state["choices"])), "amount": rng.randint(1, 5)}
    if len(things) > SHOWN:
        state["scroll"] = rng.randint(0, 1)
    if screen == "detail":
        state["item"] = rng.choice(things)
    if screen == "done" and state["orders"] and rng.random() < 0.6:
        state["order"] = rng.choice(state["orders"])[0]
    return state


def _visible(state: State) -> list[str]:
    first = state["scroll"] * max(0, len(state["things"]) - SHOWN)
    return state["things"][first : first + SHOWN]


def _amount(state: State, thing: str) -> int:
    return dict(map(tuple, state["orders"])).get(thing, 0)


def screen_facts(state: State) -> list[tuple[str, str]]:
    """Questions that the present screen answers."""
    screen = state["screen"]
    found = [("Which tab is open?", "list" if screen == "detail" else screen)]
    if screen == "list":
        for name in _visible(state):
            found.append((f"Is the {name} starred?", yes(name in state["starred"])))
            found.append((f"Is the {name} marked?", yes(name in state["marked"])))
        found.append(("How many things are shown?", str(len(_visible(state)))))
    if screen == "detail":
        found.append(("Which thing is open?", state["item"]))
        found.append((f"Is the {state['item']} starred?", yes(state["item"] in state["starred"])))
        found.append((f"Is the {state['item']} marked?", yes(state["item"] in state["marked"])))
    if screen == "form":
        found.append(("What is the amount?", str(state["form"]["amount"])))
        found.append(("Which thing is picked?", state["form"]["pick"] or "none"))
    if screen == "done":
        found += [(f"How many {THINGS[name].plural} are ordered?", str(amount)) for name, amount in state["orders"]]
        found.append(("How many orders are there?", str(len(state["orders"]))))
        found.append(("Which order is picked?", state["order"] or "none"))
    return found


def outcome(state: State) -> dict[str, object]:
    """Which things exist, are starred, are marked, and what is ordered."""
    return {
        **{fact("thing", name): True for name in state["things"]},
        **{fact("star", name): True for name in state["starred"]},
        **{fact("mark", name): True for name in state["marked"]},
        **{fact("order", name): amount for name, amount in state["orders"]},
    }


# --- script ----------------------------------------------------------------------------------------------------------
def _to_list(state: State, elements: Sequence[Element]) -> Move | None:
    """The move towards the list, None where it is open."""
    if state["screen"] == "detail":
        return HAND.tap(elements, "back") if state["layout"]["back"] else HAND.system("Back")
    return None if state["screen"] == "list" else HAND.tap(elements, "list")


def _to_thing(state: State, elements: Sequence[Element], name: str) -> Move | None:
    """The move towards the list with `name` in sight, None where that is the screen.

    A list that does not hold it is looked through to its end, then the task is given up.
    """
    if move := _to_list(state, elements):
        return move
    if name in _visible(state):
        return None
    if name in state["things"]:
        return HAND.swipe("up" if state["scroll"] == 0 else "down")
    return HAND.swipe("up") if state["scroll"] == 0 and len(state["things"]) > SHOWN else HAND.give_up()


def _on_detail(slot: str, control: str):
    """Open the thing of `slot`, then tap `control`."""

    def move(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
        if state["screen"] == "detail" and state["item"] == slots[slot]:
            return HAND.tap(elements, control)
        return _to_thing(state, elements, slots[slot]) or HAND.tap(elements, slots[slot])

    return move


def _holding(slot: str):
    def move(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
        return _to_thing(state, elements, slots[slot]) or HAND.hold(elements, slots[slot])

    return move


def _cancel(state: State, elements: Sequence[Element], name: str) -> Move:
    if state["screen"] != "done":
        return HAND.tap(elements, "done")
    if not _amount(state, name):
        return HAND.give_up()
    return HAND.tap(elements, "trash" if state["order"] == name else name)


def _pick(state: State, slots: Slots, elements: Sequence[Element], slot: str = "pick") -> Move:
    if state["screen"] != "form":
        return HAND.tap(elements, "form")
    return HAND.tap(elements, slots[slot]) if slots[slot] in state["choices"] else HAND.give_up()


def _order(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    if _amount(state, slots["order"]):  # a wrong amount: orders of one thing add up
        return _cancel(state, elements, slots["order"])
    if state["screen"] != "form" or state["form"]["pick"] != slots["order"]:
        return _pick(state, slots, elements, "order")
    missing = slots["order_amount"] - state["form"]["amount"]
    return HAND.tap(elements, "plus" if missing > 0 else "minus" if missing < 0 else "check")


def _ask(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    if state["screen"] != "done":
        return HAND.tap(elements, "done")
    return HAND.answer(str(_amount(state, slots["ask"])))


# --- the DAG ---------------------------------------------------------------------------------------------------------
def _call(tool: str, **arguments: object) -> CallDict:
    return {"name": f"{NAME}.{tool}", "arguments": arguments}


def _set_mark(slot: str, marked: bool):
    return lambda slots: _call("set_mark", thing=slots[slot], marked=marked)


_FIRST = ("show", "star", "unstar")
_MARKS = ("mark", "unmark")

SUBTASKS = (
    Subtask(
        "show", "Open the {show}.",
        lambda state, slots: state["screen"] == "detail" and state["item"] == slots["show"],
        lambda state, slots, elements: _to_thing(state, elements, slots["show"]) or HAND.tap(elements, slots["show"]),
        after=(START,), at="list", actions=1, ends="detail", lasting=False,
        needs=("show",),
    ),
    Subtask(
        "star", "Star the {star}.",
        lambda state, slots: slots["star"] in state["starred"],
        _on_detail("star", "star"),
        after=(START, "show"), at="list", actions=2, ends="detail",
        touches=lambda slots: facts(fact("star", slots["star"])),
        needs=("star",),
    ),
    Subtask(
        "unstar", "Remove the star of the {unstar}.",
        lambda state, slots: slots["unstar"] in state["things"] and slots["unstar"] not in state["starred"],
        _on_detail("unstar", "star"),
        after=(START, "star"), at="list", actions=2, ends="detail",
        touches=lambda slots: facts(fact("star", slots["unstar"])),
        needs=("unstar",),
    ),
    Subtask(
        "mark", "Mark the {mark}.",
        lambda state, slots: slots["mark"] in state["marked"],
        _holding("mark"),
        after=(START, *_FIRST), at="list", actions=1,
        touches=lambda slots: facts(fact("mark", slots["mark"])),
        tool=_set_mark("mark", True),
        needs=("mark",),
    ),
    Subtask(
        "unmark", "Remove the mark of the {unmark}.",
        lambda state, slots: slots["unmark"] in state["things"] and slots["unmark"] not in state["marked"],
        _holding("unmark"),
        after=(START, *_FIRST, "mark"), at="list", actions=1,
        touches=lambda slots: facts(fact("mark", slots["unmark"])),
        tool=_set_mark("unmark", False),
        needs=("unmark",),
    ),
    Subtask(
        "delete", "Delete the {delete}.",
        lambda state, slots: slots["delete"] not in state["things"],
        _on_detail("delete", "trash"),
        after=(START, *_FIRST, *_MARKS), at="list", actions=2,
        touches=lambda slots: facts(*(fact(kind, slots["delete"]) for kind in ("thing", "star", "mark"))),
        needs=("delete",),
    ),
    Subtask(
        "order", "Order {order_words}.",
        lambda state, slots: _amount(state, slots["order"]) == slots["order_amount"],
        _order,
        after=(START, *_FIRST, *_MARKS, "delete"), at="form", actions=3, ends="done",
        touches=lambda slots: facts(fact("order", slots["order"])),
        tool=lambda slots: _call("add_order", thing=slots["order"], amount=slots["order_amount"]),
        needs=("order",),
    ),
    Subtask(
        "cancel", "Cancel the {cancel} order.",
        lambda state, slots: not _amount(state, slots["cancel"]),
        lambda state, slots, elements: _cancel(state, elements, slots["cancel"]),
        after=(START, *_FIRST, *_MARKS, "delete", "order"), at="done", actions=2,
        touches=lambda slots: facts(fact("order", slots["cancel"])),
        tool=lambda slots: _call("cancel_order", thing=slots["cancel"]),
        needs=("cancel",),
    ),
    Subtask(
        "pick", "Pick the {pick} in the form.",
        lambda state, slots: state["screen"] == "form" and state["form"]["pick"] == slots["pick"],
        _pick,
        after=(START, *_FIRST, *_MARKS, "delete", "cancel"), at="form", actions=1, lasting=False,
        needs=("pick",),
    ),
    Subtask(
        "finished", "Open the done tab.",
        lambda state, slots: state["screen"] == "done",
        lambda state, slots, elements: HAND.tap(elements, "done"),
        after=(START, *_FIRST, *_MARKS, "delete"), at="done", actions=0, lasting=False,
    ),
    Subtask(
        "ask", "How many {ask_words} are ordered?",
        lambda state, slots: state["answer"] == str(_amount(state, slots["ask"])),
        _ask,
        after=(START, *_FIRST, *_MARKS, "delete", "order", "cancel"), at="done", actions=1,
    ),
    Subtask(
        "missing", "Delete the {missing}.",
        lambda state, slots: False,
        lambda state, slots, elements: _to_thing(state, elements, slots["missing"]) or HAND.give_up(),
        after=(START,), at="list", actions=1, feasible=False,
    ),
)  # fmt: skip


def fill(rng: random.Random, path: tuple[str, ...], state: State) -> Slots:
    """Different things for the subtasks of a path: starred or marked ones where a flag goes, ordered ones to cancel."""
    slots: Slots = {}
    used: set[str] = set()
    near = state["things"] if len(path) <= 2 else state["things"][:SHOWN]  # long paths stay free of swipes
    pools = {
        "unstar": state["starred"],
        "unmark": state["marked"],
        "star": without(near, state["starred"]),
        "mark": without(near, state["marked"]),
        "show": near,
        "delete": near,
        "cancel": [name for name, _ in state["orders"]],
        "ask": [name for name, _ in state["orders"]],
        "order": state["choices"],
        "pick": state["choices"],
        "missing": without(sorted(THINGS), state["things"]),
    }
    for name in pools:  # the narrowest pools first
        if name in path:
            slots[name] = rng.choice(without(pools[name], used))
            used.add(slots[name])
    if "order" in path:
        ready = state["form"]["amount"]
        slots["order_amount"] = rng.choice([amount for amount in (ready - 1, ready + 1) if amount > 0])
        slots["order_words"] = counted(slots["order_amount"], slots["order"])
    if "ask" in path:
        slots["ask_words"] = THINGS[slots["ask"]].plural
    return slots


_THING = {"type": "string", "description": "name of a thing"}
_AMOUNT = {"type": "integer", "description": "how many"}
_MARKED = {"type": "boolean", "description": "true to mark, false to remove the mark"}

TOOLS = (
    ToolSpec.of(f"{NAME}.add_order", "Order a thing.", {"thing": _THING, "amount": _AMOUNT}),
    ToolSpec.of(f"{NAME}.cancel_order", "Cancel the order of a thing.", {"thing": _THING}),
    ToolSpec.of(f"{NAME}.set_mark", "Mark a thing or remove its mark.", {"thing": _THING, "marked": _MARKED}),
)

NAMES = ("list", "form", "done", "back", "star", "trash", "plus", "minus", "check")

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
    home="list",
    names=(*sorted(THINGS), *NAMES),
    pools={name: sorted(THINGS) for subtask in SUBTASKS for name in subtask.needs},
)
