"""What a task of several programs is made of, and its verdict.

In: a `Kind` and a seed. Out: an instance whose goal is exact everywhere at once: the open document, its saved file and
where that lies, every other file, and what the mail app says of itself. What was done beside the task counts against
it.
"""

from __future__ import annotations

import base64
import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..apps.mail.tasks import outcome
from ..libreoffice import case
from ..libreoffice.case import FILES, NAMES, Case, Part, generator
from ..libreoffice.tools import SPECS
from ..suite import DesktopKind, State, split_of

SCREEN = DesktopKind("office", 1600, 900, beside=780)


@dataclass(frozen=True)
class Job(Case):
    """programs: beside LibreOffice. beside: texts of the files there at first; files: at the end, all of them, None
    where nothing changes. opened: by the editor. place: where the document lies at the end, "" where it began. mails:
    of the mail app. attached: texts of the files that can be saved there, by name. told: facts of the mail app that are
    new at the end (see `outcome`)."""

    files: dict[str, str] | None = None
    programs: tuple[str, ...] = ()
    beside: dict[str, str] = field(default_factory=dict)
    opened: str = ""
    place: str = ""
    mails: tuple[dict[str, Any], ...] = ()
    attached: dict[str, str] = field(default_factory=dict)
    told: dict[str, Any] = field(default_factory=dict)

    @property
    def way(self) -> tuple[Part, ...]:
        """The script's parts; saving is where it belongs among them."""
        return self.parts


@dataclass(frozen=True)
class Kind(case.Kind):
    """program: LibreOffice's, that has the document; the id begins with what is beside it."""

    program: str = field(default="calc", kw_only=True)

    @property
    def app(self) -> str:
        """Which of LibreOffice's programs it is for."""
        return self.program

    @cached_property
    def offered(self) -> list[str]:
        """Tools that its scripts may call."""
        way = self.make(generator(self.id, 0)).way
        return [case.whole(self.app, name) for part in way for name, _ in part.tools or ()]


@dataclass(frozen=True)
class Instance(case.Instance):
    """A kind with its seed. goals: by name, all of them to be met at the end."""

    program: str
    goals: dict[str, Callable[[State], bool]]

    @property
    def app(self) -> str:
        """Which of LibreOffice's programs has the document."""
        return self.program

    def succeeded(self, state: State, declared: str | None, complete: bool) -> bool:
        """See the module; what is infeasible is solved by terminate(failure) alone, with nothing changed (R4)."""
        right = all(goal(state) for goal in self.goals.values())
        if not self.task.feasible:
            return declared == "failure" and right
        return declared == "success" and complete and right


def _goals(job: Job, name: str, web: State) -> dict[str, Callable[[State], bool]]:
    files = job.beside if job.files is None else job.files
    goals: dict[str, Callable[[State], bool]] = {
        "document": lambda state: case.same(state, "document", job),
        "saved": lambda state: case.same(state, "saved", job),
        "place": lambda state: state["place"] == (job.place or name),
        "files": lambda state: state["files"] == files,
    }
    if web:
        facts = {**outcome(web), **job.told}
        goals["mail"] = lambda state: "web" in state and outcome(state["web"]) == facts
    return goals


def _steps(job: Job, goals: dict[str, Callable[[State], bool]]) -> tuple[Callable[[State], bool], ...]:
    """The goals that are not met from the beginning."""
    changed = {
        "document": job.after,
        "saved": job.after,
        "place": job.place,
        "files": job.files is not None,
        "mail": job.told,
    }
    return tuple(goals[name] for name, change in changed.items() if change)


def instantiate(kind: Kind, seed: int) -> Instance:
    """The instance that belongs to `seed`; ValueError for a seed of no split, UserError where the mail app is wanted
    and one of its packages was not fetched."""
    split_of(seed)
    job, name, web, tools = kind.make(generator(kind.id, seed)), NAMES[kind.app], {}, SPECS[kind.app]
    if "mail" in job.programs:
        mail = importlib.import_module("..apps.mail.app", __package__).APP  # reads packages that may be missing
        web = {"page": mail.page, "state": {**mail.initial(seed), "mails": list(job.mails)}, "attached": job.attached}
        tools = (*tools, *mail.tools)
    goals = _goals(job, name, web.get("state", {}))
    return Instance(
        task=kind.task,
        seed=seed,
        page=SCREEN,
        instruction=kind.text.format(**job.slots),
        initial={
            "file": name,
            "data": base64.b64encode(FILES[kind.app](job.before)).decode(),
            "beside": job.beside,
            "names": list(job.programs),
            "opened": job.opened,
            "web": web,
        },
        checkpoints=_steps(job, goals) if kind.feasible else (lambda state: False,),
        tools=tools,
        case=job,
        program=kind.program,
        goals=goals,
    )
