"""OSWorld's guest server over one of our desktops: its clients see LibreOffice on a display, at /osworld.

In: the calls of OSWorld's guest (desktop_env/server) as `PythonController` and `SetupController` make them. Out: its
replies; a refusal is `{"status": "error", "message": why, "error": why}`, 501 where this guest has no such thing.

The client sends no headers of its own but takes an address with a user in it, so that the server's token may come as
the password of Basic authentication too: `PythonController("osworld:TOKEN@HOST", "PORT/osworld")`.

There is one guest, started by the first call; `POST /osworld/reset` (not OSWorld's: it reverts a virtual machine's
snapshot) gives a fresh one. A guest that is lost replies 500 until then, as nobody knows what became of its files.
All files lie in one folder, which the client knows as the home of `user` and its Desktop, Documents and Downloads.
`/execute` carries out pyautogui calls that are parsed, never evaluated (`adapters.pyautogui_script`); no other program
is run. The server has one process (`--workers 1`).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
from pathlib import Path, PurePosixPath
from typing import Annotated, Any
from xml.etree import ElementTree

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from ..adapters.pyautogui_script import parse, script_of
from ..errors import UserError
from ..leases import Refusal
from ..screens import ScreenError, ScreenLost, Unsupported
from ..suites.suite import DesktopKind
from . import bearer

KIND = DesktopKind("osworld", 1920, 1080)
HOME = PurePosixPath("/home") / "user"  # of the account that OSWorld's guests have
FOLDERS = tuple(HOME / name for name in ("", "Desktop", "Documents", "Downloads"))
PAUSE_S = 0.1  # after each call, as pyautogui does
OPENED = (".csv", ".xlsx", ".xls", ".ods", ".docx", ".doc", ".odt", ".pptx", ".ppt", ".odp")
NOT_HERE = (
    "run_python", "run_bash_script", "start_recording", "end_recording", "wallpaper", "setup/change_wallpaper",
    "setup/download_file", "setup/execute_with_verification", "setup/close_window",
)  # fmt: skip
_PLACED = ("left_click", "right_click", "middle_click", "double_click", "triple_click")
_STATE, _COMPONENT = (f"https://accessibility.ubuntu.example.org/ns/{name}" for name in ("state", "component"))


class Refused(Exception):
    """The guest does not do this; `status` of the reply."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


def _error(status: int, why: str, **more: Any) -> JSONResponse:
    return JSONResponse({"status": "error", "message": why, "error": why, **more}, status)


class Guest:
    """The one desktop."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.screen: Any = None
        self.lost = ""

    async def ask(self, source: Any, what: str, **arguments: Any) -> Any:
        """Have the desktop do something. Refused where it is lost."""
        if self.lost:
            raise Refused(500, f"the guest is lost ({self.lost}): POST /osworld/reset gives a fresh one")
        try:
            if self.screen is None:
                self.screen = await source.lease(KIND)
            return await self.screen.ask(what, **arguments)
        except UserError as error:
            raise Refused(503, str(error)) from error
        except ScreenLost as error:
            self.lost = str(error)
            raise Refused(500, self.lost) from error
        except ScreenError as error:
            raise Refused(500, str(error)) from error

    async def reset(self, source: Any) -> None:
        """Give the desktop back; the next call has a fresh one."""
        screen, self.screen, self.lost = self.screen, None, ""
        if screen is not None:
            screen.usable = False  # a script may have left keys pressed: the display goes too
            await source.release(screen)

    async def folder(self, source: Any) -> Path:
        """Where the files are."""
        if self.screen is None or self.lost:
            await self.ask(source, "picture")
        return self.screen.folder / "home" / "Documents"

    async def path(self, source: Any, asked: Any) -> Path:
        """The file that the client means; Refused for one outside the guest's own folder."""
        named = PurePosixPath(str(asked or "").replace("~", str(HOME), 1))
        outside = named.is_absolute() and named.parent not in FOLDERS
        if (
            outside
            or named in FOLDERS
            or named.name in ("", "..")
            or (not named.is_absolute() and len(named.parts) != 1)
        ):
            raise Refused(403, f"{asked!r} is not a file of this guest: files lie in {HOME} and its Desktop")
        folder = await self.folder(source)
        found = folder / named.name
        if found.is_symlink() or found.is_dir():
            raise Refused(403, f"{asked!r} is not a file")
        return found

    async def open(self, source: Any, asked: Any) -> None:
        """Show a document; the other files stay. Refused for what LibreOffice does not show here."""
        path = await self.path(source, asked)
        if not path.exists():
            raise Refused(404, f"File not found: {asked}")
        if path.suffix.lower() not in OPENED:
            raise Refused(501, f"{path.name} is not opened here, only: {', '.join(OPENED)}")
        kept = {one.name: one.read_bytes() for one in path.parent.iterdir() if one.is_file() and one.name[0] != "."}
        data = base64.b64encode(kept.pop(path.name)).decode()
        await self.ask(source, "load", name=path.name, data=data)
        for name, content in kept.items():
            (path.parent / name).write_bytes(content)

    async def execute(self, source: Any, command: Any) -> JSONResponse:
        """Carry out a script; a script that is refused does nothing, and is told so as one that failed."""
        try:
            acts = parse(script_of(command))
        except (ValueError, TypeError) as error:
            return _error(200, f"refused: {error}", output="", returncode=1)
        for action, more in acts:
            if action == "wait":
                await asyncio.sleep(more["time"])
                continue
            if action in _PLACED and "x" not in more:
                shown = await self.ask(source, "picture")
                more = {**more, "x": shown["pointer"][0], "y": shown["pointer"][1]}
            if "x" in more:
                more = {
                    **more,
                    "x": min(max(more["x"], 0), KIND.width - 1),
                    "y": min(max(more["y"], 0), KIND.height - 1),
                }
            try:
                await self.ask(source, "act", action=action, **more)
            except Unsupported as error:
                return _error(200, f"stopped at {action}: {error}", output="", returncode=1)
            await asyncio.sleep(PAUSE_S)
        return JSONResponse({"status": "success", "output": "", "error": "", "returncode": 0})


