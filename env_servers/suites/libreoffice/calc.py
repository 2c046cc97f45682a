"""Calc tasks: a workbook of two seeded sheets, and thirty-odd things to do with it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from ...desktop.tools import column_name
from ..apps.office import CITIES, FIRST
from .case import Case, Kind, Model, Part, changed

GOODS = "Bread Butter Cheese Coffee Flour Honey Milk Olives Pasta Rice Salt Sugar Tea Vinegar Wine Yeast".split()
HEADERS = ("Item", "Units", "Price", "City")
SHEETS = ("Stock", "Staff")
GAP = "N/A"


def _rows(rng: random.Random) -> list[list[Any]]:
    """Rows of the first sheet: goods, units, price, city; all numbers differ."""
    names = rng.sample(GOODS, rng.randint(6, 9))
    units, prices = rng.sample(range(11, 99), len(names)), rng.sample(range(101, 999), len(names))
    return [list(row) for row in zip(names, units, prices, rng.sample(CITIES, len(names)), strict=True)]


def _cells(rows: list[list[Any]], headers: tuple[str, ...]) -> dict[str, Any]:
    lines = [list(headers), *rows]
    return {f"{column_name(x)}{y + 1}": value for y, line in enumerate(lines) for x, value in enumerate(line)}


class Book:
    """A workbook to begin with: `rows` of its first sheet, `model` of the whole."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.rows = rng, _rows(rng)
        people = rng.sample(FIRST, 5)
        staff = [[name, rng.randint(20, 60)] for name in people]
        self.people = people
        bold = {f"{column_name(x)}1": {"bold": True} for x in range(len(HEADERS))}
        first = {"name": SHEETS[0], "cells": _cells(self.rows, HEADERS), "formats": bold}
        self.model: Model = {"sheets": [first, {"name": SHEETS[1], "cells": _cells(staff, ("Name", "Age"))}]}
        self.last = len(self.rows) + 1  # number of the last row

    def after(self, change: Callable[[Model], None]) -> Model:
        """The model once this has changed it."""
        return changed(self.model, change)

    def put(self, cells: dict[str, Any], sheet: int = 0) -> Model:
        """The model with these cells; None takes one away."""

        def change(model: Model) -> None:
            held = model["sheets"][sheet]["cells"]
            for name, value in cells.items():
                held.pop(name, None)
                if value is not None:
                    held[name] = value

        return self.after(change)

    def form(self, names: list[str], given: dict[str, Any]) -> Model:
        """The model with these cells formatted."""

        def change(model: Model) -> None:
            formats = model["sheets"][0]["formats"]
            for name in names:
                formats[name] = {**formats.get(name, {}), **given}
            order = sorted(formats.items(), key=lambda item: (int(item[0][1:]), item[0][0]))
            model["sheets"][0]["formats"] = dict(order)

        return self.after(change)


def _enter(cell: str, text: str) -> Part:
    """A value into one cell that is in view."""
    return Part((("click", cell), ("type", f"{text}\n")), (("set_cell_value", {"cell": cell, "value": text}),))


def _go(place: str) -> tuple[tuple[Any, ...], ...]:
    """Select a range by its name."""
    return ("triple", "Name Box"), ("type", f"{place}\n")


def _column(column: str, last: int) -> list[str]:
    return [f"{column}{y}" for y in range(2, last + 1)]


# --- cells -----------------------------------------------------------------------------------------------------------
def _set_value(rng: random.Random) -> Case:
    book = Book(rng)
    k, value = rng.randrange(len(book.rows)), rng.randint(100, 999)
    cell = f"B{k + 2}"
    return Case(
        {"item": book.rows[k][0], "value": value}, book.model, book.put({cell: value}), (_enter(cell, str(value)),)
    )


def _set_text(rng: random.Random) -> Case:
    book = Book(rng)
    k, city = rng.randrange(len(book.rows)), rng.choice([c for c in CITIES if c not in {r[3] for r in book.rows}])
    cell = f"D{k + 2}"
    return Case({"item": book.rows[k][0], "city": city}, book.model, book.put({cell: city}), (_enter(cell, city),))


def _set_far(rng: random.Random) -> Case:
    book = Book(rng)
    cell, value = f"A{rng.choice('ABCD')}{rng.randint(2, 30)}", rng.randint(100, 999)
    part = Part((*_go(cell), ("type", f"{value}\n")), (("set_cell_value", {"cell": cell, "value": str(value)}),))
    return Case({"cell": cell, "value": value}, book.model, book.put({cell: value}), (part,))


