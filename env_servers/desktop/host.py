"""The process beside each desktop: owns its display, window manager and LibreOffice, and does as it is told.

In: JSON lines on standard input, `{"do": name, ...}`; see `Host`. Out: a JSON line for each, `{"result": ...}`, or
`{"fault": code, "detail": text}` (the desktop is of no more use), `{"unsupported": text}`, `{"error": text}`. The first
line, `{"result": {"width", "height"}}`, says that the desktop is ready. When standard input ends, whatever it is doing,
the process ends with all that it has started and its folder: none outlives the server (R36).

Run by `room` as `python3 -m env_servers.desktop.host --gui-rl-owner=LABEL FOLDER WIDTH HEIGHT BESIDE`, by the system's
Python. BESIDE: px at the right of the display that are kept for `programs`.
"""

from __future__ import annotations

import base64
import errno
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import uno  # noqa: F401  makes the modules below importable
from com.sun.star.lang import DisposedException

from .display import LONGEST_S, Display, NoSuchKey, start_server
from .office import LOOKS, Fault, Office, write_profile
from .programs import CLASSES, Programs

WINDOW_S = 5.0  # for a window to be there, maximised
STILL_S = 0.45  # a picture as still as this shows what LibreOffice draws late: its toolbars' states (0.3 s)
MANAGER_S = 5.0
ROOM = 2**23  # bytes that must be free: less, and LibreOffice may fail at whatever it writes
DYING_S, ALIVE_S = 0.05, 1.0  # between looks whether it still runs

