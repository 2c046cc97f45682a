"""Grounding data at gui-tiny's size: synthesised pages, cut small like the shipped set.

In: a number of pages. Out: a dataset of one-turn episodes: a query and the click that answers it, or the end of a task
about what is not there.
"""

from __future__ import annotations

import dataclasses
import io
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from env_servers.browser import Browser
from experiments.bench import ROOM, Made, form
from experiments.lab import Lab
from gui_rl.data.samples import with_ids
from gui_rl.flywheel import mining, pages
from gui_rl.flywheel.annotator import Exact
from gui_rl.flywheel.shots import Shot, episode_of, queries_of

SIZE = (416, 256)
"""Of a cut, in pixels: that of the shipped set."""
QUERIES, CUTS, LEAST = 4, 2, 4
FIRST_SEED = 10_000
"""The shipped set is drawn from smaller seeds."""


def cut(shot: Shot, rng: np.random.Generator) -> Shot | None:
    """A part of a page with what lies in it whole; None where that is less than `LEAST` elements."""
    x, y = (int(rng.integers(side - part + 1)) for side, part in zip((shot.width, shot.height), SIZE, strict=True))
    inside = []
    for element in shot.elements:
        x0, y0, x1, y1 = element.box
        if x <= x0 and x1 <= x + SIZE[0] and y <= y0 and y1 <= y + SIZE[1]:
            inside.append(dataclasses.replace(element, box=(x0 - x, y0 - y, x1 - x, y1 - y)))
    if len(inside) < LEAST:
        return None
    stream = io.BytesIO()
    Image.open(io.BytesIO(shot.png)).convert("RGB").crop((x, y, x + SIZE[0], y + SIZE[1])).save(stream, "PNG")
    return Shot(f"{shot.id}@{x},{y}", stream.getvalue(), *SIZE, tuple(inside), device=shot.device)


async def grounding_data(lab: Lab, screens: int, seed: int = 0) -> Made:
    """A dataset from so many synthesised pages: `CUTS` cuts of each, `QUERIES` queries a cut, one in five refused."""

    async def make(folder: Path) -> dict[str, Any]:
        rng, counts = np.random.default_rng([seed, 5]), Counter()
        exact = {"boxes": "exact", "query": "exact"}
        shots, asked, found = [], [], []
        first = FIRST_SEED * (1 + seed)
        async with Browser() as browser:
            with lab.progress.stage("pages", screens, "page") as stage:
                async for shot in pages.synthesise(browser, range(first, first + screens), counts):
                    shots += [part for part in (cut(shot, rng) for _ in range(CUTS)) if part is not None]
                    stage.advance()
        for shot in shots:
            for number, query in enumerate(queries_of(shot, QUERIES, rng)):
                asked.append(query)
                found.append(episode_of("cut", shot, query, number, exact))
        refused = [asked[n] for n in rng.permutation(len(asked))[: len(asked) // 4]]
        found += await mining.infeasible(shots, refused, [Exact({"infeasible": mining.possible})], rng, counts)
        context, kept = form(room=ROOM), []
        for episode in found:
            try:
                kept.append(with_ids(episode, lab.tokenizer, context))
            except ValueError:
                counts["too long"] += 1
        lab.write_data(folder, kept, context)
        return {"kept": len(kept), **counts}

    return await lab.stage("grounding", {"screens": screens, "seed": seed, "size": SIZE}, {}, make)
