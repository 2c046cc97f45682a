"""Browsers whose owner was killed: found by a label on their command line and ended, their profiles removed (R36).

In: the process table (/proc). Out: nothing of a dead owner is left. On systems without /proc there is nothing to find.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from pathlib import Path

_LABEL = "--gui-rl-owner="
_PROFILE = "--user-data-dir="
_PROC = Path("/proc")


def _started(pid: int) -> str | None:
    """When a process was started, in the kernel's ticks: with the pid it names one process for good."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return None if fields[0] == "Z" else fields[19]


def label() -> str:
    """The command line switch that marks a browser as this process's own (Chromium ignores it)."""
    return f"{_LABEL}{os.getpid()}.{_started(os.getpid())}"


def _labelled() -> list[tuple[int, str, list[str]]]:
    """(pid, owner, command line) of every labelled browser on this machine."""
    found = []
    for folder in _PROC.glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
        except OSError:
            continue
        if owner := next((word.removeprefix(_LABEL) for word in words if word.startswith(_LABEL)), None):
            found.append((int(folder.name), owner, words))
    return found


def owned_browsers() -> list[int]:
    """Process ids of the browsers that this process started."""
    mine = label().removeprefix(_LABEL)
    return [pid for pid, owner, _ in _labelled() if owner == mine]


def reap() -> list[int]:
    """End every labelled browser whose owner is gone and remove its profile; returns the ids of the processes ended."""
    ended = []
    for pid, owner, words in _labelled():
        owner_pid, _, started = owner.partition(".")
        if not owner_pid.isdigit() or _started(int(owner_pid)) == started:
            continue
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
            ended.append(pid)
        profile = next((Path(word.removeprefix(_PROFILE)) for word in words if word.startswith(_PROFILE)), None)
        if profile is not None and profile.name.startswith("playwright_"):
            shutil.rmtree(profile, ignore_errors=True)
    return ended
