"""AgentNet, the desktop data set of OpenCUA.

Source of the format: `data/cot-generate/README.md` (input and output structure) and `gen_cot.py` of the public
repository OpenCUA, which write it: a JSON-lines file beside a folder of images,

    {task_id, instruction, natural_language_task?, actual_task?, task_completed, alignment_score, efficiency_score, ...,
     traj: [{index (from 0), image, value: {code, observation, thought, action, last_step_correct, last_step_redundant,
     reflection}}]}

`code` is one call of pyautogui (or of OpenCUA's `computer`) with coordinates as shares of the screen's sides. It is
read as syntax and never run. `last_step_correct` and `last_step_redundant` are what the reflector said about the step
itself once it had seen the next screen: a step that was wrong or needless is not trained on. Licence: MIT, as its card
says.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from env_servers.protocol.actions import FUNCTIONS, Call
from gui_rl.data.importers import BROKEN, Faulty, Found, Step, file_name, image_file
from gui_rl.data.schema import Episode
from gui_rl.errors import UserError

ORIGIN, LICENCE = "AgentNet", "MIT"
WAIT_S = 1.0  # `computer.wait()` names no time; ours
_CLICKS = {1: "left_click", 2: "double_click", 3: "triple_click"}
_POINTING = {
    "moveTo": "mouse_move", "dragTo": "left_click_drag", "doubleClick": "double_click", "rightClick": "right_click",
    "middleClick": "middle_click", "tripleClick": "triple_click", "triple_click": "triple_click",
}  # fmt: skip
_ORDER = {
    "click": ("x", "y", "clicks", "interval", "button"), "dragTo": ("x", "y", "duration", "tween", "button"),
    "scroll": ("clicks", "x", "y"), "hscroll": ("clicks", "x", "y"), "write": ("message",), "typewrite": ("message",),
    "press": ("keys",), "hotkey": ("keys",), "wait": ("seconds",), "sleep": ("seconds",), "terminate": ("status",),
    "answer": ("text",),
}  # fmt: skip


def from_code(code: str) -> Call | None:
    """The call of a step's code; None where it has no counterpart. Nothing is executed."""
    try:
        statements = [node for node in ast.parse(code.strip()).body if not isinstance(node, ast.Import)]
        (statement,) = statements
        call = statement.value
        owner, name = call.func.value.id, call.func.attr
        values = [ast.literal_eval(argument) for argument in call.args]
        named = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
        if owner not in ("pyautogui", "computer", "time"):
            return None
        if name == "hotkey" and values and isinstance(values[0], str):
            values = [values]
        given = {**dict(zip(_ORDER.get(name, ("x", "y")), values, strict=False)), **named}
        arguments = _arguments(name, given)
    except (SyntaxError, ValueError, AttributeError, TypeError, KeyError):
        return None
    return None if arguments is None else Call(FUNCTIONS["desktop"], arguments)


def _arguments(name: str, given: Mapping[str, Any]) -> dict[str, Any] | None:
    place = {}
    if given.get("x") is not None and given.get("y") is not None:
        place = {"coordinate": [round(float(given["x"]) * 1000), round(float(given["y"]) * 1000)]}
    match name:
        case "click":
            button, clicks = given.get("button", "left"), given.get("clicks", 1)
            action = _CLICKS.get(clicks) if button == "left" else f"{button}_click" if clicks == 1 else None
            return None if action is None else {"action": action, **place}
        case "dragTo" if given.get("button", "left") != "left":
            return None
        case "scroll" | "hscroll":
            return {"action": name, "pixels": given["clicks"], **place}
        case "write" | "typewrite":
            return {"action": "type", "text": given["message"]}
        case "press" | "hotkey":
            keys = given["keys"]
            if given.get("presses", 1) != 1:
                return None
            return {"action": "key", "keys": [keys] if isinstance(keys, str) else list(keys)}
        case "wait" | "sleep":
            return {"action": "wait", "time": given.get("seconds", WAIT_S)}
        case "terminate":
            return {"action": "terminate", "status": given.get("status", "success")}
        case "answer":
            return {"action": "answer", "text": given["text"]}
    return {"action": _POINTING[name], **place}


