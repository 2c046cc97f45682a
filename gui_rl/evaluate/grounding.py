"""`gui-rl eval grounding`: does a policy point at what a sentence means, on sets in ScreenSpot's manner.

In: an annotation file in one of `FORMS`, its images, a policy (as for `gui-rl eval`). Out: in the run's folder

    config.json     what was asked; another question is another folder
    records.jsonl   a line an item, written when it is answered: a killed evaluation goes on from here
    summary.json    hits with 95 % intervals: all, text and icon, refusals, by group

The sentence is the instruction of a turn like any other, so that local and remote policies go through the same prompts,
sampler and parser. An item is a hit if the point of the call lies in the target (borders included); one without a
target is right if the policy ends the task as not doable. Zoom-In asks twice (`zoomed`).
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tyro
from PIL import Image
from rich.console import Console
from rich.table import Table

from env_servers.protocol.actions import to_pixels
from gui_rl.errors import UserError
from gui_rl.evaluate.command import EvalOptions, agent_for
from gui_rl.evaluate.metrics import wilson_interval
from gui_rl.model import hf
from gui_rl.prompt.images import DEFAULT_MAX_PIXELS, prepare
from gui_rl.prompt.parse import parse_response
from gui_rl.rollout.agents import Agent, View

OWN = Path(__file__).parent / "assets" / "grounding" / "own.json"
"""The set that is shipped: pages of the synthesis, cut small, in OSWorld-G's form with a `data_type` beside it."""
Form = Literal["screenspot-v2", "screenspot-pro", "osworld-g", "mmbench-gui-l2"]
Area = tuple[float, ...]


@dataclasses.dataclass(frozen=True)
class Item:
    """One question of a set.

    Attributes:
      id: unique in the set.
      image: the screenshot's file.
      instruction: what to point at.
      target: (x0, y0, x1, y1), or a polygon's x and y in turn (six numbers or more), in pixels of the image; None where
        the right answer is that it is not there.
      kind: `text`, `icon`, or "" where the set does not say.
      group: what the set groups by: platform, application group, instruction style.
      device: family whose actions answer it.
    """

    id: str
    image: Path
    instruction: str
    target: Area | None
    kind: str = ""
    group: str = ""
    device: str = "desktop"


def read_items(path: Path, form: Form | None = None, images: Path | None = None) -> tuple[Form, list[Item]]:
    """The items of an annotation file, or of a folder of them, and their form, told from the fields if not given.

    Raises UserError naming file, record and field, also for an image that is not there.
    """
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    items: list[Item] = []
    for file in files:
        try:
            rows = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(f"{file}: not a JSON file of annotations ({error})") from None
        if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
            raise UserError(f"{file}: expected a JSON list of annotations")
        form = form or _form_of(rows[0], file)
        for number, row in enumerate(rows):
            try:
                item = FORMS[form](row, file, images)
            except (KeyError, TypeError, ValueError, IndexError) as error:
                raise UserError(f"{file}, record {number}: not of the form {form} ({error!r})") from None
            if not item.image.is_file():
                raise UserError(f"{file}, record {number}: no image {item.image}; name their folder with --images")
            items.append(dataclasses.replace(item, id=f"{file.stem}/{number}/{item.id}"))
    if not items:
        raise UserError(f"{path}: no .json file of annotations there")
    return form, items


def _form_of(row: Mapping[str, Any], file: Path) -> Form:
    if "box_type" in row:
        return "osworld-g"
    if "ui_type" in row:
        return "screenspot-pro"
    if "grounding_type" in row or "image_path" in row:
        return "mmbench-gui-l2"
    if "data_source" in row:
        return "screenspot-v2"
    raise UserError(f"{file}: none of the known forms has the fields {', '.join(sorted(row))}; say which with --form")


def _area(values: Sequence[float], corners: bool, scale: Sequence[float] = (1.0, 1.0)) -> Area:
    x0, y0, x1, y1 = (float(value) for value in values)
    if not corners:
        x1, y1 = x0 + x1, y0 + y1
    if not (x0 < x1 and y0 < y1):
        raise ValueError(f"an empty box {list(values)}")
    return (x0 * scale[0], y0 * scale[1], x1 * scale[0], y1 * scale[1])


def _kind(value: str) -> str:
    if value not in ("text", "icon"):
        raise ValueError(f"a type {value!r}, neither text nor icon")
    return value


