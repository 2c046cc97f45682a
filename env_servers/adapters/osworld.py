"""OSWorld (Xie et al. 2024, arXiv 2404.07972): its task files, played on guest servers; one guest is one slot.

In: `osworld=http://HOST:5000?tasks=FOLDER[&steps=N][&reset=/reset]`, the folder's JSON files being tasks as OSWorld
writes them. Out: a suite of those that this adapter can set up and grade; of each other one the log says why not.

An episode: POST to `reset` if that is given (reverting a guest's snapshot is the work of whoever runs it, and not of
its wire), the steps of `config`, actions as pyautogui commands, at `terminate` the `postconfig` and the evaluator once.
A task has no parameters, so that every seed is the same episode.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp

from ..errors import UserError
from ..inputs import UNTOUCHING, WAIT_LIMIT_S
from ..logs import say
from ..protocol.actions import to_pixels
from ..screens import ScreenError, Unsupported, View, png_size
from ..suites.suite import Task, WorldKind, split_of
from .osworld_metrics import INFEASIBLE, names_of, score
from .pyautogui_script import NOTCH
from .world import Judged, Location, Wire, World, WorldScreen, full_score, steps_of

STEPS = ("upload_file", "open", "launch", "activate_window", "close_window", "execute", "command", "sleep")
GETTERS = ("rule", "vm_file", "vm_command_line")
PREFIX = "import pyautogui; import time; pyautogui.FAILSAFE = False; "
_SETUP = {"open": "open_file", "command": "execute"}
_CLICKS = {
    "left_click": "click", "right_click": "rightClick", "middle_click": "middleClick",
    "double_click": "doubleClick", "triple_click": "tripleClick", "mouse_move": "moveTo",
}  # fmt: skip
_KEYS = {
    "control": "ctrl", "option": "alt", "meta": "win", "cmd": "win", "command": "win", "super": "win",
    "page_up": "pageup", "page_down": "pagedown",
    **{f"arrow{way}": way for way in ("up", "down", "left", "right")},
}  # fmt: skip


def to_pyautogui(arguments: Mapping[str, Any], width: int, height: int) -> str:
    """The command of a valid desktop call; raises Unsupported for what pyautogui has no call for."""
    action, point = arguments["action"], ""
    if "coordinate" in arguments:
        point = "{}, {}".format(*to_pixels(*arguments["coordinate"], width, height))
    if action in _CLICKS:
        return f"pyautogui.{_CLICKS[action]}({point})"
    match action:
        case "left_click_drag":
            return f"pyautogui.dragTo({point}, duration=0.5, button='left')"
        case "key":
            names = (_KEYS.get(key.lower(), key.lower() if len(key) > 1 else key) for key in arguments["keys"])
            return f"pyautogui.hotkey({', '.join(map(repr, names))})"
        case "type":
            return f"pyautogui.write({arguments['text']!r})"
        case "scroll" | "hscroll":
            pixels = arguments["pixels"] if action == "scroll" else -arguments["pixels"]
            turns = max(1, round(abs(pixels) / NOTCH)) * (1 if pixels > 0 else -1) if pixels else 0
            return f"pyautogui.{action}({', '.join(filter(None, (str(turns), point)))})"
    raise Unsupported(f"OSWorld's guests have nothing for {action}")


def read_task(path: Path) -> dict[str, Any]:
    """A task file; UserError that names what is wrong with it, or what this adapter does not support."""
    try:
        task = json.loads(path.read_text(encoding="utf-8"))
        steps = [*task.get("config", ()), *task["evaluator"].get("postconfig", ())]
        kinds, feasible = [step["type"] for step in steps], task["evaluator"]["func"] != INFEASIBLE
        got = [one["type"] for one in _gets(task["evaluator"])] if feasible else []
        named = str(task["id"]), str(task["instruction"])
        if feasible:
            names_of(task["evaluator"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: not a task of OSWorld ({type(error).__name__}: {error})") from error
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    for what, asked, known in (("step", kinds, STEPS), ("getter", got, GETTERS)):
        if strange := [one for one in asked if one not in known]:
            raise UserError(f"{path}: the {what} {strange[0]!r} is not supported, only: {', '.join(known)}")
    if not all(named):
        raise UserError(f"{path}: id and instruction must not be empty")
    return task


def _gets(evaluator: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = [evaluator.get(key) or [] for key in ("result", "expected")]
    return [one for group in found for one in (group if isinstance(group, list) else [group]) if one]


class GuestScreen(WorldScreen):
    """One guest. Its state adds "screen" (SHA-256 of the last picture)."""

    def __init__(self, kind: WorldKind, wire: Wire, tasks: Mapping[str, Path], reset: str) -> None:
        super().__init__(kind, wire)
        self.tasks, self.reset, self.digest, self.gave_up = tasks, reset, "", False
        self.task: dict[str, Any] = {}
        self.home = Path()
        self.cache = Path(tempfile.mkdtemp(prefix="gui-rl-osworld-"))

    async def state(self) -> dict[str, Any]:
        """See the class."""
        return {**await super().state(), "screen": self.digest}

    async def load(self, state: Mapping[str, Any]) -> None:
        """Set the task up."""
        path = self.tasks[state["task"]]
        self.task, self.home = read_task(path), path.parent
        self.score, self.fault, self.gave_up = None, "", False
        if self.reset:
            await self._post(self.reset)
        for step in self.task.get("config", ()):
            await self._step(step["type"], step["parameters"])

    async def _post(self, path: str, body: Any = None, form: Any = None) -> bytes:
        status, data = await self.wire.fetch("POST", path, body, form)
        if status >= 400:
            raise ScreenError(f"POST {self.wire.url}{path}: {status}, {data[:300].decode(errors='replace')}")
        return data

    async def _step(self, kind: str, parameters: Mapping[str, Any]) -> None:
        if kind == "sleep":
            await asyncio.sleep(float(parameters["seconds"]))
        elif kind == "upload_file":
            for one in parameters["files"]:
                form = aiohttp.FormData({"file_path": one["path"]})
                data = await asyncio.to_thread((self.home / one["local_path"]).read_bytes)
                form.add_field("file_data", data, filename=Path(one["path"]).name)
                await self._post("/setup/upload", form=form)
        else:
            reply = await self._post(f"/setup/{_SETUP.get(kind, kind)}", dict(parameters))
            if kind in ("execute", "command") and json.loads(reply).get("status") == "error":
                raise ScreenError(f"the step {kind} failed: {json.loads(reply).get('message')}")

    async def view(self, marks: bool = False) -> View:
        """The screen as it is; a guest draws no marks."""
        status, png = await self.wire.fetch("GET", "/screenshot")
        if status != 200:
            raise ScreenError(f"GET {self.wire.url}/screenshot: {status}")
        shown = base64.b64encode(png).decode()
        self.digest = hashlib.sha256(png).hexdigest()
        return View(shown, *png_size(shown), await self.state())

    async def perform(self, device: str, arguments: Mapping[str, Any]) -> None:
        """See `WorldScreen.perform`."""
        if arguments["action"] == "terminate":
            self.gave_up = arguments["status"] == "failure"
            await self.judge()
        elif arguments["action"] == "wait":
            await asyncio.sleep(min(arguments["time"], WAIT_LIMIT_S))
        elif arguments["action"] not in UNTOUCHING:
            command = to_pyautogui(arguments, self.kind.width, self.kind.height)
            body = {"command": ["python", "-c", PREFIX + command], "shell": False}
            reply = json.loads(await self._post("/execute", body))
            if reply.get("returncode"):
                raise Unsupported(str(reply.get("error")))

    async def ask_score(self) -> float:
        """The task's evaluator, once its `postconfig` has been done."""
        evaluator = self.task["evaluator"]
        for step in evaluator.get("postconfig", ()):
            await self._step(step["type"], step["parameters"])
        if evaluator["func"] == INFEASIBLE:
            return float(self.gave_up)
        found = {json.dumps(one): await self._get(one) for one in _gets(evaluator)}
        try:
            return score(evaluator, lambda config: found[json.dumps(config)], self.gave_up)
        except UserError as error:
            raise ValueError(str(error)) from error

    async def _get(self, config: Mapping[str, Any]) -> Any:
        match config["type"]:
            case "rule":
                return config["rules"]
            case "vm_file":
                status, data = await self.wire.fetch("POST", "/file", form={"file_path": config["path"]})
                if status == 404:
                    return None
                if status != 200:
                    raise ScreenError(f"POST {self.wire.url}/file: {status}, {data[:300].decode(errors='replace')}")
                found = self.cache / Path(config["dest"]).name
                await asyncio.to_thread(found.write_bytes, data)
                return str(found)
        body = {"command": config["command"], "shell": config.get("shell", False)}
        return json.loads(await self._post("/execute", body))["output"]

    async def close(self) -> None:
        """See `WorldScreen.close`."""
        await asyncio.to_thread(shutil.rmtree, self.cache, True)


