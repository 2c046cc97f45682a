"""Grounding synthesis: screenshots of 1280 x 800 a minute, every box checked against the page, and stored.

python -m benchmarks.grounding
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from benchmarks.record import Figure, write
from env_servers.browser import Browser
from gui_rl.data.store import EpisodeSource, episode_writer
from gui_rl.flywheel import pages, shots

SHOTS, QUERIES, RUNS, BAR = 60, 4, 4, 60


def main() -> None:
    """Measures the rate and checks all boxes anew; writes results/grounding.json."""

    async def run(folder: Path, seeds: range) -> tuple[float, int]:
        """Screenshots a minute, drawn, checked and stored; and the boxes that were checked."""
        counts, rng, began = Counter(), np.random.default_rng(0), time.perf_counter()
        async with Browser() as browser:
            with episode_writer(folder) as writer:
                async for shot in pages.synthesise(browser, seeds, counts):
                    for number, query in enumerate(shots.queries_of(shot, QUERIES, rng)):
                        writer.add(shots.episode_of("synthesis", shot, query, number, {"boxes": "exact"}))
        taken = time.perf_counter() - began
        stored = len({episode.id.rpartition(":synthesis")[0] for episode in EpisodeSource(folder)})
        if counts["given up"] or counts["shots"] != len(seeds) or stored != len(seeds):
            raise RuntimeError(f"of {len(seeds)} screenshots: {dict(counts)}, {stored} stored")
        return 60 * len(seeds) / taken, counts["targets"]

    with tempfile.TemporaryDirectory() as folder:
        found = [
            asyncio.run(run(Path(folder) / str(number), range(number * SHOTS, (number + 1) * SHOTS)))
            for number in range(RUNS)
        ][1:]
    rates = [rate for rate, _ in found]
    boxes = sum(count for _, count in found)
    note = (
        f"{boxes} boxes of {SHOTS * len(found)} screenshots, each checked by hit tests inside and outside after its "
        f"picture was taken, none wrong; stored with {QUERIES} queries each; bar: at least {BAR}"
    )
    what = "grounding synthesis, 1280 x 800"
    write(
        "grounding",
        [Figure(what, statistics.median(rates), "screenshots/min", bar=BAR, runs={"ours": rates}, note=note)],
    )


if __name__ == "__main__":
    main()
