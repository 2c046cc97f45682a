"""The server's side of the desktops: a pool of them, each a `Screen` behind a process of its own (`host`).

In: desktop kinds, and initial states `{"file": name, "data": base64}`. Out: screens that are leased to one user at a
time. LibreOffice is started anew from a golden profile for every lease, ahead of time, in the background.

A desktop's own faults become `DesktopLost` with their name in front: office_lost, program_lost (one beside it),
not_started, dialog, locked, not_maximised, unreadable, disk_full, silent (no reply within `timeout_s`: a dialog or
LibreOffice itself blocks), host_lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from subprocess import DEVNULL, PIPE, run
from typing import Any

from .. import orphans
from ..browser import find_chromium
from ..errors import UserError
from ..inputs import UNTOUCHING, WAIT_LIMIT_S
from ..protocol.actions import to_pixels
from ..screens import ScreenError, ScreenLost, Unsupported, View, png_size
from ..suites.suite import DesktopKind

PREFIX = "gui-rl-desktop-"
PACKAGES = (
    "libreoffice-calc libreoffice-writer libreoffice-impress libreoffice-script-provider-python"
    " python3-uno python3-xlib xvfb openbox fonts-dejavu-core"
)
PROGRAMS = ("soffice", "Xvfb", "openbox", "setpriv")
BESIDE_PACKAGES = "pcmanfm xterm l3afpad bubblewrap"  # and Chromium, as for all pages
BESIDE_PROGRAMS = ("pcmanfm", "xterm", "l3afpad", "bwrap", "bash")
START_S, END_S = 40.0, 5.0
IDLE_DESKTOPS = 2  # kept ready; each takes 0.2 to 0.3 GB
LONGEST_LINE = 2**25  # bytes of a reply: a picture in base64


class DesktopLost(ScreenLost):
    """The desktop, or a program that it needs, has died, hangs, or is not as it must be."""


class DesktopError(ScreenError):
    """Something that the desktop was asked for failed in a way nobody foresaw."""


@cache
def find_python() -> str:
    """The Python that has the bindings of LibreOffice and X: $GUI_RL_DESKTOP_PYTHON, else the system's.

    Raises UserError that names the packages where it, or a program that a desktop needs, is missing.
    """
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    named = os.environ.get("GUI_RL_DESKTOP_PYTHON")
    for python in [named] if named else ["/usr/bin/python3", "python3"]:
        if not missing and shutil.which(python) and _scripts():
            asked = run([python, "-c", "import uno, Xlib"], stdin=DEVNULL, capture_output=True, env=_environment())
            if asked.returncode == 0:
                return python
    what = f"the program {missing[0]}" if missing else "a Python that can import uno and Xlib, and scripts in Python"
    raise UserError(
        f"the suite 'libreoffice' needs {what}: `apt-get install --no-install-recommends {PACKAGES}`"
        " (scripts/setup.sh env,desktop does it where it may)"
    )


@cache
def find_beside() -> str:
    """Chromium, where the programs beside LibreOffice are all there (see `programs`); UserError says what is not."""
    for name in BESIDE_PROGRAMS:
        if shutil.which(name) is None:
            raise UserError(
                f"the suite 'office' needs the program {name} beside LibreOffice: `apt-get install"
                f" --no-install-recommends {BESIDE_PACKAGES}` (scripts/setup.sh env,desktop does it where it may)"
            )
    return find_chromium()


def _scripts() -> bool:
    """Whether LibreOffice can run scripts in Python."""
    return Path(shutil.which("soffice")).resolve().with_name("pythonscript.py").exists()


def _environment() -> dict[str, str]:
    """Of a host: nothing of this process' own settings, so that every desktop is alike."""
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    return {**kept, "PYTHONPATH": str(Path(__file__).resolve().parents[2]), "PYTHONDONTWRITEBYTECODE": "1"}


