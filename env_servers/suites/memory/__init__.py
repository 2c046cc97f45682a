"""The suite `memory`: what one screen shows is needed three screens later, where nothing shows it any more.

A memo holds a number, a thing and a colour. From there it is two steps back and one into the form, the cart or the
flag, where one of them is typed or picked: between reading and using lie at least three screens without it. A policy
that sees one screenshot a turn solves these tasks only if it writes down what it reads (thoughts that keep values,
GUI-Owl-1.5, Table 10). Three small apps, one for each device family.
"""

from __future__ import annotations

from functools import cache

from ..virtual.app import App, Task, TaskInstance, make_instance
from .app import DEVICES, USES, make_app

registry: dict[str, App] = {app.name: app for app in map(make_app, DEVICES)}


@cache
def tasks() -> dict[str, Task]:
    """All tasks of the suite by their id; each ends with the use of a value."""
    return {task.id: task for app in registry.values() for task in app.tasks() if task.path[-1] in USES}


def instantiate(task: Task, seed: int) -> TaskInstance:
    """The instance of `task` that belongs to `seed`; the same pair gives the same instance everywhere."""
    return make_instance(registry[task.app], task, seed)
