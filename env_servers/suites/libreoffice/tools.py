"""Signatures of the tools, with the names and arguments of OSWorld-MCP (arXiv 2510.24563); `desktop` carries them out.

`SPECS`: by app. A tool's name is `libreoffice_<app>.<function>`.
"""

from __future__ import annotations

from typing import Any

from ..suite import ToolSpec

_Table = dict[str, tuple[str, dict[str, Any], dict[str, Any]]]  # name: text, required, optional arguments


def _of(kind: str, text: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "description": text, **more}


def _list(text: str, items: str = "string") -> dict[str, Any]:
    return _of("array", text, items={"type": items})


_RANGE = _of("string", "Range, such as A1:B10.")
_SHEET = _of("string", "Name of a sheet.")
_COLUMN = _of("string", "Column, such as A.")
_COLOUR = _of("string", "#RRGGBB or the name of a colour.")

_CALC: _Table = {
    "get_workbook_info": ("Path, name, sheets and active sheet of the workbook.", {}, {}),
    "env_info": ("Content of a sheet, the active one by default.", {}, {"sheet_name": _SHEET}),
    "save": ("Save the workbook where it is.", {}, {}),
    "get_column_data": ("All values of a column.", {"column_name": _COLUMN}, {}),
    "switch_active_sheet": ("Make a sheet active; it is made where there is none.", {"sheet_name": _SHEET}, {}),
    "set_column_values": (
        "Write values, no formulas, into a column.",
        {"column_name": _COLUMN, "data": _of("array", "Values.")},
        {"start_index": _of("integer", "First row, counted from 1; 2 by default.")},
    ),
    "highlight_range": ("Give a range a background colour.", {"range_str": _RANGE}, {"color": _COLOUR}),
    "transpose_range": (
        "Write a range to another place, rows as columns.",
        {"source_range": _RANGE, "target_cell": _of("string", "Upper left cell of the copy.")},
        {},
    ),
    "export_to_csv": ("Write the active sheet as CSV beside the workbook.", {}, {}),
    "sort_column": (
        "Sort the values of one column; other columns stay as they are.",
        {"column_name": _COLUMN},
        {
            "ascending": _of("boolean", "True by default."),
            "start_index": _of("integer", "First row, counted from 1; 2 by default."),
        },
    ),
    "hide_row_data": ("Hide the rows that hold a value.", {}, {"value": _of("string", "N/A by default.")}),
    "reorder_columns": (
        "Put the columns of the active sheet in another order.",
        {"column_order": _list("Columns in their new order, such as B, A, C.")},
        {},
    ),
    "create_pivot_table": (
        "Make a pivot table in the active sheet.",
        {"source_sheet": _SHEET, "table_name": _of("string", "Its name."), "value_fields": _list("Fields.")},
        {
            "row_fields": _list("Fields as rows."),
            "col_fields": _list("Fields as columns."),
            "aggregation_function": _of("string", "sum (default), count, average, min or max."),
            "target_cell": _of("string", "Its upper left cell; A1 by default."),
        },
    ),
    "merge_cells": ("Merge a range to one cell.", {"range_str": _RANGE}, {}),
    "set_cell_value": (
        "Write a value or, with = in front, a formula into a cell of the active sheet.",
        {"cell": _of("string", "Cell, such as A1."), "value": _of("string", "Value or formula.")},
        {},
    ),
    "format_range": (
        "Format a range of the active sheet.",
        {"range_str": _RANGE},
        {
            "background_color": _COLOUR,
            "font_color": _COLOUR,
            "bold": _of("boolean", "Bold or not."),
            "alignment": _of("string", "left, center or right."),
        },
    ),
    "create_chart": (
        "Make a chart in the active sheet.",
        {"chart_type": _of("string", "bar, column, line, pie, scatter or area."), "data_range": _RANGE},
        {
            "title": _of("string", "Title."),
            "x_axis_title": _of("string", "Title of the x axis."),
            "y_axis_title": _of("string", "Title of the y axis."),
        },
    ),
    "freeze_panes": (
        "Freeze rows and columns of the active sheet.",
        {},
        {"rows": _of("integer", "From the top."), "columns": _of("integer", "From the left.")},
    ),
    "rename_sheet": ("Rename a sheet.", {"old_name": _SHEET, "new_name": _SHEET}, {}),
    "copy_sheet": ("Copy a sheet.", {"source_sheet": _SHEET}, {"new_sheet_name": _SHEET}),
    "reorder_sheets": (
        "Move a sheet to another place.",
        {"sheet_name": _SHEET, "position": _of("integer", "Counted from 0.")},
        {},
    ),
    "set_number_format": (
        "Give a range a number format.",
        {
            "range_str": _RANGE,
            "format_type": _of(
                "string",
                "general, number, currency, accounting, date, time, percentage, fraction, scientific or text.",
            ),
        },
        {"decimal_places": _of("integer", "Decimal places.")},
    ),
    "adjust_column_width": (
        "Set the width of columns.",
        {"columns": _of("string", "Columns, such as A:C.")},
        {"width": _of("number", "In characters."), "autofit": _of("boolean", "As wide as the content.")},
    ),
    "adjust_row_height": (
        "Set the height of rows.",
        {"rows": _of("string", "Rows, such as 1:10.")},
        {"height": _of("number", "In points."), "autofit": _of("boolean", "As high as the content.")},
    ),
    "export_to_pdf": (
        "Write the workbook as PDF.",
        {},
        {
            "file_path": _of("string", "Where to; beside the workbook by default."),
            "sheets": _list("Sheets, all by default."),
            "open_after_export": _of("boolean", "Open it afterwards."),
        },
    ),
    "set_zoom_level": ("Set the zoom.", {"zoom_percentage": _of("integer", "From 10 to 400.")}, {}),
}

