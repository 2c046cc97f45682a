"""Supervised fine-tuning: the train step with the cross-entropy stream filled from stored turns.

In: sources of episodes and a training state. Out: the trained state, metrics and checkpoints. The order of turns is a
function of the seed; a run that is killed goes on from its last checkpoint with the very next batch.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path

from gui_rl.data.batch import split
from gui_rl.data.filling import Filler
from gui_rl.data.pipeline import Feed, Source, TurnSource, by_count, ordered
from gui_rl.data.samples import BatchShape, micro_batches, supervised
from gui_rl.learn import checkpoint
from gui_rl.learn.state import TrainState
from gui_rl.learn.step import Metrics, TrainStep, place
from gui_rl.model.config import ModelConfig


@dataclasses.dataclass(frozen=True)
class SFTConfig:
    """Settings of supervised fine-tuning.

    Attributes:
      steps: optimisation steps.
      turns: turns a step; 0 fills the rows of `shape` with as many as they hold.
      muon_rate, adam_rate, warmup: peaks of the cosine schedules of the matrices and of the rest (tables, norms), and
        steps of linear warm-up.
      checkpoint_every: steps between checkpoints; one is always made at the end.
      seed: of the order of turns.
      shape: rows of a micro-batch.
      workers: processes that read and decode; 0: two threads do.
      ahead: batches made ahead of the step that takes them.
    """

    steps: int = 140
    turns: int = 48
    muon_rate: float = 5e-3
    adam_rate: float = 1e-3
    warmup: int = 20
    checkpoint_every: int = 50
    seed: int = 0
    shape: BatchShape = BatchShape(rows=24, micro_batches=1)
    workers: int = 0
    ahead: int = 1


def feed(
    sources: Source | Mapping[str, tuple[Source, float]],
    cfg: ModelConfig,
    config: SFTConfig,
    shard: tuple[int, int] = (0, 1),
) -> Feed:
    """Micro-batches `[A, B, ...]` of stored turns, without end.

    Args:
      sources: episodes; or several sources of them by name, with their weights in the mixture.
      cfg: the policy's configuration.
      config: settings.
      shard: `(this host, number of hosts)`; the turns, or rows, of the config are those of one host.
    """
    if isinstance(sources, Mapping):
        turns = {name: (TurnSource(source), weight) for name, (source, weight) in sources.items()}
    else:
        turns = TurnSource(sources)
    if config.turns:
        take = by_count(config.turns, lambda samples: micro_batches(samples, cfg, config.shape))
    else:
        filler = Filler(cfg, config.shape)

        def take(items, kept):
            batch, waiting = filler(items, kept)
            return split(batch, config.shape.micro_batches), waiting

    order = ordered(turns, seed=config.seed, transform=supervised, shard=shard)
    return Feed(order, take, threads=0 if config.workers else 2, workers=config.workers, ahead=config.ahead)


def train(
    state: TrainState,
    step: TrainStep,
    episodes: Source | Mapping[str, tuple[Source, float]],
    cfg: ModelConfig,
    config: SFTConfig,
    mesh,
    directory: Path,
    report: Callable[[int, Metrics, TrainState], None],
) -> TrainState:
    """Trains from the state's step (0, or that of a restored checkpoint) to `config.steps`.

    Args:
      state: donated to the steps.
      step: from `make_train_step`.
      episodes: where the turns come from (see `feed`).
      cfg: the policy's configuration.
      config: settings.
      mesh: devices.
      directory: of the checkpoints.
      report: called after every step with its number, from 1, its metrics, and the state, which the next step takes
        over: it may be read until `report` returns.
    """
    coming = feed(episodes, cfg, config)
    start = int(state.step)
    if start:
        coming.set_state(checkpoint.restore(directory, state).progress["feed"])
    with contextlib.closing(coming), checkpoint.Checkpoints(directory) as checkpoints:
        for number in range(start + 1, config.steps + 1):
            state, metrics = step(state, place(next(coming), mesh))
            report(number, metrics, state)
            if number == config.steps or number % config.checkpoint_every == 0:
                checkpoints.save(state, {"feed": coming.get_state()})
    return state
