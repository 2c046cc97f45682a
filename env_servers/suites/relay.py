"""The suite `relay`: two devices in one task. A memo is read on the one, and what it says is put on the other.

Both show the app of the suite `memory` for their family, each with a state of its own; nothing travels between them but
what the policy knows. It goes from one to the other by the tool `devices.switch`, which is a step.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from . import memory, suite
from .memory.app import DEVICES, PLACES, WHERE, content, memo_of, put, said, screen_facts, to_memo
from .memory.app import outcome as app_outcome
from .suite import SWITCH, PageKind, State, split_of
from .virtual.app import generator
from .virtual.gestures import Element, Hand, Move

CALLED = {"mobile": "phone", "desktop": "desktop", "web": "web page"}
TEXTS = {
    "number": "type its number into the form",
    "thing": "pick its thing in the cart",
    "colour": "set the flag to its colour",
}
ACTIONS = 5  # of the longest script: list, memo, switch, the place, the value


@dataclass(frozen=True)
class Task(suite.Task):
    """goal: the device where the `kind` of value goes that is read on `device`."""

    goal: str
    kind: str

    @property
    def devices(self) -> tuple[str, ...]:
        """Where it is read, and where it goes."""
        return self.device, self.goal


@dataclass(frozen=True)
class TaskInstance(suite.TaskInstance):
    """memo: the name of the memo to read, value: what it says."""

    memo: str
    value: str

    @property
    def pages(self) -> Mapping[str, PageKind]:
        """The memo app of each device."""
        return {device: memory.registry[f"memos_{device}"].kind for device in self.task.devices}

    def succeeded(self, state: State, declared: str | None, complete: bool) -> bool:
        """The value is where it belongs, and nothing else on either device has changed."""
        done = state["devices"][self.task.goal][WHERE[self.task.kind]] == self.value
        return declared == "success" and complete and done and not self._strayed(state)

    def _strayed(self, state: State) -> list[str]:
        before, after = _outcome(self.initial), _outcome(state)
        wanted = f"{self.task.goal} {WHERE[self.task.kind]}"
        return sorted(
            key for key in before.keys() | after.keys() if before.get(key) != after.get(key) and key != wanted
        )

    def move(self, state: State, elements: Sequence[Element], met: Sequence[bool], tools: Sequence[str]) -> Move:
        """Read, hand over, put."""
        here, task = state["device"], self.task
        wanted = task.goal if met[0] else task.device
        if all(met):
            return self._hand(here).finish()
        if here != wanted:
            return Move({"name": SWITCH, "arguments": {"to": wanted}}, f"Go to the {CALLED[wanted]}.")
        shown, hand = state["devices"][here], self._hand(here)
        if met[0]:
            return put(shown, elements, hand, task.kind, self.value)
        return to_memo(shown, elements, hand, self.memo) or hand.give_up()

    def _hand(self, device: str) -> Hand:
        page = self.pages[device]
        return Hand(device, page.width, page.height)

    def known(self, state: State) -> dict[str, Any]:
        """See `suite.TaskInstance.known`; the facts are those of the screen in front."""
        here = state["device"]
        notes = said(state["devices"][here], self.memo, self.task.kind) if here == self.task.device else []
        return {
            "facts": screen_facts(state["devices"][here]), "outcome": _outcome(state), "strayed": self._strayed(state),
            "subtasks": _texts(self.task.device, self.task.goal, self.task.kind, self.memo),
            "notes": notes,
        }  # fmt: skip


def _outcome(state: State) -> dict[str, Any]:
    """What was typed, picked and starred on either device."""
    return {f"{d} {key}": value for d, one in state["devices"].items() for key, value in app_outcome(one).items()}


def _texts(source: str, goal: str, kind: str, memo: str) -> list[str]:
    return [f"Open the {memo} on the {CALLED[source]}.", f"On the {CALLED[goal]}, {TEXTS[kind]}."]


@cache
def tasks() -> Mapping[str, Task]:
    """A task for every two families, each way, and every kind of value."""
    return {
        task.id: task
        for source, goal in itertools.permutations(DEVICES, 2)
        for task in (_task(source, goal, kind) for kind in PLACES)
    }


def _task(source: str, goal: str, kind: str) -> Task:
    return Task(
        id=f"relay/{source}-{goal}-{kind}",
        device=source,
        instruction_template=" ".join(_texts(source, goal, kind, "{memo}")),
        tags=("relay", source, goal, kind),
        tool_beneficial=-1,
        feasible=True,
        max_steps=2 * ACTIONS + 2,
        goal=goal,
        kind=kind,
    )


def instantiate(task: Task, seed: int) -> TaskInstance:
    """The instance that belongs to `seed`; raises ValueError for a seed of no split."""
    split_of(seed)
    rng = generator("relay", task.id, seed)
    there = content(rng, task.device)
    names = [memo["name"] for memo in there["memos"]]
    beyond = content(rng, task.goal, avoid=names)
    beyond["choices"] = rng.sample([memo["thing"] for memo in there["memos"]], 4)
    memo = rng.choice(names)
    value = memo_of(there, memo)[task.kind]

    def opened(state: State) -> bool:
        shown = state["devices"][task.device]
        return shown["screen"] == "memo" and shown["item"] == memo

    def placed(state: State) -> bool:
        return state["devices"][task.goal][WHERE[task.kind]] == value

    return TaskInstance(
        task=task,
        seed=seed,
        page=memory.registry[f"memos_{task.device}"].kind,
        instruction=" ".join(_texts(task.device, task.goal, task.kind, memo)),
        initial={"device": task.device, "devices": {task.device: there, task.goal: beyond}},
        checkpoints=(opened, placed),
        tools=(),
        memo=memo,
        value=value,
    )
