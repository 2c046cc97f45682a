"""Sheet, a spreadsheet on a desktop: cells, formulas, sorting, rows, looks and several sheets, on jspreadsheet's grid.

State JSON: layout {theme, tools, tabs, wide} · book (its title) · sheets [{id, name, rows [{cells [text], looks
[words]}]}], each of ROWS rows and COLS columns · sheet (index of the open one) · selection [x0, y0, x1, y1] or null ·
edit (text in the cell editor) or null · bar (text typed into the formula bar) or null · clip [[text]] · scroll [x, y]
css px · menu, at, dialog, focus, picked (see office.js) · answer.
"""

from __future__ import annotations

import random
from typing import Any

from ...virtual.app import START, CallDict, Slots, State, Subtask, ToolSpec, generator
from ..goals import answered, reached, touched, with_goals
from ..office import DESKTOP
from . import script
from .content import COLOURS, COSTS, FRUIT, GOODS, KINDS, LETTERS, MONEY, NUMBERS, ROWS, Row, ref, table
from .effects import EFFECTS, asked, most, outcome
from .script import row_of

NAME = "sheet"
BOOKS = ("Household", "Club accounts", "Shop planner", "Office overview", "Season 12", "Work in progress")
ITEMS = (*GOODS, *COSTS, *FRUIT)
COLUMNS = tuple(dict.fromkeys(title for titles in KINDS.values() for title in titles))
TITLES = ("Archive", "Overview", "Draft", "Checked", "Spring", "Autumn", "Second half", "Review", "Backup", "Plan")


# --- states ----------------------------------------------------------------------------------------------------------
def _content(rng: random.Random) -> State:
    kinds = rng.sample(sorted(KINDS), 3)
    return {
        "layout": {
            "theme": rng.randint(0, 5),
            "tools": rng.sample(("letters", "figures", "sorting", "fill"), 4),
            "tabs": rng.choice(("bottom", "bottom", "top")),
            "wide": rng.choice((112, 117, 121)),
        },
        "book": rng.choice(BOOKS),
        "sheets": [table(rng, k + 1, kind) for k, kind in enumerate(kinds)],
        "sheet": 0,
        "selection": None,
        "edit": None,
        "bar": None,
        "clip": [],
        "scroll": [0, 0],
        "menu": "",
        "at": [0, 0],
        "dialog": {"kind": ""},
        "focus": "",
        "picked": False,
        "answer": "",
    }


def initial(seed: int) -> State:
    """The first of three sheets, nothing selected."""
    return _content(generator(NAME, "initial", seed))


def sample_state(seed: int) -> State:
    """Any screen: each of the sheets, cells with looks and formulas, selections, menus, dialogs."""
    rng = generator(NAME, "sample", seed)
    state = _content(rng)
    state["sheet"] = rng.randrange(3)
    rows = state["sheets"][state["sheet"]]["rows"]
    many = next(y for y, row in enumerate(rows) if not row["cells"][0])
    width = sum(bool(cell) for cell in rows[0]["cells"])
    for _ in range(rng.randint(0, 6)):
        rows[rng.randrange(many)]["looks"][rng.randrange(width)] = rng.choice((*COLOURS, "bold", "italic"))
    if rng.random() < 0.5:
        x = width - 1
        rows[many + 1]["cells"][x] = f"={rng.choice(('SUM', 'AVERAGE', 'MAX'))}({ref(x, 1)}:{ref(x, many - 1)})"
    match rng.randint(0, 3):
        case 0:
            x, y = rng.randrange(width), rng.randrange(many)
            state["selection"] = [x, y, x, y]
        case 1:
            y0, y1 = sorted(rng.sample(range(many), 2))
            state["selection"] = [1, y0, width - 1, y1]
        case 2:
            state["menu"] = rng.choice(("edit", "insert", "data", "fill"))
    return state


def screen_facts(state: State) -> list[tuple[str, str]]:
    """Questions that the present screen answers."""
    sheet = state["sheets"][state["sheet"]]
    rows = sheet["rows"]
    picked = state["selection"]
    filled = [row["cells"][0] for row in rows[1:14] if row["cells"][0]]
    return [
        ("Which sheet is open?", sheet["name"]),
        ("How many sheets are there?", str(len(state["sheets"]))),
        ("What is in the cell A2?", rows[1]["cells"][0] or "nothing"),
        ("What is in the cell C3?", rows[2]["cells"][2] or "nothing"),
        ("Which cell is selected?", ref(*picked[:2]) if picked and picked[:2] == picked[2:] else "none"),
        ("What stands in the last row of names?", filled[-1] if filled else "nothing"),
    ]


# --- the DAG ---------------------------------------------------------------------------------------------------------
def _call(tool: str, **arguments: object) -> CallDict:
    return {"name": f"{NAME}.{tool}", "arguments": arguments}


def _cell(cell: str, text: str):
    return lambda slots: _call("set_cell", sheet=slots["sheet"], cell=slots[cell], text=slots[text])


