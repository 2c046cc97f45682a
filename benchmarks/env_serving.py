"""Speed and memory of the environment server: one step over HTTP against the bare browser, and sixteen sessions on two
cores.

In: nothing but Chromium. Out: a table, and benchmarks/results/env_serving.json.

- one session: a click, the settled screenshot and the state, over HTTP, against a click and a capture sent straight to
  Chromium (the DevTools protocol) on the same page, in turn in one run; also with the front of several workers between.
- sixteen sessions: steps a second in all, the 99th percentile of a step's time against the median, and the memory of
  the process tree (proportional set size), with one worker and with two.

Run: python -m benchmarks.env_serving
"""

from __future__ import annotations

import asyncio
import dataclasses
import statistics
import time
from dataclasses import dataclass

import tyro

from benchmarks.env_rollouts import Host, Rollouts, fail_if, record_moves, two_cores
from benchmarks.record import Figure, write
from env_servers.browser import Browser, Screen
from env_servers.server import ServerConfig
from env_servers.suites import instantiate
from gui_rl.rollout.env_client import EnvClient, Session

TASK = ("virtual", "shop/set", 0)
POINT = (500, 20)  # on the grid of 1000: the middle of the header, where a click changes nothing and ends nothing
PRESSES = ("mousePressed", "mouseReleased")
LONGEST = 2.0  # times the bare browser
BARS = {"steps/s": 60.0, "p99/median": 10.0, "GB": 3.0}


async def bare(screen: Screen) -> float:
    """Seconds of a click and a capture, straight to Chromium; the click's events are on their way at once."""
    x, y = (round(v * side / 1000) for v, side in zip(POINT, (screen.kind.width, screen.kind.height), strict=True))
    mouse = {"x": x, "y": y, "button": "left", "clickCount": 1}
    began = time.perf_counter()
    moved = ("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y})
    await screen.send_all(moved, *(("Input.dispatchMouseEvent", {"type": kind, **mouse}) for kind in PRESSES))
    await screen.send("Page.captureScreenshot", format="png", optimizeForSpeed=True)
    return time.perf_counter() - began


async def stepped(session: Session) -> float:
    """Seconds of a step over HTTP, as a rollout sees it."""
    if session.episode == 0 or session.step_index + 1 >= session.lease.max_steps:
        await session.reset()
    click = {"name": "browser_use", "arguments": {"action": "click", "coordinate": list(POINT)}}
    began = time.perf_counter()
    await session.step(click)
    return time.perf_counter() - began


async def latency(rounds: int) -> list[Figure]:
    """One session, in turn with the bare browser."""
    instance = instantiate(*TASK)
    with Host(ServerConfig()) as host, Host(ServerConfig(workers=2)) as fronted:
        async with Browser() as browser, EnvClient(host.url, host.token) as client:
            async with EnvClient(fronted.url, fronted.token) as behind:
                screen = await browser.lease(instance.page)
                await screen.load(instance.initial)
                (session,), (far,) = await client.create(*TASK), await behind.create(*TASK)
                runs: dict[str, list[float]] = {"bare": [], "ours": [], "front": []}
                for k in range(rounds + 20):
                    times = {"bare": await bare(screen), "ours": await stepped(session), "front": await stepped(far)}
                    for name, seconds in times.items():
                        if k >= 20:  # the first warm everything up
                            runs[name].append(1000 * seconds)
                await browser.release(screen)
    ours, peer, front = (statistics.median(runs[name]) for name in ("ours", "bare", "front"))
    what = "a step of one session over HTTP: click, settled screenshot, state"
    note = f"peer: click and capture sent to Chromium; at most {LONGEST} times as long"
    kept = {name: [round(v, 2) for v in values[:50]] for name, values in runs.items()}
    return [
        Figure(what, ours, "ms", peer, peer / ours, 1 / LONGEST, {"ours": kept["ours"], "peer": kept["bare"]}, note),
        Figure(
            f"{what}, behind the front of two workers", front, "ms", peer, peer / front, None, {"ours": kept["front"]}
        ),
    ]


@dataclass(frozen=True)
class Crowd:
    """What many sessions at once did."""

    rate: float
    median_ms: float
    p99_ms: float
    gigabytes: float
    wrong: dict[str, int]


async def crowd(host: Host, sessions: int, warm_s: float, measured_s: float) -> Crowd:
    """`sessions` rollouts at once, measured for a while once they are warm."""
    async with EnvClient(host.url, host.token) as client:
        rollouts = Rollouts(client, await record_moves(client))
        async with rollouts.playing(sessions):
            await asyncio.sleep(warm_s)
            since = time.monotonic()
            await asyncio.sleep(measured_s)
            until, memory = time.monotonic(), host.memory()
    took = sorted(1000 * seconds for at, seconds in rollouts.stepped if since <= at < until)
    p99 = took[int(0.99 * (len(took) - 1))]
    rate = rollouts.rate(since, until)
    return Crowd(rate, statistics.median(took), p99, memory / 1e9, {k: n for k, n in rollouts.wrong().items() if n})


@dataclass(frozen=True)
class Config:
    """rounds: steps of the single session. sessions: at once. warm_s, measured_s: seconds. runs: of the many sessions,
    for each number of workers. save: write the results file."""

    rounds: int = 300
    sessions: int = 16
    warm_s: float = 8.0
    measured_s: float = 20.0
    runs: int = 3
    save: bool = True


def crowds(config: Config) -> list[Figure]:
    """Sixteen sessions, with one worker and with two, in turn."""
    found: dict[int, list[Crowd]] = {1: [], 2: []}
    for _ in range(config.runs):
        for workers, measured in found.items():
            with Host(ServerConfig(workers=workers)) as host:
                measured.append(asyncio.run(crowd(host, config.sessions, config.warm_s, config.measured_s)))
    figures = []
    for workers, measured in found.items():
        what = f"{config.sessions} sessions, two cores, --workers {workers}"
        rates, shapes = [c.rate for c in measured], [c.p99_ms / c.median_ms for c in measured]
        wrong = [c.wrong for c in measured if c.wrong]
        rate, shape, memory = statistics.median(rates), statistics.median(shapes), max(c.gigabytes for c in measured)
        times = f"median {statistics.median(c.median_ms for c in measured):.1f} ms; wrong: {wrong or 'nothing'}"
        figures += [
            Figure(f"{what}: steps in all", rate, "steps/s", BARS["steps/s"], rate / BARS["steps/s"], 1.0,
                   {"ours": rates}, f"the peer is the bar; {times}"),
            Figure(f"{what}: 99th percentile of a step", shape, "medians", BARS["p99/median"],
                   BARS["p99/median"] / shape, 1.0, {"ours": shapes}, "the peer is the bar"),
            Figure(f"{what}: memory of the process tree", memory, "GB", BARS["GB"], BARS["GB"] / memory, 1.0,
                   {"ours": [c.gigabytes for c in measured]}, "proportional set size; the peer is the bar"),
        ]  # fmt: skip
    return figures


def main(config: Config) -> None:
    """Measure, print, write; exit code 1 where a bar is missed."""
    two_cores()
    figures = [*asyncio.run(latency(config.rounds)), *crowds(config)]
    if config.save:
        write("env_serving", figures)
    else:
        print(*(dataclasses.replace(figure, runs={}) for figure in figures), sep="\n")
    fail_if([figure.what for figure in figures if figure.bar and figure.ratio < figure.bar])


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
