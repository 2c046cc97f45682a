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


REFUSED = {"235b_v6e512": "v6e:16x16"}  # no such slice; the words name the largest there is


@pytest.mark.parametrize("row", SCRIPT["ROWS"])
def test_the_commands_are_valid_and_the_results_are_theirs(row):
    options = cli.parse(CompileOptions, SCRIPT["ROWS"][row].split(), "compile")
    if row in REFUSED:
        (text,) = SCRIPT["line"](row)
        assert "refused: " in text and REFUSED[row] in text and not SCRIPT["result"](row).exists()
        return
    plan(options)
    if SCRIPT["result"](row).exists():
        written = json.loads(SCRIPT["result"](row).read_text())["options"]
        assert {name: getattr(options, name) for name in ("model", "topology", "task", "seq")} == {
            name: written[name] for name in ("model", "topology", "task", "seq")
        }