def _append(rng: random.Random) -> Case:
    book = Book(rng)
    name = rng.choice([good for good in GOODS if good not in {row[0] for row in book.rows}])
    units, row = rng.randint(11, 98), book.last + 1
    hand = (("click", f"A{row}"), ("type", f"{name}\t{units}\n"))
    tools = tuple(("set_cell_value", {"cell": f"{c}{row}", "value": str(v)}) for c, v in (("A", name), ("B", units)))
    after = book.put({f"A{row}": name, f"B{row}": units})
    return Case({"item": name, "units": units}, book.model, after, (Part(hand, tools),))


def _clear(rng: random.Random) -> Case:
    book = Book(rng)
    cells = _column("D", book.last)
    hand = (*_go(f"D2:D{book.last}"), ("key", "delete"))
    tools = (("set_column_values", {"column_name": "D", "data": [""] * len(cells)}),)
    return Case({}, book.model, book.put(dict.fromkeys(cells)), (Part(hand, tools),))


def _fill_column(rng: random.Random) -> Case:
    book = Book(rng)
    values = rng.sample(range(100, 999), len(book.rows))
    cells = {"E1": "Code", **dict(zip(_column("E", book.last), values, strict=True))}
    text = "\n".join(map(str, ["Code", *values])) + "\n"
    tools = (("set_column_values", {"column_name": "E", "data": ["Code", *values], "start_index": 1}),)
    listed = ", ".join(map(str, values))
    return Case({"values": listed}, book.model, book.put(cells), (Part((("click", "E1"), ("type", text)), tools),))


def _staff_age(rng: random.Random) -> Case:
    book = Book(rng)
    k, age = rng.randrange(len(book.people)), rng.randint(61, 80)
    cell = f"B{k + 2}"
    hand = (("click", "Staff"), ("click", cell), ("type", f"{age}\n"))
    tools = (("switch_active_sheet", {"sheet_name": "Staff"}), ("set_cell_value", {"cell": cell, "value": str(age)}))
    slots = {"person": book.people[k], "age": age}
    return Case(slots, book.model, book.put({cell: age}, sheet=1), (Part(hand, tools),))


# --- formulas --------------------------------------------------------------------------------------------------------
def _formula(
    write: str, result: Callable[[list[list[Any]], dict[str, Any]], Any], slots: Callable[[Book], dict[str, Any]]
) -> Callable[[random.Random], Case]:
    """Tasks that want a formula below column B, or wherever the slot `cell` says."""

    def make(rng: random.Random) -> Case:
        book = Book(rng)
        given = {"last": book.last, "cell": f"B{book.last + 2}", **slots(book)}
        text = write.format(**given)
        after = book.put({given["cell"]: ["=", result(book.rows, given)]})
        return Case(given, book.model, after, (_enter_formula(given["cell"], text),))

    return make


def _enter_formula(cell: str, text: str) -> Part:
    return Part(
        (*_go(cell), ("type", f"{text}\n")), (("set_cell_value", {"cell": cell, "value": text.replace(";", ",")}),)
    )


def _nothing(book: Book) -> dict[str, Any]:
    return {}


def _amounts(rng: random.Random) -> Case:
    book = Book(rng)
    cells = {f"E{y}": ["=", row[1] * row[2]] for y, row in enumerate(book.rows, start=2)}
    text = "".join(f"=B{y}*C{y}\n" for y in range(2, book.last + 1))
    tools = tuple(("set_cell_value", {"cell": f"E{y}", "value": f"=B{y}*C{y}"}) for y in range(2, book.last + 1))
    return Case({"last": book.last}, book.model, book.put(cells), (Part((("click", "E2"), ("type", text)), tools),))


# --- formats ---------------------------------------------------------------------------------------------------------
def _shape(given: dict[str, Any], keys: tuple[str, ...], tool: tuple[str, dict[str, Any]] | None = None):
    """Tasks that give a range a form by a key combination."""

    def make(rng: random.Random) -> Case:
        book = Book(rng)
        column = rng.choice("BC")
        area = f"{column}2:{column}{book.last}"
        tools = ((tool[0], {"range_str": area, **tool[1]}),) if tool else None
        part = Part((*_go(area), ("key", *keys)), tools)
        return Case({"area": area}, book.model, book.form(_column(column, book.last), given), (part,))

    return make


