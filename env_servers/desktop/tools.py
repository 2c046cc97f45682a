"""What the tools of all apps share: their failure, colours, cell names."""

from __future__ import annotations

import re
from typing import Any

_NAMED = {
    "black": 0x000000, "white": 0xFFFFFF, "red": 0xFF0000, "green": 0x008000, "blue": 0x0000FF, "yellow": 0xFFFF00,
    "orange": 0xFFA500, "purple": 0x800080, "gray": 0x808080, "grey": 0x808080, "pink": 0xFFC0CB, "cyan": 0x00FFFF,
    "brown": 0xA52A2A, "magenta": 0xFF00FF, "lightgray": 0xD3D3D3, "darkblue": 0x00008B, "darkgreen": 0x006400,
}  # fmt: skip
_CELL = re.compile(r"\$?([A-Za-z]{1,3})\$?([1-9]\d{0,6})")


class ToolFailure(Exception):
    """A tool that cannot do what it was asked; its text is for whoever asked."""


def colour(value: str | int) -> int:
    """0xRRGGBB of "#RRGGBB", "0xRRGGBB", a decimal number or a name; ToolFailure for anything else."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 0xFFFFFF:
        return value
    text = str(value).strip().lower()
    if text in _NAMED:
        return _NAMED[text]
    if match := re.fullmatch(r"(?:#|0x)([0-9a-f]{6})", text):
        return int(match[1], 16)
    if text.isdigit() and int(text) <= 0xFFFFFF:
        return int(text)
    raise ToolFailure(f"{value!r} is no colour: write #RRGGBB")


def hexadecimal(value: int) -> str:
    """ "#rrggbb" of a colour; "" for none (-1)."""
    return "" if value < 0 else f"#{value & 0xFFFFFF:06x}"


def column_number(name: str) -> int:
    """0-based number of a column: A is 0, Z 25, AA 26. ToolFailure for no such name."""
    if not re.fullmatch(r"[A-Za-z]{1,3}", name.strip()):
        raise ToolFailure(f"{name!r} is no column: write A, B, … AA")
    number = 0
    for letter in name.strip().upper():
        number = 26 * number + ord(letter) - ord("A") + 1
    return number - 1


def column_name(number: int) -> str:
    """The column's name: 0 is A, 26 is AA."""
    name, number = "", number + 1
    while number:
        number, rest = divmod(number - 1, 26)
        name = chr(ord("A") + rest) + name
    return name


def cell_place(cell: str) -> tuple[int, int]:
    """(column, row), both from 0, of a reference such as AB12. ToolFailure for none."""
    match = _CELL.fullmatch(cell.strip())
    if not match:
        raise ToolFailure(f"{cell!r} is no cell: write A1")
    return column_number(match[1]), int(match[2]) - 1


def range_place(text: str) -> tuple[int, int, int, int]:
    """(first column, first row, last column, last row) of "A1:B10" or "A1"."""
    first, _, last = text.partition(":")
    (x0, y0), (x1, y1) = cell_place(first), cell_place(last or first)
    return min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)


def range_name(x0: int, y0: int, x1: int, y1: int) -> str:
    """ "A1:B10"."""
    first, last = f"{column_name(x0)}{y0 + 1}", f"{column_name(x1)}{y1 + 1}"
    return first if first == last else f"{first}:{last}"


def choose(value: Any, choices: dict[str, Any], what: str) -> Any:
    """The choice called `value`; ToolFailure that lists them for anything else."""
    if str(value).lower() not in choices:
        raise ToolFailure(f"{value!r} is no {what}; choose one of: {', '.join(choices)}")
    return choices[str(value).lower()]


def properties(**values: Any) -> tuple:
    """UNO's named values. Only where UNO is."""
    import uno

    made = []
    for name, value in values.items():
        one = uno.createUnoStruct("com.sun.star.beans.PropertyValue")
        one.Name, one.Value = name, value
        made.append(one)
    return tuple(made)


def plain(value: Any) -> Any:
    """A number as JSON has it best: whole ones without a point, others to nine places; anything else as it is."""
    if not isinstance(value, float):
        return value
    return int(value) if value.is_integer() else round(value, 9)
