"""The suite `office`: one document in LibreOffice, and beside it what people have there: a file manager, a terminal, a
text editor, a mail app. Every task needs two programs at least.

In: `tasks.KINDS`. Out: instances as of the suite `libreoffice`, whose parts it is made of; the programs are those of
`desktop.programs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from .. import suite
from . import case
from . import tasks as table

KINDS: dict[str, case.Kind] = {kind.id: kind for kind in table.KINDS}


@cache
def tasks() -> Mapping[str, suite.Task]:
    """All tasks by their id ("terminal/lines")."""
    return {name: kind.task for name, kind in KINDS.items()}


def instantiate(task: suite.Task, seed: int) -> case.Instance:
    """The instance of `task` that belongs to `seed`; raises ValueError for a seed of no split, UserError where a
    package of the mail app was not fetched."""
    return case.instantiate(KINDS[task.id], seed)
