"""Multi-window composition (GUI-Owl-1.5, section 2.2.1): several shots as windows of one desktop, up to 3840 x 2160.

In: `Shot`s. Out: one `Shot` of the desktop. A target is an element that lies wholly inside its window's cut and the
screen and that no window above touches (a spatial check on boxes). Names are made unique by the window's title.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from gui_rl.flywheel.shots import Box, Shot

RESOLUTIONS = ((1920, 1080), (2560, 1440), (3840, 2160))
LAYOUTS = ("tiles", "cascade", "free")
BAR = 28
"""Height of a window's title bar in pixels."""
TITLES = ("Ledger", "Workbench", "Atlas", "Planner", "Studio", "Monitor", "Archive", "Console")


def places(layout: str, count: int, size: tuple[int, int], rng: np.random.Generator) -> list[tuple[int, int, int, int]]:
    """Where `count` windows are, as whole-pixel boxes within the screen, the lowest first; at most 1280 x 828 each."""
    width, height = size
    columns = int(np.ceil(np.sqrt(count * width / height)))
    rows = -(-count // columns)
    found = []
    for number in range(count):
        if layout == "tiles":
            w, h = width // columns, height // rows
            x, y = number % columns * w, number // columns * h
        elif layout == "cascade":
            w, h = int(width * 0.6), int(height * 0.7)
            step = min((width - w) // max(count, 2), 3 * BAR)
            x, y = number * step, min(number * 2 * BAR, height - h)
        else:
            w, h = int(width * rng.uniform(0.3, 0.65)), int(height * rng.uniform(0.35, 0.75))
            x, y = int(rng.integers(0, width - w + 1)), int(rng.integers(0, height - h + 1))
        w, h = min(w, 1280), min(h, 800 + BAR)
        found.append((x, y, x + w, y + h))
    return found


def compose(shots: Sequence[Shot], seed: int) -> Shot:
    """A desktop of these shots, at most eight, the last on top; layout and resolution belong to the seed.

    Raises ValueError for no shots, or more than there are titles.
    """
    if not 0 < len(shots) <= len(TITLES):
        raise ValueError(f"a desktop has 1 to {len(TITLES)} windows, not {len(shots)}")
    rng = np.random.default_rng([seed, 4])
    width, height = RESOLUTIONS[int(rng.integers(len(RESOLUTIONS)))]
    layout = LAYOUTS[int(rng.integers(len(LAYOUTS)))]
    desktop = Image.new("RGB", (width, height), tuple(int(v) for v in rng.integers(40, 130, 3)))
    draw, font = ImageDraw.Draw(desktop), ImageFont.load_default(14)
    titles = [TITLES[k] for k in rng.permutation(len(TITLES))[: len(shots)]]
    where = places(layout, len(shots), (width, height), rng)
    elements, obstacles = [], []
    for number, (shot, title, (x0, y0, x1, y1)) in enumerate(zip(shots, titles, where, strict=True)):
        draw.rectangle((x0, y0, x1 - 1, y1 - 1), fill=(225, 228, 232))
        draw.text((x0 + 10, y0 + 5), title, fill=(30, 30, 30), font=font)
        page = Image.open(io.BytesIO(shot.png)).convert("RGB").crop((0, 0, x1 - x0, y1 - y0 - BAR))
        desktop.paste(page, (x0, y0 + BAR))
        inside, above = (x0, y0 + BAR, x1, y1), where[number + 1 :]
        for element in shot.elements:
            box = moved(element.box, x0, y0 + BAR)
            if within(box, inside) and not any(touch(box, other) for other in above):
                named = f"{element.name} in the {title} window"
                look = f"{element.look} in the {title} window" if element.look else ""
                does = f"{element.does} in the {title} window" if element.does else ""
                elements.append(dataclasses.replace(element, name=named, box=box, look=look, does=does))
            elif touch(box, inside):
                obstacles.append(dataclasses.replace(element, box=box))
        obstacles += [dataclasses.replace(e, box=moved(e.box, x0, y0 + BAR)) for e in shot.obstacles]
    file = io.BytesIO()
    desktop.save(file, "PNG", compress_level=3)
    return Shot(f"windows/{layout}/{seed}", file.getvalue(), width, height, tuple(elements), tuple(obstacles))


def moved(box: Box, dx: float, dy: float) -> Box:
    """The box at another place."""
    return (box[0] + dx, box[1] + dy, box[2] + dx, box[3] + dy)


def within(box: Box, outer: Box) -> bool:
    """Whether a box lies wholly in another."""
    return outer[0] <= box[0] and outer[1] <= box[1] and box[2] <= outer[2] and box[3] <= outer[3]


def touch(one: Box, other: Box) -> bool:
    """Whether two boxes have points in common that are not on their borders."""
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
