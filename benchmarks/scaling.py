"""The table of docs/scaling.md: every row is one `gui-rl compile`, its figures in benchmarks/results/compile_ROW.json.

    python benchmarks/scaling.py             make the table from the results that there are
    python benchmarks/scaling.py ROW ...     measure these rows first (one after the other; "all" for every row)

A row takes one to a few minutes of one core and 2 to 6 GB; it needs the extra `tpu`, and no TPU. A row whose options
are refused before anything is compiled shows the refusal's words.
"""

import json
import subprocess
import sys
from pathlib import Path

from gui_rl import cli
from gui_rl.errors import UserError
from gui_rl.scale.compile import CompileOptions, plan

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
DOCUMENT = ROOT / "docs" / "scaling.md"
START, END = "<!-- table: python benchmarks/scaling.py -->", "<!-- end of table -->"

ROWS = {
    "2b_v5p8": "--model qwen3-vl-2b --topology v5p:2x2x2",
    "2b_v6e8": "--model qwen3-vl-2b --topology v6e:2x4",
    "8b_v5p64": "--model qwen3-vl-8b --topology v5p:4x4x4",
    "8b_v6e64": "--model qwen3-vl-8b --topology v6e:8x8",
    "32b_v5p128": "--model qwen3-vl-32b --topology v5p:4x4x8",
    "32b_v6e128": "--model qwen3-vl-32b --topology v6e:8x16",
    "mopd_v5p64": "--model qwen3-vl-8b --topology v5p:4x4x4 --task rl --teachers qwen3-vl-32b qwen3-vl-32b",
    "toolcua_v5p64": "--model qwen3-vl-8b --topology v5p:4x4x4 --task rl --seq 32768",
    "sample_8b_v5p8": "--model qwen3-vl-8b --topology v5p:2x2x2 --task sample",
    "235b_v5p512": "--model qwen3-vl-235b-a22b --topology v5p:8x8x8 --expert 16",
    "235b_v6e512": "--model qwen3-vl-235b-a22b --topology v6e:16x32 --expert 16",
    "235b_v6e256": "--model qwen3-vl-235b-a22b --topology v6e:16x16 --expert 16",
    "235b_v6e256_2k": "--model qwen3-vl-235b-a22b --topology v6e:16x16 --expert 16 --seq 2048",
}
COLUMNS = (
    ("GiB a chip", "memory", "{:.1f}"),
    ("headroom", "headroom", "{:.1f}"),
    ("PFLOP needed", "FLOPs needed", "{:.3g}"),
    ("received, GB a chip", None, "{:.1f}"),
    ("time, s: best to worst", None, ""),
    ("MFU, %: best to worst", None, ""),
    ("bound by", "bound by", "{}"),
)


def result(row: str) -> Path:
    return RESULTS / f"compile_{row}.json"


def refusal(row: str) -> str:
    """Why the row's options are refused before anything is compiled; "" where they are not."""
    try:
        plan(cli.parse(CompileOptions, ROWS[row].split(), "compile"))
    except UserError as error:
        return str(error)
    return ""


def measure(row: str) -> None:
    """Runs the row's command; its figures are written even where the task does not fit."""
    command = [sys.executable, "-m", "gui_rl.cli", "compile", *ROWS[row].split(), "--out", str(result(row))]
    print(" ".join(command[2:]), flush=True)
    subprocess.run(command, cwd=ROOT, check=False)


def programs(document: dict) -> dict[str, dict]:
    """The figures of every program of a row: program -> what -> value."""
    found: dict[str, dict] = {}
    for figure in document["figures"]:
        program, colon, what = figure["what"].partition(": ")
        if colon:
            found.setdefault(program, {})[what] = figure["value"]
    return found


def line(row: str) -> list[str]:
    """The table's lines of a row, one a program."""
    if words := refusal(row):
        return [f"| {row} | refused: {words} |" + " |" * len(COLUMNS)]
    if not result(row).exists():
        return [f"| {row} | not yet measured: `gui-rl compile {ROWS[row]}` |" + " |" * len(COLUMNS)]
    lines = []
    for program, values in programs(json.loads(result(row).read_text())).items():
        cells = []
        for _, what, form in COLUMNS:
            value = values.get(what)
            cells.append(form.format(value / 1e15 if what == "FLOPs needed" else value) if what else "")
        cells[3] = f"{sum(value for what, value in values.items() if what.startswith('received')):.1f}"
        cells[4] = f"{values['time, best']:.3g} to {values['time, worst']:.3g}"
        cells[5] = f"{values['MFU, best']:.0f} to {values['MFU, worst']:.0f}"
        if values["headroom"] < 0:
            cells[0], cells[1] = f"{values['memory']:.1f}, refused", ""
            cells[3:] = [""] * 4
        lines.append(f"| {row} | {program} | " + " | ".join(cells) + " |")
    return lines


def table() -> str:
    """The whole table, in Markdown."""
    head = "| row | program | " + " | ".join(name for name, _, _ in COLUMNS) + " |"
    rule = "|---" * (2 + len(COLUMNS)) + "|"
    commands = [f"- `{row}`: `gui-rl compile {options}`" for row, options in ROWS.items()]
    return "\n".join([head, rule, *(text for row in ROWS for text in line(row)), "", *commands])


def main(rows: list[str]) -> None:
    rows = list(ROWS) if rows == ["all"] else rows
    if unknown := [row for row in rows if row not in ROWS]:
        sys.exit(f"no row is called {', '.join(unknown)}: there are {', '.join(ROWS)}")
    for row in rows:
        measure(row)
    text = DOCUMENT.read_text()
    before, after = text.split(START)[0], text.split(END)[1]
    DOCUMENT.write_text(f"{before}{START}\n{table()}\n{END}{after}")


if __name__ == "__main__":
    main(sys.argv[1:])
