"""What every benchmark does with its figures: interleaved runs, medians, one JSON file, one table."""

from __future__ import annotations

import gc
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from gui_rl.report.manifest import git_revision, machine, package_versions

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Figure:
    """One measured value.

    Attributes:
      what: the work.
      value, unit: the median of ours.
      peer: the median of the other program, in the same unit.
      ratio: how many times better ours is (above 1 is better).
      bar: the ratio that is asked for, None where there is none.
      runs: every measurement, ours and the peer's.
      note: what a reader has to know.
    """

    what: str
    value: float
    unit: str
    peer: float | None = None
    ratio: float | None = None
    bar: float | None = None
    runs: dict[str, list[float]] = field(default_factory=dict)
    note: str = ""


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    gc.collect()
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def alternate(ours: Callable[[], float], peer: Callable[[], float], runs: int = 5) -> tuple[list[float], list[float]]:
    """`runs` measurements of each, in turn, so that a slow moment of the machine meets both; one of each is thrown
    away first."""
    ours(), peer()
    pairs = [(ours(), peer()) for _ in range(runs)]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def rate_figure(
    what: str, unit: str, amount: float, ours: Sequence[float], peer: Sequence[float], bar: float | None, note: str = ""
) -> Figure:
    """Rates (`amount` a run) from the seconds of the runs."""
    mine, other = ([amount / run for run in runs] for runs in (ours, peer))
    value, against = statistics.median(mine), statistics.median(other)
    return Figure(what, value, unit, against, value / against, bar, {"ours": mine, "peer": other}, note)


def write(name: str, figures: Sequence[Figure]) -> None:
    """Writes results/NAME.json and prints the table."""
    RESULTS.mkdir(exist_ok=True)
    document = {
        "name": name,
        "revision": git_revision(),
        "machine": machine() | {"versions": package_versions()},
        "figures": [asdict(figure) for figure in figures],
    }
    partial = RESULTS / f"{name}.json.partial"
    partial.write_text(json.dumps(document, indent=1) + "\n")
    os.replace(partial, RESULTS / f"{name}.json")
    table = Table(title=name)
    for head in ("work", "ours", "peer", "unit", "ratio", "bar"):
        table.add_column(head)
    for figure in figures:
        peer, ratio, bar = (f"{v:.3g}" if v is not None else "" for v in (figure.peer, figure.ratio, figure.bar))
        table.add_row(figure.what, f"{figure.value:.4g}", peer, figure.unit, ratio, bar)
    Console().print(table)
