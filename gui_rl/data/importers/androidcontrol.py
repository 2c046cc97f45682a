"""AndroidControl, demonstrations on Android phones.

Source of the format: `android_control/README.md` of the public repository google-research: gzip TFRecord files whose
examples hold episode_id, goal, screenshots (PNG), screenshot_widths, screenshot_heights, actions (JSON texts, one fewer
than screenshots), step_instructions (one an action) and accessibility_trees (not read). Action types: click and
long_press {x, y} in pixels, scroll {direction}, open_app {app_name}, input_text {text}, navigate_home, navigate_back,
wait, and type {x, y, text}, which is three actions in one and has no counterpart.
Licence: the repository's is Apache-2.0; the data's own terms are on its page.

A scroll becomes a swipe through the middle of the screen (scrolling down moves the finger up). The demonstrations end
with the task done: `terminate(success)` on the last screen is added, as in UI-MOPD's normalised trajectories.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from env_servers.protocol.actions import FUNCTIONS, Call, from_pixels
from gui_rl.data.example import Features, RecordError, decode, read_records
from gui_rl.data.importers import BROKEN, Faulty, Found, Step
from gui_rl.errors import UserError

ORIGIN, LICENCE = "AndroidControl", "see the data set's own page"
WAIT_S = 2.0  # "a set number of seconds": which, is not said; ours
SWIPES = {
    "down": ([500, 700], [500, 300]), "up": ([500, 300], [500, 700]),
    "right": ([700, 500], [300, 500]), "left": ([300, 500], [700, 500]),
}  # fmt: skip


def read(path: str | Path) -> Iterator[Found | Faulty]:
    """The episodes of a file, or of all files `android_control*` of a folder. Raises UserError where there are none.

    A file that is cut short or changed gives what came before, and one faulty record.
    """
    path = Path(path)
    files = sorted(path.glob("android_control*")) if path.is_dir() else [path] if path.is_file() else []
    if not files:
        raise UserError(f"{path} holds no AndroidControl: name a TFRecord file, or the folder of android_control-*")
    for file in files:
        try:
            for number, record in enumerate(read_records(file)):
                try:
                    yield _found(decode(record))
                except (RecordError, ValueError, KeyError, TypeError, IndexError) as error:
                    yield Faulty(BROKEN, f"{file}: record {number}: {error!r}")
        except RecordError as error:
            yield Faulty(BROKEN, str(error))


def _found(example: Features) -> Found:
    screens, actions, said = (example[name] for name in ("screenshots", "actions", "step_instructions"))
    sizes = list(zip(example["screenshot_widths"].tolist(), example["screenshot_heights"].tolist(), strict=True))
    if not len(screens) == len(sizes) == len(actions) + 1 == len(said) + 1:
        counts = f"{len(screens)} screenshots, {len(sizes)} sizes, {len(actions)} actions, {len(said)} instructions"
        raise ValueError(f"{counts}: need as many actions and instructions, and one more of the others")
    steps = [
        _step(number, screens[number], sizes[number], json.loads(action), words.decode())
        for number, (action, words) in enumerate(zip(actions, said, strict=True))
    ]
    done = Call(FUNCTIONS["mobile"], {"action": "terminate", "status": "success"})
    steps.append(Step(len(steps), screens[-1], done, "The task is done."))
    identity = str(int(example["episode_id"][0]))
    return Found(identity, "mobile", example["goal"][0].decode(), steps, ORIGIN, LICENCE)


def _step(number: int, screen: bytes, size: Sequence[int], action: dict[str, Any], words: str) -> Step:
    arguments = _arguments(action, size)
    call = None if arguments is None else Call(FUNCTIONS["mobile"], arguments)
    return Step(number, screen, call, words, said=json.dumps(action))


def _arguments(action: dict[str, Any], size: Sequence[int]) -> dict[str, Any] | None:
    place = functools.partial(_place, action, size)
    match action.get("action_type"):
        case "click":
            return {"action": "click", "coordinate": place()}
        case "long_press":
            return {"action": "long_press", "coordinate": place()}
        case "scroll":
            start, end = SWIPES[action["direction"]]
            return {"action": "swipe", "coordinate": list(start), "coordinate2": list(end)}
        case "open_app":
            return {"action": "open", "text": action["app_name"]}
        case "input_text":
            return {"action": "type", "text": action["text"]}
        case "navigate_home":
            return {"action": "system_button", "button": "Home"}
        case "navigate_back":
            return {"action": "system_button", "button": "Back"}
        case "wait":
            return {"action": "wait", "time": WAIT_S}
    return None


def _place(action: dict[str, Any], size: Sequence[int]) -> list[int]:
    return list(from_pixels(action["x"], action["y"], *size))