# --- sheets, rows, columns -------------------------------------------------------------------------------------------
def _shifted(cells: dict[str, Any], keep: Callable[[int, int], tuple[int, int] | None]) -> dict[str, Any]:
    """Cells or formats moved: `keep` maps (column, row) to its new place, None takes it away."""
    from ...desktop.tools import cell_place

    found = {}
    for name, value in cells.items():
        place = keep(*cell_place(name))
        if place is not None:
            found[f"{column_name(place[0])}{place[1] + 1}"] = value
    return found


def _moved(book: Book, keep: Callable[[int, int], tuple[int, int] | None]) -> Model:
    def change(model: Model) -> None:
        sheet = model["sheets"][0]
        sheet["cells"], sheet["formats"] = (_shifted(sheet[part], keep) for part in ("cells", "formats"))

    return book.after(change)


def _delete_row(rng: random.Random) -> Case:
    book = Book(rng)
    k = rng.randrange(len(book.rows))
    row = k + 1  # from 0
    after = _moved(book, lambda x, y: None if y == row else (x, y - (y > row)))
    return Case(
        {"item": book.rows[k][0]}, book.model, after, (Part((*_go(f"{row + 1}:{row + 1}"), ("key", "ctrl", "-"))),)
    )


def _insert_row(rng: random.Random) -> Case:
    book = Book(rng)
    k = rng.randrange(1, len(book.rows))
    row = k + 1
    after = _moved(book, lambda x, y: (x, y + (y >= row)))
    hand = (*_go(f"{row + 1}:{row + 1}"), ("key", "ctrl", "+"))
    return Case({"item": book.rows[k][0]}, book.model, after, (Part(hand),))


def _delete_column(rng: random.Random) -> Case:
    book = Book(rng)
    column = rng.randrange(1, 4)
    after = _moved(book, lambda x, y: None if x == column else (x - (x > column), y))
    name = column_name(column)
    hand = (*_go(f"{name}:{name}"), ("key", "ctrl", "-"))
    return Case({"header": HEADERS[column]}, book.model, after, (Part(hand),))


def _rename_sheet(rng: random.Random) -> Case:
    book = Book(rng)
    name = f"{rng.choice(CITIES)} {rng.randint(2020, 2029)}"

    def change(model: Model) -> None:
        model["sheets"][0]["name"] = name

    hand = (("double", "Stock"), ("key", "ctrl", "a"), ("type", f"{name}\n"))
    tools = (("rename_sheet", {"old_name": "Stock", "new_name": name}),)
    return Case({"name": name}, book.model, book.after(change), (Part(hand, tools),))


def _sheets(
    change: Callable[[list[Model], str], None], hand: Callable[[str], tuple], tool: Callable[[str], tuple] | None
):
    """Tasks on whole sheets; `name` is a new one."""

    def make(rng: random.Random) -> Case:
        book = Book(rng)
        name = f"{rng.choice(CITIES)} {rng.randint(2020, 2029)}"
        after = book.after(lambda model: change(model["sheets"], name))
        return Case({"name": name}, book.model, after, (Part(hand(name), (tool(name),) if tool else None),))

    return make


def _sort(rng: random.Random) -> Case:
    book = Book(rng)
    column = rng.choice((1, 2))
    rising = rng.random() < 0.5
    rows = sorted(book.rows, key=lambda row: row[column], reverse=not rising)
    after = book.after(lambda model: model["sheets"][0].update(cells=_cells(rows, HEADERS)))
    button = "Sort Ascending" if rising else "Sort Descending"
    part = Part((("click", f"{column_name(column)}2"), ("click", button)))
    slots = {"header": HEADERS[column], "way": "lowest" if rising else "highest"}
    return Case(slots, book.model, after, (part,))


def _hide(rng: random.Random) -> Case:
    book = Book(rng)
    gone = sorted(rng.sample(range(len(book.rows)), 2))
    book.model = book.put({f"D{k + 2}": GAP for k in gone})
    after = book.after(lambda model: model["sheets"][0].update(hidden_rows=[k + 2 for k in gone]))
    hand = tuple(
        move
        for k in gone
        for move in (*_go(f"{k + 2}:{k + 2}"), ("click", "Format"), ("click", "Rows"), ("click", "Hide"))
    )
    return Case({"gap": GAP}, book.model, after, (Part(hand, (("hide_row_data", {"value": GAP}),)),))


def _chart(rng: random.Random) -> Case:
    book = Book(rng)
    area = f"A1:B{book.last}"
    chart = {"type": "column", "ranges": [area], "title": ""}
    hand = (*_go(area), ("click", "Chart"), ("click", "Finish"), ("key", "escape"))
    tools = (("create_chart", {"chart_type": "column", "data_range": area}),)
    after = book.after(lambda model: model["sheets"][0].update(charts=[chart]))
    return Case({"area": area}, book.model, after, (Part(hand, tools),))


