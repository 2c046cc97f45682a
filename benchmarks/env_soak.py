"""Thousands of episodes on one environment server: its memory must not grow, and nothing may be left of it.

In: nothing but Chromium. Out: a table, and benchmarks/results/env_soak.json: the memory of the process tree
(proportional set size) after the first tenth of the episodes and at the end, and the processes left over after the
server was stopped, and after it was killed (-9) and started again.

Run: python -m benchmarks.env_soak [--episodes 2000] [--workers 2]
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

import tyro

from benchmarks.env_rollouts import Host, Rollouts, Task, fail_if, leftovers, of_every_app, record_moves
from benchmarks.record import Figure, write
from env_servers.server import ServerConfig
from gui_rl.rollout.env_client import EnvClient

BAR = 1.1  # memory at the end / memory after the first tenth
SETTLE_S = 3.0  # between the last episode and the measurement


@dataclass(frozen=True)
class Soaked:
    """early, late: bytes after the first tenth and at the end. wrong: all that must not be."""

    episodes: int
    early: int
    late: int
    seconds: float
    wrong: list[str]


async def soak(host: Host, episodes: int, parallel: int, tasks: Sequence[Task]) -> Soaked:
    """Play the episodes and measure twice, each time when no episode runs."""
    async with EnvClient(host.url, host.token) as client:
        rollouts = Rollouts(client, await record_moves(client, tasks))
        began, memory, early = time.monotonic(), [], episodes // 10
        for part in (early, episodes - early):
            await rollouts.play_many(part, parallel)
            await asyncio.sleep(SETTLE_S)
            memory.append(host.memory())
        wrong = [f"{count} {what}" for what, count in rollouts.wrong().items() if count]
        faults = len(rollouts.ended) - rollouts.outcomes()["success"]
        wrong += [f"{faults} episodes of {episodes} did not succeed"] if faults else []
        return Soaked(len(rollouts.ended), memory[0], memory[1], time.monotonic() - began, wrong)


@dataclass(frozen=True)
class Config:
    """episodes: in all. parallel: at a time. seeds: of each app's task. workers: of the server. save: write the results
    file."""

    episodes: int = 2000
    parallel: int = 16
    seeds: int = 4
    workers: int = 1
    save: bool = True


def measure(config: Config) -> Soaked:
    """The soak, and what is left of the server after each of its ends."""
    host = Host(ServerConfig(workers=config.workers))
    with host:
        soaked = asyncio.run(soak(host, config.episodes, config.parallel, of_every_app(config.seeds)))
        killed = host.tree()
        host.kill()
        host.start()
        wrong = [f"left after kill -9 and restart: {words}" for words in leftovers(killed)]
        stopped = host.tree()
    wrong += [f"left after the end: {words}" for words in leftovers(stopped)]
    return Soaked(soaked.episodes, soaked.early, soaked.late, soaked.seconds, soaked.wrong + wrong)


def main(config: Config) -> None:
    """Measure, print, write; exit code 1 where a bar is missed."""
    soaked = measure(config)
    growth = soaked.late / soaked.early
    what = f"memory after {soaked.episodes} episodes against that after {soaked.episodes // 10}"
    runs = {"GB": [soaked.early / 1e9, soaked.late / 1e9], "episodes/s": [soaked.episodes / soaked.seconds]}
    note = f"times; at most {BAR}; not as it should be: {'; '.join(soaked.wrong) or 'nothing'}"
    figure = Figure(what, growth, "times", BAR, BAR / growth, 1.0, runs, note)
    if config.save:
        write("env_soak", [figure])
    else:
        print(figure)
    fail_if(soaked.wrong + ([what] if growth > BAR else []))


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
