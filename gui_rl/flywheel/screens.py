"""Screens for pre-training: what a page shows, where every element is, and what is true of it.

In: the virtual apps and the icon glossary, drawn by real Chromium. Out: `Screen`s in an ArrayRecord file.

Two kinds, the easier one first (a curriculum that starts from icons is what makes a tiny policy learn, not time):
- *fields*: icons on a plain ground, on a grid with jitter or at free places;
- *app screens*: any plausible state of an app of one of the three families, its elements from the page itself.
Of an app screen it is also recorded what becomes true when some of its elements are pressed: the press is carried out
in the browser, and the facts of the state before and after it are compared (world modelling).
Seeds come from the pre-training range only; no evaluation seed is ever drawn.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from array_record.python.array_record_module import ArrayRecordWriter
from grain.sources import ArrayRecordDataSource

from env_servers.browser import Browser, PageKind
from env_servers.inputs import perform
from env_servers.protocol.actions import from_pixels
from env_servers.suites.virtual import registry
from env_servers.suites.virtual.app import SEEDS
from env_servers.suites.virtual.icons import bodies, script
from gui_rl.errors import UserError

PRESSES = 2
"""Elements of an app screen that are pressed to see what they do."""
PAGES = 8
"""Screens that are drawn at a time."""
PRESS = {"mobile": "click", "desktop": "left_click", "web": "click"}

SIZES = {"mobile": (128, 160), "desktop": (160, 128), "web": (160, 128)}
"""Screen of each family in css pixels, width and height."""


@dataclasses.dataclass(frozen=True)
class Screen:
    """One screenshot with what is true of it.

    Attributes:
      id: kind and seed, e.g. `shop/100017`.
      device: its family.
      png: the screenshot.
      width, height: of the screenshot in pixels.
      elements: (name, box) of everything that can be pointed at; boxes are (x0, y0, x1, y1) in pixels.
      facts: (question, answer) pairs.
      effects: (element, question, answer) whose answer is another one once that element has been pressed.
    """

    id: str
    device: str
    png: bytes
    width: int
    height: int
    elements: tuple[tuple[str, tuple[float, float, float, float]], ...]
    facts: tuple[tuple[str, str], ...] = ()
    effects: tuple[tuple[int, str, str], ...] = ()

    def to_bytes(self) -> bytes:
        """A JSON line, then the PNG."""
        fields = {k: v for k, v in dataclasses.asdict(self).items() if k != "png"}
        return json.dumps(fields).encode() + b"\n" + self.png

    @staticmethod
    def from_bytes(record: bytes) -> Screen:
        """The inverse of `to_bytes`."""
        head, png = record.split(b"\n", 1)
        fields = json.loads(head)
        elements = tuple((name, tuple(box)) for name, box in fields.pop("elements"))
        facts, effects = (tuple(map(tuple, fields.pop(name))) for name in ("facts", "effects"))
        return Screen(png=png, elements=elements, facts=facts, effects=effects, **fields)


_FIELD_PAGE = (
    "<!doctype html><meta charset=utf-8><style>html,body{margin:0;overflow:hidden}"
    "body{font:9px 'DejaVu Sans'}svg,div,span{position:absolute}</style><body><script>"
    + script()
    + """