def _freeze(rng: random.Random) -> Case:
    book = Book(rng)
    hand = (("click", "View"), ("click", "Freeze Cells"), ("click", "Freeze First Row"))
    after = book.after(lambda model: model.update(frozen=[0, 1]))
    return Case({}, book.model, after, (Part(hand, (("freeze_panes", {"rows": 1}),)),))


def _transpose(rng: random.Random) -> Case:
    book = Book(rng)
    turned = {f"{column_name(5 + k)}{2 + x}": book.rows[k][x] for k in range(3) for x in range(2)}
    hand = (
        *_go("A2:B4"), ("key", "ctrl", "c"), ("click", "F2"), ("key", "ctrl", "shift", "v"), ("click", "Transpose"),
        ("click", "OK"), ("key", "escape"),
    )  # fmt: skip
    tools = (("transpose_range", {"source_range": "A2:B4", "target_cell": "F2"}),)
    hand = (*_go("A2:B4"), ("key", "ctrl", "c"), *_go("F2"), *hand[4:])
    return Case({}, book.model, book.put(turned), (Part(hand, tools),))


# --- questions -------------------------------------------------------------------------------------------------------
def _ask(rng: random.Random) -> Case:
    book = Book(rng)
    row = rng.choice(book.rows)
    part = Part((("answer", str(row[2])),))
    return Case({"item": row[0]}, book.model, None, (part,), answer=str(row[2]))


def _ask_most(rng: random.Random) -> Case:
    book = Book(rng)
    name = max(book.rows, key=lambda row: row[1])[0]
    return Case({}, book.model, None, (Part((("answer", name),)),), answer=name)


# --- what cannot be done ---------------------------------------------------------------------------------------------
def _absent_item(rng: random.Random) -> Case:
    book = Book(rng)
    name = rng.choice([good for good in GOODS if good not in {row[0] for row in book.rows}])
    return Case({"item": name, "value": rng.randint(100, 999)}, book.model, None)


def _absent_sheet(rng: random.Random) -> Case:
    return Case({"name": rng.choice(["Sales", "Costs", "Plans", "Orders"])}, Book(rng).model, None)


def _pick(book: Book) -> dict[str, Any]:
    k = book.rng.randrange(len(book.rows))
    cell, limit = f"F{book.rng.randint(2, 6)}", book.rng.randint(30, 70)
    return {"item": book.rows[k][0], "k": k, "cell": cell, "limit": limit}


