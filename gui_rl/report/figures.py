"""Figures fit for a paper. In: rows (`gui_rl.report.frames`) and runs. Out: matplotlib figures, written as SVG and PDF.

Text stays text in both forms; the colours can be told apart by the colour-blind. A width of 3.3 inches is a column.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from gui_rl.errors import UserError
from gui_rl.evaluate.metrics import wilson_interval
from gui_rl.evaluate.records import WAYS_TO_FAIL
from gui_rl.learn.buffer import pool_diversity
from gui_rl.report.frames import STATUSES, Row
from gui_rl.report.runs import FAMILIES, Run

COLUMN = 3.3
COLOURS = {"mobile": "#0072b2", "desktop": "#d55e00", "web": "#009e73", "mix": "#999999"}
MORE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999", "#f0e442")
STYLE = {
    "font.size": 8.0,
    "axes.titlesize": 8.0,
    "legend.fontsize": 7.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.linewidth": 0.4,
    "grid.alpha": 0.4,
    "lines.linewidth": 1.2,
    "legend.frameon": False,
    "axes.axisbelow": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "gui_rl",
    "pdf.fonttype": 42,
}


@dataclasses.dataclass(frozen=True)
class Saved:
    """A figure's two files; a notebook shows the first."""

    svg: Path
    pdf: Path

    def _repr_svg_(self) -> str:
        return self.svg.read_text(encoding="utf-8")


def save(figure: Figure, path: Path | str) -> Saved:
    """Writes a figure as PATH.svg and PATH.pdf; the same figure gives the same bytes."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    saved = Saved(path.with_name(path.name + ".svg"), path.with_name(path.name + ".pdf"))
    with matplotlib.rc_context(STYLE):
        figure.savefig(saved.svg, metadata={"Date": None})
        figure.savefig(saved.pdf, metadata={"CreationDate": None})
    return saved


def _styled(draw: Callable[..., Figure]) -> Callable[..., Figure]:
    """The style while a figure is drawn, and no longer."""

    @functools.wraps(draw)
    def drawn(*arguments: Any, **options: Any) -> Figure:
        with matplotlib.rc_context(STYLE):
            return draw(*arguments, **options)

    return drawn


def _axes(columns: int, width: float, height: float = 2.2, **options: Any) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, list(figure.subplots(1, columns, squeeze=False, **options)[0])


@_styled
def learning_curves(runs: Sequence[Run], stage: str = "rl", name: str = "eval/{}/success") -> Figure:
    """A metric of each device family over the steps of a stage; the phase that trains a family is shaded.

    Args:
        runs: of one configuration, e.g. several seeds: each is a thin line, their mean where all have a point a thick
            one. The phases are those of the first.
        stage: whose steps.
        name: of the metric, `{}` in the place of the family.
    Raises:
        UserError: no run logged it.
    """
    families = [family for family in FAMILIES if any(run.series(stage, name.format(family)) for run in runs)]
    if not families:
        raise UserError(f"no run logged {stage} {name}: {', '.join(str(run.path) for run in runs)}")
    figure, axes = _axes(len(families), 2.1 * len(families) + 0.3, sharey=True)
    for axis, family in zip(axes, families, strict=True):
        for phase in runs[0].phases(stage):
            colour, own = COLOURS.get(phase.family, COLOURS["mix"]), phase.family in (family, "mix")
            axis.axvspan(phase.start, phase.stop, color=colour, alpha=0.25 if own else 0.06, linewidth=0)
        lines = [{step: y for step, y in run.series(stage, name.format(family)) if y is not None} for run in runs]
        for line in lines:
            axis.plot(list(line), list(line.values()), color=COLOURS[family], alpha=0.35 if len(runs) > 1 else 1.0)
        shared = sorted(set.intersection(*map(set, lines))) if len(runs) > 1 else []
        if shared:
            means = [np.mean([line[step] for line in lines]) for step in shared]
            axis.plot(shared, means, color=COLOURS[family], linewidth=2)
        axis.set(title=family, xlabel=f"{stage} steps")
    axes[0].set_ylabel(name.format("family"))
    return figure


@_styled
def phase_gains(rows: Sequence[Row]) -> Figure:
    """Mean change of each family's success (`frames.phase_rows`) in the phases that trained each family: off the
    diagonal stands what one family's training does to another."""
    trained = [family for family in (*FAMILIES, "mix") if any(row["trained"] == family for row in rows)]
    cells = np.full((len(FAMILIES), max(len(trained), 1)), np.nan)
    for i, measured in enumerate(FAMILIES):
        for j, family in enumerate(trained):
            gains = [row["gain"] for row in rows if row["measured"] == measured and row["trained"] == family]
            cells[i, j] = np.mean(gains) if gains else np.nan
    figure, (axis,) = _axes(1, COLUMN)
    _matrix(axis, cells, FAMILIES, trained, "{:+.3f}")
    axis.set(xlabel="family in training", ylabel="family measured")
    return figure