def screenspot_v2(row: Mapping[str, Any], file: Path, images: Path | None) -> Item:
    """ScreenSpot-v2 (OS-Copilot/ScreenSpot-v2; OS-Atlas, arXiv:2410.23218): `screenspot_FAMILY_v2.json`; `bbox`
    is [x, y, width, height] in pixels, `data_type` text or icon, `data_source` the platform; images in
    `screenspotv2_image`."""
    image = (images or file.parent / "screenspotv2_image") / row["img_filename"]
    device = next((name for name in ("mobile", "web") if name in file.stem), "desktop")
    target = _area(row["bbox"], corners=False)
    return Item(image.name, image, row["instruction"], target, _kind(row["data_type"]), row["data_source"], device)


def screenspot_pro(row: Mapping[str, Any], file: Path, images: Path | None) -> Item:
    """ScreenSpot-Pro (data set likaixin/ScreenSpot-Pro; arXiv:2504.07981): `annotations/APPLICATION_OS.json`; `bbox` is
    [x0, y0, x1, y1] in pixels, `ui_type` text or icon, `group` the kind of application; images in `images`."""
    image = (images or file.parent.parent / "images") / row["img_filename"]
    target = _area(row["bbox"], corners=True)
    return Item(str(row.get("id", image.name)), image, row["instruction"], target, _kind(row["ui_type"]), row["group"])


def osworld_g(row: Mapping[str, Any], file: Path, images: Path | None) -> Item:
    """OSWorld-G (xlang-ai/OSWorld-G; Jedi, arXiv:2505.13227): `OSWorld-G.json`, `OSWorld-G_refined.json`; `box_type` is
    bbox ([x, y, width, height] in pixels), polygon (x and y in turn) or refusal; images in `images`. It has no split
    into text and icon; ours adds `data_type`."""
    image, values = (images or file.parent / "images") / row["image_path"], row["box_coordinates"]
    if row["box_type"] == "bbox":
        target = _area(values[:4], corners=False)
    elif row["box_type"] == "polygon":
        target = tuple(float(value) for value in values)
        if len(target) < 6 or len(target) % 2:
            raise ValueError(f"a polygon of {len(target)} numbers")
    elif row["box_type"] == "refusal":
        target = None
    else:
        raise ValueError(f"box_type {row['box_type']!r}")
    kind = _kind(row["data_type"]) if "data_type" in row else ""
    return Item(str(row["id"]), image, row["instruction"], target, kind, row["box_type"])


def mmbench_gui_l2(row: Mapping[str, Any], file: Path, images: Path | None) -> Item:
    """MMBench-GUI L2 (data set OpenGVLab/MMBench-GUI; arXiv:2507.19478): `L2_annotations.json`; `bbox` is
    [x0, y0, x1, y1] as shares of `image_size`, `platform` like os_windows, `grounding_type` basic or advanced,
    `data_type` text or icon; images in `offline_images/PLATFORM`."""
    platform = row["platform"]
    image = (images or file.parent / "offline_images") / platform / row["image_path"]
    device = {"os_ios": "mobile", "os_android": "mobile", "os_web": "web"}.get(platform, "desktop")
    target = _area(row["bbox"], corners=True, scale=row["image_size"])
    style = row.get("grounding_type", "")
    group = f"{platform} {style}".strip()
    return Item(str(row["index"]), image, row["instruction"], target, _kind(row["data_type"]), group, device)


FORMS: dict[str, Callable[[Mapping[str, Any], Path, Path | None], Item]] = {
    "screenspot-v2": screenspot_v2,
    "screenspot-pro": screenspot_pro,
    "osworld-g": osworld_g,
    "mmbench-gui-l2": mmbench_gui_l2,
}


def hit(target: Area, x: float, y: float) -> bool:
    """Whether a point lies in a box or a polygon, borders included."""
    if len(target) == 4:
        return target[0] <= x <= target[2] and target[1] <= y <= target[3]
    corners = list(zip(target[::2], target[1::2], strict=True))
    inside = False
    for (ax, ay), (bx, by) in zip(corners, [*corners[1:], corners[0]], strict=True):
        across = (bx - ax) * (y - ay) - (by - ay) * (x - ax)
        if across == 0 and min(ax, bx) <= x <= max(ax, bx) and min(ay, by) <= y <= max(ay, by):
            return True
        if (ay > y) != (by > y) and x < ax + (y - ay) * (bx - ax) / (by - ay):
            inside = not inside
    return inside


