"""A table of a paper as an experiment: arms at tiny scale, beside the rows that were published.

In: a `Table` and a `Lab`. Out: a result document, printed, and kept as JSON.
1. Every arm is run for every training seed (`Arm`: what a lab makes of a seed and of `Sizes`).
2. Every column reads its values off what an arm returned; `experiments.estimate` makes means, intervals and paired
   differences of them.
3. Ours and the published rows are printed one below the other and never mixed: they are of other models and tasks.

    gui-rl run owl/figure8b                  three training seeds on two cores; experiments/results/owl-figure8b.json
    gui-rl run owl/figure8b --smoke          the whole path with next to nothing, in seconds
    gui-rl run owl/figure8b --scale paper    the published settings, checked by compiling for a slice of TPUs

The published settings are frozen configs; `ours` names their values that the paper does not state.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.table import Table as Printed

from experiments.bench import write_json
from experiments.estimate import Combined, Estimate, Values, combined, difference, estimate
from experiments.lab import Lab
from gui_rl.report.manifest import as_json, git_revision, machine, package_versions
from gui_rl.scale import report
from gui_rl.scale.compile import CompileOptions

RESULTS = Path(__file__).parent / "results"


@dataclasses.dataclass(frozen=True)
class Sizes:
    """How much of everything an arm gets.

    Attributes:
      demonstrations: scripted episodes a family.
      sft_steps, turns: optimisation steps of SFT, and turns a step.
      rl_steps: optimisation steps of online RL.
      rl_tasks, group, oversample: tasks a step, n and k.
      evaluation: (task, seed) pairs a family.
      longest: subtasks of a task, at most.
      questions: scripted episodes a family that questions are made of, to learn from and to be asked.
      screens: synthesised screenshots for grounding.
    """

    demonstrations: int = 60
    sft_steps: int = 80
    turns: int = 48
    rl_steps: int = 24
    rl_tasks: int = 6
    group: int = 6
    oversample: int = 2
    evaluation: int = 50
    longest: int = 1
    questions: int = 30
    screens: int = 100


SIZES = {
    "tiny": Sizes(),
    "smoke": Sizes(
        demonstrations=3, sft_steps=2, turns=8, rl_steps=1, rl_tasks=3, group=2, evaluation=2, questions=2, screens=3
    ),
}
Outcome = Mapping[str, Any]
"""What an arm found: lists of `Record`s, and numbers."""
Arm = Callable[[Lab, int, Sizes], Awaitable[Outcome]]


@dataclasses.dataclass(frozen=True)
class Column:
    """A column.

    Attributes:
      of: what an arm returned -> a value for each (task, seed) pair, or a number.
      percent: shown as percent.
    """

    of: Callable[[Outcome], Values]
    percent: bool = True


@dataclasses.dataclass(frozen=True)
class Published:
    """The settings of the paper's own run.

    Attributes:
      settings: frozen configs with the paper's values.
      ours: their fields that the paper does not state, with why they have the value they have.
      compiles: what is compiled to see that they fit.
    """

    settings: Mapping[str, Any]
    ours: Mapping[str, str]
    compiles: Sequence[CompileOptions]


@dataclasses.dataclass(frozen=True)
class Config:
    """How a table is run.

    Attributes:
      scale: `tiny` here and now; `paper` shows the published settings and compiles them.
      seeds: training seeds.
      smoke: the whole path with next to nothing, one seed; the result stays below `runs`.
      name: of the folder below `runs` that keeps the stages, which tables share.
    """

    scale: Literal["tiny", "paper"] = "tiny"
    seeds: int = 3
    smoke: bool = False
    name: str = "lab"

    @property
    def root(self) -> Path:
        """Folder of the stages."""
        return Path("runs") / (f"{self.name}-smoke" if self.smoke else self.name)


@dataclasses.dataclass(frozen=True)
class Table:
    """A table or figure of a paper, or a question that the papers leave open.

    Attributes:
      name: like `owl/figure8b`.
      title: what it is about.
      source: paper, and table or section.
      says: what the paper claims, and how that is read off our rows.
      equal: what the arms have the same amount of.
      arms: by name.
      columns: by name, or functions of other columns.
      differences: (arm, arm it is compared with), paired.
      paper: published rows as printed there: columns by row.
      published: settings of the paper's run.
    """

    name: str
    title: str
    source: str
    says: str
    equal: str
    arms: Mapping[str, Arm]
    columns: Mapping[str, Column | Combined]
    differences: Sequence[tuple[str, str]] = ()
    paper: Mapping[str, Mapping[str, float | str]] = dataclasses.field(default_factory=dict)
    published: Published | None = None

    @property
    def file(self) -> str:
        """Name of its result and of its page, without an ending."""
        return self.name.replace("/", "-")

    def main(self, config: Config = Config(), resume: bool = False) -> Path | None:  # noqa: B008 - frozen
        """The command. A run that was stopped goes on where it was, with `resume` or without."""
        if config.scale == "paper":
            return self.show_published()
        sizes = SIZES["smoke" if config.smoke else "tiny"]

        async def run() -> dict[str, Any]:
            async with Lab(config.root) as lab:
                return await self.run(lab, sizes, 1 if config.smoke else config.seeds)

        result = asyncio.run(run())
        show(result)
        return keep(result, config)

    async def run(self, lab: Lab, sizes: Sizes, seeds: int) -> dict[str, Any]:
        """The result document: cells, differences, and what they were made with."""
        lab.used.clear()
        began = time.monotonic()
        values: dict[str, dict[str, list[Values]]] = {arm: {} for arm in self.arms}
        for seed in range(seeds):
            for arm, run in self.arms.items():
                lab.progress.note(f"{self.name}: {arm}, seed {seed}")
                outcome = await run(lab, seed, sizes)
                for name, column in self.columns.items():
                    if isinstance(column, Column):
                        values[arm].setdefault(name, []).append(column.of(outcome))
        cells = {arm: {name: as_json(self._cell(values, arm, name)) for name in self.columns} for arm in self.arms}
        differences = []
        for arm, other in self.differences:
            columns = {name: self._difference(values, arm, other, name) for name in self.columns}
            differences.append({"arm": arm, "against": other, "columns": columns})
        stages = [json.loads((made.folder / "settings.json").read_text()) for made in lab.used.values()]
        work = [json.loads((made.folder / "done.json").read_text())["seconds"] for made in lab.used.values()]
        told = ("name", "title", "source", "says", "equal")
        return {
            **{name: getattr(self, name) for name in told},
            "paper": as_json(self.paper),
            "percent": [name for name, c in self.columns.items() if isinstance(c, Combined) or c.percent],
            "seeds": seeds,
            "cells": cells,
            "differences": differences,
            "seconds": {"this run": round(time.monotonic() - began, 1), "all stages": round(sum(work), 1)},
            "manifest": {
                "revision": git_revision(), "sizes": as_json(sizes), "machine": machine(),
                "versions": package_versions(),
                "stages": sorted(made.folder.name for made in lab.used.values()),
                "stage revisions": sorted({(stage["revision"] or {}).get("commit", "") for stage in stages}),
            },
        }  # fmt: skip

    def _inputs(self, values: Mapping, arm: str, name: str) -> tuple[Callable[..., Any], list[Sequence[Values]]]:
        column = self.columns[name]
        if isinstance(column, Column):
            return (lambda value: value), [values[arm][name]]
        wanted = [(arm, one) if isinstance(one, str) else one for one in column.columns]
        return column.of, [values[who][what] for who, what in wanted]

    def _cell(self, values: Mapping, arm: str, name: str) -> Estimate:
        function, inputs = self._inputs(values, arm, name)
        return combined(function, inputs) if len(inputs) > 1 else estimate(inputs[0])

    def _difference(self, values: Mapping, arm: str, other: str, name: str) -> Any:
        function, mine = self._inputs(values, arm, name)
        _, theirs = self._inputs(values, other, name)
        if len(mine) == 1:
            return as_json(difference(mine[0], theirs[0]))
        count = len(mine)
        return as_json(combined(lambda *means: function(*means[:count]) - function(*means[count:]), [*mine, *theirs]))

    def show_published(self) -> None:
        """Prints the published settings and compiles them. Raises UserError where libtpu is missing, or they do not
        fit."""
        if self.published is None:
            print(f"{self.name}: the papers have no run of this")
            return
        print(f"{self.name}: {self.source}")
        for name, settings in self.published.settings.items():
            print(f"{name}: {json.dumps(as_json(settings), indent=1)}")
        for field, why in self.published.ours.items():
            print(f"ours, not stated in the paper: {field}: {why}")
        for options in self.published.compiles:
            report.main(options)


def keep(result: Mapping[str, Any], config: Config) -> Path:
    """Writes a result: with the project's, or, of a smoke run, beside its stages."""
    folder = config.root if config.smoke else RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result['name'].replace('/', '-')}.json"
    write_json(path, result)
    print(path)
    return path


