"""The tools of Calc, with the names and arguments of OSWorld-MCP; `Office` gives each itself, then the arguments.

In: names of cells, ranges and sheets of the active workbook. Out: what they did, or a `ToolFailure`.
"""

from __future__ import annotations

import re
from typing import Any

import uno
from com.sun.star.awt import Rectangle
from com.sun.star.table import CellAddress, TableSortField
from com.sun.star.table.CellHoriJustify import CENTER, LEFT, RIGHT

from .tools import ToolFailure, cell_place, choose, colour, column_number, plain, properties, range_name, range_place

MOST_ROWS = 400  # of a sheet that `env_info` tells
_CHARTS = {"bar": "BarDiagram", "column": "BarDiagram", "line": "LineDiagram", "pie": "PieDiagram"}
_CHARTS |= {"scatter": "XYDiagram", "area": "AreaDiagram"}


def _active(office: Any) -> Any:
    return office.document.CurrentController.ActiveSheet


def _named(office: Any, name: str) -> Any:
    sheets = office.document.Sheets
    if not sheets.hasByName(name):
        raise ToolFailure(f"there is no sheet {name!r}, but: {', '.join(sheets.ElementNames)}")
    return sheets.getByName(name)


def _area(office: Any, text: str) -> Any:
    """A range of the active sheet, or of the one that the text names ("Sheet1.A1:B2")."""
    name, dot, place = text.replace("!", ".").rpartition(".")
    sheet = _named(office, name.strip("$'")) if dot else _active(office)
    return sheet.getCellRangeByPosition(*range_place(place))


def _used(sheet: Any) -> Any:
    cursor = sheet.createCursor()
    cursor.gotoStartOfUsedArea(False)
    cursor.gotoEndOfUsedArea(True)
    return cursor


def get_workbook_info(office: Any) -> dict[str, Any]:
    sheets = office.document.Sheets
    return {
        "file_path": str(office.path),
        "file_name": office.path.name,
        "sheets": list(sheets.ElementNames),
        "sheet_count": sheets.Count,
        "active_sheet": _active(office).Name,
    }


def env_info(office: Any, sheet_name: str = "") -> dict[str, Any]:
    sheet = _named(office, sheet_name) if sheet_name else _active(office)
    used = _used(sheet)
    address = used.RangeAddress
    rows = [[plain(value) for value in row] for row in used.getDataArray()[:MOST_ROWS]]
    area = range_name(address.StartColumn, address.StartRow, address.EndColumn, address.EndRow)
    return {"sheet_name": sheet.Name, "range": area, "headers": rows[0], "data": rows[1:]}


def save(office: Any) -> None:
    office.save()


def get_column_data(office: Any, column_name: str) -> list[Any]:
    sheet = _active(office)
    last = _used(sheet).RangeAddress.EndRow
    number = column_number(column_name)
    return [plain(row[0]) for row in sheet.getCellRangeByPosition(number, 0, number, last).getDataArray()]


def switch_active_sheet(office: Any, sheet_name: str) -> None:
    sheets = office.document.Sheets
    if not sheets.hasByName(sheet_name):
        sheets.insertNewByName(sheet_name, sheets.Count)
    office.document.CurrentController.setActiveSheet(sheets.getByName(sheet_name))


def _put(cell: Any, value: Any) -> None:
    """A value as typing it would: a number where it is one, else text; a formula with commas or semicolons."""
    if isinstance(value, bool):
        cell.Formula = "=TRUE()" if value else "=FALSE()"
    elif isinstance(value, int | float):
        cell.Value = value
    elif value.startswith("="):
        cell.Formula = _with_semicolons(value)
        if cell.getError():
            error = cell.String
            raise ToolFailure(f"{value} gives {error}")
    else:
        cell.setFormula(value)


def _with_semicolons(formula: str) -> str:
    """A formula whose arguments are parted by commas, as UNO reads it: by semicolons; what is in quotes stays."""
    parts = re.split(r'("(?:[^"]|"")*")', formula)
    return "".join(part if k % 2 else part.replace(",", ";") for k, part in enumerate(parts))


