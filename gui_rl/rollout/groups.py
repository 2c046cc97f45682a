"""Pools of trajectories that compete with one another: k*n episodes of one task and seed, on one policy version.

In: tasks and seeds. Out: `Pool`s of scored episodes. Faults of the environment are played again by `play_all`; what
stays faulty is left out of the pool and counted, never scored (R24).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from gui_rl.data.schema import Episode
from gui_rl.rollout.agents import Agent
from gui_rl.rollout.env_client import EnvClient
from gui_rl.rollout.episode import Spec, Transport, play_all


@dataclasses.dataclass(frozen=True)
class Pool:
    """The scored episodes of one group key, and how many others the environment lost."""

    key: str
    episodes: tuple[Episode, ...]
    faults: int

    @property
    def outcomes(self) -> list[bool]:
        """Raw successes, in the order of the episodes."""
        return [episode.success for episode in self.episodes]


async def play_pools(
    client: EnvClient,
    agent: Agent,
    tasks: Sequence[tuple[str, str, int]],
    size: int,
    *,
    run: str = "",
    parallel: int = 32,
    deadline_s: float = 300.0,
    transport: Transport | None = None,
    tick: Callable[[Episode], None] = lambda episode: None,
) -> list[Pool]:
    """Plays `size` episodes of every (suite, task, seed); one pool each, in the same order."""
    specs = [Spec(*task, copy=copy, run=run) for task in tasks for copy in range(size)]
    episodes = await play_all(
        client, agent, specs, parallel=parallel, deadline_s=deadline_s, transport=transport, tick=tick
    )
    pools = []
    for number, (suite, task, seed) in enumerate(tasks):
        members = episodes[number * size : (number + 1) * size]
        scored = tuple(episode for episode in members if episode.scored)
        pools.append(Pool(f"{suite}/{task}/{seed}", scored, len(members) - len(scored)))
    return pools
