"""What the benchmarks of the environment servers share: a server that may be killed and started again, rollouts that
never stop, and the memory of a process tree.

In: tasks. Out: every episode with its typed outcome, every step with the moment when it ended.

The moves of a task are taken from its script once and then played without looking: where an amount must become exactly
so much (`shop/set`), a click that is carried out twice or not at all fails the task, and shows.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psutil

from env_servers.children import GREETING, command, environment
from env_servers.protocol.messages import FAULTS
from env_servers.server import ServerConfig
from env_servers.suites import tasks as tasks_of
from gui_rl.rollout.env_client import EnvClient, EnvFault, Session

Task = tuple[str, str, int]
Moves = Mapping[Task, Sequence[dict[str, Any]]]
TASKS: tuple[Task, ...] = tuple(
    ("virtual", task, seed) for seed in range(4) for task in ("shop/set", "files/move", "orders/order")
)
LATE_S = 60.0  # of one episode


def of_every_app(seeds: int, suite: str = "virtual") -> tuple[Task, ...]:
    """Each app's first scripted task, on so many seeds."""
    first: dict[str, str] = {}
    for task in tasks_of(suite).values():
        if task.scripted and task.feasible:
            first.setdefault(task.id.split("/")[0], task.id)
    return tuple((suite, task, seed) for seed in range(seeds) for task in first.values())


class Host:
    """A server on a port that stays the same: start it, kill it, start it again. Its log goes to a file."""

    def __init__(self, config: ServerConfig, module: str = "env_servers.server") -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.config, self.module, self.token = config, module, secrets.token_urlsafe(16)
        self.url, self.child = f"http://127.0.0.1:{self.port}", None
        self.log = tempfile.TemporaryFile()

    def __enter__(self) -> Host:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.log.close()

    def start(self) -> None:
        words = command(self.config)
        words[words.index("env_servers.server")] = self.module
        words += ["--port", str(self.port)] + ["--while-stdin-open"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.log, "text": True}
        self.child = subprocess.Popen(words, env=environment(self.token), **pipes)
        if not self.child.stdout.readline().startswith(GREETING):
            self.log.seek(0)
            raise RuntimeError(f"the server did not start: {self.log.read().decode(errors='replace')[-2000:]}")

    def kill(self, how: int = signal.SIGKILL) -> None:
        """Send a signal that ends it, and wait until it has ended."""
        self.child.send_signal(how)
        self.child.wait()
        self.child.stdin.close()
        self.child.stdout.close()

    def stop(self) -> None:
        if self.child.poll() is None:
            self.child.stdin.close()
            self.child.wait(30)
            self.child.stdout.close()

    def tree(self) -> list[psutil.Process]:
        """The server's process and all below it."""
        root = psutil.Process(self.child.pid)
        return [root, *root.children(recursive=True)]

    def memory(self) -> int:
        """Proportional set size of the process tree, bytes: shared pages are counted once."""
        total = 0
        for process in self.tree():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                total += process.memory_full_info().pss
        return total


@dataclass(frozen=True)
class Ended:
    """An episode: when it ended, how, after how many steps. outcome: "untyped: …" where it was no outcome at all."""

    at: float
    task: Task
    outcome: str
    score: float | None
    steps: int


@dataclass
class Rollouts:
    """Episodes that are played for ever, `parallel` at a time, until `stop`."""

    client: EnvClient
    moves: Moves
    ended: list[Ended] = field(default_factory=list)
    stepped: list[tuple[float, float]] = field(default_factory=list)  # (when it ended, seconds it took)
    stopping: bool = False

    @contextlib.asynccontextmanager
    async def playing(self, parallel: int) -> Any:
        """In the block `parallel` rollouts are at work; at its end they finish their episodes."""
        order = itertools.cycle(self.moves)
        players = [asyncio.create_task(self._player(order)) for _ in range(parallel)]
        try:
            yield self
        finally:
            self.stopping = True
            await asyncio.gather(*players)

    async def play_many(self, episodes: int, parallel: int) -> None:
        """Exactly so many episodes, `parallel` at a time, the tasks in turn."""
        order, left = itertools.cycle(self.moves), itertools.count(episodes, -1)

        async def player() -> None:
            while next(left) > 0:
                await self.play(next(order))

        await asyncio.gather(*(player() for _ in range(parallel)))

    async def _player(self, order: itertools.cycle) -> None:
        while not self.stopping:
            await self.play(next(order))

    async def play(self, task: Task) -> Ended:
        """One episode in a session of its own."""
        deadline, steps, score = time.monotonic() + LATE_S, 0, None
        try:
            async with self.client.group(*task, deadline=deadline) as (session,):
                await session.reset()
                for move in self.moves[task]:
                    began = time.monotonic()
                    await self.step(session, move)
                    now = time.monotonic()
                    self.stepped.append((now, now - began))
                    steps += 1
                verdict = await session.evaluate()
                outcome, score = verdict.outcome, verdict.score
        except EnvFault as fault:
            outcome = fault.outcome
        except Exception as error:
            outcome = f"untyped: {type(error).__name__}: {error}"
        self.ended.append(Ended(time.monotonic(), task, outcome, score, steps))
        return self.ended[-1]

    async def step(self, session: Session, move: dict[str, Any]) -> None:
        """How a step is sent."""
        await session.step(move)

    def rate(self, since: float, until: float) -> float:
        """Steps a second in a stretch of time."""
        return sum(since <= at < until for at, _ in self.stepped) / max(until - since, 1e-9)

    def outcomes(self) -> Counter[str]:
        """How many episodes ended how."""
        return Counter(ended.outcome for ended in self.ended)

    def wrong(self) -> dict[str, int]:
        """What must not be: outcomes without a type; faults with a score; scored episodes without success: the moves
        are right, so a click too many or too few, or a fault, was counted as a failure."""
        return {
            "untyped": sum(ended.outcome.startswith("untyped") for ended in self.ended),
            "faults scored": sum(ended.outcome in FAULTS and ended.score is not None for ended in self.ended),
            "wrong clicks or faults as 0": sum(
                ended.outcome not in ("success", *FAULTS) and not ended.outcome.startswith("untyped")
                for ended in self.ended
            ),
        }


async def record_moves(client: EnvClient, tasks: Sequence[Task] = TASKS) -> dict[Task, list[dict[str, Any]]]:
    """The moves of every task, as its script makes them."""
    moves = {}
    for task in tasks:
        async with client.group(*task, script=True) as (session,):
            await session.reset()
            made, ended = [], False
            while not ended:
                made.append((await session.script()).action.model_dump())
                reply = await session.step(made[-1])
                ended = reply.terminated or reply.truncated
            if (await session.evaluate()).outcome != "success":
                raise RuntimeError(f"the script does not solve {task}")
            moves[task] = made
    return moves


def leftovers(processes: Sequence[psutil.Process], patience_s: float = 15.0) -> list[str]:
    """Command lines of those processes that have not ended within `patience_s`."""
    last = time.monotonic() + patience_s
    while True:
        left = []
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                    left.append(" ".join(process.cmdline())[:120])
        if not left or time.monotonic() > last:
            return left
        time.sleep(0.1)


def two_cores() -> None:
    """Keep this process and its children to two cores, as the bars have it."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:2]))


def fail_if(wrong: Sequence[str]) -> None:
    """Exit code 1 with the reasons, where there are any."""
    if wrong:
        print("not as it should be: " + "; ".join(wrong), file=sys.stderr)
        sys.exit(1)