def set_cell_value(office: Any, cell: str, value: Any) -> None:
    _put(_active(office).getCellByPosition(*cell_place(cell)), value)


def set_column_values(office: Any, column_name: str, data: list[Any], start_index: int = 2) -> None:
    if start_index < 1:
        raise ToolFailure("start_index counts rows from 1")
    number, sheet = column_number(column_name), _active(office)
    for k, value in enumerate(data):
        cell = sheet.getCellByPosition(number, start_index - 1 + k)
        if isinstance(value, str) and value.startswith("="):
            cell.String = value  # this tool writes no formulas
        else:
            _put(cell, "" if value is None else value)


def highlight_range(office: Any, range_str: str, color: str | int = "#FF0000") -> None:
    _area(office, range_str).CellBackColor = colour(color)


def format_range(
    office: Any, range_str: str, background_color: str = "", font_color: str = "", bold: bool | None = None,
    alignment: str = "",
) -> None:  # fmt: skip
    area = _area(office, range_str)
    if background_color:
        area.CellBackColor = colour(background_color)
    if font_color:
        area.CharColor = colour(font_color)
    if bold is not None:
        area.CharWeight = 150.0 if bold else 100.0
    if alignment:
        area.HoriJustify = choose(alignment, {"left": LEFT, "center": CENTER, "right": RIGHT}, "alignment")


def transpose_range(office: Any, source_range: str, target_cell: str) -> None:
    rows = _area(office, source_range).getDataArray()
    x, y = cell_place(target_cell)
    turned = tuple(zip(*rows))  # noqa: B905
    area = _active(office).getCellRangeByPosition(x, y, x + len(rows) - 1, y + len(rows[0]) - 1)
    area.setDataArray(turned)


def sort_column(office: Any, column_name: str, ascending: bool = True, start_index: int = 2) -> None:
    """The column alone, as its name says: other columns keep their order."""
    number, sheet = column_number(column_name), _active(office)
    area = sheet.getCellRangeByPosition(number, start_index - 1, number, _used(sheet).RangeAddress.EndRow)
    field = TableSortField(Field=0, IsAscending=ascending)
    fields = uno.Any("[]com.sun.star.table.TableSortField", (field,))
    uno.invoke(area, "sort", (properties(SortFields=fields, ContainsHeader=False),))


def hide_row_data(office: Any, value: str = "N/A") -> int:
    sheet = _active(office)
    used, hidden = _used(sheet), 0
    for k, row in enumerate(used.getDataArray()):
        if any(str(plain(item)) == str(value) for item in row):
            sheet.Rows.getByIndex(used.RangeAddress.StartRow + k).IsVisible = False
            hidden += 1
    return hidden


def reorder_columns(office: Any, column_order: list[str]) -> None:
    sheet = _active(office)
    last = _used(sheet).RangeAddress.EndRow
    numbers = [column_number(name) for name in column_order]
    if sorted(numbers) != list(range(len(numbers))):
        raise ToolFailure("column_order names each of the first columns once, e.g. ['B', 'A', 'C']")
    rows = sheet.getCellRangeByPosition(0, 0, len(numbers) - 1, last)
    old = rows.getFormulaArray()
    rows.setFormulaArray(tuple(tuple(row[k] for k in numbers) for row in old))


