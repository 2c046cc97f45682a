"""Memos: read a number, a thing or a colour in a memo, and put it where the memo is out of sight.

One app for each device family. The ways are long on purpose: home leads to every other page, a memo opens from the
list of memos alone, and one step back leads to the list.

State JSON: device · layout {bar, dx, dy, theme, tiles, order, back} · screen home|list|memo|form|cart|done|star ·
memos [{name, number, thing, colour}] · item (open memo), seen [names of memos that were opened] ·
number (typed into the form), focus · choices [things in the cart], pick · flag (colour) ·
shelf [things], starred [things] · answer.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ..virtual.app import START, App, Element, Move, Slots, State, Subtask, generator
from ..virtual.gestures import Hand
from ..virtual.icons import COLOURS, THINGS
from ..virtual.pages import assemble
from ..virtual.words import fact, facts, without, yes

SIZES = {"mobile": (128, 160), "desktop": (160, 128), "web": (160, 128)}
DEVICES = tuple(SIZES)
MOST_ACTIONS = 9
TILES = ("list", "form", "cart", "done", "star")
PLACES = {"number": "form", "thing": "cart", "colour": "done"}
"""Where each value of a memo is put."""
WHERE = {"number": "number", "thing": "pick", "colour": "flag"}
"""The field of the state that then holds it."""
USES = (*PLACES, *(f"put_{kind}" for kind in PLACES))
"""The subtasks that need what a memo says."""


# --- states ----------------------------------------------------------------------------------------------------------
def content(rng: random.Random, device: str, avoid: Sequence[str] = ()) -> State:
    """Four memos about things other than those of `avoid`, whose values all differ."""
    names = rng.sample(without(sorted(THINGS), avoid), 4)
    rest = rng.sample(without(sorted(THINGS), names), 8)
    values = zip(names, rng.sample(range(10, 100), 4), rest[:4], rng.sample(sorted(COLOURS), 4), strict=True)
    return {
        "device": device,
        "layout": {
            "bar": rng.choice(("top", "top", "bottom")),
            "dx": rng.randint(0, 4),
            "dy": rng.randint(0, 4),
            "theme": rng.randint(0, 5),
            "tiles": rng.sample(TILES, len(TILES)),
            "order": rng.sample(tuple(PLACES), len(PLACES)),
            "back": device != "mobile" or rng.random() < 0.7,
        },
        "screen": "home",
        "memos": [
            {"name": name, "number": str(number), "thing": thing, "colour": colour}
            for name, number, thing, colour in values
        ],
        "item": "",
        "seen": [],
        "number": "",
        "focus": False,
        "choices": rng.sample(rest[:4], 4),
        "pick": "",
        "flag": "",
        "shelf": rest[4:],
        "starred": [],
        "answer": "",
    }


def _initial(device: str, seed: int) -> State:
    return content(generator("memory", device, "initial", seed), device)


def _sample_state(device: str, seed: int) -> State:
    rng = generator("memory", device, "sample", seed)
    state = content(rng, device)
    state["screen"] = rng.choice(("home", "memo", *TILES))
    state["seen"] = sorted(memo["name"] for memo in state["memos"] if rng.random() < 0.3)
    state["starred"] = sorted(name for name in state["shelf"] if rng.random() < 0.3)
    state["pick"] = rng.choice(("", *state["choices"]))
    state["flag"] = rng.choice(("", *COLOURS))
    state["number"] = rng.choice(("", str(rng.randint(10, 99))))
    if state["screen"] == "memo":
        state["item"] = rng.choice(state["memos"])["name"]
        state["seen"] = sorted({*state["seen"], state["item"]})
    return state


def memo_of(state: State, name: str) -> dict[str, str]:
    """The memo about `name`."""
    return next(memo for memo in state["memos"] if memo["name"] == name)


def screen_facts(state: State) -> list[tuple[str, str]]:
    """Questions that the present screen answers."""
    screen = state["screen"]
    found = [("Which page is open?", screen)]
    if screen == "list":
        found += [(f"Was the {memo['name']} opened?", yes(memo["name"] in state["seen"])) for memo in state["memos"]]
    if screen == "memo":
        memo = memo_of(state, state["item"])
        found += [(f"What is the {kind}?", memo[kind]) for kind in PLACES]
    if screen == "form":
        found.append(("What is in the box?", state["number"] or "nothing"))
    if screen == "cart":
        found.append(("Which thing is picked?", state["pick"] or "none"))
    if screen == "done":
        found.append(("Which colour is the flag?", state["flag"] or "none"))
    if screen == "star":
        found += [(f"Is the {name} starred?", yes(name in state["starred"])) for name in state["shelf"]]
    return found


def outcome(state: State) -> dict[str, Any]:
    """What was typed, picked and starred."""
    return {
        **{field: state[field] for field in WHERE.values()},
        **{fact("star", name): True for name in state["starred"]},
    }


# --- script ----------------------------------------------------------------------------------------------------------
def _back(state: State, elements: Sequence[Element], hand: Hand) -> Move:
    return hand.tap(elements, "back") if state["layout"]["back"] else hand.system("Back")


def _to_tile(state: State, elements: Sequence[Element], hand: Hand, tile: str) -> Move | None:
    """The move towards a page that opens from home, None where that is the screen."""
    if state["screen"] == tile:
        return None
    return hand.tap(elements, tile) if state["screen"] == "home" else _back(state, elements, hand)


def to_memo(state: State, elements: Sequence[Element], hand: Hand, name: str) -> Move | None:
    """The move towards the open memo about `name`, None where that is the screen."""
    if state["screen"] == "memo" and state["item"] == name:
        return None
    if name not in [memo["name"] for memo in state["memos"]]:
        return _to_tile(state, elements, hand, "list") or hand.give_up()
    if move := _to_tile(state, elements, hand, "list"):
        return move
    return hand.double(elements, name) if hand.device == "desktop" else hand.tap(elements, name)


def put(state: State, elements: Sequence[Element], hand: Hand, kind: str, value: str) -> Move:
    """The move towards `value` being typed or picked at its place."""
    if move := _to_tile(state, elements, hand, PLACES[kind]):
        return move
    if kind != "number":
        return hand.tap(elements, value if kind == "thing" else f"{value} chip")
    if hand.device == "web":
        return hand.enter(elements, "box", value)
    return hand.type(value) if state["focus"] and not state["number"] else hand.tap(elements, "box")


def _use(hand: Hand, kind: str, state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """Read the memo, unless it was read before, then put its value."""
    if slots["memo"] not in state["seen"]:
        return to_memo(state, elements, hand, slots["memo"]) or hand.give_up()
    return put(state, elements, hand, kind, memo_of(state, slots["memo"])[kind])


def _look(hand: Hand, state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    return to_memo(state, elements, hand, slots["memo"]) or _back(state, elements, hand)


def _star(hand: Hand, slot: str, state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    if move := _to_tile(state, elements, hand, "star"):
        return move
    return hand.tap(elements, slots[slot]) if slots[slot] in state["shelf"] else hand.give_up()


# --- the DAG ---------------------------------------------------------------------------------------------------------
def said(state: State, name: str, kind: str) -> list[str]:
    """What the open memo about `name` says of `kind`, as a sentence to remember; nothing on other screens."""
    if (state["screen"], state["item"]) != ("memo", name):
        return []
    return [f"The {kind} is {memo_of(state, name)[kind]}."]


def _subtasks(hand: Hand) -> tuple[Subtask, ...]:
    def using(kind: str) -> dict[str, Any]:
        return {
            "checkpoint": lambda state, slots: state[WHERE[kind]] == slots[kind],
            "move": partial(_use, hand, kind),
            "touches": lambda slots: facts(WHERE[kind]),
            "notes": lambda state, slots: said(state, slots["memo"], kind),
            "needs": ("memo",),
        }

    def starring(slot: str) -> dict[str, Any]:
        return {
            "text": f"Star the {{{slot}}}.",
            "checkpoint": lambda state, slots: slots[slot] in state["starred"],
            "move": partial(_star, hand, slot),
            "touches": lambda slots: facts(fact("star", slots[slot])),
            "needs": (slot,),
        }

    verbs = {
        "number": "Type the number of the {memo} into the form.",
        "thing": "Pick the thing of the {memo} in the cart.",
        "colour": "Set the flag to the colour of the {memo}.",
    }
    reading = [
        Subtask(kind, text, after=(START, "star"), at=PLACES[kind], actions=5, **using(kind))
        for kind, text in verbs.items()
    ]
    putting = [
        Subtask(
            f"put_{kind}", text, at=PLACES[kind], actions=2,
            after=("look", "meanwhile", *(other for other in PLACES if other != kind)), **using(kind),
        )
        for kind, text in verbs.items()
    ]  # fmt: skip
    return (
        Subtask(
            "look", "Open the {memo}.",
            lambda state, slots: state["screen"] == "memo" and state["item"] == slots["memo"],
            partial(_look, hand),
            after=(START,), at="list", actions=1, ends="memo", lasting=False,
            needs=("memo",),
        ),
        Subtask("star", after=(START,), at="star", actions=1, **starring("star")),
        Subtask("meanwhile", after=("look",), at="star", actions=3, **starring("meanwhile")),
        *reading,
        *putting,
    )  # fmt: skip


def _fill(rng: random.Random, path: tuple[str, ...], state: State) -> Slots:
    memo = rng.choice(state["memos"])
    stars = rng.sample(state["shelf"], 2)
    return {"memo": memo["name"], **{kind: memo[kind] for kind in PLACES}, "star": stars[0], "meanwhile": stars[1]}


def make_app(device: str) -> App:
    """The app of a device family, called `memos_<device>`."""
    width, height = SIZES[device]
    name = f"memos_{device}"
    pools: dict[str, Sequence[str]] = dict.fromkeys(("memo", "star", "meanwhile"), sorted(THINGS))
    return App(
        name=name,
        device=device,
        width=width,
        height=height,
        page=assemble(name, width, height, Path(__file__).with_name("page.js")),
        subtasks=_subtasks(Hand(device, width, height)),
        tools=(),
        initial=partial(_initial, device),
        sample_state=partial(_sample_state, device),
        facts=screen_facts,
        fill=_fill,
        outcome=outcome,
        home="home",
        names=(*sorted(THINGS), *TILES, "back", "box", *(f"{colour} chip" for colour in COLOURS)),
        most_actions=MOST_ACTIONS,
        pools=pools,
    )