_OPENBOX = """<?xml version="1.0" encoding="UTF-8"?>
<openbox_config xmlns="http://openbox.org/3.4/rc">
<focus><focusNew>yes</focusNew><followMouse>no</followMouse></focus>
<placement><policy>Smart</policy><center>yes</center></placement>
<theme><name>Clearlooks</name><titleLayout>NLC</titleLayout><animateIconify>no</animateIconify>
<font place="ActiveWindow"><name>DejaVu Sans</name><size>9</size></font>
<font place="InactiveWindow"><name>DejaVu Sans</name><size>9</size></font></theme>
<desktops><number>1</number></desktops>
<keyboard></keyboard>
<mouse><dragThreshold>4</dragThreshold><doubleClickTime>400</doubleClickTime>
<context name="Titlebar">
<mousebind button="Left" action="Press"><action name="Focus"/><action name="Raise"/></mousebind>
<mousebind button="Left" action="Drag"><action name="Move"/></mousebind></context>
<context name="Close"><mousebind button="Left" action="Click"><action name="Close"/></mousebind></context>
{clicks}</mouse>
<menu></menu>
<applications><application type="normal"><maximized>{maximised}</maximized></application>{places}</applications>
</openbox_config>
"""
_CLICKS = """<context name="Client"><mousebind button="Left" action="Press"><action name="Focus"/><action name="Raise"/>
</mousebind><mousebind button="Right" action="Press"><action name="Focus"/><action name="Raise"/></mousebind></context>
"""  # what is clicked has the keyboard: only where there are several programs
_PLACE = """<application class="{name}" type="normal"><position force="yes"><x>{x}</x><y>0</y></position></application>
"""  # none ever lies over LibreOffice, which would draw itself anew
_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
<dir>/usr/share/fonts/truetype/dejavu</dir><cachedir>{cache}</cachedir>
<match target="pattern"><edit name="family" mode="append" binding="weak"><string>DejaVu Sans</string></edit></match>
<match target="font"><edit name="hinting" mode="assign"><bool>false</bool></edit>
<edit name="antialias" mode="assign"><bool>true</bool></edit>
<edit name="rgba" mode="assign"><const>none</const></edit></match>
</fontconfig>
"""


def _with_us(*command: str, signal: str = "KILL", **more: Any) -> subprocess.Popen:
    """A program that ends when this process does, however that is."""
    silent = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    return subprocess.Popen(["setpriv", "--pdeathsig", signal, *command], **silent, **more)


class Host:
    """One desktop. Its public methods are what it can be told to do; their keywords come as they are in the line."""

    def __init__(self, folder: Path, width: int, height: int, beside: int) -> None:
        self.folder, self.documents = folder, folder / "home" / "Documents"
        self.documents.mkdir(parents=True, exist_ok=True)
        places = "".join(_PLACE.format(name=name, x=width - beside) for name in CLASSES)
        looks = {"clicks": "", "maximised": "yes", "places": ""}
        looks |= {"clicks": _CLICKS, "maximised": "no", "places": places} if beside else {}
        (folder / "openbox.xml").write_text(_OPENBOX.format(**looks))
        (folder / "fonts.conf").write_text(_FONTS.format(cache=folder / "fonts"))
        write_profile(folder / "golden", width - beside, height, maximised=not beside)
        self._server, name = start_server(folder, width, height, _with_us)
        (folder / "display").write_text(name)
        os.environ |= {
            **LOOKS,
            "DISPLAY": name,
            "HOME": str(folder / "home"),
            "XDG_CONFIG_HOME": str(folder / "home" / ".config"),
            "XDG_CACHE_HOME": str(folder / "home" / ".cache"),
            "FONTCONFIG_FILE": str(folder / "fonts.conf"),
            "LANG": "C.UTF-8",
            "TZ": "UTC",
        }
        self.display = Display(name, folder)
        self.display.area = (width - beside, height)
        self.programs = Programs(_with_us, folder, self.documents, self.display)
        self._manager = _with_us("openbox", "--config-file", str(folder / "openbox.xml"), "--sm-disable", signal="TERM")
        end = time.monotonic() + MANAGER_S
        while not self.display.managed():
            if time.monotonic() > end or self._manager.poll() is not None:
                raise Fault("not_started", "the window manager openbox did not start")
            time.sleep(0.01)
        self.office: Office | None = None
        self.renew()

    # --- what it can be told ----------------------------------------------------------------------------------------
    def renew(self) -> None:
        """A fresh LibreOffice from the golden profile, without a document, and nothing beside it."""
        self.programs.end()
        if self.office is not None:
            self.office.end()
        profile = self.folder / "profile"
        shutil.rmtree(profile, ignore_errors=True)
        shutil.copytree(self.folder / "golden", profile)
        shutil.rmtree(self.documents, ignore_errors=True)
        self.documents.mkdir()
        self.office = Office(profile, self.folder.name.replace(".", "_"), self.documents)
        self.office.start(_with_us)
        (self.folder / "sockets").write_text("\n".join(map(str, self.office.doors)))  # for whoever clears up after us
        self._fresh = True

    def load(self, name: str, data: str, beside: dict[str, str] | None = None, **more: Any) -> None:
        """Open the document `name` (its bytes in base64) in a maximised window, nothing else being open.

        beside: texts of files that lie beside it. more: see `Programs.start`; without it there are none.
        """
        self._roomy()
        if not self._fresh:
            self.renew()
        self._fresh = False
        path = self.documents / name
        path.write_bytes(base64.b64decode(data))
        for other, text in (beside or {}).items():
            (self.documents / other).parent.mkdir(parents=True, exist_ok=True)
            (self.documents / other).write_text(text)
        self.display.move(self.display.width - 1, self.display.height - 1)
        self.office.open(path)
        self._arrange(1)
        if more:
            self.programs.start(**more)
            self._arrange(1 + len(more["names"]))

    def _arrange(self, count: int) -> None:
        """Until there are this many windows and that of the document, the first, fills its area."""
        begun = time.monotonic()
        if self.display.area[0] < self.display.width:
            self.display.maximise()
        while True:
            self._settle()
            self.display.settled(STILL_S, WINDOW_S)
            windows = self.display.windows()
            if len(windows) == count and windows[0][1] == self.office.size():
                return
            if time.monotonic() > begun + WINDOW_S:
                self._explain(windows, count)
            if windows:
                self.display.maximise()  # LibreOffice may have set a size of its own after the window manager did

    def _roomy(self) -> None:
        """A document that cannot be saved is nobody's failure but the machine's: Fault(disk_full)."""
        free = shutil.disk_usage(self.folder).free
        if free < ROOM:
            raise Fault("disk_full", f"{free} bytes are free where {self.folder} is, and {ROOM} are needed")

    def _explain(self, windows: list[tuple[str, Any]], count: int) -> None:
        titles = ", ".join(repr(title) for title, _ in windows) or "none"
        if len(windows) > count:
            raise Fault("dialog", f"something else is open beside the document: {titles}")
        raise Fault("not_maximised", f"the window of the document is not there, maximised: {titles}")

    def view(self) -> dict[str, Any]:
        """What is true and what is shown, once it has settled: {"state", "png" (base64)}."""
        self._roomy()
        self._settle()
        self.programs.deliver()
        place = self.office.follow()
        state = {
            "document": self.office.told("facts"),
            "place": place,
            "saved": self.office.saved(),
            "files": self.office.files(),
            "windows": [title for title, _ in self.display.windows()],
            "selection": self.office.app.selection(self.office.document),
        }
        if self.programs.open:
            state["web"] = self.programs.web.call("window.app.state()")
        pixels = self.display.settled()
        return {"state": state, "png": base64.b64encode(self.display.png(pixels)).decode()}

    def picture(self) -> dict[str, Any]:
        """What is shown, with or without a document: {"png" (base64), "windows": titles, "pointer": [x, y]}."""
        self._settle()
        png = base64.b64encode(self.display.png(self.display.settled())).decode()
        windows = [title for title, _ in self.display.windows()]
        return {"png": png, "windows": windows, "pointer": list(self.display.pointer())}

    def _settle(self) -> None:
        """Until all input has been handled, the picture is still, and a new window has the keyboard."""
        end = time.monotonic() + LONGEST_S
        while True:
            self._handled()
            self.display.settled()
            self._handled()
            if (self.display.focused() and not self.programs.busy()) or time.monotonic() > end:
                return

    def _handled(self) -> None:
        """Until the programs have handled all input; twice, as what they then post to themselves may open a window."""
        for _ in range(2):
            self._check()
            while not self.display.handled(ALIVE_S):
                self._check()

    def _check(self) -> None:
        self.office.check()
        self.programs.check()

    def elements(self) -> list[dict[str, Any]]:
        """See `inside.elements` and `Programs.elements`."""
        self._settle()
        return self.office.told("elements") + self.programs.elements()

    def tool(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """See `Office.tool`; those of the web app, whose names begin with "mail.", are its own."""
        self._roomy()
        self._check()
        if name.startswith("mail.") and self.programs.open:
            return self.programs.web.call(f"window.app.tool({json.dumps(name)}, {json.dumps(arguments)})")
        return self.office.tool(name, arguments)

    def act(self, action: str, x: int = 0, y: int = 0, **more: Any) -> None:
        """One action of the desktop's family, in pixels."""
        self._roomy()
        self._check()
        display = self.display
        if action in ("mouse_move", "left_click", "right_click", "middle_click", "double_click", "triple_click"):
            display.move(x, y)
        match action:
            case "left_click" | "right_click" | "middle_click":
                display.click(action.removesuffix("_click"))
            case "double_click" | "triple_click":
                display.click("left", {"double_click": 2, "triple_click": 3}[action])
            case "left_click_drag":
                display.drag(x, y)
            case "scroll" | "hscroll":
                if more["at"]:
                    display.move(x, y)
                display.wheel(more["pixels"], sideways=action == "hscroll")
            case "mouse_down" | "mouse_up":
                display.hold(more["button"], action == "mouse_down")
            case "key_down" | "key_up":
                display.hold_keys(more["keys"], action == "key_down")
            case "key":
                display.press(more["keys"])
            case "type":
                for line in more["text"].splitlines(keepends=True):  # what Enter does is done before the next line
                    display.type(line)
                    self._handled()

    # --- the loop ---------------------------------------------------------------------------------------------------
    def answer(self, line: str) -> dict[str, Any]:
        """The reply to one line."""
        asked = json.loads(line)
        try:
            return {"result": getattr(self, asked.pop("do"))(**asked)}
        except Fault as fault:
            return {"fault": fault.code, "detail": str(fault)}
        except DisposedException:
            return {"fault": "office_lost", "detail": "LibreOffice has gone while it was asked something"}
        except NoSuchKey as error:
            return {"unsupported": str(error)}
        except Exception as error:
            time.sleep(DYING_S)  # a bridge breaks a moment before the process is gone
            if not self.office.alive:
                return {"fault": "office_lost", "detail": "LibreOffice has ended"}
            if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
                return {"fault": "disk_full", "detail": str(error)}
            return {"error": f"{type(error).__name__}: {error}"}

    def end(self) -> None:
        """Nothing of it is left."""
        self.programs.end()
        if self.office is not None:
            self.office.end()
        for process in (self._manager, self._server):
            process.terminate()
        self._server.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def main() -> None:
    folder, sizes = Path(sys.argv[2]), [int(word) for word in sys.argv[3:6]]
    lines: queue.Queue[str] = queue.Queue()
    made: list[Host] = []
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no reply

    def listen() -> None:
        for line in sys.stdin:
            lines.put(line)
        try:
            if made:
                made[0].end()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os._exit(0)

    threading.Thread(target=listen, daemon=True).start()

    def say(reply: dict[str, Any]) -> None:
        out.write(json.dumps(reply) + "\n")
        out.flush()

    try:
        made.append(Host(folder, *sizes))
    except Exception as error:  # X and UNO have errors of their own: each is said, none looks like a lost host
        detail = str(error) if isinstance(error, Fault) else f"{type(error).__name__}: {error}"
        say({"fault": getattr(error, "code", "not_started"), "detail": detail})
        return
    say({"result": {"width": sizes[0], "height": sizes[1]}})
    while True:
        say(made[0].answer(lines.get()))


if __name__ == "__main__":
    main()
