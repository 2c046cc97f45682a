"""The LibreOffice desktops: how long a reset, a step and a tool call take, four sessions at once for hundreds of
episodes, and how many actions each task takes by hand, by tools, and by both.

In: LibreOffice (see scripts/setup.sh). Out: a table, and benchmarks/results/env_desktop.json.

- one session over HTTP: reset on a desktop that is kept ready, a click with the settled screenshot and the state; a
  tool call as the desktop carries it out, without the picture of the step.
- four sessions: memory of the process tree after the first tenth of the episodes and at the end, and what is left of
  it after the end, after kill -9.
- actions: terminate not counted, saving counted; `both` takes for each part of the work what is shorter.

Run: python -m benchmarks.env_desktop [--episodes 300]
     python -m benchmarks.env_desktop --rounds 0 --episodes 300   the four sessions alone
     python -m benchmarks.env_desktop --table                     docs/libreoffice.md alone; needs no LibreOffice
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

from benchmarks.env_rollouts import Host, fail_if, leftovers, of_every_app, two_cores
from benchmarks.env_soak import BAR as GROWTH
from benchmarks.env_soak import soak
from benchmarks.record import Figure, write
from env_servers.desktop.room import Desktops
from env_servers.server import ServerConfig
from env_servers.suites import instantiate
from env_servers.suites.libreoffice import KINDS
from env_servers.suites.libreoffice.case import BENEFICIAL, Kind, generator, length, script, whole
from env_servers.suites.office import KINDS as OFFICE
from gui_rl.rollout.env_client import EnvClient

TASK = ("libreoffice", "calc/units", 0)
APPS = [("libreoffice", task, 0) for task in ("calc/units", "writer/word", "impress/title")]
DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "libreoffice.md"
HEAD = """# LibreOffice: actions a task, by hand, by tools, by both

Written by `python -m benchmarks.env_desktop --table` from the tasks' own scripts, as they are played: saving is
counted, `terminate` is not. *By tools*: empty where a part of the work can be done by hand only. *By both*: each part
of the work in the shorter of its two forms. *Tools help*: the label that rewards use, where they save at least {saved}
actions. Infeasible tasks are left out.

Means; in brackets how many tasks:
"""
BESIDE = """## With other programs beside it