_PARAGRAPHS = {"paragraph_indices": _list("Paragraphs, counted from 0; all by default.", "integer")}
_PATTERN = _of("string", "Regular expression.")
_WRITER: _Table = {
    "save": ("Save the document where it is.", {}, {}),
    "env_info": ("All paragraphs with their numbers.", {}, {}),
    "write_text": (
        "Write text where the cursor is.",
        {"text": _of("string", "Text.")},
        {"bold": _of("boolean", "Bold."), "italic": _of("boolean", "Italic."), "size": _of("number", "Points.")},
    ),
    "set_color": ("Colour what matches.", {"pattern": _PATTERN, "color": _COLOUR}, _PARAGRAPHS),
    "find_and_replace": (
        "Replace what matches.",
        {"pattern": _PATTERN, "replacement": _of("string", "What stands there then.")},
        _PARAGRAPHS,
    ),
    "set_font": ("Set a font.", {"font_name": _of("string", "Font.")}, _PARAGRAPHS),
    "set_line_spacing": ("Set the line spacing.", {"spacing_value": _of("number", "Lines, 1 is single.")}, _PARAGRAPHS),
    "insert_formula_at_cursor": ("Insert a formula.", {"formula": _of("string", "Formula.")}, {}),
    "set_font_size": (
        "Set the size of what matches.",
        {"font_size": _of("number", "Points."), "pattern": _PATTERN},
        _PARAGRAPHS,
    ),
    "export_to_pdf": (
        "Write the document as PDF.",
        {},
        {
            "output_path": _of("string", "Where to; beside the document by default."),
            "output_filename": _of("string", "Name of the file."),
            "include_comments": _of("boolean", "With comments."),
            "quality": _of("string", "standard, high or print."),
        },
    ),
    "set_paragraph_alignment": (
        "Align paragraphs.",
        {"alignment": _of("string", "left, center, right or justify.")},
        _PARAGRAPHS,
    ),
    "set_default_font": (
        "Set the font of the default style.",
        {"font_name": _of("string", "Font.")},
        {"font_size": _of("number", "Points.")},
    ),
    "add_page_numbers": (
        "Number the pages.",
        {"position": _of("string", "bottom_left, bottom_center, bottom_right, top_left, top_center or top_right.")},
        {"start_number": _of("integer", "First number."), "format": _of("string", "1, Page 1, or 1 of N.")},
    ),
    "insert_page_break": ("Start a new page.", {}, {"position": _of("string", "at_cursor or end_of_document.")}),
}

