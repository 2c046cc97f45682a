"""Faults of an environment server, each injected while rollouts run: what becomes of the episodes, and how soon the
steps come again at the old rate.

In: nothing but Chromium. Out: one table, and benchmarks/results/env_faults.json. For every fault: the episodes by
outcome; what must be 0 (outcomes without a type, faults with a score, clicks twice or not at all, processes left over);
the rate before, and the seconds from the end of the fault until the rate of two seconds is four fifths of it again.

Run: python -m benchmarks.env_faults [--rollouts 16] [--only "server killed"]
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import aiohttp
import psutil
import tyro
from rich.console import Console
from rich.table import Table

from benchmarks.env_rollouts import TASKS, Host, Moves, Rollouts, Task, fail_if, leftovers, record_moves
from benchmarks.record import Figure, write
from env_servers.orphans import browsers_of
from env_servers.server import ServerConfig
from gui_rl.rollout.env_client import EnvClient, EnvFault, RefusedError, Session

BACK, WINDOW_S, BAR_S = 0.8, 2.0, 10.0
CLICK = {"name": "browser_use", "arguments": {"action": "click", "coordinate": [500, 500]}}


class Relay:
    """A wire between client and server that can be cut: nothing passes, and nobody is told."""

    def __init__(self, port: int) -> None:
        self.port, self.whole = port, asyncio.Event()
        self.whole.set()

    async def __aenter__(self) -> Relay:
        self._server = await asyncio.start_server(self._passing, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _passing(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):  # cancelled when the relay ends
            await self.whole.wait()
            there, back = await asyncio.open_connection("127.0.0.1", self.port)
            await asyncio.gather(self._pump(reader, back), self._pump(there, writer))
        writer.close()  # also where nobody listens: a client that is not told waits until its own time is over

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                await self.whole.wait()
                sink.write(data)
                await sink.drain()
        sink.close()


@dataclass
class Scene:
    """What a fault is injected into."""

    host: Host
    relay: Relay
    client: EnvClient
    rollouts: Rollouts
    cut_s: float
    moves: Moves


async def nothing(scene: Scene) -> list[str]:
    """No fault: the rate of an undisturbed server."""
    return []


async def chromium_killed(scene: Scene) -> list[str]:
    for pid in browsers_of(scene.host.child.pid):
        os.kill(pid, signal.SIGKILL)
    return []


async def page_hangs(scene: Scene) -> list[str]:
    """Three pages loop for ever; their episodes must end as env_crash, and their processes with them."""

    async def hang() -> str:
        async with scene.client.group("hanging", "hanging/click", 0) as (session,):
            await session.reset()
            try:
                await session.step(CLICK)
            except EnvFault as fault:
                return fault.outcome
        return "no fault"

    found = await asyncio.gather(*(hang() for _ in range(3)))
    wrong = [f"a page that hangs is {outcome}" for outcome in found if outcome != "env_crash"]
    await asyncio.sleep(2)
    renderers = [process for process in scene.host.tree() if "--type=renderer" in process.cmdline()]
    before = [sum(process.cpu_times()[:2]) for process in renderers]
    await asyncio.sleep(1)
    for process, used in zip(renderers, before, strict=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if sum(process.cpu_times()[:2]) - used > 0.3:
                wrong.append("a page still loops")
    return wrong


async def server_killed(scene: Scene) -> list[str]:
    """kill -9, and a new server on the same port; nothing of the old one may be left."""
    tree = scene.host.tree()
    await asyncio.to_thread(scene.host.kill)
    await asyncio.to_thread(scene.host.start)
    return [f"left over: {words}" for words in await asyncio.to_thread(leftovers, tree)]


async def server_terminated(scene: Scene) -> list[str]:
    """SIGTERM drains; a new server follows on the same port."""
    tree = scene.host.tree()
    await asyncio.to_thread(scene.host.kill, signal.SIGTERM)
    left = await asyncio.to_thread(leftovers, tree)
    await asyncio.to_thread(scene.host.start)
    return [f"left over: {words}" for words in left]


async def network_cut(scene: Scene) -> list[str]:
    scene.relay.whole.clear()
    await asyncio.sleep(scene.cut_s)
    scene.relay.whole.set()
    return []


async def slow_client(scene: Scene) -> list[str]:
    """Twenty connections that send half a request, or ask for a picture and do not read it."""
    async with scene.client.group(*TASKS[0]) as (session,):
        await session.reset()
        path, token = f"/v1/sessions/{session.lease.session}", session.lease.token
        writers = []
        for k in range(20):
            _, writer = await asyncio.open_connection("127.0.0.1", scene.host.port)
            head = f"Host: x\r\nAuthorization: Bearer {token}\r\n"
            if k % 2:
                writer.write(f"POST {path}/step HTTP/1.1\r\n{head}Content-Length: 1000\r\n\r\n{{".encode())
            else:
                writer.write(f"GET {path}/screenshot HTTP/1.1\r\n{head}\r\n".encode() * 50)
            writers.append(writer)
        await asyncio.sleep(3)
        still = (await session.heartbeat()).expires_in_s > 0
        for writer in writers:
            writer.close()
    return [] if still else ["the session of the slow client is gone"]


async def duplicate_step(scene: Scene) -> list[str]:
    """Every step is sent three times at once: one reply, one click."""

    class Tripled(Rollouts):
        async def step(self, session: Session, move: dict) -> None:
            body = {"episode": session.episode, "step": session.step_index, "action": move}
            url = f"{scene.relay.url}/v1/sessions/{session.lease.session}/step"
            headers = {"Authorization": f"Bearer {session.lease.token}"}

            async def send() -> bytes:
                async with http.post(url, json=body, headers=headers) as reply:
                    return await reply.read()

            replies = await asyncio.gather(send(), send(), send())
            if len(set(replies)) != 1:
                raise ValueError("the replies to one step differ")
            session.step_index += 1

    async with aiohttp.ClientSession() as http:
        rollouts = Tripled(scene.client, scene.moves)
        for task in scene.moves:
            await rollouts.play(task)
    wrong = {name: count for name, count in rollouts.wrong().items() if count}
    failed = [ended.outcome for ended in rollouts.ended if ended.outcome != "success"]
    return [f"steps sent three times: {wrong or failed}"] if wrong or failed else []


async def two_clients(scene: Scene) -> list[str]:
    """Two clients act on one session: each step is carried out for one of them, the other is refused."""
    wrong, refused = [], 0
    async with scene.client.group(*TASKS[0]) as (session,):
        await session.reset()
        other = Session(session._server, session.lease)
        other.episode = session.episode
        for step in range(2):
            moves = [{"name": "browser_use", "arguments": {"action": "wait", "time": k}} for k in (0, 0.01)]
            session.step_index = other.step_index = step
            both = (session.step(moves[0]), other.step(moves[1]))
            replies = await asyncio.gather(*both, return_exceptions=True)
            refused += sum(isinstance(reply, RefusedError) for reply in replies)
        steps = len((await session.record()).steps)
    if (steps, refused) != (2, 2):
        wrong.append(f"two clients: {steps} steps carried out, {refused} refused, instead of 2 and 2")
    return wrong


FAULTS: dict[str, Callable[[Scene], Awaitable[list[str]]]] = {
    "none": nothing,
    "Chromium killed": chromium_killed,
    "page hangs in a loop": page_hangs,
    "server killed (-9)": server_killed,
    "server SIGTERM": server_terminated,
    "network cut": network_cut,
    "slow client": slow_client,
    "duplicate step": duplicate_step,
    "two clients, one session": two_clients,
}


@dataclass(frozen=True)
class Report:
    """What one fault did. back_s: None if the rate did not come back. wrong: all that must not be."""

    fault: str
    outcomes: dict[str, int]
    rate: float
    back_s: float | None
    wrong: list[str]


async def observe(
    host: Host,
    fault: str,
    rollouts: int,
    calm_s: float,
    after_s: float,
    cut_s: float,
    tasks: Sequence[Task] = TASKS,
    back_share: float = BACK,
) -> Report:
    """Inject one fault after `calm_s` seconds of undisturbed rollouts, and watch for at most `after_s` more until the
    rate is `back_share` of what it was."""
    async with Relay(host.port) as relay, EnvClient(relay.url, host.token, timeout_s=30) as client:
        moves = await record_moves(client, tasks)
        playing = Rollouts(client, moves)
        async with playing.playing(rollouts):
            await asyncio.sleep(calm_s + 1)
            rate = playing.rate(time.monotonic() - calm_s, time.monotonic())
            wrong = await FAULTS[fault](Scene(host, relay, client, playing, cut_s, moves))
            over, back = time.monotonic(), None
            while back is None and time.monotonic() < over + after_s:
                await asyncio.sleep(0.1)
                now = time.monotonic()
                if now - over >= WINDOW_S and playing.rate(now - WINDOW_S, now) >= back_share * rate:
                    back = now - over - WINDOW_S
            await asyncio.sleep(1)
    wrong += [f"{count} {what}" for what, count in playing.wrong().items() if count]
    return Report(fault, dict(playing.outcomes()), rate, back, wrong)


@dataclass(frozen=True)
class Config:
    """rollouts: at work while the faults are injected. only: one fault by name; all if empty. calm_s: before each
    fault. after_s: how long the old rate is waited for. cut_s: how long the network is cut. page_timeout_s: as in
    `gui-rl env serve`. save: write the results file."""

    rollouts: int = 16
    only: str = ""
    calm_s: float = 5.0
    after_s: float = 30.0
    cut_s: float = 20.0
    page_timeout_s: float = 5.0
    save: bool = True


def measure(config: Config) -> list[Report]:
    """A report for every fault."""
    served = ServerConfig(max_sessions=64, page_timeout_s=config.page_timeout_s, drain_s=10)
    reports = []
    for fault in [config.only] if config.only else FAULTS:
        with Host(served, "benchmarks.env_hanging") as host:
            watch = observe(host, fault, config.rollouts, config.calm_s, config.after_s, config.cut_s)
            report = asyncio.run(watch)
            tree = host.tree()
        left = leftovers(tree)
        reports.append(dataclasses.replace(report, wrong=report.wrong + [f"left over: {words}" for words in left]))
    return reports


def main(config: Config) -> None:
    """Measure, print, write; exit code 1 where something is as it must not be."""
    reports = measure(config)
    table = Table(title=f"faults, {config.rollouts} rollouts")
    for head in ("fault", "episodes by outcome", "steps/s before", "back after, s", "not as it should be"):
        table.add_column(head)
    figures = []
    for report in reports:
        outcomes = ", ".join(f"{count} {outcome}" for outcome, count in sorted(report.outcomes.items()))
        back = "never" if report.back_s is None else f"{report.back_s:.1f}"
        table.add_row(report.fault, outcomes, f"{report.rate:.1f}", back, "; ".join(report.wrong) or "nothing")
        runs = {outcome: [float(count)] for outcome, count in report.outcomes.items()}
        value = float("inf") if report.back_s is None else report.back_s
        note = f"bar: {BAR_S:.0f} s; {report.rate:.1f} steps/s before; wrong: {'; '.join(report.wrong) or 'nothing'}"
        figures.append(Figure(f"rate is back after: {report.fault}", value, "s", runs=runs, note=note))
    Console(width=150).print(table)
    if config.save and not config.only:
        write("env_faults", figures)
    late = [report.fault for report in reports if report.back_s is None or report.back_s > BAR_S]
    fail_if(
        [*(f"{r.fault}: {w}" for r in reports for w in r.wrong), *(f"{fault}: slow to come back" for fault in late)]
    )


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