def to_code(arguments: Mapping[str, Any]) -> str:
    """The code of a desktop action; `from_code` of it is the action again."""
    action = arguments["action"]
    place = ""
    if "coordinate" in arguments:
        x, y = (value / 1000 for value in arguments["coordinate"])
        place = f"x={x}, y={y}"
    pointing = {ours: theirs for theirs, ours in _POINTING.items() if theirs != "triple_click"}
    match action:
        case "left_click":
            return f"pyautogui.click({place})"
        case "left_click_drag":
            return f"pyautogui.dragTo({place}, button='left')"
        case "triple_click":
            return f"computer.tripleClick({place})"
        case "scroll" | "hscroll":
            return f"pyautogui.{action}({arguments['pixels']!r}{', ' + place if place else ''})"
        case "type":
            return f"pyautogui.write(message={arguments['text']!r})"
        case "key":
            keys = list(arguments["keys"])
            return f"pyautogui.press({keys[0]!r})" if len(keys) == 1 else f"pyautogui.hotkey({keys!r})"
        case "wait":
            return f"computer.wait({arguments['time']!r})"
        case "terminate":
            return f"computer.terminate(status={arguments['status']!r})"
        case "answer":
            return f"computer.answer(text={arguments['text']!r})"
    if action in pointing:
        return f"pyautogui.{pointing[action]}({place})"
    raise KeyError(action)


def read(path: str | Path, images: str | Path | None = None) -> Iterator[Found | Faulty]:
    """The trajectories of a file; images lie in `images`, by default in the folder `images` beside it.

    Raises UserError where there is no such file.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path} is no file: name a JSON-lines file of AgentNet")
    folder = Path(images) if images is not None else path.parent / "images"
    with open(path, encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                document = json.loads(line)
                yield Found(
                    id=str(document["task_id"]), device="desktop", query=_query(document),
                    steps=[_step(folder, step, place) for place, step in enumerate(document["traj"])],
                    origin=ORIGIN, licence=LICENCE, completed=document.get("task_completed"),
                )  # fmt: skip
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                yield Faulty(BROKEN, f"{path}:{number}: {error!r}")


def _query(document: Mapping[str, Any]) -> str:
    """The task in the words that fit what was done: the source's own rewriting first."""
    names = ("natural_language_task", "actual_task", "instruction")
    return next((document[name] for name in names if document.get(name)), "")


def _step(folder: Path, step: Mapping[str, Any], place: int) -> Step:
    value = step["value"]
    right = value.get("last_step_correct", True) and not value.get("last_step_redundant", False)
    return Step(
        number=int(step.get("index", place)), screenshot=image_file(folder, step["image"]),
        call=from_code(value["code"]), sentence=value.get("action") or "", thought=value.get("thought"),
        use=bool(right), said=value["code"],
    )  # fmt: skip


def export(episodes: Iterable[Episode], path: str | Path) -> Counter[str]:
    """Writes trajectories in this form: the file, and its images in `images` beside it.

    Counts `written`, and what the form cannot hold by reason: `device`, `tool`, `no action`, `action` (interact).
    """
    path, counts = Path(path), Counter[str]()
    folder = path.parent / "images"
    if path.exists():
        raise UserError(f"{path} exists already: choose another name")
    folder.mkdir(parents=True, exist_ok=True)
    partial, images = path.with_name(f".{path.name}.writing"), []
    try:
        with open(partial, "w", encoding="utf-8") as lines:
            for episode in episodes:
                reason = _unwritable(episode)
                if reason:
                    counts[reason] += 1
                    continue
                lines.write(json.dumps(_line(episode, folder, images), ensure_ascii=False) + "\n")
                counts["written"] += 1
        os.replace(partial, path)
    except BaseException:
        for half in (partial, *images):
            half.unlink(missing_ok=True)
        if not any(folder.iterdir()):
            shutil.rmtree(folder)
        raise
    return counts


def _line(episode: Episode, folder: Path, images: list[Path]) -> dict[str, Any]:
    """The line of an episode; its images are written, and added to `images` before they are."""
    identity = episode.id.removeprefix(f"{ORIGIN}:")
    steps = []
    for turn in episode.turns:
        name = f"{file_name(identity)}-{turn.index}.png"
        images.append(folder / name)
        images[-1].write_bytes(turn.screenshot)
        value = {
            "code": to_code(turn.action["arguments"]), "observation": "", "thought": turn.thought,
            "action": turn.conclusion or "", "last_step_correct": turn.use, "last_step_redundant": False,
            "reflection": "",
        }  # fmt: skip
        steps.append({"index": turn.index, "image": name, "value": value})
    return {
        "task_id": identity, "instruction": episode.instruction, "task_completed": episode.success, "traj": steps,
    }  # fmt: skip


def _unwritable(episode: Episode) -> str:
    if episode.device != "desktop":
        return "device"
    for turn in episode.turns:
        if turn.action is None:
            return "no action"
        if turn.action["name"] != FUNCTIONS["desktop"]:
            return "tool"
        if turn.action["arguments"]["action"] == "interact":
            return "action"
    return ""
