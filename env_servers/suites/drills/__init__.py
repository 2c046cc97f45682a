"""The suite `drills`: one primitive action a task, on small screens: hold, drag, scroll, select, slide, press.

In: `DRILLS`, each a scene, a sentence, a predicate and a script. Out: tasks called "<device>/<drill>". Tasks of other
suites are made of these actions; here each is asked for by itself, and nothing else may change.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from ..virtual.app import App, Task, TaskInstance, make_instance
from .app import DRILLS, make_app


@cache
def registry() -> Mapping[str, App]:
    """By the task's id the app of it alone."""
    return {f"{drill.device}/{drill.name}": make_app(drill) for drill in DRILLS}


@cache
def tasks() -> Mapping[str, Task]:
    """All tasks of the suite by their id."""
    return {name: app.tasks()[0] for name, app in registry().items()}


def instantiate(task: Task, seed: int) -> TaskInstance:
    """The instance of `task` that belongs to `seed`; the same pair gives the same instance everywhere."""
    return make_instance(registry()[task.id], task, seed)
