"""The table in docs/scaling.md is what its script makes of the committed results, and its commands are valid."""

import json
import runpy
from pathlib import Path

import pytest

from gui_rl import cli
from gui_rl.scale.compile import CompileOptions, plan

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = runpy.run_path(str(ROOT / "benchmarks" / "scaling.py"))


def test_the_table_is_made_from_the_results():
    text = (ROOT / "docs" / "scaling.md").read_text()
    assert text.split(SCRIPT["START"])[1].split(SCRIPT["END"])[0].strip() == SCRIPT["table"]().strip()


@pytest.mark.parametrize("row", SCRIPT["ROWS"])
def test_the_commands_are_valid_and_the_results_are_theirs(row):
    if "235b" in row:
        pytest.importorskip("gui_rl.model.moe", reason="the model has no mixture of experts")
    options = cli.parse(CompileOptions, SCRIPT["ROWS"][row].split(), "compile")
    plan(options)
    if SCRIPT["result"](row).exists():
        written = json.loads(SCRIPT["result"](row).read_text())["options"]
        assert {name: getattr(options, name) for name in ("model", "topology", "task", "seq")} == {
            name: written[name] for name in ("model", "topology", "task", "seq")
        }
