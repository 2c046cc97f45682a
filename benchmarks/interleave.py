"""Interleaved GUI-tool trajectories: the share of the plans that reach the goal, and whether those kept do so again.

Every feasible task of a suite is played by its script, interleaved, and each trajectory that was kept is replayed from
its stored actions alone in a fresh session.

python -m benchmarks.interleave
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter

from benchmarks.record import Figure, write
from env_servers.server import running_server
from env_servers.suites import instantiate, tasks
from gui_rl.flywheel.interleave import InterleaveConfig, Made, interleave, share_kept
from gui_rl.flywheel.plans import boundaries, choose, is_tool
from gui_rl.flywheel.tools import Library
from gui_rl.prompt.context import ContextConfig
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.rollout.agents import Prompts, ScriptAgent
from gui_rl.rollout.env_client import EnvClient
from gui_rl.rollout.episode import Spec, play_all

SUITES, SEEDS, PARALLEL = ("virtual", "apps"), 2, 8


async def reaches_goal(client: EnvClient, made: Made) -> bool:
    """Whether the stored actions solve the task in a fresh session with the same tools on offer."""
    episode, plan = made.episode, made.plan
    offer = {"tools": plan.tools, "composites": plan.composites}
    async with client.group(episode.suite, episode.task, episode.seed, **offer) as (session,):
        await session.reset()
        for turn in episode.turns:
            await session.step(turn.action)
        return (await session.evaluate()).outcome == "success"


async def measure(client: EnvClient, suite: str) -> list[Figure]:
    """The figures of one suite."""
    prompts = Prompts(Tokenizer.load("gui-tiny"), ContextConfig(history_turns=0, screenshot_first=True))
    specs = [Spec(suite, task.id, seed) for seed in range(SEEDS) for task in tasks(suite).values() if task.feasible]
    source = await play_all(
        client, ScriptAgent(prompts), specs, parallel=PARALLEL, deadline_s=3600, script=True, keep_final=True
    )
    chosen, dropped = choose(source)
    kept: list[Made] = []
    began = time.perf_counter()
    counts = await interleave(
        client, prompts, [source[k] for k in chosen], kept.append, InterleaveConfig(parallel=PARALLEL)
    )
    taken = time.perf_counter() - began
    gate = asyncio.Semaphore(PARALLEL)

    async def again(made: Made) -> bool:
        async with gate:
            return await reaches_goal(client, made)

    solved = await asyncio.gather(*map(again, kept))
    library, own = Library(), {}
    for made in kept:
        library.add(made.plan, made.episode)
        episode = made.episode
        own.update({spec.name: spec for spec in instantiate(episode.suite, episode.task, episode.seed).tools})
    sizes = Counter(tool.granularity for tool in library.tools(own))
    turns = [turn for made in kept for turn in made.episode.turns]
    note = ", ".join(f"{count} {name}" for name, count in sorted((counts + dropped).items()))
    as_recorded = counts["interleaved_recorded"] / max(counts["interleaved_tried"], 1)
    return [
        Figure(f"{suite}: interleaved plans kept", 100 * share_kept(counts), "%", note=note),
        Figure(f"{suite}: interleaved plans kept as recorded", 100 * as_recorded, "%", note="no help by the script"),
        Figure(f"{suite}: kept that reach the goal again", 100 * sum(solved) / len(solved), "%", note="bar: 100 %"),
        Figure(f"{suite}: steps of D_all", len(turns), "steps", note=f"{len(kept)} trajectories"),
        Figure(f"{suite}: steps of D_critical", sum(len(boundaries(made.episode)) for made in kept), "steps"),
        Figure(f"{suite}: tools", sum(sizes.values()), "tools", note=f"{dict(sizes)}"),
        Figure(
            f"{suite}: tools on offer a trajectory", sum(len(m.episode.tools) for m in kept) / len(kept), "tools",
            note=f"{sum(map(is_tool, turns)) / len(kept):.2f} used",
        ),
        Figure(f"{suite}: kept steps a minute", 60 * len(turns) / taken, "steps/min"),
    ]  # fmt: skip


def main() -> None:
    """Measures the suites whose tools do sub-tasks; writes results/interleave.json."""

    async def run(url: str, token: str) -> list[Figure]:
        async with EnvClient(url, token) as client:
            return [figure for suite in SUITES for figure in await measure(client, suite)]

    with running_server() as server:
        write("interleave", asyncio.run(run(server.url, server.token)))


if __name__ == "__main__":
    main()
