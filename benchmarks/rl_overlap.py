"""Optimisation steps a minute of the quickstart's MRPO, with rollouts that go on while the trainer steps and without.

python -m benchmarks.rl_overlap [--policy runs/quickstart/policy] [--steps 10] [--lags 0 1 2]

Real Chromium, the real policy, the quickstart's settings; the policy starts anew for every measurement. On two cores
the environments, the sampler and the trainer share what there is: this is what decides the quickstart's `max_lag`.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import statistics
import tempfile
import time
from pathlib import Path

import jax

from benchmarks.record import Figure, write
from env_servers.server import ServerConfig, running_server
from env_servers.suites.virtual.app import SEEDS
from experiments.quickstart import BASE, Config
from gui_rl.evaluate.suites import tasks_of
from gui_rl.learn import online, optim
from gui_rl.learn.losses import LossConfig
from gui_rl.learn.online import StepReport
from gui_rl.learn.state import init_state, make_mesh
from gui_rl.learn.step import TrainStep, make_train_step
from gui_rl.rollout import policy
from gui_rl.rollout.agents import PolicyAgent, Prompts
from gui_rl.rollout.engine import Engine, engine_config
from gui_rl.rollout.env_client import EnvClient
from gui_rl.rollout.sampler import SamplingParams

WARM = 2
"""Steps that compile and fill the environments; they are not counted."""


class Runs:
    """One policy and its engine; the train steps are compiled once for each loss."""

    def __init__(self, folder: Path, steps: int):
        self.policy = policy.load(folder)
        self.engine = Engine(
            self.policy.cfg, self.policy.params, self.policy.tokenizer, engine_config(self.policy.context)
        )
        self.config = dataclasses.replace(Config().rl, steps=steps, checkpoint_every=10**6)
        rates = [optim.learning_rate(rate, 90, 2) for rate in (self.config.muon_rate, self.config.adam_rate)]
        self.optimizer, self.mesh = optim.muon(self.policy.cfg, *rates), make_mesh()
        self.compiled: dict[LossConfig, TrainStep] = {}

    async def measure(self, max_lag: int, url: str, token: str, directory: Path) -> dict[str, float]:
        """Figures of one run after its first steps."""
        config = dataclasses.replace(self.config, max_lag=max_lag)
        loss, cfg = online.loss_config(config), self.policy.cfg
        if loss not in self.compiled:
            self.compiled[loss] = make_train_step(cfg, loss, self.optimizer, self.mesh)
        update = online.make_update(self.compiled[loss], cfg, config, self.mesh)
        state = init_state(cfg, self.optimizer, 0, self.mesh, params=self.policy.params)
        marks: list[tuple[float, StepReport]] = []

        async def report(step: StepReport) -> None:
            marks.append((time.monotonic(), step))

        async with EnvClient(url, token) as client:
            tasks = await tasks_of(client, "virtual", Config().longest)
            agent = PolicyAgent(
                self.engine, Prompts(self.policy.tokenizer, self.policy.context), SamplingParams(1.0)
            )  # fmt: skip
            await online.train(state, update, agent, client, tasks, SEEDS["train"], config, directory, report)
        await self.engine.close()
        seconds, counted = marks[-1][0] - marks[WARM - 1][0], [step.metrics for _, step in marks[WARM:]]
        return {
            "steps": 60 * len(counted) / seconds,
            "turns": sum(metrics["turns"] for metrics in counted) / seconds,
            "staleness": statistics.mean(metrics["staleness"] for metrics in counted),
        }


def main() -> None:
    """Measures every lag three times in turn; writes results/rl_overlap.json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--policy", type=Path, default=BASE)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--lags", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    jax.config.update("jax_compilation_cache_dir", str(Path(".cache/jax").absolute()))
    runs = Runs(options.policy, options.steps)
    found: dict[int, list[dict[str, float]]] = {lag: [] for lag in options.lags}
    with running_server(ServerConfig(port=0)) as server, tempfile.TemporaryDirectory() as directory:
        for number in range(options.runs):
            for lag in options.lags:
                place = Path(directory) / f"{number}-{lag}"
                found[lag].append(asyncio.run(runs.measure(lag, server.url, server.token, place)))
    figures = []
    for lag, measured in found.items():
        for name, unit in (("steps", "steps/min"), ("turns", "turns/s"), ("staleness", "versions")):
            ours, peer = ([run[name] for run in each] for each in (measured, found[options.lags[0]]))
            value, other = statistics.median(ours), statistics.median(peer)
            compared = lag != options.lags[0] and name != "staleness"
            figures.append(
                Figure(
                    f"max_lag {lag}: {name}",
                    value,
                    unit,
                    other if compared else None,
                    value / other if compared else None,
                    None,
                    {"ours": ours},
                    f"{options.policy.name}, {options.steps - WARM} steps a run; the peer is max_lag {options.lags[0]}",
                )  # fmt: skip
            )
    write("rl_overlap", figures)


if __name__ == "__main__":
    main()
