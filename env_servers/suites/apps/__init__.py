"""The suite `apps`: twelve apps of everyday size, built on well-kept front-end packages, with exact predicates.

An app is a folder with app.py (its `APP`: state, task DAG, predicates, scripts, tools), page.js and page.css. All else
(tasks as paths through the DAG, instances, verdicts) is that of the virtual suite (`virtual.app`).
"""

from __future__ import annotations

import importlib
from functools import cache

from ..virtual.app import App, Task, TaskInstance, make_instance

NAMES: tuple[str, ...] = (
    *("ride", "tickets", "notes", "food"),
    *("writer", "sheet", "settings", "explorer"),
    *("mail", "search", "admin", "market"),
)
"""The apps, four of each device family: mobile, desktop, web."""


@cache
def registry() -> dict[str, App]:
    """The apps by name; raises UserError where a front-end package was not fetched."""
    return {name: importlib.import_module(f".{name}.app", __package__).APP for name in NAMES}


@cache
def tasks() -> dict[str, Task]:
    """All tasks of the suite by their id."""
    return {task.id: task for app in registry().values() for task in app.tasks()}


def instantiate(task: Task, seed: int) -> TaskInstance:
    """The instance of `task` that belongs to `seed`; the same pair gives the same instance everywhere."""
    return make_instance(registry()[task.app], task, seed)
