"""`gui-rl sweep FILE --local N`: a wandb sweep file as a plain grid, without an account and without a server.

In: a sweep file (YAML) with `method: grid`, `parameters` (each with `value` or `values`) and, as wandb has it, a
`command` list; `${args}` in it becomes `--name=value` for every parameter. By default the command is
`gui-rl run PROGRAM ${args}`. Out, in runs/sweep-FILE: a folder a point with its log and its result, table.csv, and
plot.svg with plot.pdf. A point that has a result is not run again.

A point's result is the result.json of the run that it made: its command is given `--name sweep-FILE/POINT`, so that
`runs/sweep-FILE/POINT/result.json` is the run's own.
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import tyro
import yaml

from gui_rl.errors import UserError
from gui_rl.report import figures


@dataclasses.dataclass(frozen=True)
class SweepOptions:
    """Run the grid of a wandb sweep file on this machine.

    Attributes:
      file: the sweep file.
      local: points at a time.
      metric: path of the figure to tabulate, keys joined by dots; by default the file's `metric.name`.
    """

    file: tyro.conf.Positional[Path]
    local: int = 1
    metric: str = ""


@dataclasses.dataclass(frozen=True)
class Sweep:
    """A sweep file, read: `parameters` by name with their values; `command` with `${args}`; `metric` a dotted path."""

    name: str
    parameters: Mapping[str, tuple[Any, ...]]
    command: tuple[str, ...]
    metric: str

    def points(self) -> Iterator[dict[str, Any]]:
        """Every combination, the last parameter the fastest."""
        names = list(self.parameters)
        for values in itertools.product(*self.parameters.values()):
            yield dict(zip(names, values, strict=True))


def read_sweep(path: Path) -> Sweep:
    """Reads a sweep file. Raises UserError, which names the file and the field, for what is no grid."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise UserError(f"{path} cannot be read as a sweep file: {error}") from None
    if not isinstance(document, dict) or document.get("method") != "grid":
        raise UserError(f"{path}: method must be grid; only a grid is a fixed set of points")
    parameters = document.get("parameters")
    if not isinstance(parameters, dict) or not parameters:
        raise UserError(f"{path}: parameters must name at least one parameter")
    values = {}
    for name, given in parameters.items():
        if not isinstance(given, dict) or len({"value", "values"} & given.keys()) != 1:
            raise UserError(f"{path}: parameters.{name} needs either value or values")
        values[name] = tuple(given["values"]) if "values" in given else (given["value"],)
        if not values[name]:
            raise UserError(f"{path}: parameters.{name}.values is empty")
    program = document.get("program", "")
    command = document.get("command") or ["gui-rl", "run", program, "${args}"]
    if "${args}" not in command or not (program or document.get("command")):
        raise UserError(f"{path}: give program (an experiment's name), or a command with ${{args}}")
    metric = (document.get("metric") or {}).get("name", "")
    return Sweep(path.stem, values, tuple(map(str, command)), metric)


def point_name(point: Mapping[str, Any]) -> str:
    """A folder's name for a point: readable, and unique by a digest."""
    text = ",".join(f"{name.rsplit('.', 1)[-1]}={value}" for name, value in point.items())
    safe = "".join(c if c.isalnum() or c in "=,.-_" else "_" for c in text)[:60]
    return f"{safe}-{hashlib.sha256(json.dumps(point, sort_keys=True).encode()).hexdigest()[:6]}"


def arguments(point: Mapping[str, Any], name: str) -> list[str]:
    """The options of a point; a parameter called `a_b` or `a.b_c` is the option `--a-b`, `--a.b-c`."""
    return [*(f"--{key.replace('_', '-')}={value}" for key, value in point.items()), f"--name={name}"]


def run_point(sweep: Sweep, point: Mapping[str, Any], folder: Path) -> dict[str, Any] | None:
    """The result of a point, from its file or by running it; None where it failed, with the reason in its log."""
    name = point_name(point)
    result = folder / name / "result.json"
    if not result.is_file():
        log = folder / f"{name}.log"
        words = []
        for word in sweep.command:
            words += arguments(point, f"{folder.name}/{name}") if word == "${args}" else [word]
        if words[0] == "gui-rl":
            words[:1] = [sys.executable, "-m", "gui_rl.cli"]
        elif words[0] == "python":
            words[0] = sys.executable
        if (folder / name).exists():  # of a run that did not end
            words.append("--resume")
        with log.open("a", encoding="utf-8") as out:
            code = subprocess.run(words, stdout=out, stderr=subprocess.STDOUT).returncode
        if code or not result.is_file():
            return None
    return json.loads(result.read_text(encoding="utf-8"))


def look_up(document: Any, path: str) -> float | None:
    """The number at a dotted path; a `*` on the way is the mean over what is there. None where there is none."""
    head, _, rest = path.partition(".")
    if not path:
        return float(document) if isinstance(document, int | float) else None
    if not isinstance(document, dict):
        return None
    if head == "*":
        found = [look_up(value, rest) for value in document.values()]
        return None if not found or None in found else sum(found) / len(found)
    return look_up(document[head], rest) if head in document else None


def main(options: SweepOptions) -> list[dict[str, Any]]:
    """Runs the missing points; writes and returns the table."""
    sweep = read_sweep(options.file)
    metric = options.metric or sweep.metric
    if not metric:
        raise UserError(f"{options.file} names no metric: give --metric, e.g. families.*.rl.success")
    if options.local < 1:
        raise UserError(f"--local {options.local}: at least one point at a time")
    folder = Path("runs") / f"sweep-{sweep.name}"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(options.file, folder / options.file.name)
    points = list(sweep.points())
    rows: list[dict[str, Any]] = [{} for _ in points]

    def one(number: int) -> None:
        result = run_point(sweep, points[number], folder)
        value = None if result is None else look_up(result, metric)
        rows[number] = {**points[number], metric: value}
        said = f"failed, see {folder / point_name(points[number])}.log" if result is None else f"{metric} {value}"
        print(f"{point_name(points[number])}: {said}", flush=True)

    with ThreadPoolExecutor(options.local) as pool:
        list(pool.map(one, range(len(points))))
    _write_table(folder / "table.csv", rows)
    if any(row[metric] is not None for row in rows):
        figures.save(figures.sweep_lines(rows, metric, sweep.parameters), folder / "plot")
    failed = sum(row[metric] is None for row in rows)
    print(f"{folder / 'table.csv'}: {len(rows)} points, {failed} without {metric}")
    return rows


def _write_table(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    os.replace(partial, path)
