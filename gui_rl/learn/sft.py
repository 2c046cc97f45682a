"""Supervised fine-tuning: the train step with the cross-entropy stream filled from stored turns.

In: a source of episodes and a training state. Out: the trained state, metrics and checkpoints. The order of turns is a
function of the seed; a run that is killed goes on from its last checkpoint with the very next batch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from gui_rl.data.pipeline import Source, TurnSource, batches
from gui_rl.data.samples import BatchShape, micro_batches, turn_sample
from gui_rl.learn import checkpoint
from gui_rl.learn.state import TrainState
from gui_rl.learn.step import Metrics, TrainStep, place
from gui_rl.model.config import ModelConfig


@dataclasses.dataclass(frozen=True)
class SFTConfig:
    """Settings of supervised fine-tuning.

    Attributes:
      steps: optimisation steps.
      turns: turns a step.
      muon_rate, adam_rate, warmup: peaks of the cosine schedules of the matrices and of the rest (tables, norms), and
        steps of linear warm-up.
      checkpoint_every: steps between checkpoints; one is always made at the end.
      seed: of the order of turns.
      shape: rows of a micro-batch.
    """

    steps: int = 140
    turns: int = 48
    muon_rate: float = 5e-3
    adam_rate: float = 1e-3
    warmup: int = 20
    checkpoint_every: int = 50
    seed: int = 0
    shape: BatchShape = BatchShape(rows=24, micro_batches=1)


def train(
    state: TrainState,
    step: TrainStep,
    episodes: Source,
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
      episodes: where the turns come from.
      cfg: the policy's configuration.
      config: settings.
      mesh: devices.
      directory: of the checkpoints.
      report: called after every step with its number, from 1, its metrics, and the state, which the next step takes
        over: it may be read until `report` returns.
    """
    feed = batches(
        TurnSource(episodes, cached_episodes=4096), config.turns, seed=config.seed,
        transform=lambda record: turn_sample(record.episode, record.turn.index, ce_weight=1.0),
    )  # fmt: skip
    start = int(state.step)
    if start:
        feed.set_state(checkpoint.restore(directory, state).progress["feed"])
    with checkpoint.Checkpoints(directory) as checkpoints:
        for number in range(start + 1, config.steps + 1):
            state, metrics = step(state, place(micro_batches(next(feed), cfg, config.shape), mesh))
            report(number, metrics, state)
            if number == config.steps or number % config.checkpoint_every == 0:
                checkpoints.save(state, {"feed": feed.get_state()})
    return state
