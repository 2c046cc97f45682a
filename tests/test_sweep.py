"""Sweeps: the grid of a wandb sweep file, run here, resumed, tabulated and drawn."""

import csv
from pathlib import Path

import pytest

from gui_rl.cli import experiments, parse
from gui_rl.commands.sweep import SweepOptions, arguments, look_up, main, point_name, read_sweep
from gui_rl.errors import UserError

ROOT = Path(__file__).resolve().parents[1]
RUN = """
import json, pathlib, sys
given = dict(word[2:].split("=", 1) for word in sys.argv[1:] if "=" in word)
folder = pathlib.Path("runs") / given["name"]
folder.mkdir(parents=True, exist_ok=True)
with open("calls", "a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
if given["rl.kl"] == "0.5" and not pathlib.Path("mended").exists():
    sys.exit("this point breaks")
value = float(given["rl.kl"]) + int(given["seed"])
(folder / "result.json").write_text(json.dumps({"families": {"a": {"s": value}, "b": {"s": value + 2}}}))
"""
FILE = """
method: grid
metric: {name: families.*.s}
command: [python, run.py, "${args}"]
parameters:
  rl.kl: {values: [0.1, 0.5]}
  seed: {values: [0, 1]}
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.py").write_text(RUN)
    (tmp_path / "kl.yaml").write_text(FILE)
    return tmp_path


def test_a_grid_is_run_resumed_tabulated_and_drawn(here, capsys):
    rows = main(SweepOptions(Path("kl.yaml"), local=2))
    assert [row["families.*.s"] for row in rows] == [pytest.approx(1.1), pytest.approx(2.1), None, None]
    assert "failed, see runs/sweep-kl/" in capsys.readouterr().out
    log = here / "runs" / "sweep-kl" / f"{point_name({'rl.kl': 0.5, 'seed': 0})}.log"
    assert "this point breaks" in log.read_text()
    (here / "mended").touch()
    rows = main(SweepOptions(Path("kl.yaml")))
    assert rows[3]["families.*.s"] == pytest.approx(2.5)
    calls = (here / "calls").read_text().splitlines()
    assert len(calls) == 4 + 2  # what had a result was not run again
    assert sum("--resume" in call for call in calls) == 2
    with (here / "runs" / "sweep-kl" / "table.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [(row["rl.kl"], row["seed"]) for row in table] == [("0.1", "0"), ("0.1", "1"), ("0.5", "0"), ("0.5", "1")]
    assert (here / "runs" / "sweep-kl" / "plot.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("method: bayes\nparameters: {a: {value: 1}}", "grid"),
        ("method: grid", "parameters"),
        ("method: grid\nparameters: {a: {min: 1}}", "parameters.a"),
        ("method: grid\nparameters: {a: {values: []}}", "parameters.a"),
        ("method: grid\nparameters: {a: {value: 1}}", "program"),
        ("a: [", "cannot be read"),
    ],
)
def test_what_is_no_grid_is_named(tmp_path, text, says):
    path = tmp_path / "odd.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=says) as raised:
        read_sweep(path)
    assert "odd.yaml" in str(raised.value)


@pytest.mark.parametrize("path", sorted((ROOT / "experiments" / "sweeps").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_shipped_sweeps_are_settings_of_their_experiments(path):
    import importlib

    sweep = read_sweep(path)
    module = importlib.import_module(experiments()[sweep.command[2]])
    for point in sweep.points():
        parse(module.Config, arguments(point, "x"), "run")  # an unknown option would be an error
    assert sweep.metric


def test_looking_up():
    document = {"a": {"x": {"s": 1}, "y": {"s": 3}}, "b": 2}
    assert look_up(document, "a.*.s") == 2 and look_up(document, "b") == 2
    assert look_up(document, "a.x") is None and look_up(document, "c.d") is None
