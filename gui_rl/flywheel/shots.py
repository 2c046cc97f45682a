"""Screenshots with known elements, the queries that they answer, and how both are stored.

In: a `Shot`. Out: `Query`s of four kinds, one-turn episodes for `gui_rl.data.store`, and a contact sheet to look at.
GUI-Owl-1.5, section 2.2.1 (grounding data). Boxes are (x0, y0, x1, y1) in pixels of the screenshot.
"""

from __future__ import annotations

import dataclasses
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from env_servers.protocol.actions import FUNCTIONS, GRID, Call, from_pixels
from gui_rl.data.schema import Episode, Turn
from gui_rl.errors import UserError
from gui_rl.prompt.response import response_text

Box = tuple[float, float, float, float]
CLICK = {"mobile": "click", "desktop": "left_click", "web": "click"}
WAYS = ("text", "function", "position", "icon")
NEARER = 6.0
"""Pixels by which the nearest neighbour in a direction has to be nearer than the next one."""
REACH = 24.0
"""Pixels between an element and its neighbour at most."""
_SIDES = {"right of": (0, 2, 1), "left of": (2, 0, 1), "below": (1, 3, 0), "above": (3, 1, 0)}


@dataclasses.dataclass(frozen=True)
class Element:
    """Something that can be pointed at.

    Attributes:
      name: unique on its screenshot; how a sentence calls it.
      box: in pixels.
      role: `text` or `icon`.
      text: what is written on it; "" for an icon.
      does: what pressing it does, as an infinitive; "" where unknown.
      look: what its icon shows; "" for a text.
    """

    name: str
    box: Box
    role: str = "text"
    text: str = ""
    does: str = ""
    look: str = ""


@dataclasses.dataclass(frozen=True)
class Shot:
    """One screenshot (PNG) and its elements; `obstacles` are there too, but no targets."""

    id: str
    png: bytes
    width: int
    height: int
    elements: tuple[Element, ...]
    obstacles: tuple[Element, ...] = ()
    device: str = "desktop"


@dataclasses.dataclass(frozen=True)
class Query:
    """A sentence about a shot and what it points at; `element` is None where the shot does not show it."""

    way: str
    text: str
    element: Element | None


def queries_of(shot: Shot, count: int, rng: np.random.Generator) -> list[Query]:
    """At most `count` queries, the ways in turn, no element twice."""
    pools = {way: [] for way in WAYS}
    for element in shot.elements:
        if element.text:
            pools["text"].append(Query("text", f"Click {element.name}.", element))
        if element.does and sum(other.does == element.does for other in shot.elements) == 1:
            pools["function"].append(Query("function", f"Click what lets you {element.does}.", element))
        if element.look and sum(other.look == element.look for other in shot.elements) == 1:
            pools["icon"].append(Query("icon", f"Click the icon that shows {element.look}.", element))
        for side in _SIDES:
            if (target := neighbour(shot, element, side)) is not None:
                pools["position"].append(Query("position", f"Click what is directly {side} {element.name}.", target))
    drawn, used = [], set()
    orders = {way: [pool[k] for k in rng.permutation(len(pool))] for way, pool in pools.items()}
    while len(drawn) < count and any(orders.values()):
        for way in WAYS:
            while orders[way]:
                query = orders[way].pop()
                if query.element.name not in used and len(drawn) < count:
                    used.add(query.element.name)
                    drawn.append(query)
                    break
    return drawn


def neighbour(shot: Shot, of: Element, side: str) -> Element | None:
    """The element directly on that side of `of`; None where there is none, or it is not clear which.

    Directly means: beginning where `of` has ended, within `REACH` pixels, and its middle level with `of` across the
    direction; the next one is at least `NEARER` pixels farther away, and no obstacle is as near.
    """
    near, far, across = _SIDES[side]
    sign = 1 if side in ("right of", "below") else -1
    found = []
    for box, other in [(e.box, e) for e in shot.elements if e is not of] + [(e.box, None) for e in shot.obstacles]:
        gap = sign * (box[near] - of.box[far])
        middle = (box[across] + box[across + 2]) / 2
        if -1 <= gap <= REACH and of.box[across] <= middle <= of.box[across + 2]:
            found.append((gap, other))
    found.sort(key=lambda pair: pair[0])
    if not found or (len(found) > 1 and found[1][0] - found[0][0] < NEARER):
        return None
    return found[0][1]


