"""Exact ends of paths: what an app says once, as effects of its subtasks, gives their checkpoints and what they touch.

A path's end is worked out by carrying the effects of its subtasks out in Python, on a copy of the initial state. A fact
of the app's `outcome` belongs to the last subtask of the path that changes it; a subtask is achieved where all facts
that belong to it have their value at the end of the path. So the end state is right exactly where it equals the one
worked out here, and every other change is a side effect.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ..virtual.app import Slots, State

Effect = Callable[[State, Slots], None]
Outcome = Callable[[State], dict[str, Any]]


def _copy(value: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(value))


def with_goals(
    path: Sequence[str],
    state: State,
    slots: Slots,
    outcome: Outcome,
    effects: Mapping[str, Effect],
    answers: Mapping[str, Callable[[State, Slots], str]],
    passing: Collection[str] = (),
) -> Slots:
    """`slots` with `goals`, for every subtask of `path` that has an effect the facts that belong to it, and with
    `<subtask>_answer` for those that ask. passing: subtasks that a later one may undo (their `lasting` is false): what
    they change is theirs too. Raises ValueError where an effect changes nothing."""
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
        for key in changed:
            for earlier in goals.keys() - set(passing):
                goals[earlier].pop(key, None)
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
    """The checkpoint of a question: the right answer, in capitals or not, with its currency or without."""

    def plain(text: str) -> str:
        return text.casefold().removeprefix("$").removesuffix(" euros")

    return lambda state, slots: plain(state["answer"]) == plain(slots[f"{name}_answer"])
