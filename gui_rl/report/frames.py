"""Runs as rows. In: what runs, sweeps and evaluations leave behind, or a run on wandb. Out: lists of flat dicts.

`pandas.DataFrame(rows)` makes a frame of them, `gui_rl.report.figures` draws them.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gui_rl.errors import UserError
from gui_rl.learn.buffer import collapse_probabilities
from gui_rl.report.metrics import POOLS, read_lines
from gui_rl.report.runs import FAMILIES, Run, read_run

WANDB = "wandb:"
STATUSES = ("kept", "swapped", "empty")
Row = dict[str, Any]


def open_run(source: str | os.PathLike) -> Run:
    """A run without its trajectories: a folder, or "wandb:ENTITY/PROJECT/RUN", whose account wandb knows. The path of
    the latter is below wandb/, for figures; pools and configuration files are not there.

    Raises:
        UserError: there is no such run, or one of its files does not parse.
    """
    if not str(source).startswith(WANDB):
        return read_run(source, trajectories=False)
    import wandb

    path = str(source).removeprefix(WANDB)
    try:
        found = wandb.Api().run(path)
        history = list(found.scan_history())
    except (wandb.Error, ValueError) as error:
        raise UserError(f"{source} cannot be read from wandb: {error}") from error
    return Run(Path("wandb") / path, dict(found.config), {}, tuple(from_history(history)), None, ())


def from_history(history: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Metric records, as in metrics.jsonl, of the rows that wandb keeps of a `RunLog`."""
    records = []
    for row in history:
        stages = {name.partition("/")[0] for name, value in row.items() if name.endswith("/step") and value is not None}
        for stage in sorted(stages):
            told = {name.removeprefix(f"{stage}/"): row[name] for name in row if name.startswith(f"{stage}/")}
            step, phase = told.pop("step"), told.pop("phase", None)
            metrics = {name: _number(value) for name, value in told.items()}
            time = float(row.get("_runtime") or 0.0)
            records.append({"stage": stage, "step": int(step), "time": time, "phase": phase, "metrics": metrics})
    return records


def _number(value: Any) -> float | None:
    """wandb writes what is not finite as a word."""
    return float(value) if isinstance(value, int | float) and np.isfinite(value) else None


def metric_rows(run: Run) -> list[Row]:
    """Every metric of a run: stage, step, time (s), phase, name, value (None where it was not finite)."""
    return [
        {key: record[key] for key in ("stage", "step", "time", "phase")} | {"name": name, "value": value}
        for record in run.metrics
        for name, value in record["metrics"].items()
    ]


def phase_rows(run: Run, stage: str = "rl", name: str = "eval/{}/success") -> list[Row]:
    """What each device phase did to each family's success: number, trained, measured, before, after, gain.

    before, after: the last values that were measured up to the phase's beginning, and up to its end. Phases between
    which nothing was measured anew are taken together with the one after them.
    """
    rows = []
    for measured in FAMILIES:
        points = [(step, value) for step, value in run.series(stage, name.format(measured)) if value is not None]
        for number, phase in enumerate(run.phases(stage)):
            before = [value for step, value in points if step <= phase.start]
            inside = [value for step, value in points if phase.start < step <= phase.stop]
            if before and inside:
                row = {"phase": number, "trained": phase.family, "measured": measured}
                rows.append(row | {"before": before[-1], "after": inside[-1], "gain": inside[-1] - before[-1]})
    return rows


def pool_rows(run_dir: str | os.PathLike) -> list[Row]:
    """The pools of a run's online training (pools.jsonl): stage, step, suite, task, seed, device, outcomes.

    Raises:
        UserError: the run wrote none, or a line is not a pool.
    """
    rows = read_lines(run_dir, POOLS)
    if not rows:
        raise UserError(f"{Path(run_dir) / POOLS}: no pool was logged; runs of online training write it")
    return rows


def group_rows(pools: Sequence[Mapping[str, Any]], n: int, k: int) -> list[Row]:
    """What became of each pool, beside what the closed form expects of it.

    With independent outcomes of rate p (GUI-Owl-1.5, section 2.4.3), P(kept) = 1 - p^n - (1-p)^n and P(empty) = p^(kn)
    + (1-p)^(kn); the rest is swapped. p is not known. The powers are estimated without bias from the *other* pools of
    the task, the first n outcomes of each: p^m by C(s, m) / C(N, m), for s successes of N. (The first n alone: how long
    a lazy pool is depends on its outcomes. The power of an estimate of p would be biased.)

    Args:
        pools: of `pool_rows`; those of fewer than n outcomes are left out.
        n, k: trajectories a group, and the factor of oversampling.

    Returns:
        Rows: step, task, device, wins (successes among the first n), informative (0 or 1: both outcomes are there), and
        the expected kept, swapped, empty, which are None where the task has fewer than k + 1 pools.
    """
    pools = [pool for pool in pools if len(pool["outcomes"]) >= n]
    firsts: dict[str, list[int]] = {}
    for pool in pools:
        firsts.setdefault(f"{pool['suite']}/{pool['task']}", []).append(sum(pool["outcomes"][:n]))
    rows = []
    for pool in pools:
        wins, task = sum(pool["outcomes"][:n]), firsts[f"{pool['suite']}/{pool['task']}"]
        row = {"step": pool["step"], "task": pool["task"], "device": pool["device"], "wins": wins}
        row |= {"informative": int(0 < sum(pool["outcomes"]) < len(pool["outcomes"]))}
        won, known = sum(task) - wins, n * (len(task) - 1)
        kept = filled = None
        if known >= k * n:
            kept, filled = (1 - sum(collapse_probabilities(known, size, won)) for size in (n, k * n))
        expected = [kept, filled - kept, 1 - filled] if filled is not None else [None] * 3
        rows.append(row | dict(zip(STATUSES, expected, strict=True)))
    return rows