def create_pivot_table(
    office: Any, source_sheet: str, table_name: str, value_fields: list[str], row_fields: list[str] = (),
    col_fields: list[str] = (), aggregation_function: str = "sum", target_cell: str = "A1",
) -> None:  # fmt: skip
    source, active = _named(office, source_sheet), _active(office)
    functions = {"sum": "SUM", "count": "COUNT", "average": "AVERAGE", "min": "MIN", "max": "MAX"}
    function = choose(aggregation_function, functions, "aggregation function")
    tables = active.DataPilotTables
    if tables.hasByName(table_name):
        raise ToolFailure(f"there is a pivot table {table_name!r} already")
    descriptor = tables.createDataPilotDescriptor()
    used = _used(source)
    descriptor.setSourceRange(used.RangeAddress)
    headers = [str(value) for value in used.getDataArray()[0]]
    first = used.RangeAddress.StartColumn
    for way, names in (("ROW", row_fields), ("COLUMN", col_fields), ("DATA", value_fields)):
        for name in names:
            if name in headers:
                place = headers.index(name)
            else:
                place = column_number(name) - first  # as OSWorld-MCP names them: by the column
            if not 0 <= place < len(headers):
                raise ToolFailure(f"the sheet {source_sheet!r} has no field {name!r}, but: {', '.join(headers)}")
            field = descriptor.DataPilotFields.getByIndex(place)
            field.Orientation = uno.Enum("com.sun.star.sheet.DataPilotFieldOrientation", way)
            if way == "DATA":
                field.Function = uno.Enum("com.sun.star.sheet.GeneralFunction", function)
    x, y = cell_place(target_cell)
    tables.insertNewByName(table_name, CellAddress(Sheet=active.RangeAddress.Sheet, Column=x, Row=y), descriptor)


def merge_cells(office: Any, range_str: str) -> None:
    _area(office, range_str).merge(True)


def create_chart(
    office: Any, chart_type: str, data_range: str, title: str = "", x_axis_title: str = "", y_axis_title: str = ""
) -> str:
    kinds = {kind: kind for kind in ("bar", "column", "line", "pie", "scatter", "area")}
    kind = choose(chart_type, kinds, "type of chart")
    sheet = _active(office)
    areas = tuple(_area(office, part).RangeAddress for part in data_range.split(","))
    names = set(sheet.Charts.ElementNames)
    name = next(f"Chart{k}" for k in range(1, 1000) if f"Chart{k}" not in names)
    sheet.Charts.addNewByName(name, Rectangle(9000, 1000, 11000, 7000), areas, True, True)
    inner = sheet.Charts.getByName(name).EmbeddedObject
    inner.Diagram = inner.createInstance(f"com.sun.star.chart.{_CHARTS[kind]}")
    if kind == "bar":
        inner.Diagram.Vertical = True
    if title:
        inner.HasMainTitle = True
        inner.Title.String = title
    if x_axis_title and kind != "pie":
        inner.Diagram.HasXAxisTitle = True
        inner.Diagram.XAxisTitle.String = x_axis_title
    if y_axis_title and kind != "pie":
        inner.Diagram.HasYAxisTitle = True
        inner.Diagram.YAxisTitle.String = y_axis_title
    return name


def freeze_panes(office: Any, rows: int = 0, columns: int = 0) -> None:
    office.document.CurrentController.freezeAtPosition(columns, rows)


def rename_sheet(office: Any, old_name: str, new_name: str) -> None:
    sheet = _named(office, old_name)
    if office.document.Sheets.hasByName(new_name):
        raise ToolFailure(f"there is a sheet {new_name!r} already")
    sheet.Name = new_name


def copy_sheet(office: Any, source_sheet: str, new_sheet_name: str = "") -> str:
    _named(office, source_sheet)
    sheets = office.document.Sheets
    name = new_sheet_name or next(
        f"{source_sheet}_{k}" for k in range(2, 1000) if not sheets.hasByName(f"{source_sheet}_{k}")
    )
    if sheets.hasByName(name):
        raise ToolFailure(f"there is a sheet {name!r} already")
    sheets.copyByName(source_sheet, name, list(sheets.ElementNames).index(source_sheet) + 1)
    return name


def reorder_sheets(office: Any, sheet_name: str, position: int) -> None:
    sheets = office.document.Sheets
    _named(office, sheet_name)
    if not 0 <= position < sheets.Count:
        raise ToolFailure(f"position {position}: there are {sheets.Count} sheets, counted from 0")
    here = list(sheets.ElementNames).index(sheet_name)
    sheets.moveByName(sheet_name, position + (position > here))