def _task(
    name: str, text: str, after: tuple[str, ...], actions: int, needs: tuple[str, ...] = (), **more: Any
) -> Subtask:
    checkpoint = more.pop("checkpoint", None) or reached(name, outcome)
    at = more.pop("at", "first")
    return Subtask(name, text, checkpoint, getattr(script, name), (START, *after), at, actions, touches=touched(name),
                   needs=needs, **more)  # fmt: skip


SUBTASKS = (
    _task("change", 'Change the {change_column} of "{change_item}" to {change_value}.', (), 3,
          ("change_item",), tool=_cell("change_cell", "change_value")),
    _task("clear", 'Empty the {clear_column} of "{clear_item}".', ("change",), 2, ("clear_item",)),
    _task("fill", 'Colour the {fill_column} of "{fill_item}" {colour}.', ("change", "clear"), 3, ("fill_item",),
          tool=lambda slots: _call("format", sheet=slots["sheet"], cells=slots["fill_cell"], look=slots["colour"])),
    _task("copy", 'Copy the {copy_column} of "{copy_item}" into the cell {copy_cell}.', ("fill", "header"), 4,
          ("copy_item",)),
    _task("header", "Make the whole first row bold.", ("change", "fill"), 2),
    _task("money", "Show the column {money_column} as currency.", ("change", "header"), 2, ("money_column",)),
    _task("total", "Put a formula for the {total_word} of {total_column} into the cell {total_cell}.",
          ("money", "header", "copy"), 3, ("total_column",), tool=_cell("total_cell", "total_text")),
    _task("sort", "Sort the table by {sort_column}, {sort_words}.", ("money", "fill", "total"), 2,
          ("sort_column",),
          tool=lambda slots: _call("sort", sheet=slots["sheet"], column=slots["sort_letter"],
                                   descending=slots["sort_down"])),
    _task("insert", 'Insert an empty row above the row of "{insert_item}".', ("sort", "total", "header"), 2,
          ("insert_item",)),
    _task("delete", 'Delete the row of "{delete_item}".', ("change", "clear", "fill"), 2, ("delete_item",)),
    _task("add", 'Add a sheet called "{added}".', ("delete", "sort", "header"), 3, at="first", ends="new"),
    _task("rename", 'Rename the sheet "{sheet}" to "{title}".', ("add", "delete", "insert", "money"), 4,
          tool=lambda slots: _call("rename_sheet", sheet=slots["sheet"], name=slots["title"])),
    _task("drop", 'Delete the sheet "{drop}".', ("rename", "copy", "clear"), 3, ("drop",), ends="first"),
    Subtask(
        "open", 'Open the sheet "{other}".',
        lambda state, slots: state["sheets"][state["sheet"]]["id"] == slots["other_id"],
        script.open_it,
        after=(START, "rename", "change", "sort"), at="other", actions=0, lasting=False, needs=("other",),
    ),
    Subtask(
        "ask", 'On the sheet "{sheet}", what is the {ask_column} of "{ask_item}"?', answered("ask"), script.ask,
        after=(START, "change", "sort", "header"), at="first", actions=2, needs=("ask_item",),
    ),
    Subtask(
        "most", 'On the sheet "{sheet}", who or what has the highest {most_column}?', answered("most"), script.most,
        after=(START, "delete", "clear", "fill"), at="first", actions=2, needs=("most_column",),
    ),
    Subtask(
        "missing", 'Delete the row of "{missing}".',
        lambda state, slots: False,
        script.missing,
        after=(START,), at="first", actions=1, feasible=False,
    ),
)  # fmt: skip

FUNCTIONS = {"SUM": "sum", "AVERAGE": "average", "MAX": "highest value", "MIN": "lowest value"}