class Desktop:
    """One desktop on lease."""

    def __init__(self, kind: DesktopKind, timeout_s: float) -> None:
        self.kind, self.timeout_s, self.usable = kind, timeout_s, True
        self.ready: asyncio.Task[None] | None = None  # LibreOffice being started anew
        self._answer, self._acted = "", 0
        self._process: asyncio.subprocess.Process | None = None
        self._busy = asyncio.Lock()
        self._folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{orphans.new_label().partition('=')[2]}-"))

    @property
    def pid(self) -> int:
        """Of the host."""
        return self._process.pid

    @property
    def folder(self) -> Path:
        """Where all its files are."""
        return self._folder

    @property
    def _log(self) -> Path:
        return self._folder / "host.log"

    async def open(self) -> None:
        """Start all of it. Raises UserError, DesktopLost."""
        python = await asyncio.to_thread(find_python)
        more = {"GUI_RL_CHROMIUM": await asyncio.to_thread(find_beside)} if self.kind.beside else {}
        sizes = map(str, (self.kind.width, self.kind.height, self.kind.beside))
        label = f"--gui-rl-owner={self._folder.name.removeprefix(PREFIX).rpartition('-')[0]}"
        words = ["-m", "env_servers.desktop.host", label, str(self._folder)]
        with self._log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                python, *words, *sizes, stdin=PIPE, stdout=PIPE, stderr=log, env={**_environment(), **more},
                start_new_session=True, limit=LONGEST_LINE, cwd="/",
            )  # fmt: skip
        await self._exchange(None, START_S)

    async def ask(self, what: str, **arguments: Any) -> Any:
        """Have the host do something. Raises DesktopLost, DesktopError, Unsupported."""
        return await self._exchange({"do": what, **arguments}, self.timeout_s)

    async def _exchange(self, asked: dict[str, Any] | None, timeout_s: float) -> Any:
        """One line to the host and its reply; `asked` None: only the reply."""
        async with self._busy:
            try:
                async with asyncio.timeout(timeout_s if self.usable else 0):
                    if asked is not None:
                        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
                        await self._process.stdin.drain()
                    line = await self._process.stdout.readline()
            except TimeoutError:
                raise self._lost("silent", f"the desktop did not reply within {timeout_s:g} s") from None
            except (OSError, ValueError) as error:
                raise self._lost("host_lost", str(error)) from error
            except BaseException:  # cancelled half-way: the next reply would be that of this line
                self.usable = False
                raise
        if not line:
            raise self._lost("host_lost", await self._ended())
        reply = json.loads(line)
        if "fault" in reply:
            raise self._lost(reply["fault"], reply["detail"])
        if "unsupported" in reply:
            raise Unsupported(reply["unsupported"])
        if "error" in reply:
            raise DesktopError(reply["error"])
        return reply["result"]

    async def _ended(self) -> str:
        """How the host came to its end, with its last words."""
        try:
            code = await asyncio.wait_for(self._process.wait(), END_S)
        except TimeoutError:
            code = None
        with contextlib.suppress(OSError):
            if words := self._log.read_text(errors="replace").strip().splitlines():
                return f"the process beside the desktop has ended (exit code {code}): {words[-1]}"
        return f"the process beside the desktop has ended (exit code {code})"

    def _lost(self, code: str, detail: str) -> DesktopLost:
        self.usable = False
        return DesktopLost(f"{code}: {detail}")

    # --- the screen -------------------------------------------------------------------------------------------------
    async def load(self, state: Mapping[str, Any]) -> None:
        """Open the document `file`, whose bytes are `data` in base64; what else `Host.load` takes comes as it is."""
        self._answer, self._acted = "", 0
        more = {name: given for name, given in state.items() if name != "file"}
        await self.ask("load", name=state["file"], **more)

    async def view(self, marks: bool = False) -> View:
        """State and picture. A desktop draws no marks."""
        seen = await self.ask("view")
        return View(
            seen["png"], *png_size(seen["png"]), {**seen["state"], "answer": self._answer, "acted": self._acted}
        )

    async def elements(self) -> list[dict[str, Any]]:
        """Name and box, px, of what can be used."""
        found = await self.ask("elements")
        return [{"name": one["name"], "box": one["box"]} for one in found]

    async def tool(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Call a tool; its result."""
        self._acted += 1
        return await self.ask("tool", name=name, arguments=dict(arguments))

    async def perform(self, device: str, arguments: Mapping[str, Any]) -> None:
        """Carry out an action by real input."""
        action, more = arguments["action"], {k: v for k, v in arguments.items() if k not in ("action", "coordinate")}
        if action in UNTOUCHING:
            return
        self._acted += 1
        if action == "answer":
            self._answer = arguments["text"]
        elif action == "wait":
            await asyncio.sleep(min(arguments["time"], WAIT_LIMIT_S))
        else:
            if "coordinate" in arguments:
                x, y = to_pixels(*arguments["coordinate"], self.kind.width, self.kind.height)
                more |= {"x": x, "y": y}
            if action in ("scroll", "hscroll"):
                more["at"] = "coordinate" in arguments
            await self.ask("act", action=action, **more)

    # --- its end ----------------------------------------------------------------------------------------------------
    def renew(self) -> None:
        """Begin to start LibreOffice anew; `ready` is done when it is there."""
        self.ready = asyncio.create_task(self.ask("renew"))
        self.ready.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def close(self) -> None:
        """End the host and all that it has started, and remove its folder."""
        self.usable = False
        if self.ready is not None:
            self.ready.cancel()
        process = self._process
        if process is not None and process.returncode is None:
            with contextlib.suppress(OSError, RuntimeError):
                process.stdin.close()
            try:
                await asyncio.wait_for(process.wait(), END_S)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()  # the kernel ends its children with it
                await process.wait()
        await asyncio.to_thread(remove, self._folder)


def remove(folder: Path) -> None:
    """Remove a desktop's folder, and what a killed X server and a killed LibreOffice leave in the temporary folder."""
    with contextlib.suppress(OSError):
        for line in (folder / "sockets").read_text().splitlines():
            if line.startswith("/tmp/OSL_PIPE_"):
                Path(line).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        number = (folder / "display").read_text().strip().removeprefix(":")
        lock = Path(f"/tmp/.X{number}-lock")
        if number.isdigit() and orphans.started(int(lock.read_text())) is None:
            lock.unlink()
            Path(f"/tmp/.X11-unix/X{number}").unlink()
    shutil.rmtree(folder, ignore_errors=True)


def reap() -> list[Path]:
    """Remove the folders of desktops whose owner is gone (their processes went with it); returns them."""
    found = []
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        owner, _, rest = folder.name.removeprefix(PREFIX).partition(".")
        if owner.isdigit() and orphans.started(int(owner)) != rest.partition(".")[0]:
            remove(folder)
            found.append(folder)
    return found


class Desktops:
    """The desktops of a server: a `screens.Source`."""

    def __init__(self, timeout_s: float = 30.0, idle: int = IDLE_DESKTOPS) -> None:
        self.timeout_s, self.most_idle, self.launches = timeout_s, idle, 0
        self._idle: list[Desktop] = []
        self._all: set[Desktop] = set()
        self._opening = asyncio.Semaphore(1)

    async def __aenter__(self) -> Desktops:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Removes what a killed owner left; desktops are started when they are asked for."""
        await asyncio.to_thread(reap)

    async def stop(self) -> None:
        """End every desktop."""
        self._idle.clear()
        await asyncio.gather(*(self._close(desktop) for desktop in list(self._all)))

    async def lease(self, kind: DesktopKind) -> Desktop:
        """A desktop with a fresh LibreOffice. Raises UserError where a package is missing, DesktopLost."""
        while desktop := next((one for one in self._idle if one.kind == kind), None):
            self._idle.remove(desktop)
            try:
                await desktop.ready
            except (ScreenLost, ScreenError):
                await self._close(desktop)
            else:
                return desktop
        async with self._opening:
            desktop = Desktop(kind, self.timeout_s)
            self._all.add(desktop)
            self.launches += 1
            try:
                await desktop.open()
            except BaseException:
                await self._close(desktop)
                raise
        return desktop

    async def release(self, desktop: Desktop) -> None:
        """Keep it for the next one, its LibreOffice started anew; close it if it is lost, or if enough are kept."""
        if desktop.usable and len(self._idle) < self.most_idle:
            desktop.renew()
            self._idle.append(desktop)
        else:
            await self._close(desktop)

    async def _close(self, desktop: Desktop) -> None:
        self._all.discard(desktop)
        await desktop.close()