_SLIDE = {"slide_index": _of("integer", "Slide, counted from 1.")}
_BOX = {**_SLIDE, "box_index": _of("integer", "Box of the slide, counted from 0.")}
_PATH = _of("string", "File, in the folder of the presentation.")
_IMPRESS: _Table = {
    "save": ("Save the presentation where it is.", {}, {}),
    "env_info": (
        "Content of slides.",
        {},
        {"page_indices": _list("Slides, counted from 1; all by default.", "integer")},
    ),
    "go_to_slide": ("Show a slide.", _SLIDE, {}),
    "get_slide_count": ("Number of slides.", {}, {}),
    "set_slide_font": ("Set the font of a slide.", {**_SLIDE, "font_name": _of("string", "Font.")}, {}),
    "write_text": (
        "Write text into a box.",
        {
            "content": _of("string", "Text."),
            "page_index": _of("integer", "Slide, counted from 1."),
            "box_index": _of("integer", "Box of the slide, counted from 0."),
        },
        {
            "bold": _of("boolean", "Bold."),
            "italic": _of("boolean", "Italic."),
            "size": _of("integer", "Points."),
            "append": _of("boolean", "Behind what is there."),
        },
    ),
    "set_style": (
        "Set the style of a box.",
        _BOX,
        {name: _of("boolean", f"{name.capitalize()} or not.") for name in ("bold", "italic", "underline")},
    ),
    "set_background_color": ("Set the background of a box.", {**_BOX, "color": _COLOUR}, {}),
    "set_text_color": ("Set the colour of the text of a box.", {**_BOX, "color": _COLOUR}, {}),
    "delete_content": ("Delete a box.", _BOX, {}),
    "set_slide_orientation": (
        "Turn the slides.",
        {"orientation": _of("string", "Which way.", enum=["portrait", "landscape"])},
        {},
    ),
    "position_box": (
        "Move a box.",
        {
            **_BOX,
            "position": _of(
                "string",
                "Where to.",
                enum="left right center top bottom top-left top-right bottom-left bottom-right".split(),
            ),
        },
        {},
    ),
    "set_slide_background": (
        "Set the background of a slide, or of all.",
        {},
        {**_SLIDE, "color": _COLOUR, "image_path": _of("string", "A picture.")},
    ),
    "set_text_strikethrough": (
        "Strike lines of a box through.",
        {**_BOX, "line_numbers": _list("Lines, counted from 1.", "integer"), "apply": _of("boolean", "Or no longer.")},
        {},
    ),
    "set_textbox_alignment": (
        "Align the text of a box.",
        {**_BOX, "alignment": _of("string", "Which way.", enum=["left", "center", "right", "justify"])},
        {},
    ),
    "duplicate_slide": (
        "Copy a slide.",
        {**_SLIDE, "target_position": _of("integer", "The copy lies behind this slide, counted from 1.")},
        {},
    ),
    "save_as": ("Write a copy.", {"file_path": _PATH}, {"overwrite": _of("boolean", "Over one that is there.")}),
    "export_to_image": (
        "Write a slide as a picture.",
        {"file_path": _PATH, "format": _of("string", "Kind.", enum=["png", "jpeg", "jpg", "gif", "bmp", "tiff"])},
        _SLIDE,
    ),
}

_TABLES: dict[str, _Table] = {"calc": _CALC, "writer": _WRITER, "impress": _IMPRESS}

SPECS: dict[str, tuple[ToolSpec, ...]] = {
    app: tuple(ToolSpec.of(f"libreoffice_{app}.{name}", *row) for name, row in table.items())
    for app, table in _TABLES.items()
}