let items = [];
window.app = {
  load(field) {
    items = field.items;
    document.body.style.background = field.ground;
    const marks = field.marks.map(m => `<div style="left:${m.x}px;top:${m.y}px;width:${m.w}px;height:${m.h}px;
      background:${m.fill};border-radius:${m.r}px"></div>`);
    const icons = items.map(i => `<svg viewBox="0 0 24 24" width="${i.size}" height="${i.size}"
      style="left:${i.x}px;top:${i.y}px">${ICONS[i.name]}</svg>` + (i.label ? `<span style="left:${i.x}px;
      top:${i.y + i.size}px">${i.name}</span>` : ''));
    document.body.innerHTML = marks.concat(icons).join('');
  },
  state() { return {}; },
  elements() { return items.map(i => ({name: i.name, box: [i.x, i.y, i.x + i.size, i.y + i.size]})); },
};
</script>"""
)


def field_state(device: str, free: bool, seed: int) -> dict:
    """Icons on a plain ground: on a grid with a little jitter, or at free places that do not overlap."""
    rng = np.random.default_rng([seed, free])
    width, height = SIZES[device]
    light = [int(v) for v in rng.integers(215, 256, 3)]
    names = list(bodies())
    items: list[dict] = []
    if free:
        for name in rng.permutation(names)[: rng.integers(4, 9)]:
            size = int(rng.integers(20, 30))
            for _ in range(200):
                x, y = int(rng.integers(4, width - size - 1)), int(rng.integers(4, height - size - 1))
                if all(abs(x - o["x"]) > 1 + max(size, o["size"]) or abs(y - o["y"]) > 1 + max(size, o["size"])
                       for o in items):  # fmt: skip
                    items.append({"name": str(name), "x": x, "y": y, "size": size, "label": bool(rng.random() < 0.3)})
                    break
    else:
        columns, rows = width // 32, height // 32
        cells = rng.permutation(columns * rows)[: rng.integers(5, 9)]
        for cell, name in zip(cells, rng.permutation(names), strict=False):
            size = int(rng.integers(24, 29))
            x = int(cell % columns) * 32 + 2 + int(rng.integers(0, 31 - size))
            y = int(cell // columns) * 32 + 2 + int(rng.integers(0, 31 - size))
            items.append({"name": str(name), "x": max(x, 4), "y": max(y, 4), "size": size, "label": False})
    marks = []
    for _ in range(int(rng.integers(0, 4)) if free else 0):
        shade = [int(np.clip(v + rng.integers(-30, 31), 150, 255)) for v in light]
        w, h = int(rng.integers(16, width)), int(rng.integers(10, 60))
        marks.append({"x": int(rng.integers(-8, width - 16)), "y": int(rng.integers(-8, height - 8)), "w": w, "h": h,
                      "r": int(rng.integers(0, 10)), "fill": f"rgb({shade[0]},{shade[1]},{shade[2]})"})  # fmt: skip
    return {"ground": f"rgb({light[0]},{light[1]},{light[2]})", "items": items, "marks": marks}


@dataclasses.dataclass(frozen=True)
class _Kind:
    name: str
    device: str
    page: str
    state: Callable[[int], dict]
    facts: Callable[[dict], Sequence[tuple[str, str]]]


def kinds() -> dict[str, _Kind]:
    """Every kind of screen by name: `grid-DEVICE`, `free-DEVICE` and the apps."""
    out = {}
    for device in SIZES:
        for name, free in (("grid", False), ("free", True)):
            out[f"{name}-{device}"] = _Kind(
                f"{name}-{device}", device, _FIELD_PAGE,
                lambda seed, d=device, f=free: field_state(d, f, seed), lambda state: ()
            )  # fmt: skip
    for name, app in registry.items():
        out[name] = _Kind(name, app.device, app.page, app.sample_state, app.facts)
    return out


async def render(plan: Sequence[tuple[str, int]]) -> AsyncIterator[Screen]:
    """Draws screens for (kind, index) pairs, in order, with one Chromium and `PAGES` pages.

    Raises:
      UserError: for an unknown kind, or an index outside the pre-training seeds.
    """
    known, seeds = kinds(), SEEDS["pretrain"]
    for name, index in plan:
        if name not in known:
            raise UserError(f"no kind of screen is called {name!r}: there are {', '.join(known)}")
        if not 0 <= index < len(seeds):
            raise UserError(f"screen {index} of {name}: the pre-training seeds end at {len(seeds) - 1}")
    async with Browser() as browser:
        drawing: deque[asyncio.Task[Screen]] = deque()
        for name, index in plan:
            drawing.append(asyncio.create_task(_draw(browser, known[name], seeds[index])))
            if len(drawing) == PAGES:
                yield await drawing.popleft()
        while drawing:
            yield await drawing.popleft()


async def _draw(browser: Browser, kind: _Kind, seed: int) -> Screen:
    state, (width, height) = kind.state(seed), SIZES[kind.device]
    page = await browser.lease(PageKind(kind.name, kind.page, width, height, touch=kind.device == "mobile"))
    await page.load(state)
    png = (await page.view()).png
    boxes = tuple((element["name"], tuple(element["box"])) for element in await page.elements())
    facts, effects = dict(kind.facts(state)), []
    for number in np.random.default_rng([seed, 2]).permutation(len(boxes))[: PRESSES if facts else 0]:
        x0, y0, x1, y1 = boxes[number][1]
        place = from_pixels((x0 + x1) / 2, (y0 + y1) / 2, width, height)
        await page.load(state)
        await perform(page, kind.device, {"action": PRESS[kind.device], "coordinate": list(place)})
        after = kind.facts((await page.view()).state)  # a picture makes Chromium draw a frame at once
        effects += [(int(number), ask, answer) for ask, answer in after if facts.get(ask, answer) != answer]
    await browser.release(page)
    return Screen(f"{kind.name}/{seed}", kind.device, png, width, height, boxes, tuple(facts.items()), tuple(effects))


def write_screens(path: Path, plan: Sequence[tuple[str, int]], tick: Callable[[], None] = lambda: None) -> None:
    """Renders a plan into one ArrayRecord file; the file has its name only once it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")

    async def run() -> None:
        writer = ArrayRecordWriter(str(partial), "group_size:1")
        try:
            async for screen in render(plan):
                writer.write(screen.to_bytes())
                tick()
        finally:
            writer.close()

    asyncio.run(run())
    os.replace(partial, path)


class ScreenFile:
    """Random access to the screens of one file."""

    def __init__(self, path: Path):
        if not Path(path).is_file():
            raise UserError(f"{path}: no such file of screens; make it with `gui-rl flywheel grounding`")
        self._source = ArrayRecordDataSource(str(path))

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> Screen:
        return Screen.from_bytes(self._source[index])

    def __iter__(self) -> Iterator[Screen]:
        return (self[index] for index in range(len(self)))
