"""The programs beside LibreOffice: a file manager, a terminal, a text editor, a web app in Chromium.

In: their names, the documents' folder, what the web app begins with. Out: their windows in the column at the right of
the display, from top to bottom; the web app's state and elements. Runs in the system's Python.

All of them work in the documents' folder and have their settings in a home of their own. Nothing here reaches a
network: file manager, editor and the terminal's shell run in namespaces of their own (bubblewrap), where there are the
system's programs and that folder alone, always under the same name; Chromium shows one file, resolves no names and is
spoken to through a pipe, so that no port is open.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .display import Display
from .office import Fault

NAMES = {
    "document": "Document",
    "files": "File manager",
    "terminal": "Terminal",
    "editor": "Text editor",
    "mail": "Mail",
}
CLASSES = {"Pcmanfm": "files", "XTerm": "terminal", "L3afpad": "editor", "Chromium": "mail"}
KILLED = range(129, 160)  # exit codes of what was around a program that a signal has ended
START_S, REPLY_S = 20.0, 20.0
PAGE_WIDTH = 1024  # css px that the web app is made for; the column shows them smaller
_HOME, _PLACE = "/user", "/user/Documents"  # as the programs see them
_ROOM = (
    *("bwrap", "--unshare-all", "--die-with-parent", "--uid", "1000", "--gid", "1000", "--clearenv"),
    *("--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib"),
    *("--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--chdir", _PLACE),
)
_WORDS = {"HOME": _HOME, "PATH": "/usr/bin", "TERM": "xterm", "LANG": "C.UTF-8", "TZ": "UTC", "PS1": "$ "}
_XTERM = (
    "xterm",
    "-T",
    "Terminal",
    "-fa",
    "DejaVu Sans Mono",
    "-fs",
    "11",
    "-bg",
    "white",
    "-fg",
    "black",
    "+bc",
    "+sb",
)
_CHROMIUM = (
    *("--remote-debugging-pipe", "--no-first-run", "--no-default-browser-check", "--disable-background-networking"),
    *(
        "--test-type",
        "--disable-component-update",
        "--disable-sync",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-extensions",
    ),
    *("--disable-checker-imaging", "--disable-partial-raster", "--password-store=basic", "--force-color-profile=srgb"),
    *("--font-render-hinting=none", "--host-resolver-rules=MAP * ~NOTFOUND", "--disable-domain-reliability"),
    "--disable-features=Translate,WebUIOmniboxPopup,WebUIOmniboxFullPopup,WebUIOmniboxAimPopup",
)
_SETTINGS = {
    ".config/pcmanfm/default/pcmanfm.conf": "[volume]\nmount_on_startup=0\nmount_removable=0\nautorun=0\n[ui]\n"
    "always_show_tabs=0\nhide_close_btn=1\nside_pane_mode=hidden;places\nview_mode=icon\nshow_hidden=0\n"
    "sort=name;ascending;\nshow_statusbar=0\ntoolbar=navigation;home;\n",
    ".config/libfm/libfm.conf": "[config]\nsingle_click=0\nuse_trash=0\nconfirm_del=1\nthumbnail_local=1\n[ui]\n"
    "big_icon_size=32\nshow_thumbnail=0\n",
    ".config/gtk-3.0/settings.ini": "[Settings]\ngtk-cursor-blink=0\ngtk-enable-animations=0\n"
    "gtk-font-name=DejaVu Sans 9\n",
    ".gtkrc-2.0": 'gtk-cursor-blink = 0\ngtk-font-name = "DejaVu Sans 9"\n',
}
_GTK = {"NO_AT_BRIDGE": "1", "GSETTINGS_BACKEND": "memory", "DBUS_SESSION_BUS_ADDRESS": "disabled:"}


class Web:
    """A page in a window of Chromium, spoken to through a pipe (Chrome DevTools Protocol)."""

    def __init__(
        self, run: Callable[..., subprocess.Popen], folder: Path, page: str, state: dict[str, Any], scale: float
    ):
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "Default").mkdir(parents=True)
        (folder / "Default" / "Preferences").write_text(json.dumps({"browser": {"custom_chrome_frame": False}}))
        (folder / "app.html").write_text(page)
        (self._in, theirs), (mine, out) = os.pipe(), os.pipe()
        self._out = os.fdopen(out, "wb")
        self._held, self._number, self._session = b"", 0, ""
        more = ("--no-sandbox",) if os.geteuid() == 0 else ()
        words = (f"--app={(folder / 'app.html').as_uri()}", f"--user-data-dir={folder}")
        words = (*words, f"--force-device-scale-factor={scale:.4f}", *_CHROMIUM, *more)
        ends = f'exec "$@" 3<&{mine} 4>&{theirs} {mine}<&- {theirs}>&-'
        command = ("bash", "-c", ends, "bash", os.environ["GUI_RL_CHROMIUM"], *words)
        self.process = run(*command, pass_fds=(mine, theirs))
        os.close(mine)
        os.close(theirs)
        self.scale = scale
        end = time.monotonic() + START_S
        while not self._session:
            found = self._ask("Target.getTargets")["targetInfos"]
            page_id = next((one["targetId"] for one in found if one["type"] == "page"), None)
            if page_id:
                self._session = self._ask("Target.attachToTarget", targetId=page_id, flatten=True)["sessionId"]
            elif time.monotonic() > end:
                raise Fault("not_started", "Chromium shows no page")
        while not self.call("typeof window.app?.load === 'function' && document.readyState === 'complete'"):
            if time.monotonic() > end:
                raise Fault("not_started", "the web app did not load")
            time.sleep(0.02)
        self.call(f"Promise.resolve(window.app.load({json.dumps(state)})).then(() => true)")

    def _ask(self, method: str, **arguments: Any) -> dict[str, Any]:
        """The reply of Chromium to a command. Raises Fault(program_lost)."""
        self._number += 1
        line = {"id": self._number, "method": method, "params": arguments}
        if self._session:
            line["sessionId"] = self._session
        try:
            self._out.write(json.dumps(line).encode() + b"\0")
            self._out.flush()
        except BrokenPipeError:
            raise Fault("program_lost", "Chromium, which shows the mail, has ended") from None
        end = time.monotonic() + REPLY_S
        while True:
            reply = json.loads(self._line(end))
            if reply.get("id") == self._number:
                if "error" in reply:
                    raise RuntimeError(f"{method}: {reply['error']['message']}")
                return reply["result"]

    def _line(self, end: float) -> bytes:
        """The next message."""
        while b"\0" not in self._held:
            if not select.select([self._in], [], [], max(0.0, end - time.monotonic()))[0]:
                raise Fault("program_lost", "Chromium, which shows the mail, does not reply")
            some = os.read(self._in, 2**16)
            if not some:
                raise Fault("program_lost", "Chromium, which shows the mail, has ended")
            self._held += some
        text, _, self._held = self._held.partition(b"\0")
        return text

    def call(self, expression: str) -> Any:
        """The value of an expression in the page."""
        found = self._ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(f"the web app: {found['exceptionDetails'].get('exception', {}).get('description')}")
        return found["result"].get("value")

    def end(self) -> None:
        """Close the pipe: Chromium ends with it."""
        with contextlib.suppress(BrokenPipeError):
            self._out.close()
        os.close(self._in)


class Programs:
    """Those of one episode."""

    def __init__(self, run: Callable[..., subprocess.Popen], folder: Path, documents: Path, display: Display) -> None:
        self._run, self._folder, self._documents, self._display = run, folder, documents, display
        self._home = folder / "programs"  # their settings
        self.processes: dict[str, subprocess.Popen] = {}
        self.web: Web | None = None
        self._attached: dict[str, str] = {}

    def start(self, names: list[str], opened: str, web: dict[str, Any]) -> None:
        """Start them in this order and put their windows into the column right of the display's `area`.

        opened: the file that the editor opens. web: {"page": HTML, "state": what it loads, "attached": texts by name of
        the files that can be saved there}. Raises Fault(not_started), Fault(program_lost).
        """
        shutil.rmtree(self._home, ignore_errors=True)
        for name, text in _SETTINGS.items():
            path = self._home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (self._home / "Documents").mkdir()
        x, y = self._display.area[0], 0
        width, height = self._display.width - x, self._display.height // max(1, len(names))
        for name in names:
            self._start(name, opened, web, width)
            self._display.place(self._window(name), x, y, width, height)
            y += height
        if names:
            self._display.activate(self._display.clients()[0][0])

    def _start(self, name: str, opened: str, web: dict[str, Any], width: int) -> None:
        if name == "mail":
            self._attached = web["attached"]
            scale = width / PAGE_WIDTH
            self.web = Web(self._run, self._folder / "browser", web["page"], web["state"], scale)
            self.processes[name] = self.web.process
            return
        words = {
            "files": self._confined("pcmanfm", "--no-desktop", _PLACE),
            "terminal": (*_XTERM, "-e", *self._confined("bash", "--norc", "--noprofile", shown=False)),
            "editor": self._confined("l3afpad", f"{_PLACE}/{opened}"),
        }
        self.processes[name] = self._run(*words[name])

    def _confined(self, *command: str, shown: bool = True) -> tuple[str, ...]:
        """A command where there are the system's programs and the documents' folder alone; shown: and the display."""
        words = dict(_WORDS)
        places: tuple[str, ...] = ("--tmpfs", _HOME)
        if shown:
            fonts = os.environ["FONTCONFIG_FILE"]
            words |= {**_GTK, "DISPLAY": os.environ["DISPLAY"], "FONTCONFIG_FILE": "/fonts.conf"}
            places = ("--ro-bind", "/etc", "/etc", "--ro-bind", fonts, "/fonts.conf", "--bind", str(self._home), _HOME)
            places = (*places, "--ro-bind", "/tmp/.X11-unix", "/tmp/.X11-unix")
        given = tuple(word for name, value in words.items() for word in ("--setenv", name, value))
        return (*_ROOM, *places, "--bind", str(self._documents), _PLACE, *given, *command)

    def _window(self, name: str) -> int:
        """The window of a program, once it has one."""
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            self.check()
            for window_id, program, _ in self._display.clients():
                if CLASSES.get(program) == name:
                    return window_id
            time.sleep(0.02)
        raise Fault("not_started", f"the program {NAMES[name]} shows no window within {START_S:g} s")

    def check(self) -> None:
        """Raises Fault(program_lost) if one was killed; one that was closed has just gone."""
        for name, process in self.processes.items():
            if (process.poll() or 0) < 0 or process.returncode in KILLED:
                raise Fault("program_lost", f"the program {NAMES[name]} was killed (exit code {process.returncode})")

    def busy(self) -> bool:
        """Whether a command of the terminal's shell still runs."""
        process = self.processes.get("terminal")
        if process is None or process.poll() is not None:
            return False
        try:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            front = _stat(int(children[0]))[5]  # the group of processes that has the terminal
            return Path(f"/proc/{front}/comm").read_text().strip() != "bash" or _stat(int(front))[0] != "S"
        except (OSError, IndexError):
            return False

    @property
    def open(self) -> bool:
        """Whether the web app is there and was not closed."""
        return self.web is not None and self.web.process.poll() is None

    def deliver(self) -> None:
        """Put what was saved in the web app into the documents' folder, unless such a file is there."""
        if self._attached and self.open:
            for entry in self.web.call("window.app.state()")["saved"]:
                name = entry.rpartition(": ")[2]
                if name in self._attached:
                    (self._documents / name).write_text(self._attached.pop(name))

    def elements(self) -> list[dict[str, Any]]:
        """What can be used in the web app; each other window as a whole, called as in `NAMES`, the document's too."""
        found: list[dict[str, Any]] = []
        for _, program, box in self._display.clients():
            name = CLASSES.get(program, "document" if self.processes else None)
            if name == "mail" and self.open:
                (x, y), scale = box[:2], self.web.scale
                for one in self.web.call("window.app.elements()"):
                    x0, y0, x1, y1 = (round(side * scale) for side in one["box"])
                    found.append({"name": one["name"], "box": [x + x0, y + y0, x + x1, y + y1]})
            elif name:
                found.append({"name": NAMES[name], "box": box})
        return found

    def end(self) -> None:
        """Kill them all, and remove what Chromium has kept."""
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()
        if self.web is not None:
            self.web.end()
            shutil.rmtree(self._folder / "browser", ignore_errors=True)
        self.processes, self.web, self._attached = {}, None, {}


def _stat(pid: int) -> list[str]:
    """Of /proc/PID/stat what stands behind the name: state, parent, group, session, terminal, the group in front."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
