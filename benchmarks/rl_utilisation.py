"""How much of their time 64 simulated environments work, with the rollout overlapping the training and without.

python -m benchmarks.rl_utilisation

The loop of `gui_rl.learn.online` plays simulated environments: log-normal latencies of mean 4 s with a heavy tail
(scaled down 100 times), episodes of 3 to 30 steps. The policy answers after 0.2 s and an optimisation step takes 20 s,
scaled alike; neither computes anything. An environment works while it carries out a reset or a step: waiting for the
policy, for other episodes or for the trainer is what is to be avoided.
"""

from __future__ import annotations

import asyncio
import dataclasses
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.record import Figure, write
from gui_rl.learn import online
from gui_rl.learn.online import MRPOConfig, StepReport
from gui_rl.learn.state import TrainState
from gui_rl.prompt.context import TINY_CONTEXT
from gui_rl.prompt.render import Prompt
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.rollout.agents import Prompts, Reply, View
from gui_rl.rollout.simulated import SimulatedClient, Simulation

ENVIRONMENTS, SCALE = 64, 100
SIMULATION = Simulation(mean_s=4 / SCALE, sigma=1.0, shortest=3, longest=30)
ANSWER_S, TRAIN_S = 0.2 / SCALE, 20 / SCALE
CONFIG = MRPOConfig(
    steps=16, tasks=4, group=8, oversample=2, parallel=ENVIRONMENTS, explore=1.0, phases="mix", deadline_s=600 / SCALE,
    checkpoint_every=10**6,
)  # fmt: skip
TASKS = {family: [("simulated", f"{family}/{n}") for n in range(20)] for family in ("mobile", "desktop", "web")}
LAGS, BARS = (0, 1, 2, 4), (0.9, 2.0)


class Waiting:
    """An agent and its sampler: every answer takes the same time."""

    source = "policy"
    prompts = Prompts(Tokenizer.load("gui-tiny"), TINY_CONTEXT)

    def __init__(self):
        self.sampler, self.version = self, 0

    async def update_weights(self, params: Any, version: int) -> None:
        """Takes the version."""
        self.version = version

    async def act(self, view: View) -> Reply:
        """Two tokens."""
        await asyncio.sleep(ANSWER_S)
        return Reply(view.episode, Prompt([1], [], [], 0), (2, 3), (-1.0, -1.0), policy_version=self.version)


def measure(max_lag: int, directory: Path) -> dict[str, float]:
    """Share of the environments' time that they worked, episodes a second, mean staleness and seconds of one run.

    The first round fills the environments and the last ones empty them: time counts from the first step's end to the
    end of the last step before the rounds run out.
    """
    client, marks = SimulatedClient(SIMULATION), []
    lags: list[float] = []

    async def report(step: StepReport) -> None:
        marks.append((time.monotonic(), client.busy_s))
        lags.append(step.metrics["staleness"])

    def update(state: TrainState, filled: online.Filled) -> tuple[TrainState, dict[str, float]]:
        time.sleep(TRAIN_S)
        return state.replace(step=state.step + 1), {}

    state = TrainState(jnp.zeros((), jnp.int32), {"w": jnp.zeros(1)}, {"m": jnp.zeros(1)}, jax.random.key(0))
    config = dataclasses.replace(CONFIG, max_lag=max_lag)
    asyncio.run(
        online.train(state, update, Waiting(), client, TASKS, range(10**6), config, directory, report)
    )  # fmt: skip
    (began, before), (ended, after) = marks[0], marks[-1 - max_lag]
    episodes = (len(marks) - 1 - max_lag) * config.tasks * config.group * config.oversample
    seconds = ended - began
    return {
        "utilisation": (after - before) / seconds / ENVIRONMENTS,
        "episodes_per_s": episodes / seconds,
        "staleness": statistics.mean(lags),
        "seconds": seconds,
    }


def main() -> None:
    """Measures every lag three times in turn; writes results/rl_utilisation.json."""
    runs: dict[int, list[dict[str, float]]] = {lag: [] for lag in LAGS}
    with tempfile.TemporaryDirectory() as directory:
        for number in range(3):
            for lag in LAGS:
                runs[lag].append(measure(lag, Path(directory) / f"{number}-{lag}"))
    figures = []
    for lag, found in runs.items():
        for name, unit in (("utilisation", "share"), ("episodes_per_s", "episodes/s"), ("staleness", "versions")):
            ours, peer = [run[name] for run in found], [run[name] for run in runs[0]]
            value, other = statistics.median(ours), statistics.median(peer)
            compared = lag > 0 and name != "staleness"
            figures.append(
                Figure(
                    f"max_lag {lag}: {name}",
                    value,
                    unit,
                    other if compared else None,
                    value / other if compared else None,
                    BARS[1] if compared else None,
                    {"ours": ours} | ({"peer": peer} if compared else {}),
                    f"{ENVIRONMENTS} environments, mean step {SIMULATION.mean_s} s, log-normal with sigma "
                    f"{SIMULATION.sigma}, answer {ANSWER_S} s, training step {TRAIN_S} s; utilisation is asked to be "
                    f"{BARS[0]} with overlap; the peer is max_lag 0",
                )  # fmt: skip
            )
    write("rl_utilisation", figures)


if __name__ == "__main__":
    main()
