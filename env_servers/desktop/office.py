"""One LibreOffice on a display: its profile, its start, its document, and what its windows offer.

In: a profile folder, a pipe's name, documents. Out: the document open in a maximised window; facts about it and about
the saved file; elements with their boxes. Runs in the system's Python (python3-uno). Faults have names: see `Fault`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uno
from com.sun.star.connection import ConnectionSetupException, NoConnectException
from com.sun.star.lang import DisposedException

from .inside import APPS, NAME, STUB, URI, app_of
from .tools import ToolFailure, properties

START_S = 20.0
MOST_TEXT, TEXT = 20_000, (".csv", ".txt")
PROGRAM = "soffice.bin"
CSV = "Text - txt - csv (StarCalc)"
LOOKS = {"SAL_USE_VCLPLUGIN": "gen", "SAL_NO_MOUSEGRABS": "1", "OOO_DISABLE_RECOVERY": "1", "SAL_DISABLE_CUPS": "1"}
"""Drawn by LibreOffice's own widgets, the same everywhere; no recovery after a kill, no printers of this machine."""

_ITEM = '<item oor:path="{}"><prop oor:name="{}" oor:op="fuse"><value>{}</value></prop></item>\n'
_FACTORY = "/org.openoffice.Setup/Office/Factories/org.openoffice.Setup:Factory['{}']"
TITLE = 19  # px of the title bar: a window that is made as large as it will be has no size to be told of later
FRAME = (1, 20, 1, 5)  # px round a window that is not maximised: left, top, right, bottom
SETTINGS = (
    ("/org.openoffice.Setup/Office", "ooSetupInstCompleted", "true"),
    ("/org.openoffice.Setup/Product", "ooSetupLastVersion", "99.9"),  # no page about what is new
    ("/org.openoffice.Setup/Product", "LastTimeGetInvolvedShown", "9999999999"),
    ("/org.openoffice.Setup/Product", "LastTimeDonateShown", "9999999999"),
    ("/org.openoffice.Office.Common/Misc", "FirstRun", "false"),
    ("/org.openoffice.Office.Common/Misc", "ShowTipOfTheDay", "false"),
    ("/org.openoffice.Office.Common/Misc", "SymbolStyle", "colibre"),
    ("/org.openoffice.Office.Common/Misc", "UseLocking", "true"),
    ("/org.openoffice.Office.Common/Misc", "UseOpenCL", "false"),
    ("/org.openoffice.Office.Common/Help", "ExtendedTip", "false"),
    ("/org.openoffice.Office.Common/Help", "Tip", "false"),
    ("/org.openoffice.Office.Common/Save/Document", "AutoSave", "false"),
    ("/org.openoffice.Office.Common/Save/Document", "UseUserData", "false"),
    ("/org.openoffice.Office.Common/Save/Document", "WarnAlienFormat", "false"),
    ("/org.openoffice.Office.Recovery/AutoSave", "Enabled", "false"),
    ("/org.openoffice.Office.Recovery/RecoveryInfo", "SessionData", "false"),
    ("/org.openoffice.Office.Calc/Input", "AutoInput", "false"),  # a typed word is not completed to another one
    ("/org.openoffice.Office.Impress/Misc/Start", "EnableSdremote", "false"),
    ("/org.openoffice.Office.Impress/Misc", "StartWithTemplate", "false"),
    ("/org.openoffice.Office.Impress/Misc/NewDoc", "AutoPilot", "false"),
    ("/org.openoffice.Office.Common/Security/Scripting", "MacroSecurityLevel", "3"),
    ("/org.openoffice.Office.Common/Internal", "CurrentTempURL", ""),
    ("/org.openoffice.Setup/L10N", "ooLocale", "en-US"),
    ("/org.openoffice.Setup/L10N", "ooSetupSystemLocale", "en-US"),
)


class Fault(Exception):
    """The desktop's own fault. code: office_lost, program_lost, not_started, dialog, locked, not_maximised, unreadable,
    disk_full."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


def find_program() -> Path:
    """LibreOffice's own executable, beside the `soffice` on PATH. FileNotFoundError where there is none."""
    for name in ("soffice", "libreoffice"):
        if found := shutil.which(name):
            program = Path(found).resolve().with_name(PROGRAM)
            if program.exists():
                return program
    raise FileNotFoundError("no soffice on PATH")