@_styled
def group_statistics(rows: Sequence[Row], totals: Mapping[str, float], n: int, k: int) -> Figure:
    """Pools beside MRPO's closed form. Left: for each task, the share of its pools with both outcomes over its success
    rate, with 95 % intervals, and P(A) = 1 - p^(kn) - (1-p)^(kn). A point below the curve: outcomes are more alike
    within a pool than independent ones, as the seed, or the step, makes the task easy or hard for all of the pool.
    Right: shares of kept, swapped and empty groups as logged, and as expected of the pools' tasks.

    Args:
        rows: of `frames.group_rows`. totals: of `frames.group_totals`. n, k: as there.
    Raises:
        UserError: for no rows.
    """
    if not rows:
        raise UserError(f"no pool has the {n} outcomes of a group")
    figure, (left, right) = _axes(2, 2 * COLUMN)
    grid = np.linspace(0, 1, 201)
    left.plot(grid, [pool_diversity(p, n, k) for p in grid], color="#444444", label=f"closed form, kn = {k * n}")
    left.plot(
        grid, [pool_diversity(p, n) for p in grid], color="#444444", linestyle=":", label=f"without pool, n = {n}"
    )
    for task in dict.fromkeys(row["task"] for row in rows):
        here = [row for row in rows if row["task"] == task]
        wins, played = sum(row["wins"] for row in here), n * len(here)
        colour, rate = COLOURS.get(here[0]["device"], MORE[0]), wins / played
        share = _share(left, rate, [row["informative"] for row in here], colour)
        left.plot(wilson_interval(wins, played), [share, share], color=colour, linewidth=0.9, alpha=0.5)
    left.set(xlabel="success rate of the task", ylabel="pools with both outcomes", ylim=(-0.03, 1.03))
    left.legend(loc="lower center")
    right.bar(np.arange(3) - 0.2, [totals.get(name, np.nan) for name in STATUSES], 0.38, color=MORE[0], label="logged")
    told = [row for row in rows if row["kept"] is not None]
    if told:
        expected = [np.mean([row[name] for row in told]) for name in STATUSES]
        right.bar(np.arange(3) + 0.2, expected, 0.38, color="#bbbbbb", label="expected")
    right.set_xticks(range(3), STATUSES)
    right.set_ylabel("share of groups")
    right.legend()
    return figure


@_styled
def sweep_lines(rows: Sequence[Mapping[str, Any]], metric: str, parameters: Iterable[str] = ()) -> Figure:
    """The metric over each parameter that varies: a dot a point, the mean of each value as a line.

    Args:
        rows: points with their metric, None where it is missing. parameters: in order; all of the rows' by default.
    """
    parameters = [name for name in (tuple(parameters) or tuple(rows[0])) if name != metric]
    varied = [name for name in parameters if len({str(row[name]) for row in rows}) > 1] or parameters[:1]
    figure, axes = _axes(len(varied), 2.6 * len(varied), 2.4, sharey=True)
    for axis, name in zip(axes, varied, strict=True):
        values = list(dict.fromkeys(row[name] for row in rows))
        axis.set_xticks(range(len(values)), [_text(value) for value in values])
        means = []
        for place, value in enumerate(values):
            here = [row[metric] for row in rows if row[name] == value and row[metric] is not None]
            axis.plot([place] * len(here), here, "o", color=MORE[0], alpha=0.6, markersize=4)
            means.append(np.mean(here) if here else np.nan)
        axis.plot(range(len(values)), means, color=MORE[1])
        axis.set_xlabel(name)
    axes[0].set_ylabel(metric)
    return figure


