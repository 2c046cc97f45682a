"""The input pipeline: reading of stored turns, waiting of gui-tiny's train step for its data, and filled rows.

python -m benchmarks.data_feed
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

import jax
import numpy as np
import tensorflow_datasets as tfds

from benchmarks.record import Figure, alternate, seconds, write
from env_servers.server import running_server
from env_servers.suites.virtual import registry
from gui_rl.data.filling import Filler
from gui_rl.data.packing import Branch, Sample
from gui_rl.data.pipeline import Feed, ordered
from gui_rl.data.samples import BatchShape
from gui_rl.data.store import EpisodeSource, write_episodes
from gui_rl.flywheel.collect import CollectConfig, collect
from gui_rl.flywheel.tasks import app_tasks
from gui_rl.learn import optim, sft
from gui_rl.learn.losses import LossConfig
from gui_rl.learn.state import init_state, make_mesh
from gui_rl.learn.step import make_train_step, place
from gui_rl.model import hf
from gui_rl.model.allocator import keep_freed_memory
from gui_rl.model.config import preset
from gui_rl.prompt.context import TINY_CONTEXT
from gui_rl.prompt.images import ImageInput
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.rollout.agents import Prompts, ScriptAgent
from gui_rl.rollout.env_client import EnvClient

BASE = Path(__file__).parents[1] / "experiments" / "base_policy"
EPISODES, STEPS, WARM = 120, 40, 4
ROW, ROWS, BATCHES = 4096, 8, 60
WAITING, REAL = 0.05, 0.90
SCREENS = {"1280x800": (40, 25), "1920x1080": (60, 34), "540x1200": (17, 38), "1024x768": (32, 24)}
"""Visual tokens (across, down) of screenshots at 32 pixels a token."""


def stored(folder: Path) -> EpisodeSource:
    """Scripted episodes of the three apps, collected for this measurement."""
    prompts, kept = Prompts(Tokenizer.load("gui-tiny"), TINY_CONTEXT), []

    async def run(url: str, token: str) -> None:
        tasks = [
            task
            for app in registry.values()
            for task in app_tasks(app, "virtual", EPISODES // len(registry), 2, 0, range(1000))
        ]
        async with EnvClient(url, token) as client:
            await collect(client, ScriptAgent(prompts), tasks, kept.append, CollectConfig(script=True))

    with running_server() as server:
        asyncio.run(run(server.url, server.token))
    write_episodes(folder, kept)
    return EpisodeSource(folder)


def reading(source: EpisodeSource) -> list[Figure]:
    """Milliseconds to read an episode here and with TFDS's decoder, and a single turn here."""
    raw = tfds.decode.SkipDecoding()
    turns = tfds.builder_from_directory(source.path / "turns").as_data_source("train", decoders={"screenshot": raw})
    heads = tfds.builder_from_directory(source.path / "episodes").as_data_source("train")
    starts = np.concatenate([[0], np.cumsum(source.turn_counts)])
    some = range(min(30, len(source)))

    def ours() -> None:
        for index in some:
            source[index]

    def theirs() -> None:
        for index in some:
            heads[index]
            for number in range(starts[index], starts[index + 1]):
                turns[number]

    mine, peer = (
        [1000 * t / len(some) for t in times] for times in alternate(lambda: seconds(ours), lambda: seconds(theirs))
    )
    value, against = statistics.median(mine), statistics.median(peer)
    count = min(200, int(starts[-1]))
    single = [1000 * seconds(lambda: [source.turn(number) for number in range(count)]) / count for _ in range(5)]
    runs = {"ours": mine, "peer": peer}
    return [
        Figure("read an episode", value, "ms", against, against / value, None, runs, "the peer is TFDS's own decoder"),
        Figure("read a turn with its screens", statistics.median(single), "ms", runs={"ours": single}),
    ]


def waiting(source: EpisodeSource) -> Figure:
    """Share of a step's time in which the train step waits for its batch: the quickstart's SFT."""
    cfg, params = hf.load(BASE)
    config, mesh = sft.SFTConfig(), make_mesh()
    optimizer = optim.muon(cfg, *(optim.learning_rate(r, 1000, 20) for r in (config.muon_rate, config.adam_rate)))
    state = init_state(cfg, optimizer, 0, mesh, params=params)
    step, feed = make_train_step(cfg, LossConfig(), optimizer, mesh), sft.feed(source, cfg, config)
    waits, steps = [], []
    for number in range(STEPS + WARM):
        began = time.perf_counter()
        batch = next(feed)
        got = time.perf_counter()
        state, metrics = step(state, place(batch, mesh))
        jax.block_until_ready(metrics)
        if number >= WARM:
            waits.append(got - began)
            steps.append(time.perf_counter() - began)
    feed.close()
    share = sum(waits) / sum(steps)
    note = f"{config.turns} turns a step of {statistics.median(steps):.3f} s; bar: at most {WAITING}"
    return Figure(
        "share of step time waiting for data",
        share,
        "share",
        bar=WAITING,
        runs={"waits_s": waits, "steps_s": steps},
        note=note,
    )


class Mixed:
    """Sizes of a mixed set: questions without a picture, about one screen, and turns with one to three screens."""

    def __init__(self, count: int, image_id: int):
        random = np.random.default_rng(0)
        grids = [(1, 2 * down, 2 * across) for across, down in SCREENS.values()]
        self._images = [ImageInput(np.zeros((int(np.prod(grid)), 0), np.float32), grid, (0, 0)) for grid in grids]
        self._screens = random.choice(4, count, p=(0.3, 0.35, 0.2, 0.15))
        self._which = random.integers(0, len(grids), (count, 3))
        self._text = np.minimum(random.lognormal(5.3, 0.6, count).astype(int) + 20, 900)
        self._image_id = image_id

    def __len__(self) -> int:
        return len(self._screens)

    def __getitem__(self, index: int) -> Sample:
        images = [self._images[k] for k in self._which[index][: self._screens[index]]]
        while sum(image.tokens for image in images) + self._text[index] > ROW:
            images.pop()
        ids = np.full(sum(image.tokens for image in images) + self._text[index] - 40, 7)
        ids[: sum(image.tokens for image in images)] = self._image_id
        return Sample(str(index), ids, tuple(images), (Branch(np.full(40, 8)),))


def filling() -> Figure:
    """Share of real tokens in rows of 4,096 places, and how long the planning of a batch takes."""
    cfg = preset("qwen3-vl-8b")
    filler = Filler(cfg, BatchShape(ROWS, ROW, 4 * ROW, 1))

    def take(items, kept):
        chosen, _, rest = filler.choose(items, kept)
        return len(chosen), rest

    feed = Feed(ordered(Mixed(4000, cfg.image_token_id)), take)
    began = time.perf_counter()
    placed = sum(next(feed) for _ in range(BATCHES))
    each = (time.perf_counter() - began) / BATCHES
    note = f"{placed} samples in {BATCHES} batches of {ROWS} rows, {1000 * each:.0f} ms a plan; bar: at least {REAL}"
    return Figure("real tokens in rows of 4,096", filler.real, "share", bar=REAL, note=note)


def main() -> None:
    """Measures all; writes results/data_feed.json."""
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as folder:
        source = stored(Path(folder) / "data")
        figures = [*reading(source), waiting(source), filling()]
    write("data_feed", figures)


if __name__ == "__main__":
    main()