def _tree(elements: list[dict[str, Any]], titles: list[str]) -> str:
    """An accessibility tree in OSWorld's form (its namespaces for Ubuntu), flat: what can be used, with its place."""
    ElementTree.register_namespace("st", _STATE)
    ElementTree.register_namespace("cp", _COMPONENT)
    root = ElementTree.Element("desktop-frame", {"name": "main"})
    program = ElementTree.SubElement(root, "application", {"name": "soffice"})
    frame = ElementTree.SubElement(program, "frame", {"name": titles[-1] if titles else ""})
    for one in elements:
        x0, y0, x1, y1 = (round(value) for value in one["box"])
        place = {f"{{{_COMPONENT}}}screencoord": f"({x0}, {y0})", f"{{{_COMPONENT}}}size": f"({x1 - x0}, {y1 - y0})"}
        states = {f"{{{_STATE}}}{name}": "true" for name in ("enabled", "showing", "visible")}
        ElementTree.SubElement(frame, "element", {"name": one["name"], **place, **states})
    return ElementTree.tostring(root, encoding="unicode")


async def _owner(request: Request) -> None:
    config, token = request.app.state.config, bearer(request)
    scheme, _, words = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "basic":
        try:
            token = base64.b64decode(words).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            token = ""
    if not (config.open or hmac.compare_digest(token.encode(), config.token.encode())):
        raise Refusal(401, "unauthorized", "send the server's token as Bearer, or as the password of Basic")


async def _source(request: Request) -> Any:
    return request.app.state.store.screens


async def _json(request: Request) -> dict[str, Any]:
    try:
        found = await request.json()
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Refused(400, "the body is not a JSON object")
    return found


Source = Annotated[Any, Depends(_source)]