@_styled
def sweep_grid(rows: Sequence[Mapping[str, Any]], metric: str, across: str, down: str) -> Figure:
    """The mean of the metric in each cell of two parameters, e.g. ToolCUA's lambda and beta, over all others (seeds).

    Raises:
        UserError: a parameter or the metric is not in the rows.
    """
    for name in (metric, across, down):
        if name not in rows[0]:
            raise UserError(f"the sweep has no column {name!r}: there are {', '.join(rows[0])}")
    columns, lines = ([*dict.fromkeys(row[name] for row in rows)] for name in (across, down))
    cells = np.full((len(lines), len(columns)), np.nan)
    for i, line in enumerate(lines):
        for j, column in enumerate(columns):
            here = [r[metric] for r in rows if r[down] == line and r[across] == column and r[metric] is not None]
            cells[i, j] = np.mean(here) if here else np.nan
    figure, (axis,) = _axes(1, COLUMN, 2.6)
    _matrix(axis, cells, [_text(value) for value in lines], [_text(value) for value in columns], "{:.3f}", "viridis")
    axis.set(xlabel=across, ylabel=down, title=metric)
    return figure


@_styled
def interference(rows: Sequence[Row]) -> Figure:
    """Cosines between families' gradients (`frames.cosine_rows`): the whole gradient's over the steps, and the mean of
    every layer's. Below 0, a step for one family undoes a part of the other's.

    Raises:
        UserError: for no rows.
    """
    if not rows:
        raise UserError("the run logged no cosines: train it with --rl.phases project, or log cosine_metrics")
    pairs = sorted({row["pair"] for row in rows})
    layers = [layer for layer in dict.fromkeys(row["layer"] for row in rows) if layer != "all"]
    figure, axes = _axes(2 if layers else 1, 2 * COLUMN if layers else COLUMN, max(2.2, 0.14 * len(layers) + 0.8))
    for number, pair in enumerate(pairs):
        line = sorted((r["step"], r["cosine"]) for r in rows if r["pair"] == pair and r["layer"] == "all")
        axes[0].plot(*zip(*line, strict=True), color=MORE[number], label=pair, marker=".") if line else None
    axes[0].axhline(0, color="#444444", linewidth=0.6)
    axes[0].set(xlabel="steps", ylabel="cosine of gradients")
    axes[0].xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[0].legend()
    if layers:
        found = {(layer, pair): [] for layer in layers for pair in pairs}
        for row in rows:
            if row["layer"] != "all":
                found[row["layer"], row["pair"]].append(row["cosine"])
        cells = [[np.mean(found[layer, pair] or [np.nan]) for pair in pairs] for layer in layers]
        _matrix(axes[1], np.array(cells), layers, pairs, "{:+.2f}")
    return figure


@_styled
def corrections(rows: Sequence[Row], bins: int = 4) -> Figure:
    """Teachers' corrections (UI-MOPD, figure 4). Left: of the student's actions that a teacher would not have taken,
    the share where the teacher alone is right, by platform and teacher. Right: useful and harmful corrections among all
    actions, over the success of the student's group: what the mask lets through stands on the left.

    Args:
        rows: of `frames.correction_rows`. bins: of the success.
    """
    figure, (left, right) = _axes(2, 2 * COLUMN)
    devices, teachers = (sorted({row[name] for row in rows}) for name in ("device", "teacher"))
    for number, teacher in enumerate(teachers):
        for place, device in enumerate(devices):
            here = [r for r in rows if r["teacher"] == teacher and r["device"] == device and r["disagree"]]
            at, label = place + (number - (len(teachers) - 1) / 2) * 0.25, teacher if place == 0 else None
            _share(left, at, [row["useful"] for row in here], MORE[number], label)
    left.set_xticks(range(len(devices)), devices)
    left.set(ylabel="useful among disagreements", xlim=(-0.6, len(devices) - 0.4), ylim=(-0.03, 1.03))
    left.legend(title="teacher")
    places = np.minimum((np.array([row["mean"] for row in rows]) * bins).astype(int), bins - 1)
    for number, name in enumerate(("useful", "harmful")):
        for place in np.unique(places):
            here = [row[name] for row, other in zip(rows, places, strict=True) if other == place]
            at, label = (place + 0.5 + 0.1 * number) / bins, name if place == places.min() else None
            _share(right, at, here, MORE[2 - number], label)
    right.set(xlabel="success of the student's group", ylabel="share of actions", xlim=(-0.03, 1.03))
    right.legend()
    return figure