def share(target: Area, width: int, height: int) -> float:
    """The part of the image that a target covers: the hit rate of a point drawn uniformly."""
    if len(target) == 4:
        area = (target[2] - target[0]) * (target[3] - target[1])
    else:
        x, y = np.array(target[::2]), np.array(target[1::2])
        area = abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2
    return float(area / (width * height))


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a policy said: a point in pixels, a refusal, or neither, for the reason `failure`."""

    point: tuple[float, float] | None
    refused: bool = False
    failure: str = ""


async def ask(agent: Agent, item: Item, image: Image.Image, max_pixels: int, call: int = 0) -> Answer:
    """One call: the instruction and an image -> a point in that image."""
    name = f"{item.id}/{call}"
    shown = prepare(image, max_pixels=max_pixels, name=name)
    try:
        reply = await agent.act(View(name, item.device, item.instruction, (), shown, (), None))
    except ValueError as error:  # a prompt over the policy's limit
        raise UserError(f"{item.id}: {error} (here: --max-pixels)") from error
    parsed = parse_response(reply.text, item.device, thinking=agent.prompts.context.thinking)
    if parsed.call is None:
        return Answer(None, failure=str(parsed.failure))
    given = parsed.call.arguments
    if given["action"] == "terminate":
        return Answer(None, given["status"] == "failure", "" if given["status"] == "failure" else "no_point")
    if "coordinate" not in given:
        return Answer(None, failure="no_point")
    return Answer(to_pixels(*given["coordinate"], *image.size))


def window(point: tuple[float, float], size: tuple[int, int], part: float) -> tuple[int, int, int, int]:
    """The cut of Zoom-In in whole pixels: `part` of each side, round the point, moved to lie within the image."""
    sides = [max(1, round(part * side)) for side in size]
    starts = [min(max(round(at - cut / 2), 0), side - cut) for at, cut, side in zip(point, sides, size, strict=True)]
    return starts[0], starts[1], starts[0] + sides[0], starts[1] + sides[1]


async def zoomed(agent: Agent, item: Item, image: Image.Image, max_pixels: int, part: float) -> Answer:
    """Zoom-In: ask, cut the image round the answer, enlarge the cut to the image's size, ask again, map back.

    A first answer without a point stands, and so does the first point where the second call gives none.
    """
    first = await ask(agent, item, image, max_pixels)
    if first.point is None:
        return first
    x0, y0, x1, y1 = window(first.point, image.size, part)
    closer = image.crop((x0, y0, x1, y1)).resize(image.size, Image.Resampling.BICUBIC)
    second = await ask(agent, item, closer, max_pixels, call=1)
    if second.point is None:
        return first
    x, y = second.point
    return Answer((x0 + x * (x1 - x0) / image.width, y0 + y * (y1 - y0) / image.height))


@dataclasses.dataclass(frozen=True)
class GroundingEvalOptions:
    """Hits of a policy on a grounding set.

    Attributes:
      policy: folder or URL of a policy, or `random`, as for `gui-rl eval`.
      file: annotation file, or a folder of them (ScreenSpot-Pro); the set that is shipped where not given.
      set_form: the file's form; told from its fields where not given.
      images: folder of the images; where the form has it where not given.
      zoom: part of each side that Zoom-In cuts out for a second call; 0 asks once.
      max_pixels: images are made smaller to have at most so many.
      form: folder whose policy.json and tokenizer a policy server's model has.
      temperature: of sampling; 0 is greedy.
      parallel: items at a time.
      out: the run's folder; runs/grounding-POLICY-FILE where not given.
    """

    policy: tyro.conf.Positional[str]
    file: tyro.conf.Positional[Path] = OWN
    set_form: Form | None = None
    images: Path | None = None
    zoom: float = 0.0
    max_pixels: int = DEFAULT_MAX_PIXELS
    form: Path | None = None
    temperature: float = 0.0
    parallel: int = 8
    out: Path | None = None


def run(options: GroundingEvalOptions) -> dict[str, dict[str, Any]]:
    """Asks what is not answered yet, writes summary.json and returns it. Raises UserError."""
    if not 0 <= options.zoom < 1:
        raise UserError(f"--zoom {options.zoom}: a part of the image's side, at least 0 and below 1")
    if options.policy == "script":
        raise UserError("there is no script for a grounding set: name a policy, or random")
    if not options.policy.startswith(("http://", "https://")) and options.policy != "random":
        hf.read_config(Path(options.policy))
    _, items = read_items(options.file, options.set_form, options.images)
    name = Path(options.policy.rstrip("/")).name
    folder = options.out or Path("runs") / f"grounding-{name}-{options.file.stem}"
    _claim(folder, options)
    asyncio.run(_ask_all(options, items, folder / "records.jsonl"))
    found = summary(_records(folder / "records.jsonl"))
    partial = folder / "summary.json.partial"
    partial.write_text(json.dumps(found, indent=1) + "\n")
    os.replace(partial, folder / "summary.json")
    return found


def _claim(folder: Path, options: GroundingEvalOptions) -> None:
    asked = json.loads(json.dumps(dataclasses.asdict(options), default=str))
    del asked["parallel"], asked["out"]
    path = folder / "config.json"
    if path.is_file():
        if json.loads(path.read_text()) != asked:
            raise UserError(f"{folder} holds an evaluation with other options: choose another with --out, or remove it")
        return
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asked, indent=1) + "\n")


def _records(path: Path) -> list[dict[str, Any]]:
    """The records so far; a line that was cut off by a kill is removed."""
    kept = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.is_file() else []
    if kept and not kept[-1].endswith("\n"):
        kept.pop()
        path.write_text("".join(kept), encoding="utf-8")
    try:
        return [json.loads(line) for line in kept]
    except ValueError as error:
        raise UserError(f"{path}: not a file of records ({error}); remove it or the folder") from None


async def _ask_all(options: GroundingEvalOptions, items: Sequence[Item], path: Path) -> None:
    done, gate = {record["id"] for record in _records(path)}, asyncio.Semaphore(options.parallel)
    named = EvalOptions(options.policy, form=options.form, temperature=options.temperature)

    async with agent_for(named) as (_, agent):

        async def one(item: Item) -> None:
            async with gate:
                image = Image.open(item.image).convert("RGB")
                if options.zoom:
                    answer = await zoomed(agent, item, image, options.max_pixels, options.zoom)
                else:
                    answer = await ask(agent, item, image, options.max_pixels)
            record = score(item, answer, image.size)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")

        await asyncio.gather(*(one(item) for item in items if item.id not in done))


def score(item: Item, answer: Answer, size: tuple[int, int]) -> dict[str, Any]:
    """The record of an item: whether it is right, and the share of the image that would be."""
    if item.target is None:
        right, chance = answer.refused, 0.0
    else:
        right, chance = answer.point is not None and hit(item.target, *answer.point), share(item.target, *size)
    return {
        "id": item.id, "kind": item.kind, "group": item.group, "refusal": item.target is None, "right": bool(right),
        "chance": chance, "point": answer.point, "refused": answer.refused, "failure": answer.failure,
    }  # fmt: skip


def summary(records: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Hits by cell: `all`, `pointing` (without refusals), `refusal`, `kind: text|icon`, `group: ...`."""

    def cells(record: Mapping[str, Any]) -> Iterator[str]:
        yield "all"
        yield "refusal" if record["refusal"] else "pointing"
        for field in ("kind", "group"):
            if record[field] and not (field == "kind" and record["refusal"]):
                yield f"{field}: {record[field]}"

    sorted_in: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        for cell in cells(record):
            sorted_in.setdefault(cell, []).append(record)
    found = {}
    for cell, rows in sorted(sorted_in.items()):
        right = sum(row["right"] for row in rows)
        low, high = wilson_interval(right, len(rows))
        found[cell] = {
            "items": len(rows), "right": right, "rate": right / len(rows), "low": low, "high": high,
            "chance": sum(row["chance"] for row in rows) / len(rows),
            "no_call": sum(bool(row["failure"]) for row in rows), "refused": sum(row["refused"] for row in rows),
        }  # fmt: skip
    return found


def show(found: Mapping[str, Mapping[str, Any]], console: Console | None = None) -> None:
    """Prints a row a cell, chance beside every score."""
    table = Table(title="hits, 95 % interval")
    for column in ("cell", "hits", "interval", "chance", "items", "no call", "refused"):
        table.add_column(column, justify="left" if column == "cell" else "right")
    for cell, row in found.items():
        table.add_row(
            cell, f"{100 * row['rate']:.1f}", f"{100 * row['low']:.1f}–{100 * row['high']:.1f}",
            f"{100 * row['chance']:.1f}", str(row["items"]), str(row["no_call"]), str(row["refused"]),
        )  # fmt: skip
    (console or Console()).print(table)
