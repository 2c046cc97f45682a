"""The task suites by name; what each gives is said in `suite.Suite`."""

from __future__ import annotations

from collections.abc import Mapping

from env_servers.errors import UserError

from . import apps, drills, libreoffice, memory, miniwob, office, relay, virtual
from .infeasible import Infeasible
from .suite import Suite, Task, TaskInstance

SUITES: dict[str, Suite] = {
    "virtual": virtual,
    "memory": memory,
    "drills": drills,
    "relay": relay,
    "apps": apps,
    "infeasible": Infeasible(virtual.tasks, lambda: virtual.registry),
    "infeasible-apps": Infeasible(apps.tasks, apps.registry),
    "infeasible-memory": Infeasible(memory.tasks, lambda: memory.registry),
    "libreoffice": libreoffice,
    "office": office,
    "miniwob": miniwob,
    "miniwob25": miniwob.SMALL,
}


def tasks(suite: str) -> Mapping[str, Task]:
    """All tasks of a suite by id; raises UserError for an unknown suite."""
    if suite not in SUITES:
        raise UserError(f"there is no suite {suite!r}; choose one of: {', '.join(sorted(SUITES))}")
    return SUITES[suite].tasks()


def instantiate(suite: str, task_id: str, seed: int) -> TaskInstance:
    """One instance of a task; raises UserError for an unknown suite or task."""
    known = tasks(suite)
    if task_id not in known:
        raise UserError(f"suite {suite!r} has no task {task_id!r}; `gui-rl env tasks` lists them")
    return SUITES[suite].instantiate(known[task_id], seed)
