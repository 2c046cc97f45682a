"""How many groups have something to learn from, with pools of k n episodes and without: a run beside the closed form.

python -m benchmarks.rl_buffer

The loop of `gui_rl.learn.online` plays simulated environments, of whose episodes nine in ten succeed whatever the
policy answers; groups of n = 4, pools of k n for k = 1 and 4 (GUI-Owl-1.5, section 2.4.3).
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.record import Figure, write
from benchmarks.rl_utilisation import TASKS, Waiting
from gui_rl.learn import online
from gui_rl.learn.buffer import pool_diversity
from gui_rl.learn.online import MRPOConfig, StepReport
from gui_rl.learn.state import TrainState
from gui_rl.prompt.render import Prompt
from gui_rl.rollout.agents import Reply, View
from gui_rl.rollout.simulated import SimulatedClient, Simulation

SUCCESS, GROUP, POOLS, GROUPS, BAR = 0.9, 4, (1, 4), 600, 2.2


class Guessing(Waiting):
    """Answers with random tokens at once: an environment decides by them whether the episode succeeds."""

    def __init__(self, seed: int):
        super().__init__()
        self.random = np.random.default_rng(seed)

    async def act(self, view: View) -> Reply:
        """Two tokens."""
        answer = tuple(self.random.integers(10, 2**30, 2).tolist())
        return Reply(view.episode, Prompt([1], [], [], 0), answer, (-1.0, -1.0), policy_version=self.version)


def informative(oversample: int, lazy: bool, directory: Path) -> float:
    """Share of the groups of one run that are kept or swapped."""
    config = MRPOConfig(
        steps=GROUPS // 12, tasks=12, group=GROUP, oversample=oversample, lazy=lazy, explore=1.0, phases="mix",
        parallel=256, checkpoint_every=10**6,
    )  # fmt: skip
    counts: dict[str, int] = {}

    def update(state: TrainState, filled: online.Filled) -> tuple[TrainState, dict[str, float]]:
        counts.update(filled.buffer.counts)
        return state.replace(step=state.step + 1), {}

    async def report(step: StepReport) -> None:
        pass

    state = TrainState(jnp.zeros((), jnp.int32), {"w": jnp.zeros(1)}, {"m": jnp.zeros(1)}, jax.random.key(0))
    client = SimulatedClient(Simulation(mean_s=0.0, shortest=1, longest=2, success=SUCCESS))
    asyncio.run(
        online.train(state, update, Guessing(oversample), client, TASKS, range(10**6), config, directory, report)
    )
    return 1 - counts["empty"] / sum(counts.values())


def main() -> None:
    """Measures both k, whole pools and lazy ones; writes results/rl_buffer.json."""
    figures = []
    with tempfile.TemporaryDirectory() as directory:
        for lazy in (False, True):
            found = {k: informative(k, lazy, Path(directory) / f"{lazy}-{k}") for k in POOLS}
            for k, share in found.items():
                closed = pool_diversity(SUCCESS, GROUP, k)
                error = (closed * (1 - closed) / GROUPS) ** 0.5
                note = f"closed form {closed:.3f}, standard error of {GROUPS} groups {error:.3f}; the peer is k = 1"
                figures.append(
                    Figure(
                        f"informative groups, k = {k}, {'lazy' if lazy else 'whole'} pools",
                        share,
                        "share",
                        found[1],
                        share / found[1],
                        BAR if k > 1 else None,
                        note=note,
                    )  # fmt: skip
                )
    write("rl_buffer", figures)


if __name__ == "__main__":
    main()
