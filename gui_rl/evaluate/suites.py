"""Evaluation in live environments: success of an agent on tasks and seeds that were never trained on.

In: an agent, tasks, evaluation seeds. Out: `Score`s by device family, with 95 % intervals, and the episodes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from env_servers.suites.virtual.app import SEEDS
from gui_rl.data.schema import Episode
from gui_rl.errors import UserError
from gui_rl.evaluate.metrics import wilson_interval
from gui_rl.rollout.agents import Agent
from gui_rl.rollout.env_client import EnvClient
from gui_rl.rollout.episode import Spec, play_all

FAMILIES = ("mobile", "desktop", "web")


@dataclasses.dataclass(frozen=True)
class Score:
    """Success on a family: share, 95 % interval (Wilson), scored episodes, and how many the environment lost."""

    success: float
    low: float
    high: float
    episodes: int
    faults: int = 0

    @staticmethod
    def of(episodes: Sequence[Episode]) -> Score:
        """The score of episodes; faults of the environment are in no denominator."""
        scored = [episode for episode in episodes if episode.scored]
        if not scored:
            raise UserError(f"all {len(episodes)} episodes failed in the environment: see the server's output")
        won = sum(episode.success for episode in scored)
        interval = wilson_interval(won, len(scored))
        return Score(won / len(scored), interval.low, interval.high, len(scored), len(episodes) - len(scored))


async def tasks_of(client: EnvClient, suite: str, longest: int | None = None) -> dict[str, list[tuple[str, str]]]:
    """(suite, task id) pairs by family, in a fixed order.

    longest: only tasks of at most this many subtasks (all where None).
    """
    out: dict[str, list[tuple[str, str]]] = {family: [] for family in FAMILIES}
    for task in await client.tasks(suite):
        if longest is None or len(task.id.split("/", 1)[1].split("+")) <= longest:
            out[task.device].append((suite, task.id))
    return {family: tasks for family, tasks in out.items() if tasks}


def evaluation_specs(
    tasks: Mapping[str, Sequence[tuple[str, str]]], episodes: int, run: str, seeds: range = SEEDS["evaluation"]
) -> list[Spec]:
    """`episodes` specs a family: its tasks in turn, a new evaluation seed each; the same for every policy."""
    return [
        Spec(*pairs[number % len(pairs)], seed=seeds[number], run=run)
        for pairs in tasks.values()
        for number in range(episodes)
    ]


async def evaluate(
    client: EnvClient,
    agent: Agent,
    specs: Sequence[Spec],
    *,
    parallel: int = 32,
    deadline_s: float = 600.0,
    script: bool = False,
    keep_final: bool = False,
    tick: Callable[[Episode], None] = lambda episode: None,
) -> tuple[dict[str, Score], list[Episode]]:
    """Plays the specs; scores by family, and the episodes."""
    episodes = await play_all(
        client, agent, specs, parallel=parallel, deadline_s=deadline_s, script=script, keep_final=keep_final, tick=tick
    )
    families = {family: [episode for episode in episodes if episode.device == family] for family in FAMILIES}
    return {family: Score.of(group) for family, group in families.items() if group}, episodes
