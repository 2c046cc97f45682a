"""Rollouts of a group with the sampler's reuse (shared prefill, one encoding a screenshot, prefixes) and without.

python -m benchmarks.rollout
"""

from __future__ import annotations

import asyncio
import dataclasses

import jax
import numpy as np

from benchmarks.record import Figure, alternate, rate_figure, seconds, write
from gui_rl.model.allocator import keep_freed_memory
from gui_rl.model.config import ModelConfig, preset
from gui_rl.model.params import init_params
from gui_rl.prompt.images import ImageInput, prepare
from gui_rl.prompt.render import Prompt
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.rollout.engine import Engine, EngineConfig
from gui_rl.rollout.sampler import SamplingParams

GROUP, TURNS, ANSWER = 8, 5, 16
WIDTH, HEIGHT = 320, 448  # 560 patches, 140 visual tokens
BAR = 2.0


def policies(vocab: int, image_id: int) -> dict[str, ModelConfig]:
    """gui-tiny, and the same made wider and deeper."""
    tiny = preset("gui-tiny")
    tiny = dataclasses.replace(tiny, text=dataclasses.replace(tiny.text, vocab_size=vocab), image_token_id=image_id)
    text = dataclasses.replace(tiny.text, hidden_size=384, intermediate_size=1152, num_hidden_layers=8)
    vision = dataclasses.replace(tiny.vision, out_hidden_size=384, hidden_size=192, intermediate_size=512)
    return {"gui-tiny": tiny, "16M": dataclasses.replace(tiny, text=text, vision=vision)}


def play(engine: Engine, screens: list[list[ImageInput]], tokenizer: Tokenizer, share: bool) -> None:
    """`GROUP` rollouts: the first screen is the same for all, every turn adds its answer and the next screen."""

    def shown(image: ImageInput) -> ImageInput:
        return image if share else dataclasses.replace(image)  # an image of its own is never recognised

    async def one(number: int) -> None:
        ids, images, spans = list(range(20, 50)), [], []
        for turn in range(TURNS):
            images = [shown(image) for image in [*images, screens[number if turn else 0][turn]]]
            spans = [*spans, (len(ids), len(ids) + images[-1].tokens)]
            ids = [*ids, *[tokenizer.image_id] * images[-1].tokens, 11, 12, 13]
            prompt = Prompt(ids, images, spans, 0)
            (done,) = await engine.sample([prompt], SamplingParams(1.0, ANSWER), [100 * number + turn])
            ids = [*ids, *done.token_ids, 14]

    async def group() -> None:
        await asyncio.gather(*map(one, range(GROUP)))
        await engine.close()

    asyncio.run(group())


def main() -> None:
    """Measures both policies; writes results/rollout.json."""
    keep_freed_memory()
    tokenizer = Tokenizer.load("gui-tiny")
    rng = np.random.default_rng(0)
    screens = [
        [prepare(rng.integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)) for _ in range(TURNS)] for _ in range(GROUP)
    ]
    figures: list[Figure] = []
    shape = {"row_buckets": (8,), "capacity": 896, "image_cells": 8192, "patch_multiple": 560, "length_multiple": 64}
    for name, cfg in policies(64 * -(-tokenizer.vocab_size // 64), tokenizer.image_id).items():
        params = init_params(cfg, jax.random.key(0))
        times = alternate(
            lambda cfg=cfg, params=params: seconds(
                lambda: play(Engine(cfg, params, tokenizer, EngineConfig(**shape)), screens, tokenizer, True)
            ),
            lambda cfg=cfg, params=params: seconds(
                lambda: play(
                    Engine(cfg, params, tokenizer, EngineConfig(**shape, reuse=2.0)), screens, tokenizer, False
                )
            ),
        )
        what = f"group of {GROUP} rollouts of {TURNS} turns, {name}"
        figures.append(
            rate_figure(what, "turns/s", GROUP * TURNS, *times, BAR, "the peer is the same sampler without reuse")
        )
    write("rollout", figures)


if __name__ == "__main__":
    main()
