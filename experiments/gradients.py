"""Gradients of the device families at one policy: do they point the same way, and by how much is chance?

In: a policy, tasks. Out: a stage whose numbers are cosines by layer. For every family two gradients of the MRPO loss
are taken, of groups that have nothing in common: `across` is the mean cosine between different families, `within` that
between the two halves of the same family, which is what noise leaves of a cosine of 1.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.bench import Made, Tasks
from experiments.lab import Lab, listed
from experiments.parts import rl_config
from experiments.table import Sizes
from experiments.trainer import RL_SEEDS
from gui_rl.data.samples import micro_batches
from gui_rl.evaluate.diagnostics import layer_cosines
from gui_rl.learn import online
from gui_rl.learn.buffer import BufferState
from gui_rl.learn.schedule import draw_tasks
from gui_rl.learn.step import place
from gui_rl.rollout.episode import Places
from gui_rl.rollout.groups import play_pool


async def cosines(lab: Lab, policy: Made, tasks: Tasks, sizes: Sizes, seed: int) -> Made:
    """Numbers by layer: "LAYER across", "LAYER within", and "LAYER FAMILY-FAMILY" for every two families."""
    config = rl_config(sizes, seed)

    async def make(folder: Path) -> Mapping[str, Any]:
        agent, params, places = await lab.agent(policy), lab.params(policy), Places(lab.parallel)
        gradient = lab.trainer.gradient(online.loss_config(config))
        halves = [(family, half) for family in tasks for half in (0, 1)]
        found = {}
        with lab.progress.stage("gradients", len(halves), "half") as stage:
            for family, half in halves:
                drawn = draw_tasks(tasks, (family,), RL_SEEDS, config.tasks, [seed, half])
                size = config.group * config.oversample
                played = [play_pool(lab.client, agent, t, size, places, run=f"grad{half}") for t in drawn]
                filled = online.fill(await asyncio.gather(*played), BufferState(), config, 0)
                if filled.samples:
                    batch = place(micro_batches(filled.samples, lab.cfg, config.shape), lab.mesh)
                    found[family, half] = gradient(params, batch)
                else:
                    found[family, half] = jax.tree.map(jnp.zeros_like, params)
                stage.advance()
        return _numbers(found)

    settings = {"tasks": listed(tasks), "config": config}
    return await lab.stage("cosines", settings, {"policy": policy}, make)


def _numbers(gradients: Mapping[tuple[str, int], Any]) -> dict[str, float]:
    keys, numbers = list(gradients), {}
    families = list(dict.fromkeys(family for family, _ in keys))
    for layer, table in layer_cosines({f"{family}{half}": g for (family, half), g in gradients.items()}).items():
        pairs: dict[tuple[str, str], list[float]] = {}
        for i, j in zip(*np.triu_indices(len(keys), 1), strict=True):
            one, other = sorted((keys[i][0], keys[j][0]), key=families.index)
            pairs.setdefault((one, other), []).append(float(table[i, j]))
        numbers |= {f"{layer} {one}-{other}": float(np.mean(v)) for (one, other), v in pairs.items() if one != other}
        numbers[f"{layer} across"] = float(np.mean([v for (a, b), each in pairs.items() if a != b for v in each]))
        numbers[f"{layer} within"] = float(np.mean([v for (a, b), each in pairs.items() if a == b for v in each]))
    return numbers
