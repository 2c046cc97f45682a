"""The suites `infeasible`, `infeasible-apps` and `infeasible-memory`: one thing that a task names does not exist.

The tasks are those of `virtual`, `apps` and `memory`, word for word but for that one.

In: such a task and a seed. Out: its instance with one slot renamed to what the seed's content holds
nowhere; all that comes before may be done, and the one right end is terminate(failure) (R4). Task ids are those of the
suite that they come from, so that the two are told apart by nothing but the screen.
"""

from __future__ import annotations

import dataclasses
import json
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from .virtual.app import App, State, Task, TaskInstance, generator, make_instance
from .virtual.icons import THINGS
from .virtual.words import counted


@dataclass(frozen=True, eq=False)
class Infeasible:
    """The tasks `whole`, which are those of `apps` (by name), with something missing."""

    whole: Callable[[], Mapping[str, Task]]
    apps: Callable[[], Mapping[str, App]]

    def tasks(self) -> Mapping[str, Task]:
        """Every feasible task that names something, by its id there."""
        return self._tasks

    @cached_property
    def _tasks(self) -> dict[str, Task]:
        return {
            task.id: dataclasses.replace(task, feasible=False, tool_beneficial=-1, tags=(*task.tags, "infeasible"))
            for task in self.whole().values()
            if task.feasible and needed(self.apps()[task.app], task)
        }

    def instantiate(self, task: Task, seed: int) -> TaskInstance:
        """The instance that belongs to `seed`; raises ValueError for a seed of no split."""
        app = self.apps()[task.app]
        whole = make_instance(app, self.whole()[task.id], seed)
        rng = generator("infeasible", task.id, seed)
        k, slot = rng.choice(needed(app, task))
        slots = {**whole.slots, slot: _absent(rng, app, slot, whole)}
        if f"{slot}_words" in slots and slots[slot] in THINGS:
            slots[f"{slot}_words"] = counted(slots[f"{slot}_amount"], slots[slot])
        texts = tuple(app.by_id[name].text.format(**slots) for name in task.path)
        checkpoints = tuple(_never if k == place else old for place, old in enumerate(whole.checkpoints))
        return dataclasses.replace(
            whole,
            task=task,
            slots=slots,
            instruction=" ".join(texts),
            checkpoints=checkpoints,
            final=_never,
            subtask_texts=texts,
            absent=task.path[k],
        )


def needed(app: App, task: Task) -> list[tuple[int, str]]:
    """(place in the path, slot) of everything that the task needs to exist."""
    return [(k, slot) for k, name in enumerate(task.path) for slot in app.by_id[name].needs]


def _absent(rng: random.Random, app: App, slot: str, whole: TaskInstance) -> str:
    """Another value of the slot's pool, which neither the state nor the instruction names."""
    held = json.dumps(whole.initial, ensure_ascii=False) + whole.instruction
    free = [name for name in app.pools[slot] if not _names(held, name)]
    if not free:
        raise ValueError(f"app {app.name}: every value of the pool {slot!r} is in the state of seed {whole.seed}")
    return rng.choice(free)


def _names(text: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


def _never(state: State) -> bool:
    return False
