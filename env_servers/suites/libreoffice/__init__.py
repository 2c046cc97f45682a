"""The suite `libreoffice`: real documents in real LibreOffice (Calc, Writer, Impress) on a display of their own.

A task is a `case.Kind`: an initial file made by code, an exact goal on the open document and on the saved file, and a
way by hand and by tools. The desktops are those of `env_servers.desktop`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from .. import suite
from . import calc, case, impress, writer
from .tools import SPECS as SPECS

KINDS: dict[str, case.Kind] = {kind.id: kind for module in (calc, writer, impress) for kind in module.KINDS}


@cache
def tasks() -> Mapping[str, suite.Task]:
    """All tasks by their id ("calc/sum")."""
    return {name: kind.task for name, kind in KINDS.items()}


def instantiate(task: suite.Task, seed: int) -> case.Instance:
    """The instance of `task` that belongs to `seed`; raises ValueError for a seed of no split."""
    return case.instantiate(KINDS[task.id], seed)
