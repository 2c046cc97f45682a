"""The shipped base: pre-training of `gui-tiny`, as the papers start from Qwen3-VL.

    gui-rl run base --steps 16000

1. Draw screens: icons on plain grounds, then states of the three apps (seeds of the pre-training range only).
2. Train on queries about them, packed as isolated branches of one sequence a screenshot: pointing, naming, facts.
   Beside the answers' cross-entropy stands an alignment loss: each visual token is told apart by the embeddings of the
   words that name what it shows, and by the leading digits of its place (two linear heads, thrown away afterwards).
   It gives a small vision encoder a label for every token of every screen, where an answer gives one for a whole screen.
3. Move from the first mixture of screens to the last once the measured hit rate on grids passes a bar.
4. Write the weights, the curve and how they were made.

The run may be killed at any time; started again, it goes on from its last checkpoint.
"""

from __future__ import annotations

import dataclasses
import json
import math
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gui_rl.data.batch import Batch, split
from gui_rl.data.packing import pack
from gui_rl.flywheel.grounding import QueryWriter, image_of, jitter, load_pixels, visual_labels
from gui_rl.flywheel.screens import Screen, ScreenFile, kinds, write_screens
from gui_rl.learn import optim

from gui_rl.learn.losses import LossConfig, composed
from gui_rl.learn.batch import global_weights
from gui_rl.model import forward, hf
from gui_rl.model.config import ModelConfig, preset
from gui_rl.model.params import init_params
from gui_rl.prompt.context import TINY_CONTEXT
from gui_rl.prompt.tokenizer import Tokenizer



@dataclasses.dataclass(frozen=True)
class BaseConfig:
    """How the base is made.

    Attributes:
      name: of the run's folder below `runs`.
      screens: screens drawn of each kind (three plain kinds times two layouts, three apps).
      app_screens: screens drawn of each app.
      steps, batch, queries: optimisation steps, screenshots a step, queries a screenshot.
      row_length: tokens in a row; a screenshot's queries that would not fit are left out.
      muon_rate, adam_rate: peak learning rates of the matrices and of the rest.
      align: weight of the alignment loss.
      first, last: shares of grids, free fields and app screens before and after the bar.
      bar: share of first digits right on held-out grids at which the mixture changes.
      evaluate_every, checkpoint_every: in steps.
      seed: of parameters, order and draws.
    """

    name: str = "base"
    screens: int = 3000
    app_screens: int = 8000
    steps: int = 16000
    batch: int = 32
    queries: int = 5
    row_length: int = 192
    muon_rate: float = 0.01
    adam_rate: float = 3e-3
    align: float = 1.0
    first: tuple[float, float, float] = (0.5, 0.1, 0.4)
    last: tuple[float, float, float] = (0.1, 0.2, 0.7)
    bar: float = 0.8
    shift: int = 3
    evaluate_every: int = 250
    checkpoint_every: int = 500
    seed: int = 0


HELD_OUT = 96
"""Screens of each kind that are kept for measuring."""


def tiny_config(tokenizer: Tokenizer) -> ModelConfig:
    """`gui-tiny` with the sizes and ids of its vocabulary (the table rounded up to a multiple of 64)."""
    cfg = preset("gui-tiny")
    return dataclasses.replace(
        cfg,
        text=dataclasses.replace(cfg.text, vocab_size=64 * math.ceil(tokenizer.vocab_size / 64)),
        image_token_id=tokenizer.image_id,
        video_token_id=tokenizer.video_id,
        vision_start_token_id=tokenizer.control("<|vision_start|>"),
        vision_end_token_id=tokenizer.control("<|vision_end|>"),
    )


