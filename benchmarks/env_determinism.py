"""The same task and seed on two fresh servers: the same state hash and the same screenshot, byte for byte (R35).

In: suites. Out: a table, and benchmarks/results/env_determinism.json. The second server goes through the tasks from the
last to the first: what an episode shows must not depend on those before it. Scripted tasks are compared after their
first moves too.

Run: python -m benchmarks.env_determinism [--suites virtual miniwob] [--seeds 3] [--only shop/]
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import tyro

from benchmarks.env_rollouts import Host, Task, fail_if
from benchmarks.record import Figure, write
from env_servers.server import ServerConfig
from env_servers.suites import tasks
from gui_rl.rollout.env_client import EnvClient

EXCEPTIONS: dict[str, str] = {}
"""Tasks whose pictures may differ, and why."""
Seen = list[tuple[str, str]]
"""Of each observation: the state's hash, and that of the PNG's bytes."""


async def look(client: EnvClient, task: Task, moves: int) -> Seen:
    """An episode's first observation, and those after the script's first moves, where there is a script."""
    scripted = tasks(task[0])[task[1]].scripted
    async with client.group(*task, script=scripted) as (session,):
        observation, seen = await session.reset(), []
        while True:
            seen.append((observation.state_hash, hashlib.sha256(observation.png).hexdigest()))
            if not scripted or len(seen) > moves:
                return seen
            reply = await session.step((await session.script()).action.model_dump())
            observation = reply.observation
            if reply.terminated or reply.truncated:
                return seen


async def look_all(host: Host, work: Sequence[Task], parallel: int, moves: int) -> dict[Task, Seen]:
    """What one server shows, `parallel` tasks at a time, in the order of `work`."""
    found, left = {}, iter(work)
    async with EnvClient(host.url, host.token) as client:

        async def worker() -> None:
            for task in left:
                found[task] = await look(client, task, moves)

        await asyncio.gather(*(worker() for _ in range(parallel)))
    return found


def compare(work: Sequence[Task], parallel: int, moves: int) -> dict[Task, str]:
    """The tasks that two fresh servers show differently, and in what."""
    shown = []
    for order in (work, work[::-1]):
        with Host(ServerConfig()) as host:
            shown.append(asyncio.run(look_all(host, order, parallel, moves)))
    different = {}
    for task in work:
        first, second = shown[0][task], shown[1][task]
        for step, (one, other) in enumerate(zip(first, second, strict=False)):
            if one != other:
                what = "state" if one[0] != other[0] else "picture"
                different[task] = f"{what} of observation {step}"
                break
        else:
            if len(first) != len(second):
                different[task] = "number of steps"
    return different


@dataclass(frozen=True)
class Config:
    """suites: which. seeds: of every task. moves: of the script, after which pictures are compared as well. only: tasks
    whose id begins so. parallel: sessions at a time. save: write the results file."""

    suites: tuple[str, ...] = ("virtual", "memory", "drills", "relay", "apps", "infeasible", "miniwob")
    seeds: int = 3
    moves: int = 3
    only: str = ""
    parallel: int = 8
    save: bool = True


def main(config: Config) -> None:
    """Compare, print, write; exit code 1 where something differs that is no known exception."""
    figures, wrong = [], []
    for suite in config.suites:
        ids = [task for task in tasks(suite) if task.startswith(config.only)]
        work = [(suite, task, seed) for task in ids for seed in range(config.seeds)]
        different = compare(work, config.parallel, config.moves)
        named = {f"{task} seed {seed}": what for (_, task, seed), what in different.items()}
        new = {name: what for name, what in named.items() if name.split(" ")[0] not in EXCEPTIONS}
        wrong += [f"{suite}: {name}: {what}" for name, what in new.items()]
        note = "; ".join(f"{name}: {what}" for name, what in named.items()) or "all alike"
        value = (len(work) - len(different)) / max(len(work), 1)
        what = f"{suite}: {len(ids)} tasks x {config.seeds} seeds that two fresh servers show alike"
        figures.append(Figure(what, value, "share", note=note))
    if config.save:
        write("env_determinism", figures)
    else:
        print(*figures, sep="\n")
    fail_if(wrong)


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