@_styled
def failures(rows: Sequence[Row], by: str = "app", most: int = 15) -> Figure:
    """How episodes were lost. Left: their number by way, for each value of a field, those with most losses first.
    Right: success with its 95 % interval over the length of the task.

    Args:
        rows: of `frames.record_rows`, of one agent. by: field, e.g. "task", "app", "device". most: values shown.
    """
    rows = [row for row in rows if row["failure"] or row["outcome"] == "success"]  # faults are nobody's failure
    counts: dict[str, dict[str, int]] = {}
    for row in rows:
        of = counts.setdefault(str(row[by]), {})
        if row["failure"]:
            of[row["failure"]] = of.get(row["failure"], 0) + 1
    shown = sorted(counts, key=lambda value: -sum(counts[value].values()))[:most][::-1]
    figure, (left, right) = _axes(2, 2 * COLUMN, max(2.2, 0.17 * len(shown) + 0.9))
    start = np.zeros(len(shown))
    for number, way in enumerate(WAYS_TO_FAIL):
        width = np.array([counts[value].get(way, 0) for value in shown], float)
        if width.any():
            left.barh(shown, width, left=start, color=MORE[number % len(MORE)], label=way.replace("_", " "))
        start += width
    left.set(xlabel="episodes lost", ylabel=by)
    if start.any():
        figure.legend(loc="outside lower center", ncols=4)
    lengths = sorted({row["length"] for row in rows})
    for length in lengths:
        _share(right, length, [row["outcome"] == "success" for row in rows if row["length"] == length], MORE[0])
    right.set(xlabel="checkpoints of the task", ylabel="success", ylim=(-0.03, 1.03), xticks=lengths)
    return figure


def _share(axis: Axes, x: float, won: Sequence[Any], colour: str, label: str | None = None) -> float:
    """Draws the share of what is true with Wilson's interval, and returns it; nothing where there is none."""
    if not won:
        return float("nan")
    count, total = sum(map(int, won)), len(won)
    share, interval = count / total, wilson_interval(count, total)
    error = [[max(share - interval.low, 0.0)], [max(interval.high - share, 0.0)]]
    axis.errorbar([x], [share], error, fmt="o", color=colour, markersize=3.5, capsize=2, linewidth=0.9, label=label)
    return share


def _matrix(
    axis: Axes, cells: np.ndarray, lines: Sequence[str], columns: Sequence[str], form: str, colours: str = "RdBu"
) -> None:
    """A table of coloured cells; about 0 where the colours diverge."""
    top = float(np.nanmax(np.abs(cells))) if np.isfinite(cells).any() else 1.0
    limits = {"vmin": -top or -1.0, "vmax": top or 1.0} if colours == "RdBu" else {}
    edges = [np.arange(size + 1) - 0.5 for size in cells.shape]
    axis.pcolormesh(edges[1], edges[0], np.ma.masked_invalid(cells), cmap=colours, edgecolors="face", **limits)
    axis.invert_yaxis()
    axis.grid(False)
    slanted = {"rotation": 20, "ha": "right"} if max(map(len, columns), default=0) > 8 else {}
    axis.set_xticks(range(len(columns)), columns, **slanted)
    axis.set_yticks(range(len(lines)), lines)
    for (i, j), value in np.ndenumerate(cells):
        if np.isfinite(value) and cells.size <= 60:
            halo = {"facecolor": "white", "alpha": 0.6, "linewidth": 0, "pad": 1}
            axis.text(
                j,
                i,
                form.format(value + 0.0 if abs(value) >= 5e-4 else 0.0),
                ha="center",
                va="center",
                fontsize=6.5,
                bbox=halo,
            )


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
