"""Uni-GUI, the data set of UI-MOPD.

Source of the format: `data/dataset/README.md` and the two example trajectories beside it in the public repository
UI-MOPD (folder `data/dataset/{desktop,mobile}`), and the paper's appendix C.1. A trajectory is a folder with

    task.json               task, app, device ("computer" | "mobile"), screen_resolution, query, episode_id, is_delete,
                            task_completed, data: [{step (from 1), query, thought, action, plan: {name, arguments},
                            screenshot, bbox: [[x0, y0], [x1, y1]] or [], code, is_use, is_delete, train_test}]
    screenshot_stepN.png    before step N + 1 (in the examples really .jpg)

Coordinates of `plan` and `bbox` are on the 0-1000 grid of the screenshot; the calls are those of this project.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from env_servers.protocol.actions import FUNCTIONS, Call
from gui_rl.data.importers import BROKEN, DELETED, Faulty, Found, Step, file_name, image_file
from gui_rl.data.importers.agentnet import to_code
from gui_rl.data.schema import Episode
from gui_rl.errors import UserError

ORIGIN, LICENCE = "Uni-GUI", "see the data set's own card"
DEVICES = {"computer": "desktop", "mobile": "mobile"}


def read(folder: str | Path) -> Iterator[Found | Faulty]:
    """The trajectories below a folder, in the order of their names. Raises UserError where there are none."""
    files = sorted(Path(folder).rglob("task.json"))
    if not files:
        raise UserError(f"{folder} holds no task.json: name the folder of Uni-GUI's trajectories")
    for path in files:
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            if document.get("is_delete"):
                yield Faulty(DELETED, str(path))
                continue
            steps = [_step(path.parent, step) for step in document["data"] if not step.get("is_delete")]
            yield Found(
                id=str(document["episode_id"]), device=DEVICES[document["device"]], query=document["query"],
                steps=steps, origin=ORIGIN, licence=LICENCE, completed=document.get("task_completed"), first=1,
                app=str(document.get("app", "")),
            )  # fmt: skip
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            yield Faulty(BROKEN, f"{path}: {error!r}")


def _step(folder: Path, step: dict[str, Any]) -> Step:
    plan, box = step["plan"], step.get("bbox") or None
    if box is not None:
        (x0, y0), (x1, y1) = box
        box = (min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1))
    call = None
    if isinstance(plan, dict) and isinstance(plan.get("arguments"), dict):
        call = Call(str(plan.get("name")), plan["arguments"])
    return Step(
        number=int(step["step"]), screenshot=image_file(folder, step["screenshot"]), call=call,
        sentence=step.get("action") or "", thought=step.get("thought"), query=step.get("query"), box=box,
        use=bool(step.get("is_use", True)), said=json.dumps(plan),
    )  # fmt: skip


def export(episodes: Iterable[Episode], folder: str | Path) -> Counter[str]:
    """Writes trajectories in this form, a folder each, complete or not at all.

    Counts `written`, and what the form cannot hold by reason: `device` (web), `tool` (a call that is no GUI action),
    `no action` (a response without a valid call).
    """
    counts: Counter[str] = Counter()
    devices = {ours: theirs for theirs, ours in DEVICES.items()}
    for episode in episodes:
        reason = _unwritable(episode)
        if reason:
            counts[reason] += 1
            continue
        identity = episode.id.removeprefix(f"{ORIGIN}:")
        target = Path(folder) / file_name(identity)
        if target.exists():
            raise UserError(f"{target} exists already: choose an empty folder")
        work = target.with_name(f".{target.name}.writing")
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        try:
            steps = []
            for turn in episode.turns:
                name = f"screenshot_step{turn.index}.png"
                (work / name).write_bytes(turn.screenshot)
                box = turn.target_box
                desktop = episode.device == "desktop"
                steps.append(
                    {
                        "step": turn.index + 1,
                        "query": episode.instruction,
                        "thought": turn.thought,
                        "action": turn.conclusion or "",
                        "pixel": list(episode.screen_size),
                        "plan": dict(turn.action),
                        "bbox": [] if box is None else [list(box[:2]), list(box[2:])],
                        "screenshot": name,
                        "code": to_code(turn.action["arguments"]) if desktop else json.dumps(turn.action["arguments"]),
                        "is_use": turn.use,
                        "is_delete": False,
                        "train_test": "train",
                    }
                )
            document = {
                "task": episode.suite, "app": episode.task, "screen_resolution": list(episode.screen_size),
                "query": episode.instruction, "episode_id": identity, "is_delete": False,
                "device": devices[episode.device], "verified": episode.source == "human",
                "task_completed": episode.success, "data": steps,
            }  # fmt: skip
            (work / "task.json").write_text(json.dumps(document, indent=1, ensure_ascii=False), encoding="utf-8")
            os.replace(work, target)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        counts["written"] += 1
    return counts


def _unwritable(episode: Episode) -> str:
    if episode.device not in DEVICES.values():
        return "device"
    if any(turn.action is None for turn in episode.turns):
        return "no action"
    return "tool" if any(turn.action["name"] != FUNCTIONS[episode.device] for turn in episode.turns) else ""