def episode_of(
    kind: str, shot: Shot, query: Query, seed: int, made_by: Mapping[str, str], origin: str = "", licence: str = ""
) -> Episode:
    """A one-turn episode: the query is the instruction, a click in the middle of the box the response.

    A query without an element is answered by `terminate(failure)`. `kind` becomes the suite `grounding-KIND`, so that
    the dataset's card counts each kind.
    """
    box, target = None, query.element
    if target is None:
        call, said = (
            Call(FUNCTIONS[shot.device], {"action": "terminate", "status": "failure"}),
            "It is not on the screen.",
        )
    else:
        x0, y0, x1, y1 = target.box
        point = from_pixels((x0 + x1) / 2, (y0 + y1) / 2, shot.width, shot.height)
        call = Call(FUNCTIONS[shot.device], {"action": CLICK[shot.device], "coordinate": list(point)})
        said = query.text
        scale = (GRID / shot.width, GRID / shot.height) * 2
        box = tuple(value * by for value, by in zip(target.box, scale, strict=True))
    turn = Turn(0, shot.png, text=response_text(said, call), conclusion=said, action=call.to_json(), target_box=box)
    return Episode(
        id=f"{shot.id}:{kind}:{seed}", suite=f"grounding-{kind}", task=query.way, seed=seed, device=shot.device,
        instruction=query.text, screen_size=(shot.width, shot.height), turns=(turn,), outcome="success", score=1.0,
        source="script", made_by=made_by, origin=origin, licence=licence,
    )  # fmt: skip


def box_of(episode: Episode) -> Box | None:
    """The target of a stored query in pixels; None where it is not on the screen."""
    box, (width, height) = episode.turns[0].target_box, episode.screen_size
    if box is None:
        return None
    return tuple(value * side / GRID for value, side in zip(box, (width, height) * 2, strict=True))


def contact_sheet(path: Path, episodes: Sequence[Episode], columns: int = 3, wide: int = 480) -> None:
    """Writes a PNG of screenshots, their targets framed, the queries below. Raises UserError if there are none."""
    if not episodes:
        raise UserError(f"{path}: there is nothing to show on a contact sheet")
    tiles = []
    for episode in episodes:
        image = Image.open(io.BytesIO(episode.turns[0].screenshot)).convert("RGB")
        by = wide / image.width
        tile = Image.new("RGB", (wide, round(image.height * by) + 30), "white")
        tile.paste(image.resize((wide, round(image.height * by)), Image.Resampling.LANCZOS))
        draw = ImageDraw.Draw(tile)
        if (box := box_of(episode)) is not None:
            x0, y0, x1, y1 = (value * by for value in box)
            draw.rectangle((x0 - 2, y0 - 2, x1 + 2, y1 + 2), outline="red", width=2)
        heading = f"{episode.suite.removeprefix('grounding-')}, {episode.task}"
        draw.text((4, tile.height - 28), heading, fill="gray")
        draw.text(
            (4, tile.height - 15), episode.instruction[:80].encode("latin-1", "replace").decode("latin-1"), "black"
        )
        tiles.append(tile)
    tall = max(tile.height for tile in tiles)
    sheet = Image.new("RGB", (columns * wide, -(-len(tiles) // columns) * tall), "lightgray")
    for number, tile in enumerate(tiles):
        sheet.paste(tile, (number % columns * wide, number // columns * tall))
    partial = path.with_name(f".{path.name}.writing")
    sheet.save(partial, "PNG")
    partial.replace(path)


def counts_of(episodes: Sequence[Episode]) -> dict[str, int]:
    """Queries by kind and way, e.g. `{"synthesis/text": 12}`."""
    return dict(sorted(Counter(f"{e.suite.removeprefix('grounding-')}/{e.task}" for e in episodes).items()))