class Feed:
    """Batches of a mixture of screens, made in a thread; a function of the seed and the step at which it starts."""

    def __init__(self, files: Mapping[str, Sequence[Screen]], writer: QueryWriter, cfg: ModelConfig, config: BaseConfig):
        self.files, self.writer, self.cfg, self.config = files, writer, cfg, config
        names = sorted(files)
        self.groups = [
            [name for name in names if name.startswith("grid")],
            [name for name in names if name.startswith("free")],
            [name for name in names if not name.startswith(("grid", "free"))],
        ]
        embed = writer.tokenizer.encode
        words = {e[0] for file in files.values() for screen in file for e in screen.elements}
        self.word_ids = {name: sorted({*embed(name), *embed(" " + name)}) for name in words}
        self.name_width = max(len(ids) for ids in self.word_ids.values())

    def batch(self, step: int, shares: Sequence[float]) -> tuple[Batch, dict[str, np.ndarray]]:
        """The batch of a step."""
        rng = np.random.default_rng([self.config.seed, step])
        chosen = []
        for _ in range(self.config.batch):
            group = self.groups[rng.choice(3, p=shares)]
            file = self.files[group[rng.integers(len(group))]]
            chosen.append(file[int(rng.integers(HELD_OUT, len(file)))])
        return self.build(chosen, rng, self.config.shift)

    def build(self, screens: Sequence[Screen], rng: np.random.Generator, shift: int):
        """Packs screens with drawn queries: (batch, labels of the visual tokens)."""
        samples, labels = [], []
        for screen in screens:
            pixels = load_pixels(screen)
            if shift:
                screen, pixels = jitter(screen, pixels, shift, rng)
            image = image_of(pixels)
            queries = self.writer.draw(screen, self.config.queries, rng)
            sample = self.writer.sample(screen, image, queries)
            while sample.tokens > self.config.row_length:
                queries = queries[:-1]
                sample = self.writer.sample(screen, image, queries)
            samples.append(sample)
            labels.append(self._label(screen))
        batch = pack(
            samples, self.cfg.image_token_id, self.config.row_length, 80, rows=len(screens),
            side=self.cfg.vision.position_side, one_per_row=True,
        )  # fmt: skip
        return batch, {key: np.stack([label[key] for label in labels]) for key in labels[0]}

    def _label(self, screen: Screen) -> dict[str, np.ndarray]:
        index, share = visual_labels(screen)
        words = np.full((index.size, self.name_width), -1, np.int32)
        digits = np.zeros((index.size, 4), np.int32)
        for place in np.flatnonzero(index >= 0):
            name, (x0, y0, x1, y1) = screen.elements[index[place]]
            ids = self.word_ids[name]
            words[place, : len(ids)] = ids
            x, y = 500 * (x0 + x1) / screen.width, 500 * (y0 + y1) / screen.height
            digits[place] = (x // 100, x // 10 % 10, y // 100, y // 10 % 10)
        return {"words": words, "digits": np.minimum(digits, 9), "share": share}


def alignment_loss(params, heads, features: jax.Array, labels: Mapping[str, jax.Array]) -> jax.Array:
    """Cross-entropy of every visual token with the words and the leading digits of what it shows.

    Args:
      params: the policy's, whose token embeddings are the classes.
      heads: `[D, 4, 10]`, linear heads for the first and second digits of x and y.
      features: `[B, M, D]` visual tokens.
      labels: `words` `[B, M, W]` token ids (-1: none), `digits` `[B, M, 4]`, `share` `[B, M]` weights.
    """
    size = features.shape[-1]
    unit = features * jax.lax.rsqrt(jnp.mean(features**2, -1, keepdims=True) + 1e-6)
    logp = jax.nn.log_softmax(unit @ params["text"]["embed"].T * (2 * size**-0.5))
    known = labels["words"] >= 0
    named = jnp.take_along_axis(logp, jnp.maximum(labels["words"], 0), -1)
    words = -(named * known).sum(-1) / jnp.maximum(known.sum(-1), 1)
    places = jax.nn.log_softmax(jnp.einsum("bmd,dkc->bmkc", unit, heads))
    digits = -jnp.take_along_axis(places, labels["digits"][..., None], -1)[..., 0]
    weight = labels["share"]
    total = words + digits @ jnp.array([1.0, 0.3, 1.0, 0.3])
    return (total * weight).sum() / jnp.maximum(weight.sum(), 1.0)


def make_step(cfg: ModelConfig, config: BaseConfig, tx: optax.GradientTransformation, head_tx) -> Callable:
    """One optimisation step on `(params, heads)` with both losses."""

    def loss(trained, batch: Batch, labels):
        params, heads = trained
        visual = forward.encode_images(params, cfg, batch.inputs)
        hidden = forward.hidden_from_features(params, cfg, batch.inputs, visual)
        logp, _ = forward.token_logprobs(params, cfg, hidden, batch.targets)
        answer, _ = composed(logp, batch, global_weights(jax.tree.map(lambda leaf: leaf[None], batch)), LossConfig())
        align = alignment_loss(params, heads, visual.features, labels)
        return answer + config.align * align, (answer, align)

    def step(trained, opt_state, batch: Batch, labels):
        (_, parts), grads = jax.value_and_grad(loss, has_aux=True)(trained, batch, labels)
        update, state = tx.update(grads[0], opt_state[0], trained[0])
        head_update, head_state = head_tx.update(grads[1], opt_state[1], trained[1])
        return optax.apply_updates(trained, (update, head_update)), (state, head_state), parts

    return jax.jit(step, donate_argnums=(0, 1))


def make_measure(cfg: ModelConfig, writer: QueryWriter) -> Callable:
    """Teacher-forced accuracy by kind of token, from a batch's own loss weights."""
    weights = writer.weights

    @jax.jit
    def predict(params, inputs):
        return jnp.argmax(forward.logits(params, cfg, forward.hidden(params, cfg, inputs)), -1)

    def measure(params, batches: Sequence[Batch]) -> dict[str, float]:
        right: dict[str, list] = {"first_digit": [], "second_digit": [], "name": [], "fact": []}
        marks = dict(zip(right, (weights.digits[0], weights.digits[1], weights.name, weights.fact), strict=True))
        for batch in batches:
            hit = np.asarray(predict(params, batch.inputs)) == batch.targets
            for kind, mark in marks.items():
                right[kind].extend(hit[np.isclose(batch.ce_weight, mark)])
        return {kind: float(np.mean(hits)) for kind, hits in right.items() if hits}

    return measure