def write_profile(folder: Path, width: int, height: int, maximised: bool = True) -> None:
    """The golden profile: what is pinned, and that this very build has started with it before (else it would set the
    profile up and end with code 81, to be started again). width, height: of the window, its frame included, px."""
    (folder / "user" / "extensions").mkdir(parents=True, exist_ok=True)
    lines = find_program().with_name("versionrc").read_text().splitlines()
    build = next(line.partition("=")[2] for line in lines if line.startswith("buildid="))
    (folder / "user" / "extensions" / "buildid").write_text(build)
    scripts = folder / "user" / "Scripts" / "python"
    scripts.mkdir(parents=True, exist_ok=True)
    (scripts / NAME).write_text(STUB)
    head = '<?xml version="1.0" encoding="UTF-8"?>\n<oor:items xmlns:oor="http://openoffice.org/2001/registry" '
    head += 'xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">\n'
    left, top, right, bottom = (0, TITLE, 0, 0) if maximised else FRAME
    place = f"{left},{top},{width - left - right},{height - top - bottom};"
    place = f"{place}{5 if maximised else 1};{place}"  # 5: maximised
    windows = [(_FACTORY.format(app.SERVICE), "ooSetupFactoryWindowAttributes", place) for app in APPS.values()]
    items = "".join(_ITEM.format(*setting) for setting in (*SETTINGS, *windows))
    (folder / "user" / "registrymodifications.xcu").write_text(f"{head}{items}</oor:items>\n")


def _sockets(pid: int) -> list[Path]:
    """Files of the sockets that a process listens at."""
    held = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            held.add(str(link.readlink()))
    rows = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    found = {row[7] for row in rows if len(row) > 7 and f"socket:[{row[6]}]" in held and row[7].startswith("/")}
    return [Path(name) for name in sorted(found)]