# --- slots -----------------------------------------------------------------------------------------------------------
def fill(rng: random.Random, path: tuple[str, ...], state: State) -> Slots:
    """Everything on the first sheet; every edit has a row of its own."""
    first, other, gone = state["sheets"]
    rows = first["rows"]
    titles = [title for title in rows[0]["cells"] if title]
    items = [row["cells"][0] for row in rows[1:] if row["cells"][0] not in ("", "Total")]
    numbers = [title for title in titles if title in NUMBERS]
    names = ("change", "clear", "fill", "copy", "insert", "delete")
    chosen = dict(zip(names, rng.sample(items, len(names)), strict=True))
    column, function = rng.choice(numbers), rng.choice(sorted(FUNCTIONS))
    x, bottom = titles.index(column), len(items) + 2
    money = rng.choice([title for title in titles if title in MONEY])
    changed, cleared, coloured = (rng.choice([title for title in numbers if title != money]) for _ in range(3))
    spot = rng.choice([k for k in range(1, len(items) + 1) if items[k - 1] not in chosen.values()])
    old = rows[row_of(state, chosen["change"])]["cells"][titles.index(changed)]
    slots: Slots = {
        "sheet": first["name"],
        **{f"{name}_item": item for name, item in chosen.items()},
        "change_column": changed,
        "change_value": str(int(old) + rng.choice((-1, 1)) * rng.randint(1, 9) if int(old) > 9 else int(old) + 11),
        "change_cell": ref(titles.index(changed), row_of(state, chosen["change"])),
        "clear_column": cleared,
        "fill_column": coloured, "colour": rng.choice(COLOURS),
        "fill_cell": ref(titles.index(coloured), row_of(state, chosen["fill"])),
        "copy_column": rng.choice(titles[1:]), "copy_cell": ref(rng.choice((len(titles), len(titles) + 1)), spot),
        "money_column": money,
        "total_column": column, "total_function": function, "total_word": FUNCTIONS[function],
        "total_cell": ref(x, bottom), "total_text": f"={function}({ref(x, 1)}:{ref(x, len(items))})",
        "added": rng.choice(TITLES[:5]), "title": rng.choice(TITLES[5:]),
        "drop": gone["name"], "drop_id": gone["id"],
        "other": other["name"], "other_id": other["id"],
        "ask_column": rng.choice(titles[1:]),
        "ask_item": rng.choice([item for item in items if item not in (chosen["delete"], chosen["clear"])]),
        "most_column": rng.choice([title for title in numbers if _top(rows, titles.index(title))]),
        "missing": rng.choice([name for name in ITEMS if name not in items]),
    }  # fmt: skip
    down = rng.random() < 0.5
    order = [title for title in titles if _sorts(items, rows, titles.index(title), down)]
    slots |= {"sort_column": rng.choice(order), "sort_down": down}
    words = ("A to Z", "Z to A") if slots["sort_column"] not in NUMBERS else ("smallest first", "largest first")
    slots["sort_words"] = words[down]
    slots["sort_letter"] = LETTERS[titles.index(slots["sort_column"])]
    return with_goals(path, state, slots, outcome, EFFECTS, {"ask": asked, "most": most})


def _top(rows: list[Row], x: int) -> bool:
    """Whether one row alone has the highest number of a column."""
    held = [int(row["cells"][x]) for row in rows[1:] if row["cells"][x].isdigit()]
    return held.count(max(held)) == 1


def _sorts(items: list[str], rows: list[Row], x: int, down: bool) -> bool:
    """Whether sorting by this column changes the order of the rows, and leaves no doubt about it."""
    held = [row["cells"][x] for row in rows[1 : len(items) + 1]]
    keys = [float(text) if text.isdigit() else text.lower() for text in held]
    return len(set(keys)) == len(keys) and sorted(keys, reverse=down) != keys


_TEXT = {"type": "string"}
_SHEET = {"type": "string", "description": "name of a sheet"}

TOOLS = (
    ToolSpec.of(f"{NAME}.set_cell", "Write a text, a number or a formula into a cell.",
                {"sheet": _SHEET, "cell": {"type": "string", "description": "such as B4"}, "text": _TEXT}),
    ToolSpec.of(f"{NAME}.sort", "Sort the rows of a table by a column.",
                {"sheet": _SHEET, "column": {"type": "string", "description": "its letter"}},
                {"descending": {"type": "boolean"}}),
    ToolSpec.of(f"{NAME}.format", "Give cells a look: bold, italic, currency, percent, yellow, green, red or blue.",
                {"sheet": _SHEET, "cells": {"type": "string", "description": "such as B4 or B4:C9"}, "look": _TEXT}),
    ToolSpec.of(f"{NAME}.rename_sheet", "Give a sheet another name.", {"sheet": _SHEET, "name": _TEXT}),
    ToolSpec.of(f"{NAME}.read_cells", "What the rows of a sheet show.", {"sheet": _SHEET}),
)  # fmt: skip

NAMES = (
    "grid", "undo", "bold", "italic", "currency", "percent", "sort ascending", "sort descending", "fill colour",
    *(f"{colour} fill" for colour in COLOURS), "no fill", "edit menu", "insert menu", "data menu", "clear cells",
    "row above", "sheet", "sort smallest first", "sort largest first", "formula bar", "new sheet", "insert row above",
    "insert row below", "delete row", "copy", "paste", "clear", "sort a to z", "sort z to a", "rename sheet",
    "delete sheet", "name box", "cancel", "rename", "create", "delete", *(f"column {letter}" for letter in LETTERS),
    *(f"row {y + 1}" for y in range(ROWS)), *(ref(x, y) for x in range(len(LETTERS)) for y in range(ROWS)),
)  # fmt: skip

APP = DESKTOP.app(
    NAME,
    ("jsuites", "jspreadsheet-ce"),
    subtasks=SUBTASKS,
    tools=TOOLS,
    initial=initial,
    sample_state=sample_state,
    facts=screen_facts,
    fill=fill,
    outcome=outcome,
    home="first",
    names=NAMES,
    most_actions=16,
    pools={
        **{f"{name}_item": ITEMS for name in ("change", "clear", "fill", "copy", "insert", "delete", "ask")},
        **dict.fromkeys(("money_column", "total_column", "most_column"), NUMBERS),
        "sort_column": COLUMNS,
        **dict.fromkeys(("drop", "other"), tuple(KINDS)),
    },
)