class OSWorld(World):
    """The suite. paths: of the tasks' files."""

    def __init__(self, location: Location, known: Mapping[str, Task], kind: WorldKind, paths: Mapping[str, Path]):
        super().__init__(location, known, kind)
        self.paths = paths

    def instantiate(self, task: Task, seed: int) -> Judged:
        """See `World.instantiate`."""
        split_of(seed)
        return Judged(task, seed, self.kind, task.instruction_template, {"task": task.id}, (full_score,), ())

    async def open(self, wire: Wire) -> GuestScreen:
        """See `World.open`."""
        await wire.fetch("GET", "/platform")
        return GuestScreen(self.kind, wire, self.paths, self.location.option("reset", ""))


async def connect(location: Location) -> OSWorld:
    """Read the tasks, and ask the first guest for the size of its screen."""
    location.only("tasks", "steps", "reset")
    folder, steps = Path(location.option("tasks", "")), steps_of(location)
    files = sorted(folder.rglob("*.json")) if location.options.get("tasks") and folder.is_dir() else []
    if not files:
        raise UserError("--suite osworld=URL?tasks=FOLDER: name a folder with OSWorld's task files (*.json)")
    known, paths, why = {}, {}, ""
    for path in files:
        try:
            found = read_task(path)
        except UserError as error:
            why = str(error)
            say("warning", "task_left_out", error=error)
            continue
        name = f"{location.kind}/{path.parent.name}-{found['id']}"
        tags = (location.kind, *map(str, found.get("related_apps", ())))
        feasible = found["evaluator"]["func"] != INFEASIBLE
        known[name] = Task(name, "desktop", found["instruction"], tags, -1, feasible, steps, scripted=False)
        paths[name] = path
    if not known:
        raise UserError(f"--suite osworld: none of {len(files)} tasks in {folder} is supported; the last: {why}")
    async with Wire(location.urls[0]) as wire:
        size = await wire.ask("POST", "/screen_size")
    return OSWorld(location, known, WorldKind("osworld", size["width"], size["height"], location.kind), paths)
