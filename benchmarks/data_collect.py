"""Scripted collection in the virtual worlds: verified steps a minute, from the tasks to the stored dataset.

python -m benchmarks.data_collect
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.record import Figure, write
from env_servers.server import running_server
from env_servers.suites.virtual import registry
from gui_rl.data.store import EpisodeSource, episode_writer
from gui_rl.flywheel.collect import CollectConfig, collect
from gui_rl.flywheel.tasks import app_tasks
from gui_rl.prompt.context import TINY_CONTEXT
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.rollout.agents import Prompts, ScriptAgent
from gui_rl.rollout.env_client import EnvClient

TASKS, RUNS, BAR = 120, 4, 1500


def main() -> None:
    """Measures each app and all together; writes results/data_collect.json."""
    agent = ScriptAgent(Prompts(Tokenizer.load("gui-tiny"), TINY_CONTEXT))
    figures = []

    async def run(url: str, token: str, tasks: list, folder: Path) -> float:
        async with EnvClient(url, token) as client:
            began = time.perf_counter()
            with episode_writer(folder) as writer:
                counts = await collect(client, agent, tasks, writer.add, CollectConfig(script=True))
            taken = time.perf_counter() - began
        source = EpisodeSource(folder)
        steps = sum(source.turn_counts)
        if counts["accepted"] != len(tasks) or steps != counts["steps"]:
            raise RuntimeError(f"of {len(tasks)} tasks: {dict(counts)}, {steps} steps stored")
        return 60 * steps / taken

    with running_server() as server, tempfile.TemporaryDirectory() as folder:
        sets = {name: app_tasks(app, "virtual", TASKS, 3, 0, range(5000)) for name, app in registry.items()}
        sets["all apps"] = [task for three in zip(*sets.values(), strict=True) for task in three]
        for name, tasks in sets.items():
            rates = [
                asyncio.run(run(server.url, server.token, tasks, Path(folder) / f"{name}-{number}"))
                for number in range(RUNS)
            ][1:]
            bar = BAR if name == "all apps" else None
            value = statistics.median(rates)
            note = "every trajectory accepted by exact predicates, and stored" + (
                f"; bar: at least {BAR}" if bar else ""
            )
            figures.append(
                Figure(f"scripted collection, {name}", value, "steps/min", bar=bar, runs={"ours": rates}, note=note)
            )
    write("data_collect", figures)


if __name__ == "__main__":
    main()
