"""What the tasks of the spreadsheet are about, and what each subtask does to a state."""

from __future__ import annotations

from typing import Any

from ...virtual.app import Slots, State
from .content import COLOURS, LETTERS, ROWS, Row, blank, moved, ref, value
from .script import row_of, rows_of


def outcome(state: State) -> dict[str, Any]:
    """Of every sheet: its name, which row stands above each row and how many empty ones in between, and each cell that
    is not empty: what it comes to and its looks, by the row's first cell and the column's letter."""
    found: dict[str, Any] = {}
    for sheet in state["sheets"]:
        key, above, empty, labels = sheet["id"], "", 0, []
        found[f"name:{key}"] = sheet["name"]
        for y, row in enumerate(sheet["rows"]):
            if not any(row["cells"]):
                empty += 1
                continue
            label = row["cells"][0] or f"row {y + 1}"
            label += "'" * labels.count(label)
            labels.append(label)
            found[f"above:{key}:{label}"], above, empty = [above, empty], label, 0
            for x, text in enumerate(row["cells"]):
                if text:
                    shape = "formula" if text.startswith("=") else "text"
                    found[f"cell:{key}:{label}:{LETTERS[x]}"] = [shape, value(sheet["rows"], x, y), row["looks"][x]]
    return found


def _spot(state: State, slots: Slots, name: str) -> tuple[Row, int]:
    rows = rows_of(state)
    return rows[row_of(state, slots[f"{name}_item"])], rows[0]["cells"].index(slots[f"{name}_column"])


def _put(name: str, text: str):
    def effect(state: State, slots: Slots) -> None:
        row, x = _spot(state, slots, name)
        row["cells"][x] = slots[text] if text else ""

    return effect


def _total(state: State, slots: Slots) -> None:
    rows = rows_of(state)
    x, y = rows[0]["cells"].index(slots["total_column"]), row_of(state, "Total")
    rows[y]["cells"][x] = f"={slots['total_function']}({ref(x, 1)}:{ref(x, y - 2)})"


def _copy(state: State, slots: Slots) -> None:
    row, x = _spot(state, slots, "copy")
    rows_of(state)[int(slots["copy_cell"][1:]) - 1]["cells"][LETTERS.index(slots["copy_cell"][0])] = row["cells"][x]


def _look(row: Row, x: int, word: str) -> None:
    row["looks"][x] = " ".join(sorted({*row["looks"][x].split(), word}))


def _fill(state: State, slots: Slots) -> None:
    row, x = _spot(state, slots, "fill")
    row["looks"][x] = " ".join(sorted({*row["looks"][x].split()} - {*COLOURS} | {slots["colour"]}))


def _insert(state: State, slots: Slots) -> None:
    rows, y = rows_of(state), row_of(state, slots["insert_item"])
    moved(rows, y, 1)
    rows.insert(y, blank())
    del rows[ROWS:]


def _delete(state: State, slots: Slots) -> None:
    rows, y = rows_of(state), row_of(state, slots["delete_item"])
    del rows[y]
    rows.append(blank())
    moved(rows, y, -1)


def _sort(state: State, slots: Slots) -> None:
    rows = rows_of(state)
    x, end = rows[0]["cells"].index(slots["sort_column"]), next(y for y, row in enumerate(rows) if not row["cells"][0])

    def key(row: Row) -> tuple[bool, float | str]:
        text = row["cells"][x]
        return (False, float(text)) if text.isdigit() else (True, text.lower())

    rows[1:end] = sorted(rows[1:end], key=key, reverse=slots["sort_down"])


def _header(state: State, slots: Slots) -> None:
    for x in range(len(LETTERS)):
        _look(rows_of(state)[0], x, "bold")


def _money(state: State, slots: Slots) -> None:
    x = rows_of(state)[0]["cells"].index(slots["money_column"])
    for row in rows_of(state):
        _look(row, x, "currency")


def _add(state: State, slots: Slots) -> None:
    number = max(int(sheet["id"][1:]) for sheet in state["sheets"]) + 1
    state["sheets"].append({"id": f"s{number}", "name": slots["added"], "rows": []})


def _rename(state: State, slots: Slots) -> None:
    next(sheet for sheet in state["sheets"] if sheet["id"] == "s1")["name"] = slots["title"]


def _drop(state: State, slots: Slots) -> None:
    state["sheets"] = [sheet for sheet in state["sheets"] if sheet["id"] != slots["drop_id"]]


EFFECTS = {
    "change": _put("change", "change_value"), "clear": _put("clear", ""), "total": _total, "copy": _copy, "fill": _fill,
    "insert": _insert, "delete": _delete, "sort": _sort, "header": _header, "money": _money,
    "add": _add, "rename": _rename, "drop": _drop,
}  # fmt: skip


def asked(state: State, slots: Slots) -> str:
    row, x = _spot(state, slots, "ask")
    return row["cells"][x]


def most(state: State, slots: Slots) -> str:
    rows = rows_of(state)
    x = rows[0]["cells"].index(slots["most_column"])
    named = [row for row in rows[1:] if row["cells"][0] not in ("", "Total") and row["cells"][x].isdigit()]
    return max(named, key=lambda row: int(row["cells"][x]))["cells"][0]
