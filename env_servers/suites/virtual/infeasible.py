"""The suite `infeasible`: the virtual tasks, word for word, but one thing or folder that they name does not exist.

In: a virtual task and a seed. Out: its instance with one slot renamed to what the seed's content holds nowhere; all
that comes before may be done, and the one right end is terminate(failure) (R4). Task ids are those of the virtual
suite, so that the two are told apart by nothing but the screen.
"""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Mapping
from functools import cache

from . import registry
from . import tasks as virtual_tasks
from .app import App, State, Task, TaskInstance, generator, make_instance
from .icons import COLOURS, THINGS
from .words import counted


def _needed(app: App, task: Task) -> list[tuple[int, str]]:
    """(place in the path, slot) of everything that the task needs to exist."""
    return [(k, slot) for k, name in enumerate(task.path) for slot in app.by_id[name].needs]


@cache
def tasks() -> Mapping[str, Task]:
    """Every feasible virtual task that names something, by its id there."""
    return {
        task.id: dataclasses.replace(task, feasible=False, tool_beneficial=-1, tags=(*task.tags, "infeasible"))
        for task in virtual_tasks().values()
        if task.feasible and _needed(registry[task.app], task)
    }


def _absent(rng: random.Random, value: str, state: State) -> str:
    """Another thing (or colour, where `value` is one) that the state names nowhere."""
    held = json.dumps(state)
    pool = THINGS if value in THINGS else COLOURS
    return rng.choice([name for name in sorted(pool) if f'"{name}"' not in held])


def instantiate(task: Task, seed: int) -> TaskInstance:
    """The instance that belongs to `seed`; raises ValueError for a seed of no split."""
    app = registry[task.app]
    whole = make_instance(app, virtual_tasks()[task.id], seed)
    rng = generator("infeasible", task.id, seed)
    k, slot = rng.choice(_needed(app, task))
    slots = {**whole.slots, slot: _absent(rng, whole.slots[slot], whole.initial)}
    if f"{slot}_words" in slots:
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


def _never(state: State) -> bool:
    return False