def set_number_format(office: Any, range_str: str, format_type: str, decimal_places: int | None = None) -> None:
    zeros = "." + "0" * decimal_places if decimal_places else ""
    if decimal_places is None:
        zeros = ".00"
    codes = {
        "general": "General", "number": f"#,##0{zeros}", "currency": f"[$$-409]#,##0{zeros};-[$$-409]#,##0{zeros}",
        "accounting": f"[$$-409]#,##0{zeros};-[$$-409]#,##0{zeros}", "date": "YYYY-MM-DD", "time": "HH:MM:SS",
        "percentage": f"0{zeros}%", "fraction": "# ?/?", "scientific": f"0{zeros}E+00", "text": "@",
    }  # fmt: skip
    code = choose(format_type, codes, "type of format")
    formats, locale = office.document.NumberFormats, uno.createUnoStruct("com.sun.star.lang.Locale")
    locale.Language, locale.Country = "en", "US"
    key = formats.queryKey(code, locale, False)
    _area(office, range_str).NumberFormat = formats.addNew(code, locale) if key < 0 else key


CHARACTER, POINT = 212, 35.28  # 1/100 mm: of a digit of the standard font, of a point


def adjust_column_width(office: Any, columns: str, width: float | None = None, autofit: bool = False) -> None:
    first, _, last = columns.partition(":")
    sheet = _active(office)
    for number in range(column_number(first), column_number(last or first) + 1):
        if autofit:
            sheet.Columns.getByIndex(number).OptimalWidth = True
        elif width is not None and width > 0:
            sheet.Columns.getByIndex(number).Width = round(width * CHARACTER)
        else:
            raise ToolFailure("give a width above 0, or autofit")


def adjust_row_height(office: Any, rows: str, height: float | None = None, autofit: bool = False) -> None:
    first, _, last = rows.partition(":")
    if not first.isdigit() or not (last or first).isdigit():
        raise ToolFailure(f"{rows!r} are no rows: write 1:10")
    sheet = _active(office)
    for number in range(int(first) - 1, int(last or first)):
        if autofit:
            sheet.Rows.getByIndex(number).OptimalHeight = True
        elif height is not None and height > 0:
            sheet.Rows.getByIndex(number).Height = round(height * POINT)
        else:
            raise ToolFailure("give a height above 0, or autofit")


def set_zoom_level(office: Any, zoom_percentage: int) -> None:
    if not 10 <= zoom_percentage <= 400:
        raise ToolFailure("zoom_percentage is from 10 to 400")
    controller = office.document.CurrentController
    controller.ZoomType, controller.ZoomValue = 3, zoom_percentage


def export_to_csv(office: Any) -> str:
    target = office.path.with_suffix(".csv")
    options = properties(FilterName="Text - txt - csv (StarCalc)", FilterOptions="44,34,76,1,,0,false,true,false")
    office.document.storeToURL(target.as_uri(), options)
    return target.name


def export_to_pdf(office: Any, file_path: str = "", sheets: list[str] = (), open_after_export: bool = False) -> str:
    for name in sheets:
        _named(office, name)
    target = office.inside(file_path, ".pdf")
    if sheets:
        raise ToolFailure("this LibreOffice exports all sheets: leave `sheets` out")
    office.document.storeToURL(target.as_uri(), properties(FilterName="calc_pdf_Export"))
    return target.name


TOOLS = {
    function.__name__: function
    for function in (
        get_workbook_info, env_info, save, get_column_data, switch_active_sheet, set_column_values, highlight_range,
        transpose_range, export_to_csv, sort_column, hide_row_data, reorder_columns, create_pivot_table, merge_cells,
        set_cell_value, format_range, create_chart, freeze_panes, rename_sheet, copy_sheet, reorder_sheets,
        set_number_format, adjust_column_width, adjust_row_height, export_to_pdf, set_zoom_level,
    )
}  # fmt: skip
