"""What the spreadsheet's tables hold, and what their formulas come to."""

from __future__ import annotations

import ast
import operator
import random
import re
from typing import Any

from ..office import CITIES, LAST, person

COLS, ROWS = 8, 30
LETTERS = "ABCDEFGH"

Row = dict[str, list[str]]

GOODS = (
    "Desk lamp", "Office chair", "Paper roll", "Blue folder", "Desk fan", "Whiteboard", "Stapler", "Notebook",
    "Tea set", "Door sign", "Cable box", "Wall clock", "Foot rest", "Book end", "Coat rack", "Water jug", "Mouse pad",
    "Ink bottle",
)  # fmt: skip
COSTS = (
    "Train ticket", "Hotel night", "Taxi ride", "Printing", "Postage", "Lunch", "Museum entry", "Software",
    "Phone bill", "Cleaning", "Room rent", "Insurance", "Flowers", "Repairs", "Translation", "Coffee beans",
)  # fmt: skip
FRUIT = (
    "Apples", "Pears", "Plums", "Cherries", "Grapes", "Lemons", "Figs", "Melons", "Peaches", "Quinces", "Limes",
    "Dates", "Mangos", "Kiwis", "Oranges", "Apricots",
)  # fmt: skip
COLOURS = ("yellow", "green", "red", "blue")
GROUPS = ("Travel", "Office", "Events", "Other")

KINDS: dict[str, tuple[str, ...]] = {
    "Stock": ("Item", "Supplier", "Quantity", "Price"),
    "Expenses": ("Expense", "Group", "Amount", "Budget"),
    "Guests": ("Guest", "City", "Nights", "Persons", "Rate"),
    "Sales": ("Product", "January", "February", "March", "April"),
    "Members": ("Member", "City", "Fee", "Hours"),
}
"""Of each kind of sheet: the titles of its columns; the first names the row."""

MONEY = ("Price", "Amount", "Budget", "Rate", "Fee", "January", "February", "March", "April")
NUMBERS = (*MONEY, "Quantity", "Nights", "Persons", "Hours")


def ref(x: int, y: int) -> str:
    return f"{LETTERS[x]}{y + 1}"


def blank() -> Row:
    return {"cells": [""] * COLS, "looks": [""] * COLS}


def _cell(rng: random.Random, title: str) -> str:
    if title in NUMBERS:
        low, high = {"Nights": (1, 14), "Persons": (1, 6), "Hours": (2, 60), "Quantity": (3, 240)}.get(title, (15, 980))
        return str(rng.randint(low, high))
    return rng.choice({"Supplier": LAST, "Group": GROUPS, "City": CITIES}[title])


def table(rng: random.Random, number: int, kind: str) -> dict[str, Any]:
    """A sheet: titles, 7 to 13 rows whose first cells differ, an empty row, and a row for totals."""
    titles = KINDS[kind]
    many = rng.randint(7, 13)
    pools = {"Stock": GOODS, "Expenses": COSTS, "Sales": FRUIT}
    names = rng.sample(pools[kind], many) if kind in pools else sorted({person(rng) for _ in range(many)})
    rng.shuffle(names)
    lines = [[name, *(_cell(rng, title) for title in titles[1:])] for name in names]
    for x, title in enumerate(titles):
        if title in MONEY:  # no amount twice: orders and highest amounts are never in doubt
            for line, amount in zip(lines, rng.sample(range(15, 981), len(lines)), strict=True):
                line[x] = str(amount)
    rows = [list(titles), *lines, [], ["Total"]]
    made = [{"cells": (row + [""] * COLS)[:COLS], "looks": [""] * COLS} for row in rows]
    return {"id": f"s{number}", "name": kind, "rows": made + [blank() for _ in range(ROWS - len(made))]}


# --- formulas --------------------------------------------------------------------------------------------------------
_FUNCTIONS = {"SUM": sum, "AVERAGE": lambda all: sum(all) / len(all), "MIN": min, "MAX": max, "COUNT": len}
_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\s*-?\d+(\.\d+)?\s*", text, re.ASCII) else None


def _arithmetic(node: ast.AST) -> float:
    match node:
        case ast.Expression(body=body):
            return _arithmetic(body)
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_arithmetic(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_arithmetic(left), _arithmetic(right))
    raise ValueError("no arithmetic")


def value(rows: list[Row], x: int, y: int, depth: int = 0) -> float | str:
    """What a cell comes to: the number of a formula, "#ERROR" where it has none, else the cell's text."""
    text = rows[y]["cells"][x]
    if not text.startswith("="):
        return text
    if depth > 30:
        return "#ERROR"

    def number(x: int, y: int) -> float | None:
        found = value(rows, x, y, depth + 1)
        if found == "#ERROR":
            raise ValueError("a cell that is named here has no value")
        return _number(found) if isinstance(found, str) else found

    def operand(match: re.Match[str]) -> str:
        x, y = LETTERS.index(match[1]), int(match[2]) - 1
        found = number(x, y)
        if found is None and rows[y]["cells"][x]:
            raise ValueError("a text is no number")
        return repr(found or 0)

    def called(match: re.Match[str]) -> str:
        name, *parts = match.group(1), *match.group(2).split(",")
        found: list[float | None] = []
        for part in parts:
            if span := re.fullmatch(r"([A-H])(\d+)(?::([A-H])(\d+))?", part):
                (x0, x1), (y0, y1) = (sorted((span[k], span[k + 2] or span[k])) for k in (1, 2))
                y0, y1 = sorted((int(y0), int(y1)))
                columns = range(LETTERS.index(x0), LETTERS.index(x1) + 1)
                found += [number(a, b - 1) for b in range(y0, y1 + 1) for a in columns]
            else:
                found.append(_arithmetic(ast.parse(part, mode="eval")))
        return repr(_FUNCTIONS[name]([one for one in found if one is not None]))

    try:
        plain = re.sub(r"(SUM|AVERAGE|MIN|MAX|COUNT)\(([^()]*)\)", called, text[1:].upper().replace(" ", ""))
        plain = re.sub(r"([A-H])(\d+)", operand, plain)
        return round(_arithmetic(ast.parse(plain, mode="eval")), 6)
    except (ArithmeticError, SyntaxError, ValueError, IndexError, TypeError):
        return "#ERROR"


def moved(rows: list[Row], row: int, by: int) -> None:
    """Cells that formulas name move with their row: `row` from 0, by +1 (inserted above it) or -1 (deleted)."""

    def renamed(match: re.Match[str]) -> str:
        line = int(match[2])
        return f"{match[1]}{line + by}" if line - 1 >= row + (by < 0) else match[0]

    for one in rows:
        one["cells"] = [re.sub(r"([A-H])(\d+)", renamed, c) if c.startswith("=") else c for c in one["cells"]]
