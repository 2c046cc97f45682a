"""The spreadsheet's scripts: the next move of each subtask from any state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps

from ...virtual.app import Element, Move, Slots, State
from ..office import HAND, fill_box, shown
from .content import COLS, LETTERS, ROWS, Row, ref

WHEEL = 260  # css px
Script = Callable[[State, Slots, Sequence[Element]], Move]


def rows_of(state: State) -> list[Row]:
    """The rows of the first sheet, which the tasks are about."""
    return next(sheet["rows"] for sheet in state["sheets"] if sheet["id"] == "s1")


def row_of(state: State, label: str) -> int:
    return next(y for y, row in enumerate(rows_of(state)) if row["cells"][0] == label)


def _calm(
    state: State, elements: Sequence[Element], menu: str = "", dialog: str = "", typing: bool = False
) -> Move | None:
    """Close menus, dialogs and the cell editor, but for those named; None where nothing is in the way."""
    if state["menu"] not in ("", menu) or state["dialog"]["kind"] not in ("", dialog):
        return HAND.keys("escape")
    return HAND.keys("escape") if state["edit"] is not None and not typing else None


def _on_sheet(state: State, elements: Sequence[Element], key: str = "s1", **kept: object) -> Move | None:
    """To the sheet with nothing in the way; None when there."""
    if move := _calm(state, elements, **kept):
        return move
    if state["sheets"][state["sheet"]]["id"] == key:
        return None
    return HAND.tap(elements, f"sheet {next(sheet['name'] for sheet in state['sheets'] if sheet['id'] == key)}")


def _see(elements: Sequence[Element], name: str, y: int) -> Move | None:
    """Scroll until `name`, in row `y` from 0, is on the screen; None when it is."""
    if shown(elements, name):
        return None
    seen = [int(element.name.split()[1]) - 1 for element in elements if element.name.startswith("row ")]
    return HAND.wheel(elements, "grid", WHEEL if seen and y <= min(seen) else -WHEEL)


def _pick(state: State, elements: Sequence[Element], x: int, y: int) -> Move | None:
    """Select one cell; None when it is selected."""
    if state["selection"] == [x, y, x, y]:
        return None
    return _see(elements, f"cell {ref(x, y)}", y) or HAND.tap(elements, f"cell {ref(x, y)}")


def _write(state: State, elements: Sequence[Element], x: int, y: int, text: str) -> Move:
    """Bring a cell to `text` by typing."""
    if state["edit"] is not None:
        right = state["edit"] == text and state["selection"] == [x, y, x, y]
        return HAND.keys("enter") if right else HAND.keys("escape")
    return _pick(state, elements, x, y) or HAND.type(text)


def _column(state: State, slots: Slots, slot: str) -> int:
    return rows_of(state)[0]["cells"].index(slots[slot])


def _looks(*names: str) -> Callable[[Script], Script]:
    """The decorated script for what the first sheet holds: each of the slots `names` is the text of a cell or the name
    of a sheet. Where one is not, the sheet and its tabs are looked through to the end, then the task is given up."""

    def decorate(move: Script) -> Script:
        @wraps(move)
        def looking(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
            rows = rows_of(state)
            held = {text for row in rows for text in row["cells"]} | {sheet["name"] for sheet in state["sheets"]}
            if all(slots[name] in held for name in names):
                return move(state, slots, elements)
            last = max(y for y, row in enumerate(rows) if row["cells"][0])
            return _on_sheet(state, elements) or _see(elements, f"row {last + 1}", last) or HAND.give_up()

        return looking

    return decorate


# --- cells -----------------------------------------------------------------------------------------------------------
@_looks("change_item")
def change(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    x, y = _column(state, slots, "change_column"), row_of(state, slots["change_item"])
    return _on_sheet(state, elements, typing=True) or _write(state, elements, x, y, slots["change_value"])


@_looks("total_column")
def total(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    x, y = _column(state, slots, "total_column"), row_of(state, "Total")
    text = f"={slots['total_function']}({ref(x, 1)}:{ref(x, y - 2)})"
    return _on_sheet(state, elements, typing=True) or _write(state, elements, x, y, text)


@_looks("clear_item")
def clear(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    x, y = _column(state, slots, "clear_column"), row_of(state, slots["clear_item"])
    return _on_sheet(state, elements) or _pick(state, elements, x, y) or HAND.keys("delete")


@_looks("copy_item")
def copy(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    x, y = _column(state, slots, "copy_column"), row_of(state, slots["copy_item"])
    if move := _on_sheet(state, elements):
        return move
    if state["clip"] != [[rows_of(state)[y]["cells"][x]]]:
        return _pick(state, elements, x, y) or HAND.keys("ctrl", "c")
    to, line = LETTERS.index(slots["copy_cell"][0]), int(slots["copy_cell"][1:]) - 1
    return _pick(state, elements, to, line) or HAND.keys("ctrl", "v")


@_looks("fill_item")
def fill(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    x, y = _column(state, slots, "fill_column"), row_of(state, slots["fill_item"])
    if move := _on_sheet(state, elements, menu="fill"):
        return move
    if state["selection"] != [x, y, x, y]:
        return HAND.keys("escape") if state["menu"] else _pick(state, elements, x, y)
    return HAND.tap(elements, f"{slots['colour']} fill" if state["menu"] else "fill colour")


# --- rows and columns ------------------------------------------------------------------------------------------------
def _cell_menu(state: State, elements: Sequence[Element], y: int, entry: str) -> Move:
    if move := _on_sheet(state, elements, menu="cell"):
        return move
    if state["menu"]:
        return HAND.tap(elements, entry) if state["selection"][1] == state["selection"][3] == y else HAND.keys("escape")
    if state["selection"] and state["selection"] != [0, y, 0, y]:
        return _pick(state, elements, 0, y)  # a right click inside a larger selection leaves it as it is
    return _see(elements, f"cell {ref(0, y)}", y) or HAND.context(elements, f"cell {ref(0, y)}")


@_looks("insert_item")
def insert(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    return _cell_menu(state, elements, row_of(state, slots["insert_item"]), "insert row above")


@_looks("delete_item")
def delete(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    return _cell_menu(state, elements, row_of(state, slots["delete_item"]), "delete row")


@_looks("sort_column")
def sort(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    order = "descending" if slots["sort_down"] else "ascending"
    return (
        _on_sheet(state, elements)
        or _pick(state, elements, _column(state, slots, "sort_column"), 1)
        or HAND.tap(elements, f"sort {order}")
    )


def header(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    if move := _on_sheet(state, elements):
        return move
    if state["selection"] == [0, 0, COLS - 1, 0]:
        return HAND.tap(elements, "bold")
    return _see(elements, "row 1", 0) or HAND.tap(elements, "row 1")


@_looks("money_column")
def money(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    x = _column(state, slots, "money_column")
    if move := _on_sheet(state, elements):
        return move
    if state["selection"] == [x, 0, x, ROWS - 1]:
        return HAND.tap(elements, "currency")
    return HAND.tap(elements, f"column {LETTERS[x]}")


@_looks("missing")
def missing(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """A row that the table does not have."""
    return _cell_menu(state, elements, row_of(state, slots["missing"]), "delete row")


# --- sheets ----------------------------------------------------------------------------------------------------------
def _named(state: State, slots: Slots, elements: Sequence[Element], slot: str, button: str) -> Move:
    return fill_box(elements, state, "name box", state["dialog"]["name"], slots[slot]) or HAND.tap(elements, button)


def add(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    if state["dialog"]["kind"] == "add":
        return _named(state, slots, elements, "added", "create")
    return _calm(state, elements) or HAND.tap(elements, "new sheet")


def rename(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    if move := _on_sheet(state, elements, dialog="rename"):
        return move
    if state["dialog"]["kind"] == "rename":
        return _named(state, slots, elements, "title", "rename")
    return HAND.mark(elements, f"sheet {next(one['name'] for one in state['sheets'] if one['id'] == 's1')}")


@_looks("drop")
def drop(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    here = state["sheets"][state["sheet"]]["id"] == slots["drop_id"]
    if move := _calm(state, elements, menu="tab" if here else "", dialog="delete" if here else ""):
        return move
    if state["dialog"]["kind"]:
        return HAND.tap(elements, "delete")
    return HAND.tap(elements, "delete sheet") if state["menu"] else HAND.context(elements, f"sheet {slots['drop']}")


@_looks("other")
def open_it(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    return _on_sheet(state, elements, slots["other_id"]) or HAND.keys("escape")


# --- questions -------------------------------------------------------------------------------------------------------
@_looks("ask_item")
def ask(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    y = row_of(state, slots["ask_item"])
    return _on_sheet(state, elements) or _see(elements, f"row {y + 1}", y) or HAND.answer(slots["ask_answer"])


@_looks("most_column")
def most(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    y = row_of(state, slots["most_answer"])
    return _on_sheet(state, elements) or _see(elements, f"row {y + 1}", y) or HAND.answer(slots["most_answer"])