The suite `office`: LibreOffice and, beside it, a file manager, a terminal, a text editor or a mail app. Documents and
mails have tools, the rest is done by hand. Reading in a window that is in view is no action.
"""
BARS = {"reset": 2000.0, "step": 150.0, "tool": 30.0}  # ms, medians
READY_S = 3.0  # for the next LibreOffice to be started ahead of time


async def over_http(host: Host, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of resets and of steps with a click, of each app in turn."""
    found: dict[str, list[float]] = {"reset": [], "step": []}
    async with EnvClient(host.url, host.token) as client:
        for _ in range(max(1, rounds // 20)):
            for task in APPS:
                async with client.group(*task) as (session,):
                    began = time.perf_counter()
                    await session.reset()
                    found["reset"].append(1000 * (time.perf_counter() - began))
                    for k in range(min(6, session.lease.max_steps - 1)):
                        point = [250 + 40 * k, 400]
                        click = {"name": "computer_use", "arguments": {"action": "left_click", "coordinate": point}}
                        began = time.perf_counter()
                        await session.step(click)
                        found["step"].append(1000 * (time.perf_counter() - began))
                    await session.evaluate()
                await asyncio.sleep(READY_S)
    return {what: times[1:] for what, times in found.items()}  # the first starts a desktop


async def by_tools(rounds: int) -> list[float]:
    """Milliseconds of tool calls."""
    found = []
    async with Desktops() as desktops:
        desktop = await desktops.lease(instantiate(*TASK).page)
        await desktop.load(instantiate(*TASK).initial)
        for k in range(rounds):
            began = time.perf_counter()
            result = await desktop.tool("libreoffice_calc.set_cell_value", {"cell": f"F{k + 1}", "value": str(k)})
            found.append(1000 * (time.perf_counter() - began))
            if not result["success"]:
                raise RuntimeError(f"the tool failed: {result['error_message']}")
        await desktops.release(desktop)
    return found[2:]


@dataclass(frozen=True)
class Actions:
    """Of one task's script: by hand; by tools alone, None where something can be done by hand only; by the shorter of
    both for each part."""

    task: str
    hand: int
    tools: int | None
    both: int
    beneficial: int


def actions(kinds: Mapping[str, Kind] = KINDS) -> list[Actions]:
    """Every feasible task's, as its script is played, its own tools being offered."""
    found = []
    for kind in kinds.values():
        if kind.feasible:
            way = kind.make(generator(kind.id, 0)).way
            offered = [whole(kind.app, name) for part in way for name, _ in part.tools or ()]
            alone = sum(len(part.tools) for part in way) if all(part.tools is not None for part in way) else None
            both = len(script(way, kind.app, offered))
            found.append(Actions(kind.id, length(way, tools=False), alone, both, kind.task.tool_beneficial))
    return found


def show(every: list[Actions]) -> list[Figure]:
    """The table of actions, and its means."""
    table = Table(title="actions a task")
    for head in ("task", "hand", "tools", "both", "tools help"):
        table.add_column(head)
    for one in every:
        table.add_row(one.task, *map(str, (one.hand, one.tools or "", one.both)), "yes" if one.beneficial > 0 else "")
    Console().print(table)
    figures = []
    for what, chosen in (("where tools help", 1), ("where they do not", -1)):
        some = [one for one in every if one.beneficial == chosen]
        hand, both = (statistics.mean(getattr(one, name) for one in some) for name in ("hand", "both"))
        runs = {"hand": [float(one.hand) for one in some], "both": [float(one.both) for one in some]}
        figures.append(Figure(f"actions of {len(some)} tasks {what}", both, "actions", hand, hand / both, None, runs))
    return figures


def document() -> str:
    """The tables of actions of both suites in Markdown, with means by app; terminate is not counted, saving is."""

    def row(one: Actions) -> str:
        tools = "" if one.tools is None else one.tools
        return f"| `{one.task}` | {one.hand} | {tools} | {one.both} | {'yes' if one.beneficial > 0 else ''} |"

    def mean(name: str, some: list[Actions]) -> str:
        hand, both = (statistics.mean(getattr(one, what) for one in some) for what in ("hand", "both"))
        tooled = [one for one in some if one.tools is not None]
        tools = f"{statistics.mean(one.tools for one in tooled):.1f}" if tooled else ""
        helped = sum(one.beneficial > 0 for one in some)
        return f"| {name} ({len(some)}) | {hand:.1f} | {tools} ({len(tooled)}) | {both:.1f} | {helped} |"

    def tables(every: list[Actions]) -> tuple[str, ...]:
        head = "| task | by hand | by tools | by both | tools help |\n|---|---|---|---|---|"
        apps = dict.fromkeys(one.task.partition("/")[0] for one in every)
        means = (mean(app, [one for one in every if one.task.startswith(f"{app}/")]) for app in apps)
        return head, *means, mean("all", every), "", head, *map(row, every), ""

    return "\n".join((HEAD.format(saved=BENEFICIAL), *tables(actions()), BESIDE, *tables(actions(OFFICE))))


@dataclass(frozen=True)
class Config:
    """rounds: of the latencies, 0 leaves them out. episodes: of `sessions` sessions at once, 0 leaves them out. save:
    write the results file. table: write the document of the actions, and nothing else."""

    rounds: int = 200
    episodes: int = 300
    sessions: int = 4
    save: bool = True
    table: bool = False


def main(config: Config) -> None:
    """Measure, print, write; exit code 1 where a bar is missed."""
    if config.table:
        partial = DOCUMENT.with_suffix(".partial")
        partial.write_text(document())
        partial.replace(DOCUMENT)
        return
    two_cores()
    times, wrong = {}, []
    if config.rounds:
        with Host(ServerConfig()) as host:
            times |= asyncio.run(over_http(host, config.rounds))
        times["tool"] = asyncio.run(by_tools(config.rounds))
    said = {"reset": "reset of a desktop session", "step": "click, settled screenshot and state", "tool": "tool call"}
    figures = []
    for what, bar in BARS.items() if config.rounds else ():
        value = statistics.median(times[what])
        kept = {"ours": [round(one, 1) for one in times[what][:60]]}
        figures.append(Figure(said[what], value, "ms", bar, bar / value, 1.0, kept, "peer: the bar, a median"))
        wrong += [f"{said[what]} takes {value:.0f} ms"] if value > bar else []
    figures += show(actions())
    if config.episodes:
        with Host(ServerConfig()) as host:
            soaked = asyncio.run(soak(host, config.episodes, config.sessions, of_every_app(3, "libreoffice")))
            killed = host.tree()
            host.kill()
            host.start()
            left = leftovers(killed)
        growth = soaked.late / soaked.early
        note = f"times; at most {GROWTH}; left after kill -9: {left or 'nothing'}; wrong: {soaked.wrong or 'nothing'}"
        runs = {"GB": [soaked.early / 1e9, soaked.late / 1e9], "episodes/s": [soaked.episodes / soaked.seconds]}
        what = f"memory of {config.sessions} sessions after {soaked.episodes} episodes against a tenth of them"
        figures.append(Figure(what, growth, "times", GROWTH, GROWTH / growth, 1.0, runs, note))
        wrong += soaked.wrong + left + ([what] if growth > GROWTH else [])
    if config.save:
        write("env_desktop", figures)
    else:
        print(*figures, sep="\n")
    fail_if(wrong)


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