def cell(value: Mapping[str, Any], percent: bool, signed: bool = False) -> str:
    """A mean with its interval as text."""
    scale, plus = (100, "+" if signed else "") if percent else (1, "+" if signed else "")
    shown = [None if value[n] is None else scale * value[n] for n in ("mean", "low", "high")]
    largest = max(abs(v) for v in shown if v is not None)
    digits = 1 if percent else 0 if largest >= 100 else 2 if largest >= 1 else 3
    texts = [None if v is None else f"{v:{plus}.{digits}f}" for v in shown]
    return texts[0] if texts[1] is None else f"{texts[0]} ({texts[1]} to {texts[2]})"


def rows(result: Mapping[str, Any]) -> dict[str, tuple[list[str], list[list[str]]]]:
    """The tables of a result as text: title -> (heads, rows)."""
    percent = set(result["percent"])
    names = list(next(iter(result["cells"].values())))
    heads = [f"{name} (%)" if name in percent else name for name in names]
    found = {
        "ours": (
            ["arm", *heads],
            [[arm, *(cell(row[n], n in percent) for n in names)] for arm, row in result["cells"].items()],
        )
    }
    if result["differences"]:
        found["differences, paired by task and seed"] = (
            ["difference", *heads],
            [
                [f"{one['arm']} − {one['against']}", *(cell(one["columns"][n], n in percent, True) for n in names)]
                for one in result["differences"]
            ],
        )
    if result["paper"]:
        columns = list(dict.fromkeys(name for row in result["paper"].values() for name in row))
        found["as published: other models, other tasks"] = (
            ["row", *columns],
            [[name, *(str(row.get(c, "")) for c in columns)] for name, row in result["paper"].items()],
        )
    return found


def show(result: Mapping[str, Any], console: Console | None = None) -> None:
    """Prints a result: ours, differences, the paper's rows."""
    console = console or Console(width=None if sys.stdout.isatty() else 160)
    console.print(f"{result['name']}: {result['title']} ({result['source']})", highlight=False)
    for title, (heads, lines) in rows(result).items():
        printed = Printed(title=title)
        for number, head in enumerate(heads):
            printed.add_column(head, justify="right" if number else "left")
        for line in lines:
            printed.add_row(*line)
        console.print(printed)
    console.print(f"{result['says']}\nEqual between arms: {result['equal']}. Training seeds: {result['seeds']}.")
