"""Browsers that must not outlive their owner: found by a label on their command line and ended, profile and all (R36).

In: the process table (/proc). Out: nothing of a dead owner is left. On systems without /proc there is nothing to find.
A label is `PID.START.NUMBER`: the owner's process id, when it started, and a number of its own for each browser.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

_LABEL = "--gui-rl-owner="
_PROFILE = "--user-data-dir="
_PROC = Path("/proc")
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Labelled:
    """A browser process with a label, and the profile folder that it was given."""

    pid: int
    label: str
    profile: Path | None

    @property
    def owner(self) -> int:
        """Process id of the server that started it."""
        return int(self.label.split(".")[0])

    @property
    def orphaned(self) -> bool:
        """Whether its owner is gone (its process id may belong to another by now)."""
        return started(self.owner) != self.label.split(".")[1]

    def end(self) -> None:
        """Kill the process and remove its profile."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, signal.SIGKILL)
        remove(self.profile)


def started(pid: int) -> str | None:
    """When a process was started, in kernel ticks: with the pid it names one process for good. None: not running."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return None if fields[0] == "Z" else fields[19]


def new_label() -> str:
    """The command line switch that marks one browser of this process (Chromium ignores it)."""
    return f"{_LABEL}{os.getpid()}.{started(os.getpid())}.{next(_numbers)}"


def labelled() -> list[Labelled]:
    """Every labelled browser on this machine.

    A child that a browser has just forked bears its command line until it executes its own; it is not listed.
    """
    found = {}
    for folder in _PROC.glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
        except OSError:
            continue
        label, profile = (next((w for w in words if w.startswith(name)), "") for name in (_LABEL, _PROFILE))
        parts = label.removeprefix(_LABEL).split(".")
        if len(parts) == 3 and parts[0].isdigit():
            folder_given = Path(profile.removeprefix(_PROFILE)) if profile else None
            found[int(folder.name)] = Labelled(int(folder.name), ".".join(parts), folder_given)
    parents = {pid: found.get(_parent(pid)) for pid in found}
    return [one for pid, one in found.items() if parents[pid] is None or parents[pid].label != one.label]


def _parent(pid: int) -> int | None:
    """The parent's process id; None where the process has ended."""
    try:
        return int((_PROC / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[1])
    except (OSError, IndexError):
        return None


def browsers_of(owner: int) -> list[int]:
    """Process ids of the browsers that the process `owner` started."""
    return [browser.pid for browser in labelled() if browser.owner == owner]


def find(label: str) -> Labelled | None:
    """The browser with the label that `new_label` gave."""
    return next((browser for browser in labelled() if browser.label == label.removeprefix(_LABEL)), None)


def remove(profile: Path | None) -> None:
    """Remove a browser's profile, if it is one that was made for it alone."""
    if profile is not None and profile.name.startswith("playwright_"):
        shutil.rmtree(profile, ignore_errors=True)


def reap() -> list[int]:
    """End every labelled browser whose owner is gone; returns their process ids."""
    orphans = [browser for browser in labelled() if browser.orphaned]
    for browser in orphans:
        browser.end()
    return [browser.pid for browser in orphans]
