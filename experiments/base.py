"""The shipped base: pre-training of `gui-tiny`, as the papers start from Qwen3-VL.

    gui-rl run base

1. Draw screens: icons on plain grounds, then states of the three apps (seeds of the pre-training range only).
2. Align the vision encoder alone: each visual token is told apart by the embeddings of the words that name what it
   shows, and by the leading digits of its place (linear heads, thrown away afterwards). It gives the encoder a label
   for every token of every screen, where an answer gives one for a whole screen, at a tenth of the cost.
3. Train on queries about the screens, packed as isolated branches of one sequence a screenshot: pointing, naming,
   facts, and what a press would change (world modelling); the alignment loss stays beside the answers' cross-entropy.
4. Write the weights, the curve and how they were made.

The run may be killed at any time; started again, it goes on from its last checkpoint.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import serialization

from gui_rl.data.batch import Batch
from gui_rl.data.packing import pack
from gui_rl.flywheel.grounding import QueryWriter, jitter, load_pixels, visual_labels
from gui_rl.flywheel.screens import Screen, ScreenFile, kinds, write_screens
from gui_rl.learn import optim
from gui_rl.learn.batch import global_weights
from gui_rl.learn.losses import LossConfig, composed
from gui_rl.model import forward, hf
from gui_rl.model.config import ModelConfig, preset
from gui_rl.model.params import init_params
from gui_rl.prompt.context import TINY_CONTEXT
from gui_rl.prompt.images import prepare
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.report.progress import Progress
from gui_rl.rollout import policy


@dataclasses.dataclass(frozen=True)
class Config:
    """How the base is made.

    Attributes:
      name: of the run's folder below `runs`.
      screens, app_screens: screens drawn of each plain kind (two layouts, three families) and of each app.
      align_steps, steps: optimisation steps of the alignment alone, and with queries.
      batch, queries: screenshots a step, queries a screenshot.
      row_length: tokens in a row; a screenshot's queries that would not fit are left out.
      muon_rate, adam_rate: peak learning rates of the matrices and of the rest.
      align: weight of the alignment loss.
      shares: of grids, free fields and app screens.
      shift: screenshots are moved by up to this many pixels.
      evaluate_every, checkpoint_every: in steps.
      seed: of parameters, order and draws.
    """

    name: str = "base"
    screens: int = 1500
    app_screens: int = 5000
    align_steps: int = 3000
    steps: int = 2400
    batch: int = 32
    queries: int = 5
    row_length: int = 192
    muon_rate: float = 0.01
    adam_rate: float = 3e-3
    align: float = 1.0
    shares: tuple[float, float, float] = (0.25, 0.25, 0.5)
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
    """Batches of a mixture of screens; each is a function of the seed and the step."""

    def __init__(self, files: Mapping[str, Sequence[Screen]], writer: QueryWriter, cfg: ModelConfig, config: Config):
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

    def batch(self, step: int) -> tuple[Batch, dict[str, np.ndarray]]:
        """The batch of a step."""
        rng = np.random.default_rng([self.config.seed, step])
        chosen = []
        for _ in range(self.config.batch):
            group = self.groups[rng.choice(3, p=self.config.shares)]
            file = self.files[group[rng.integers(len(group))]]
            chosen.append(file[int(rng.integers(HELD_OUT, len(file)))])
        queries = self.config.queries if step >= self.config.align_steps else 1
        return self.build(chosen, rng, self.config.shift, queries)

    def build(self, screens: Sequence[Screen], rng: np.random.Generator, shift: int, count: int):
        """Packs screens with drawn queries: (batch, labels of the visual tokens)."""
        samples, labels = [], []
        for screen in screens:
            pixels = load_pixels(screen)
            if shift:
                screen, pixels = jitter(screen, pixels, shift, rng)
            image = prepare(pixels)
            queries = self.writer.draw(screen, count, rng)
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

    def held_out(self, count: int) -> dict[str, list[Batch]]:
        """`count` batches of each group of kinds, from the screens that are never trained on."""
        out = {}
        for group, name in zip(self.groups, ("grid", "free", "app"), strict=True):
            rng = np.random.default_rng(0)
            chosen = [self.files[kind][index] for index in range(HELD_OUT) for kind in group][: 32 * count]
            out[name] = [
                self.build(chosen[at : at + 32], rng, 0, self.config.queries)[0] for at in range(0, len(chosen), 32)
            ]
        return out

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


def make_step(
    cfg: ModelConfig, config: Config, tx: optax.GradientTransformation, head_tx, align_only: bool
) -> Callable:
    """One optimisation step on `(params, heads)`: the alignment alone, or with the answers."""

    def loss(trained, batch: Batch, labels):
        params, heads = trained
        visual = forward.encode_images(params, cfg, batch.inputs)
        align = alignment_loss(params, heads, visual.features, labels)
        if align_only:
            return align, (jnp.zeros(()), align)
        hidden = forward.hidden_from_features(params, cfg, batch.inputs, visual)
        logp, _ = forward.token_logprobs(params, cfg, hidden, batch.targets)
        answer, _ = composed(logp, batch, global_weights(jax.tree.map(lambda leaf: leaf[None], batch)), LossConfig())
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

    def measure(params, held_out: Mapping[str, Sequence[Batch]]) -> dict[str, float]:
        kinds = {"digit1": weights.digits[0], "digit2": weights.digits[1], "name": weights.name}
        kinds |= {"fact": weights.fact, "effect": weights.effect, "absent": weights.absent}
        right: dict[str, list] = {}
        for group, batches in held_out.items():
            for batch in batches:
                hit = np.asarray(predict(params, batch.inputs)) == batch.targets
                for kind, mark in kinds.items():
                    right.setdefault(f"{group}_{kind}", []).extend(hit[np.isclose(batch.ce_weight, mark)])
        return {kind: float(np.mean(hits)) for kind, hits in right.items() if hits}

    return measure


def draw_screens(config: Config, folder: Path, progress: Progress) -> dict[str, ScreenFile]:
    """The files of screens by kind; draws those that are missing."""
    files = {}
    for kind in kinds():
        path = folder / f"{kind}.array_record"
        if not path.is_file():
            count = config.screens if kind.startswith(("grid", "free")) else config.app_screens
            with progress.stage(f"draw {kind}", total=count, unit="screen") as stage:
                write_screens(path, [(kind, index) for index in range(count)], stage.advance)
        files[kind] = ScreenFile(path)
    return files


def prefetch(make: Callable[[int], Any], steps: range, ahead: int = 6) -> Iterator[Any]:
    """`make(step)` for every step, made ahead in a thread; an exception in it comes out here."""
    ready: queue.Queue = queue.Queue(ahead)

    def run() -> None:
        try:
            for step in steps:
                ready.put((make(step), None))
        except BaseException as error:  # handed to the consumer
            ready.put((None, error))

    threading.Thread(target=run, daemon=True).start()
    for _ in steps:
        value, error = ready.get()
        if error is not None:
            raise error
        yield value


def main(config: Config = Config(), resume: bool = True) -> None:  # noqa: B008 - frozen
    """Makes the base in runs/NAME; a second call goes on from the last checkpoint, `resume` or not."""
    run = Path("runs") / config.name
    tokenizer = Tokenizer.load("gui-tiny")
    cfg = tiny_config(tokenizer)
    writer = QueryWriter(tokenizer, TINY_CONTEXT)
    with Progress() as progress, (run / "metrics.jsonl").open("a") if run.is_dir() else _open(run) as log:
        feed = Feed(draw_screens(config, run / "screens", progress), writer, cfg, config)
        total = config.align_steps + config.steps
        rates = [optim.learning_rate(peak, total, warmup=100) for peak in (config.muon_rate, config.adam_rate)]
        tx, head_tx = optim.muon(cfg, *rates), optax.adam(rates[1])
        params = init_params(cfg, jax.random.key(config.seed))
        heads = jnp.zeros((cfg.text.hidden_size, 4, 10))
        trained, opt_state, start = (params, heads), (tx.init(params), head_tx.init(heads)), 0
        saved = run / "state.msgpack"
        if saved.is_file():
            start, trained, opt_state = serialization.from_bytes((start, trained, opt_state), saved.read_bytes())
        steps = {align: make_step(cfg, config, tx, head_tx, align) for align in (True, False)}
        measure = make_measure(cfg, writer)
        held_out = feed.held_out(4)
        began, parts = time.monotonic(), []
        with progress.stage("base", total=total, done=int(start)) as stage:
            for number, (batch, labels) in enumerate(prefetch(feed.batch, range(int(start), total)), int(start) + 1):
                step = steps[number <= config.align_steps]
                trained, opt_state, losses = step(trained, opt_state, batch, labels)
                parts.append(losses)
                stage.advance()
                if number % config.evaluate_every == 0 or number == total:
                    answer, align = np.mean([[float(v) for v in losses] for losses in parts], 0)
                    figures = {"answer": answer, "align": align, **measure(trained[0], held_out)}
                    figures["seconds"] = time.monotonic() - began
                    parts = []
                    log.write(json.dumps({"stage": "base", "step": number, "metrics": figures}) + "\n")
                    log.flush()
                    progress.note(f"{number}: " + "  ".join(f"{name} {value:.3f}" for name, value in figures.items()))
                if number % config.checkpoint_every == 0 or number == total:
                    _replace(saved, serialization.to_bytes((number, trained, opt_state)))
                    hf.save(run / "policy", cfg, trained[0])
                    policy.write_form(run / "policy", "gui-tiny", TINY_CONTEXT)


def _open(run: Path):
    run.mkdir(parents=True)
    return (run / "metrics.jsonl").open("a")


def _replace(path: Path, content: bytes) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(content)
    os.replace(partial, path)


if __name__ == "__main__":
    import tyro

    main(tyro.cli(Config))