def group_sizes(folder: str | os.PathLike) -> tuple[int, int]:
    """n and k of a run, from the settings in its config.json or settings.json.

    Raises:
        UserError: neither holds `group` and `oversample`.
    """

    def find(value: Any) -> tuple[int, int] | None:
        if not isinstance(value, dict):
            return None
        if {"group", "oversample"} <= value.keys():
            return int(value["group"]), int(value["oversample"])
        return next((found for inner in value.values() if (found := find(inner))), None)

    for path in (Path(folder) / "config.json", Path(folder) / "settings.json"):
        found = find(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None
        if found:
            return found
    raise UserError(f"{folder}: neither config.json nor settings.json says `group` and `oversample`")


def group_totals(run: Run, stage: str = "rl") -> dict[str, float]:
    """Shares of kept, swapped and empty groups over a whole run; no key where nothing was logged."""
    counts = {status: sum(value or 0.0 for _, value in run.series(stage, f"groups_{status}")) for status in STATUSES}
    total = sum(counts.values())
    return {status: count / total for status, count in counts.items()} if total else {}


def cosine_rows(run: Run, stage: str = "rl") -> list[Row]:
    """Cosines between the gradients of two families: step, layer, pair, cosine.

    From "gradient_cosine/LAYER/FAMILY-FAMILY" (`evaluate.diagnostics.cosine_metrics`), and from the phases "project",
    which measure the whole gradient: "cosine_J_I" of the numbers of the families that the stage trains, whose layer is
    "all".
    """
    families = [family for family in FAMILIES if run.series(stage, f"success/{family}")] or FAMILIES
    rows = []
    for record in run.metrics:
        if record["stage"] != stage:
            continue
        for name, value in record["metrics"].items():
            head, _, rest = name.partition("/")
            if head == "gradient_cosine":
                layer, _, pair = rest.rpartition("/")
            elif head.startswith("cosine_"):
                layer, pair = "all", "-".join(families[int(number)] for number in head.split("_")[1:])
            else:
                continue
            if value is not None:
                rows.append({"step": record["step"], "layer": layer, "pair": pair, "cosine": value})
    return rows


def record_rows(folder: str | os.PathLike) -> list[Row]:
    """The records of a `gui-rl eval` folder, the last one of each episode (`evaluate.records.Record`).

    Raises:
        UserError: there are none, or a line is not a record.
    """
    rows = read_rows(Path(folder) / "records.jsonl", {"id", "agent", "task", "outcome", "failure", "length"})
    return list({row["id"]: row for row in rows}.values())


def correction_rows(folder: str | os.PathLike) -> list[Row]:
    """What teachers would have done in the states that a student visited, from states.jsonl of a folder.

    A line there is a state: device, task, seed, mean (success of its group), and for each teacher, by name, whether the
    two disagree and whether the correction is useful or harmful. A row here is a state and one teacher.

    Raises:
        UserError: there are none, or a line is not a state.
    """
    states = read_rows(Path(folder) / "states.jsonl", {"device", "task", "seed", "mean"})
    return [
        {name: value for name, value in state.items() if not isinstance(value, dict)}
        | {"teacher": teacher, **{kind: int(told[kind]) for kind in ("disagree", "useful", "harmful")}}
        for state in states
        for teacher, told in state.items()
        if isinstance(told, dict)
    ]


def sweep_rows(folder: str | os.PathLike) -> list[Row]:
    """The table of a `gui-rl sweep` folder: its parameters and its metric; numbers as numbers, None where it failed.

    Raises:
        UserError: there is no table.csv.
    """
    path = Path(folder) / "table.csv"
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return [{name: _cell(text) for name, text in row.items()} for row in csv.DictReader(file)]
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}; `gui-rl sweep FILE` writes it") from error


def _cell(text: str) -> Any:
    try:
        return float(text) if text else None
    except ValueError:
        return text


def read_rows(path: Path, fields: set[str]) -> list[Row]:
    """The objects of a JSON-lines file, each of which has these fields.

    Raises:
        UserError: there is no such file, it is empty, or a line is something else; names the line.
    """
    if not path.is_file():
        raise UserError(f"{path} is missing")
    complete, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
    rows = []
    for number, line in enumerate(complete.splitlines(), start=1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise UserError(f"{path}, line {number}: not JSON ({error})") from error
        if not isinstance(row, dict) or not fields <= row.keys():
            raise UserError(f"{path}, line {number}: wants {', '.join(sorted(fields))}")
        rows.append(row)
    if not rows:
        raise UserError(f"{path} holds no line")
    return rows