def router() -> APIRouter:
    """The calls, over a guest of their own; they are not part of the server's OpenAPI document."""
    made, guest = APIRouter(prefix="/osworld", dependencies=[Depends(_owner)], include_in_schema=False), Guest()

    def call(method: str, path: str) -> Any:
        """A route, one call at a time, whose refusals leave in OSWorld's form."""

        def add(function: Any) -> Any:
            async def answer(request: Request, source: Source) -> Response:
                async with guest.lock:
                    try:
                        found = await function(request, source)
                    except Refused as error:
                        return _error(error.status, str(error))
                return found if isinstance(found, Response) else JSONResponse(found)

            made.add_api_route(path, answer, methods=[method])
            return function

        return add

    @call("POST", "/reset")
    async def reset(_: Request, source: Any) -> Any:
        await guest.reset(source)
        return {"status": "success"}

    @call("GET", "/screenshot")
    async def screenshot(_: Request, source: Any) -> Any:
        shown = await guest.ask(source, "picture")
        return Response(base64.b64decode(shown["png"]), media_type="image/png")

    @call("GET", "/accessibility")
    async def accessibility(_: Request, source: Any) -> Any:
        shown = await guest.ask(source, "picture")
        elements = await guest.ask(source, "elements") if shown["windows"] else []
        return {"AT": _tree(elements, shown["windows"])}

    @call("GET", "/terminal")
    async def terminal(_: Request, source: Any) -> Any:
        return {"output": None, "status": "success"}  # there is none, as in a guest whose terminal is not open

    @call("GET", "/platform")
    async def platform(_: Request, source: Any) -> Any:
        return PlainTextResponse("Linux")

    @call("GET", "/cursor_position")
    async def cursor_position(_: Request, source: Any) -> Any:
        return (await guest.ask(source, "picture"))["pointer"]

    @call("POST", "/screen_size")
    async def screen_size(_: Request, source: Any) -> Any:
        return {"width": KIND.width, "height": KIND.height}

    @call("POST", "/window_size")
    async def window_size(request: Request, source: Any) -> Any:
        name = str((await request.form()).get("app_class_name", ""))
        if "office" not in name.lower() or not (await guest.ask(source, "picture"))["windows"]:
            raise Refused(404, f"there is no window of class {name!r}")
        return {"width": KIND.width, "height": KIND.height}

    @call("POST", "/desktop_path")
    async def desktop_path(_: Request, source: Any) -> Any:
        return {"desktop_path": str(HOME / "Desktop")}

    @call("POST", "/list_directory")
    async def list_directory(request: Request, source: Any) -> Any:
        asked = str((await _json(request)).get("path", ""))
        if PurePosixPath(asked) not in FOLDERS:
            raise Refused(400, f"{asked!r} is not a folder of this guest")
        files = sorted(one.name for one in (await guest.folder(source)).iterdir() if one.is_file())
        children = [{"type": "file", "name": name} for name in files]
        tree = {"type": "directory", "name": PurePosixPath(asked).name, "children": children}
        return {"directory_tree": tree}

    @call("POST", "/file")
    async def file(request: Request, source: Any) -> Any:
        asked = (await request.form()).get("file_path")
        path = await guest.path(source, asked)
        if not path.exists():
            raise Refused(404, f"File not found: {asked}")
        return Response(path.read_bytes(), media_type="application/octet-stream")

    async def execute(request: Request, source: Any) -> Any:
        return await guest.execute(source, (await _json(request)).get("command", ""))

    call("POST", "/execute")(execute)
    call("POST", "/setup/execute")(execute)

    @call("POST", "/setup/upload")
    async def upload(request: Request, source: Any) -> Any:
        form = await request.form()
        data = form.get("file_data")
        if "file_path" not in form or not hasattr(data, "read"):
            raise Refused(400, "file_path and file_data are needed")
        path = await guest.path(source, form["file_path"])
        path.write_bytes(await data.read())
        return PlainTextResponse("File Uploaded")

    @call("POST", "/setup/open_file")
    async def open_file(request: Request, source: Any) -> Any:
        await guest.open(source, (await _json(request)).get("path"))
        return PlainTextResponse("File opened successfully")

    @call("POST", "/setup/launch")
    async def launch(request: Request, source: Any) -> Any:
        command = (await _json(request)).get("command", [])
        words = command.split() if isinstance(command, str) else [str(word) for word in command]
        files = [word for word in words[1:] if not word.startswith("-")]
        if not words or words[0] not in ("soffice", "libreoffice") or len(files) != 1:
            raise Refused(501, f"only `libreoffice [--OPTION] FILE` is launched here, not {' '.join(words)[:80]!r}")
        await guest.open(source, files[0])
        return PlainTextResponse(f"{' '.join(words)} launched successfully")

    @call("POST", "/setup/activate_window")
    async def activate_window(request: Request, source: Any) -> Any:
        wanted = await _json(request)
        name, titles = str(wanted.get("window_name", "")), (await guest.ask(source, "picture"))["windows"]
        if not any(name == title if wanted.get("strict") else name in title for title in titles[-1:]):
            raise Refused(404, f"{name!r} is not the title of the window in front: {titles[-1:]}")
        return PlainTextResponse("Window activated successfully")

    def refuse(name: str) -> None:
        @call("POST", f"/{name}")
        async def refused(_: Request, source: Any) -> Any:
            raise Refused(501, f"/{name} is not supported by this guest: it has LibreOffice and nothing else")

    for name in NOT_HERE:
        refuse(name)
    return made
