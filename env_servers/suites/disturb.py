"""Disturbances of a session: pop-ups, bars, dialogs, a slow page, checks for persons. They lie over any suite's page.

In: an instance and the kinds that its session asks for. Out: the same task with those in its way, placed and timed by
the seed. What they do is part of the state JSON (`disturbances`) and of no predicate; a policy gets rid of them by its
own actions, and so does the script. Drawn by disturb.js.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from env_servers.errors import UserError

from .suite import PageKind, State, TaskInstance
from .virtual.gestures import Element, Hand, Move

COST = {
    "popup": 1,
    "cookies": 1,
    "permission": 1,
    "notification": 1,
    "loading": 1,
    "tick": 2,
    "order": 3,
    "rotate": 4,
    "slider": 2,
}
"""Actions that each kind takes to be got rid of, at most."""


@cache
def _script() -> str:
    return Path(__file__).with_suffix(".js").read_text(encoding="utf-8")


def _planned(kind: str, rng: random.Random) -> dict[str, Any]:
    """A disturbance: at, the observation that first shows it; x, y, side, where; and what its kind needs."""
    item: dict[str, Any] = {
        "kind": kind,
        "at": rng.randint(0, 1),
        "x": round(rng.random(), 3),
        "y": round(rng.random(), 3),
        "side": rng.randint(0, 1),
    }
    match kind:
        case "loading":
            item["seconds"] = rng.randint(1, 3)
        case "tick":
            item["ticked"] = False
        case "order":
            item |= {"order": rng.sample((1, 2, 3), 3), "done": 0}
        case "rotate":
            item["turns"] = rng.randint(1, 3)
        case "slider":
            item["knob"], item["goal"] = rng.sample(range(5), 2)
    return item


@dataclass(frozen=True)
class Disturbed(TaskInstance):
    """`inner` with something in its way; all that is asked about it is asked of `inner`."""

    inner: TaskInstance

    def ended(self, state: State) -> bool:
        """As the task underneath says."""
        return self.inner.ended(state)

    def succeeded(self, state: State, declared: str | None, complete: bool) -> bool:
        """As the task underneath says."""
        return self.inner.succeeded(state, declared, complete)

    def move(self, state: State, elements: Sequence[Element], met: Sequence[bool], tools: Sequence[str]) -> Move:
        """First what is in the way, then the task's own move."""
        item = state["disturbances"]["showing"]
        if item is None:
            return self.inner.move(state, elements, met, tools)
        hand = Hand(self.task.device, self.page.width, self.page.height)
        match item["kind"]:
            case "popup" | "notification":
                return hand.tap(elements, "close")
            case "permission":
                return hand.tap(elements, "deny")
            case "cookies":
                return hand.tap(elements, "accept")
            case "loading":
                return hand.wait(item["seconds"])
            case "tick":
                return hand.tap(elements, "check" if item["ticked"] else "box")
            case "order":
                return hand.tap(elements, str(item["done"] + 1))
            case "rotate":
                return hand.tap(elements, "turn" if item["turns"] else "check")
            case "slider":
                there = item["knob"] == item["goal"]
                return hand.tap(elements, "check" if there else f"place {item['goal'] + 1}")
        raise AssertionError(f"no script for the disturbance {item['kind']!r}")


def disturbed(instance: TaskInstance, kinds: Sequence[str]) -> TaskInstance:
    """The instance with these disturbances in its way, in this order, and the steps that they take on top.

    The same seed and kinds give the same ones. Without any it is the instance itself. Raises UserError for a task of
    several devices, or where the instance is not played on a page.
    """
    if not kinds:
        return instance
    if len(instance.task.devices) > 1:
        raise UserError(f"nothing can get in the way of {instance.task.id}: it has several devices; leave out disturb")
    if not isinstance(instance.page, PageKind):
        raise UserError(f"disturbances lie over pages only, and {instance.task.id} has a desktop: leave them out")
    rng = random.Random(f"disturb:{instance.seed}:{','.join(kinds)}")
    more = sum(2 * COST[kind] for kind in kinds)
    return Disturbed(
        task=dataclasses.replace(instance.task, max_steps=instance.task.max_steps + more),
        seed=instance.seed,
        page=dataclasses.replace(instance.page, after=instance.page.after + _script()),
        instruction=instance.instruction,
        initial={**instance.initial, "disturb": [_planned(kind, rng) for kind in kinds]},
        checkpoints=instance.checkpoints,
        tools=instance.tools,
        inner=instance,
    )