FORMAT, FORMULA = ("format",), ("formula",)
KINDS: tuple[Kind, ...] = (
    Kind("calc/units", "Set the units of {item} to {value}, and save.", _set_value),
    Kind("calc/city", "Change the city of {item} to {city}, and save.", _set_text),
    Kind("calc/far", "Write {value} into {cell}, and save.", _set_far, tags=("far",)),
    Kind("calc/append", "Add a row for {item} with {units} units below the others, and save.", _append),
    Kind("calc/clear", "Clear all cities, but keep the header, and save.", _clear),
    Kind("calc/fill", "Make a column with the header Code in E, with these values from row 2 on: {values}. Save.",
         _fill_column),
    Kind("calc/age", "On the sheet Staff, set the age of {person} to {age}, and save.", _staff_age),
    Kind("calc/sum", "Put a formula for the sum of all units into {cell}, and save.",
         _formula("=SUM(B2:B{last})", lambda rows, _: sum(row[1] for row in rows), _nothing), tags=FORMULA),
    Kind("calc/max", "Put a formula for the highest price into {cell}, and save.",
         _formula("=MAX(C2:C{last})", lambda rows, _: max(row[2] for row in rows), _nothing), tags=FORMULA),
    Kind("calc/min", "Put a formula for the lowest price into {cell}, and save.",
         _formula("=MIN(C2:C{last})", lambda rows, _: min(row[2] for row in rows), _nothing), tags=FORMULA),
    Kind("calc/count", "Put a formula that counts the items with more than {limit} units into {cell}, and save.",
         _formula('=COUNTIF(B2:B{last};">{limit}")', lambda rows, s: sum(row[1] > s["limit"] for row in rows), _pick),
         tags=FORMULA),
    Kind("calc/sumif", "Put a formula for the sum of the prices of all items with more than {limit} units into {cell}, "
         "and save.",
         _formula('=SUMIF(B2:B{last};">{limit}";C2:C{last})',
                  lambda rows, s: sum(row[2] for row in rows if row[1] > s["limit"]), _pick), tags=FORMULA),
    Kind("calc/lookup", "Put a formula that looks up the price of {item} into {cell}, and save.",
         _formula('=VLOOKUP("{item}";A2:C{last};3;0)', lambda rows, s: rows[s["k"]][2], _pick), tags=FORMULA),
    Kind("calc/amounts", "Put formulas for units times price into E2 to E{last}, and save.", _amounts,
         tags=FORMULA),
    Kind("calc/bold", "Make {area} bold, and save.",
         _shape({"bold": True}, ("ctrl", "b"), ("format_range", {"bold": True})), tags=FORMAT),
    Kind("calc/italic", "Make {area} italic, and save.", _shape({"italic": True}, ("ctrl", "i")), tags=FORMAT),
    Kind("calc/underline", "Underline {area}, and save.", _shape({"underline": True}, ("ctrl", "u")), tags=FORMAT),
    Kind("calc/center", "Center {area}, and save.",
         _shape({"align": "center"}, ("ctrl", "e"), ("format_range", {"alignment": "center"})), tags=FORMAT),
    Kind("calc/left", "Align {area} to the left, and save.",
         _shape({"align": "left"}, ("ctrl", "l"), ("format_range", {"alignment": "left"})), tags=FORMAT),
    Kind("calc/percent", "Show {area} as percentages with two decimals, and save.",
         _shape({"number": "0.00%"}, ("ctrl", "shift", "5"),
                ("set_number_format", {"format_type": "percentage", "decimal_places": 2})), tags=FORMAT),
    Kind("calc/decimals", "Show {area} as numbers with thousands separators and two decimals, and save.",
         _shape({"number": "#,##0.00"}, ("ctrl", "shift", "1"),
                ("set_number_format", {"format_type": "number", "decimal_places": 2})), tags=FORMAT),
    Kind("calc/delete-row", "Delete the whole row of {item}, and save.", _delete_row),
    Kind("calc/insert-row", "Insert an empty row above {item}, and save.", _insert_row),
    Kind("calc/delete-column", "Delete the whole column {header}, and save.", _delete_column),
    Kind("calc/rename-sheet", "Rename the sheet Stock to {name}, and save.", _rename_sheet),
    Kind("calc/new-sheet", "Add a sheet called {name} behind the others, and save.",
         _sheets(lambda sheets, name: sheets.append({"name": name, "cells": {}}),
                 lambda name: (("click", "Sheet"), ("click", "Insert Sheet at End..."), ("type", f"{name}\n")),
                 lambda name: ("switch_active_sheet", {"sheet_name": name}))),
    Kind("calc/copy-sheet", "Duplicate the sheet Stock; its copy is called Stock_2 and stands behind it. Save.",
         _sheets(lambda sheets, name: sheets.insert(1, {**sheets[0], "name": "Stock_2"}),
                 lambda name: (("click", "Sheet"), ("click", "Duplicate Sheet")),
                 lambda name: ("copy_sheet", {"source_sheet": "Stock", "new_sheet_name": "Stock_2"}))),
    Kind("calc/delete-sheet", "Delete the sheet Staff, and save.",
         _sheets(lambda sheets, name: sheets.pop(),
                 lambda name: (("click", "Staff"), ("click", "Sheet"), ("click", "Delete Sheet..."), ("click", "Yes")),
                 None)),
    Kind("calc/sort", "Sort the items by {header}, the {way} first, each row as a whole, and save.", _sort),
    Kind("calc/hide", "Hide all rows whose city is {gap}, and save.", _hide),
    Kind("calc/chart", "Make a column chart of {area} on the same sheet, without a title, and save.", _chart),
    Kind("calc/freeze", "Freeze the first row of the sheet Stock, and save with this sheet on view.", _freeze),
    Kind("calc/transpose", "Write A2:B4 to F2 with rows and columns exchanged, and save.", _transpose),
    Kind("calc/price", "What is the price of {item}? Answer with the number.", _ask, tags=("question",)),
    Kind("calc/most", "Which item has the most units? Answer with its name.", _ask_most, tags=("question",)),
    Kind("calc/absent-item", "Set the units of {item} to {value}, and save.", _absent_item, feasible=False),
    Kind("calc/absent-sheet", "Delete the sheet {name}, and save.", _absent_sheet, feasible=False),
)  # fmt: skip