class Office:
    """LibreOffice on the display of this process' environment."""

    def __init__(self, profile: Path, pipe: str, documents: Path) -> None:
        self.profile, self.pipe, self.documents = profile, pipe, documents
        self.document: Any = None
        self.app: Any = None
        self._process: subprocess.Popen | None = None
        self.doors: list[Path] = []  # sockets that it listens at, which outlive it
        self._saved: tuple[Any, Any] = (None, None)  # stamp of the file, its facts

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.poll() is None

    def check(self) -> None:
        """Raises Fault(office_lost) if LibreOffice has ended."""
        if not self.alive:
            code = self._process.returncode if self._process else None
            raise Fault("office_lost", f"LibreOffice has ended (exit code {code})")

    def start(self, run: Callable[..., subprocess.Popen]) -> None:
        """Start by `run` and connect; raises Fault(not_started)."""
        if Path(f"/tmp/OSL_PIPE_{os.getuid()}_{self.pipe}").exists():
            raise Fault("not_started", f"the pipe {self.pipe} is taken by another program")
        switches = ("--norestore", "--nologo", "--nodefault", "--nofirststartwizard")
        profile, door = f"-env:UserInstallation={self.profile.as_uri()}", f"--accept=pipe,name={self.pipe};urp;"
        self._process = run(str(find_program()), profile, *switches, door)
        local = uno.getComponentContext()
        resolver = local.ServiceManager.createInstanceWithContext("com.sun.star.bridge.UnoUrlResolver", local)
        end = time.monotonic() + START_S
        while True:
            try:
                context = resolver.resolve(f"uno:pipe,name={self.pipe};urp;StarOffice.ComponentContext")
                break
            except (NoConnectException, ConnectionSetupException):
                if not self.alive:
                    raise Fault("not_started", f"LibreOffice ended at its start ({self._process.returncode})") from None
                if time.monotonic() > end:
                    detail = f"LibreOffice does not listen on its pipe within {START_S:g} s (is the name taken?)"
                    raise Fault("not_started", detail) from None
                time.sleep(0.02)
        self.doors = _sockets(self._process.pid)
        make = context.ServiceManager.createInstanceWithContext
        self.context, self.desktop = context, make("com.sun.star.frame.Desktop", context)
        factory = make("com.sun.star.script.provider.MasterScriptProviderFactory", context)
        self._inside = factory.createScriptProvider("").getScript(URI)
        self.told("calm")  # carets do not blink: equal states have equal pixels

    def end(self) -> None:
        """Kill LibreOffice, and remove its sockets; its profile is of no more use."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
        if self._process is not None:
            self._process.wait()
        for door in self.doors:
            door.unlink(missing_ok=True)
        self.document, self.doors = None, []

    def open(self, path: Path) -> None:
        """Show the document. Raises Fault: locked, unreadable."""
        if path.with_name(f".~lock.{path.name}#").exists():  # LibreOffice would ask what to do
            raise Fault("locked", f"{path.name} is locked by somebody else")
        how = properties(FilterName=CSV, FilterOptions="44,34,76,1") if path.suffix == ".csv" else ()  # else it asks
        self.document = self.desktop.loadComponentFromURL(path.as_uri(), "_default", 0, how)
        if self.document is None:
            raise Fault("unreadable", f"LibreOffice cannot open {path.name}")
        if self.document.isReadonly():
            raise Fault("locked", f"{path.name} is locked by somebody else: it opens for reading only")
        self.path = path
        self.app = app_of(self.document)
        self.app.home(self.document)
        self._saved = (self._stamp(), self.told("facts"))

    def size(self) -> tuple[int, int]:
        """Width and height of the document's window, as LibreOffice has it."""
        place = self.document.CurrentController.Frame.ContainerWindow.getPosSize()
        return place.Width, place.Height

    # --- what is true -----------------------------------------------------------------------------------------------
    def told(self, what: str, document: Any = None) -> Any:
        """What `inside` answers about a document, the open one by default."""
        return json.loads(self._inside.invoke((what, document or self.document), (), ())[0])

    def saved(self) -> dict[str, Any] | None:
        """The facts of the file as it lies on the disk, read anew whenever it was written; None: no such file, or one
        that LibreOffice cannot read."""
        stamp = self._stamp()
        if stamp != self._saved[0]:
            self._saved = (stamp, self._read() if stamp else None)
        return self._saved[1]

    def files(self) -> dict[str, str]:
        """What lies beside the document, also in folders below ("folder/name"): text files whole, of others their first
        bytes that tell what they are."""
        found = {}
        for path in sorted(self.documents.rglob("*")):
            if path == self.path or path.name.startswith(".~lock.") or not path.is_file():
                continue
            with path.open("rb") as file:
                data = file.read(MOST_TEXT)
            name = str(path.relative_to(self.documents))
            found[name] = data.decode(errors="replace") if path.suffix in TEXT else data[:4].hex()
        return found

    def inside(self, asked: str, suffix: str) -> Path:
        """Where to write what a tool was asked to write: in the documents' folder, beside the document by default."""
        target = (self.documents / asked).resolve() if asked else self.path.with_suffix(suffix)
        if target.parent != self.documents.resolve() or target == self.path:
            raise ToolFailure(f"{asked!r} does not lie in the folder of the document")
        return target

    def follow(self) -> str:
        """Where the document's file lies, from the documents' folder on, also if it was moved there since it was read;
        "" where it is gone."""
        if not self.path.exists() and self._saved[0]:
            for path in self.documents.rglob("*"):
                if path.is_file() and path.stat().st_ino == self._saved[0][0]:
                    self.path = path
        return str(self.path.relative_to(self.documents)) if self.path.exists() else ""

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _read(self) -> dict[str, Any] | None:
        copy = self.profile / f"saved{self.path.suffix}"
        shutil.copyfile(self.path, copy)
        hidden = self.desktop.loadComponentFromURL(copy.as_uri(), "_blank", 0, properties(Hidden=True, ReadOnly=True))
        if hidden is None:
            return None
        try:
            return self.told("facts", hidden)
        finally:
            hidden.close(True)

    def tool(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The result of a tool: {"success", "result", "error_message"}."""
        function = self.app.TOOLS.get(name.rpartition(".")[2])
        if function is None:
            return failed(f"{name}: this tool does not work on the document that is open")
        if open_dialogs := self.told("windows"):
            return failed(f"the dialog {open_dialogs[-1]!r} is open: close it first")
        try:
            return {"success": True, "result": function(self, **arguments), "error_message": None}
        except DisposedException:
            raise
        except ToolFailure as error:
            return failed(str(error))
        except Exception as error:  # whatever LibreOffice objects to is the tool's result, not the desktop's end
            return failed(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'refused'}")

    def save(self) -> None:
        """As Ctrl+S does."""
        self.document.store()


def failed(reason: str) -> dict[str, Any]:
    return {"success": False, "result": None, "error_message": reason}
