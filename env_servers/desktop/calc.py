"""Calc: what is true of a workbook, and the tools that act on it (names and arguments as in OSWorld-MCP).

A workbook's facts hold what differs from an empty one, so that equal work gives equal facts:

    {"sheets": [{"name", "cells": {"A1": text | number | ["=", value]}, "formats": {"A1": {"bold": true, ...}},
                 "merged": ["A1:B1"], "widths": {"A": 1/100 mm}, "heights": {"1": ...}, "hidden_columns": ["B"],
                 "hidden_rows": [3], "charts": [{"type", "ranges", "title"}], "pivots": [...]}],
     "frozen": [columns, rows] of the sheet on view, "names": {name: content}}

A key that would be empty is left out. `Office` gives the functions of `TOOLS` itself, then the tool's arguments.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .calc_tools import TOOLS as TOOLS
from .tools import cell_place, column_name, hexadecimal, plain, range_name

SERVICE = "com.sun.star.sheet.SpreadsheetDocument"
MOST_COLUMNS, MOST_ROWS = 64, 400  # of a sheet that the facts look at
_FORMATS = ("CellBackColor", "CharColor", "CharHeight", "CharPosture", "CharUnderline", "CharWeight", "HoriJustify")
_FORMATS += ("IsTextWrapped", "NumberFormat")
_ALIGNED = {"LEFT": "left", "CENTER": "center", "RIGHT": "right", "BLOCK": "justify"}


# --- facts -----------------------------------------------------------------------------------------------------------
def facts(document: Any) -> dict[str, Any]:
    """See the module."""
    sheets = document.Sheets
    found: dict[str, Any] = {"sheets": [_sheet(document, sheets.getByIndex(k)) for k in range(sheets.Count)]}
    if names := _names(document):
        found["names"] = names
    if frozen := _frozen(document):
        found["frozen"] = frozen
    return found


def _names(document: Any) -> dict[str, str]:
    ranges = document.NamedRanges
    return {name: ranges.getByName(name).Content for name in ranges.ElementNames}


def _frozen(document: Any) -> list[int]:
    """Columns and rows of the sheet on view that do not scroll; [] for none."""
    view = document.CurrentController
    return [view.getSplitColumn(), view.getSplitRow()] if view is not None and view.hasFrozenPanes() else []


def _sheet(document: Any, sheet: Any) -> dict[str, Any]:
    cursor = sheet.createCursor()
    cursor.gotoEndOfUsedArea(False)
    end = cursor.RangeAddress
    columns, rows = min(end.EndColumn + 1, MOST_COLUMNS), min(end.EndRow + 1, MOST_ROWS)
    used = sheet.getCellRangeByPosition(0, 0, columns - 1, rows - 1)
    found: dict[str, Any] = {"name": sheet.Name, "cells": _cells(used)}
    more = {
        "formats": _formats(document, used, columns, rows),
        "merged": _merged(sheet, used),
        "hidden_columns": [column_name(k) for k in range(columns) if not sheet.Columns.getByIndex(k).IsVisible],
        "hidden_rows": _hidden_rows(used),
        "widths": _widths(sheet, columns),
        "charts": _charts(sheet),
        "pivots": _pivots(sheet),
    }
    return {**found, **{key: value for key, value in more.items() if value}}


def _cells(used: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for y, (values, formulas) in enumerate(zip(used.getDataArray(), used.getFormulaArray())):  # noqa: B905
        for x, (value, formula) in enumerate(zip(values, formulas)):  # noqa: B905
            if formula.startswith("=") and value != formula:
                found[f"{column_name(x)}{y + 1}"] = ["=", plain(value)]
            elif value != "":
                found[f"{column_name(x)}{y + 1}"] = plain(value)
    return found


def _formats(document: Any, used: Any, columns: int, rows: int) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    kinds = used.getUniqueCellFormatRanges()
    for k in range(kinds.Count):
        ranges = kinds.getByIndex(k)
        given = _format(document, dict(zip(_FORMATS, ranges.getPropertyValues(_FORMATS))))  # noqa: B905
        if not given:
            continue
        for area in ranges.RangeAddresses:
            for y in range(area.StartRow, min(area.EndRow, rows - 1) + 1):
                for x in range(area.StartColumn, min(area.EndColumn, columns - 1) + 1):
                    found[f"{column_name(x)}{y + 1}"] = given
    return dict(sorted(found.items(), key=lambda item: cell_place(item[0])[::-1]))


def _format(document: Any, given: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if given["CellBackColor"] >= 0:
        found["fill"] = hexadecimal(given["CellBackColor"])
    if given["CharColor"] >= 0:
        found["colour"] = hexadecimal(given["CharColor"])
    if given["CharHeight"] != 10:
        found["size"] = plain(given["CharHeight"])
    if given["CharWeight"] > 100:
        found["bold"] = True
    if given["CharPosture"].value != "NONE":
        found["italic"] = True
    if given["CharUnderline"]:
        found["underline"] = True
    if given["HoriJustify"].value in _ALIGNED:
        found["align"] = _ALIGNED[given["HoriJustify"].value]
    if given["IsTextWrapped"]:
        found["wrap"] = True
    if given["NumberFormat"]:
        code = document.NumberFormats.getByKey(given["NumberFormat"]).FormatString
        if code != "General":
            found["number"] = code
    return found


def _merged(sheet: Any, used: Any) -> list[str]:
    """Every merged range that begins in the used area."""
    if not used.getIsMerged():  # none of its cells is
        return []
    found, end = set(), used.RangeAddress
    for y in range(end.EndRow + 1):
        for x in range(end.EndColumn + 1):
            cell = sheet.getCellByPosition(x, y)
            if cell.getIsMerged():
                cursor = sheet.createCursorByRange(cell)
                cursor.collapseToMergedArea()
                a = cursor.RangeAddress
                found.add(range_name(a.StartColumn, a.StartRow, a.EndColumn, a.EndRow))
    return sorted(found)


def _hidden_rows(used: Any) -> list[int]:
    shown: set[int] = set()
    areas = used.queryVisibleCells().RangeAddresses
    for area in areas:
        shown.update(range(area.StartRow, area.EndRow + 1))
    if not areas:  # every column is hidden, or every row
        return []
    return [y + 1 for y in range(used.RangeAddress.EndRow + 1) if y not in shown]


def _widths(sheet: Any, columns: int) -> dict[str, int]:
    standard = sheet.Columns.getByIndex(columns + 1).Width
    widths = {column_name(k): sheet.Columns.getByIndex(k).Width for k in range(columns)}
    return {name: width for name, width in widths.items() if abs(width - standard) > 1 and width > 0}


_CHARTS = {"LineDiagram": "line", "PieDiagram": "pie", "XYDiagram": "scatter", "AreaDiagram": "area"}


def _charts(sheet: Any) -> list[dict[str, Any]]:
    found = []
    for k in range(sheet.Charts.Count):
        chart = sheet.Charts.getByIndex(k)
        inner = chart.EmbeddedObject
        kind = inner.Diagram.getDiagramType().rpartition(".")[2]
        if kind == "BarDiagram":
            kind = "bar" if inner.Diagram.Vertical else "column"
        else:
            kind = _CHARTS.get(kind, kind)
        ranges = [range_name(a.StartColumn, a.StartRow, a.EndColumn, a.EndRow) for a in chart.Ranges]
        title = inner.Title.String if inner.HasMainTitle else ""
        found.append({"type": kind, "ranges": sorted(ranges), "title": title})
    return sorted(found, key=lambda one: (one["ranges"], one["type"]))


_WAYS = {"HIDDEN": None, "COLUMN": "columns", "ROW": "rows", "PAGE": "pages", "DATA": "values"}


def _pivots(sheet: Any) -> list[dict[str, Any]]:
    found = []
    for name in sheet.DataPilotTables.ElementNames:
        table = sheet.DataPilotTables.getByName(name)
        one: dict[str, Any] = {"columns": [], "rows": [], "pages": [], "values": []}
        fields = table.DataPilotFields
        for k in range(fields.Count):
            field = fields.getByIndex(k)
            way = _WAYS[field.Orientation.value]
            if way == "values":
                one["values"].append([field.Name, field.Function.value.lower()])
            elif way and field.Name != "Data":
                one[way].append(field.Name)
        source, out = table.SourceRange, table.OutputRange
        one["source"] = range_name(source.StartColumn, source.StartRow, source.EndColumn, source.EndRow)
        one["at"] = range_name(out.StartColumn, out.StartRow, out.StartColumn, out.StartRow)
        found.append({key: value for key, value in one.items() if value})
    return found


# --- the screen ------------------------------------------------------------------------------------------------------
def home(document: Any) -> None:
    """The view as every episode begins: A1 of the first sheet."""
    controller = document.CurrentController
    controller.setActiveSheet(document.Sheets.getByIndex(0))
    controller.select(document.Sheets.getByIndex(0).getCellByPosition(0, 0))


def cells(document: Any, table: Any) -> Iterator[tuple[str, Any]]:
    """Name and accessible context of every cell of the used area that is in view, and of one column and row beyond."""
    seen = document.CurrentController.VisibleRange
    cursor = document.CurrentController.ActiveSheet.createCursor()
    cursor.gotoEndOfUsedArea(False)
    end = cursor.RangeAddress
    for y in range(seen.StartRow, min(seen.EndRow, end.EndRow + 1) + 1):
        for x in range(seen.StartColumn, min(seen.EndColumn, end.EndColumn + 1) + 1):
            yield f"{column_name(x)}{y + 1}", table.getAccessibleCellAt(y, x).getAccessibleContext()


def named(names: list[str]) -> list[str]:
    """Names of elements as sentences say them: the Name Box is called by what it holds."""
    place = names.index("Formula Tool Bar") + 1 if "Formula Tool Bar" in names else len(names)
    return ["Name Box" if k == place else name for k, name in enumerate(names)]


def selection(document: Any) -> str:
    """What is selected: "Sheet.A1:B2"; several ranges with commas between."""
    selected = document.CurrentSelection
    if selected is None or not hasattr(selected, "AbsoluteName") and not hasattr(selected, "RangeAddressesAsString"):
        return ""
    if hasattr(selected, "AbsoluteName"):
        return selected.AbsoluteName.replace("$", "")
    return selected.RangeAddressesAsString.replace(";", ",")
