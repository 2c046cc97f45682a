"""What the desktop apps share: names of people and places, exact ends of paths, and moves every script needs.

A path's end is worked out by carrying the effects of its subtasks out in Python, on a copy of the initial state. A fact
of the app's `outcome` belongs to the last subtask of the path that changes it; a subtask is achieved where all facts
that belong to it have their value at the end of the path. So the end state is right exactly where it equals the one
worked out here, and every other change is a side effect.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..virtual.app import Element, Move, Slots, State
from ..virtual.gestures import Hand

WIDTH, HEIGHT = 1024, 640
HAND = Hand("desktop", WIDTH, HEIGHT)

FIRST = (
    "Alma Boris Clara Dario Elena Felix Greta Hugo Irene Jonas Karla Leon Mira Nico Olga Pavel Rosa Simon Tilda "
    "Umberto Vera Willem Yara Zeno Agnes Bruno Celia Dmitri Esther Farid"
).split()
LAST = (
    "Abbott Berger Castillo Dahl Eriksen Fontana Gruber Hansen Ivanov Janssen Keller Lindqvist Moreau Nowak Okafor "
    "Petrov Quist Rossi Sato Tanaka Ulrich Varga Weber Yilmaz Zeller"
).split()
CITIES = (
    "Lisbon Oslo Vienna Prague Dublin Athens Bergen Geneva Krakow Porto Riga Seville Tallinn Turin Utrecht Valencia "
    "Verona Zagreb Antwerp Bilbao Cologne Florence Ghent Helsinki Innsbruck"
).split()
MONTHS = ("January February March April May June July August September October November December").split()

Effect = Callable[[State, Slots], None]
Outcome = Callable[[State], dict[str, Any]]


def _copy(value: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(value))


def person(rng: random.Random) -> str:
    """A full name."""
    return f"{rng.choice(FIRST)} {rng.choice(LAST)}"


def day(rng: random.Random) -> str:
    """A day and its month."""
    return f"{rng.randint(1, 28)} {rng.choice(MONTHS)}"


def with_goals(
    path: Sequence[str],
    state: State,
    slots: Slots,
    outcome: Outcome,
    effects: Mapping[str, Effect],
    answers: Mapping[str, Callable[[State, Slots], str]],
) -> Slots:
    """`slots` with `goals`, for every subtask of `path` that has an effect the facts that belong to it, and with
    `<subtask>_answer` for those that ask. Raises ValueError where an effect changes nothing."""
    present, goals, found = _copy(state), {}, dict(slots)
    before = _copy(outcome(present))
    for name in path:
        if name in answers:
            found[f"{name}_answer"] = answers[name](present, slots)
        if name not in effects:
            continue
        effects[name](present, slots)
        after = _copy(outcome(present))
        changed = {key: after.get(key) for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
        if not changed:
            raise ValueError(f"the subtask {name} of {'+'.join(path)} changes nothing")
        for others in goals.values():
            for key in changed:
                others.pop(key, None)
        goals[name], before = changed, after
    return {**found, "goals": goals}


def reached(name: str, outcome: Outcome) -> Callable[[State, Slots], bool]:
    """The checkpoint of a subtask with an effect."""

    def checkpoint(state: State, slots: Slots) -> bool:
        facts = outcome(state)
        return all(facts.get(key) == value for key, value in slots["goals"][name].items())

    return checkpoint


def touched(name: str) -> Callable[[Slots], frozenset[str]]:
    """The facts that belong to a subtask with an effect."""
    return lambda slots: frozenset(slots["goals"].get(name, ()))


def answered(name: str) -> Callable[[State, Slots], bool]:
    """The checkpoint of a question: the right answer, in capitals or not."""
    return lambda state, slots: state["answer"].casefold() == slots[f"{name}_answer"].casefold()


def shown(elements: Sequence[Element], name: str) -> bool:
    """Whether an element of that name is on the screen."""
    return any(element.name == name for element in elements)


def fill_box(elements: Sequence[Element], state: State, name: str, held: str, text: str) -> Move | None:
    """Bring the field `name` of the dialog, which holds `held`, to `text`; None where it does."""
    if held == text:
        return None
    if state["focus"] != name:
        return HAND.tap(elements, name)
    return HAND.type(text) if not held or state["picked"] else HAND.keys("ctrl", "a")


def escape(state: State, keep: str = "") -> Move | None:
    """Close a menu or a dialog other than `keep`; None where none is in the way."""
    if state["menu"] not in ("", keep) or state["dialog"]["kind"] not in ("", keep):
        return HAND.keys("escape")
    return None
