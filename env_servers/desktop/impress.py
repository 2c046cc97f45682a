"""Impress: what is true of a presentation, and the tools that act on it (names and arguments as in OSWorld-MCP).

A presentation's facts:

    {"slides": [{"boxes": [{"text", "kind": "title" | "outline" | "text", "bold", "italic", "underline", "struck",
                            "size", "font", "colour", "fill", "align"}], "background": colour, "notes": text}],
     "orientation": "portrait"}

Boxes are in the slide's own order; placeholders that are empty have the text "". A usual value is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import uno

from .tools import ToolFailure, choose, colour, hexadecimal, properties

SERVICE = "com.sun.star.presentation.PresentationDocument"
_KINDS = {"com.sun.star.presentation.TitleTextShape": "title", "com.sun.star.presentation.OutlinerShape": "outline"}
_ALIGNED = {0: "left", 1: "right", 2: "justify", 3: "center"}


# --- facts -----------------------------------------------------------------------------------------------------------
def facts(document: Any) -> dict[str, Any]:
    """See the module."""
    pages = document.DrawPages
    found: dict[str, Any] = {"slides": [_slide(pages.getByIndex(k)) for k in range(pages.Count)]}
    first = pages.getByIndex(0)
    if first.Height > first.Width:
        found["orientation"] = "portrait"
    return found


def _slide(page: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"boxes": [_box(shape) for shape in _boxes(page)]}
    if page.Background is not None and page.Background.FillStyle.value == "SOLID":
        found["background"] = hexadecimal(page.Background.FillColor)
    return found


def _boxes(page: Any) -> list[Any]:
    """The shapes of a slide that hold text."""
    shapes = [page.getByIndex(k) for k in range(page.Count)]
    return [shape for shape in shapes if shape.supportsService("com.sun.star.drawing.Text")]


def _box(shape: Any) -> dict[str, Any]:
    empty = getattr(shape, "IsEmptyPresentationObject", False)
    found: dict[str, Any] = {"text": "" if empty else shape.String, "kind": _KINDS.get(shape.ShapeType, "text")}
    if shape.FillStyle.value == "SOLID":
        found["fill"] = hexadecimal(shape.FillColor)
    if empty or not shape.String:
        return found
    cursor = shape.createTextCursor()
    cursor.gotoStart(False)
    cursor.gotoEnd(True)
    direct = "DIRECT_VALUE"
    names = ("CharWeight", "CharPosture", "CharUnderline", "CharStrikeout", "CharHeight", "CharFontName", "CharColor",
             "ParaAdjust")  # fmt: skip
    set_by_hand = [n for n in names if direct in (cursor.getPropertyState(n).value, shape.getPropertyState(n).value)]
    values = {name: getattr(cursor, name) for name in set_by_hand}
    if values.get("CharWeight", 100) > 100:
        found["bold"] = True
    if "CharPosture" in values and values["CharPosture"].value != "NONE":
        found["italic"] = True
    if values.get("CharUnderline"):
        found["underline"] = True
    if values.get("CharStrikeout"):
        found["struck"] = True
    if "CharHeight" in values:
        found["size"] = round(values["CharHeight"], 1)
    if "CharFontName" in values:
        found["font"] = values["CharFontName"]
    if "CharColor" in values and values["CharColor"] >= 0:
        found["colour"] = hexadecimal(values["CharColor"])
    if "ParaAdjust" in values:
        found["align"] = _ALIGNED.get(values["ParaAdjust"], "justify")
    return found


# --- the screen ------------------------------------------------------------------------------------------------------
def home(document: Any) -> None:
    """The view as every episode begins: the first slide."""
    document.CurrentController.setCurrentPage(document.DrawPages.getByIndex(0))


def selection(document: Any) -> str:
    """Number of the slide that is shown, and the kinds of the selected boxes."""
    number = document.CurrentController.CurrentPage.Number
    selected = document.CurrentSelection
    shapes = [] if selected is None or not hasattr(selected, "Count") else range(selected.Count)
    kinds = [_KINDS.get(getattr(selected.getByIndex(k), "ShapeType", ""), "text") for k in shapes]
    return f"{number}: {', '.join(kinds)}"


def cells(document: Any, table: Any) -> Iterator[tuple[str, Any]]:
    """Nothing of a presentation has very many parts."""
    return iter(())


def named(names: list[str]) -> list[str]:
    """Names of elements as sentences say them."""
    return names


# --- tools -----------------------------------------------------------------------------------------------------------
def _page(office: Any, number: int) -> Any:
    pages = office.document.DrawPages
    if not 1 <= number <= pages.Count:
        raise ToolFailure(f"there is no slide {number}: they are counted from 1 to {pages.Count}")
    return pages.getByIndex(number - 1)


def _shape(office: Any, slide_index: int, box_index: int) -> Any:
    boxes = _boxes(_page(office, slide_index))
    if not 0 <= box_index < len(boxes):
        raise ToolFailure(
            f"there is no box {box_index} on slide {slide_index}: they are counted from 0 to {len(boxes) - 1}"
        )
    return boxes[box_index]


def save(office: Any) -> None:
    office.save()


def env_info(office: Any, page_indices: list[int] | None = None) -> list[dict[str, Any]]:
    numbers = page_indices or range(1, office.document.DrawPages.Count + 1)
    return [
        {"page": n, "boxes": [{"box_index": k, **_box(one)} for k, one in enumerate(_boxes(_page(office, n)))]}
        for n in numbers
    ]


def go_to_slide(office: Any, slide_index: int) -> None:
    office.document.CurrentController.setCurrentPage(_page(office, slide_index))


def get_slide_count(office: Any) -> int:
    return office.document.DrawPages.Count


def set_slide_font(office: Any, slide_index: int, font_name: str) -> None:
    for shape in _boxes(_page(office, slide_index)):
        shape.CharFontName = font_name


def write_text(
    office: Any, content: str, page_index: int, box_index: int, bold: bool = False, italic: bool = False,
    size: int | None = None, append: bool = False,
) -> None:  # fmt: skip
    shape = _shape(office, page_index, box_index)
    shape.String = f"{shape.String}{content}" if append else content
    if bold:
        shape.CharWeight = 150.0
    if italic:
        shape.CharPosture = uno.Enum("com.sun.star.awt.FontSlant", "ITALIC")
    if size:
        shape.CharHeight = float(size)


def set_style(
    office: Any, slide_index: int, box_index: int, bold: bool | None = None, italic: bool | None = None,
    underline: bool | None = None,
) -> None:  # fmt: skip
    shape = _shape(office, slide_index, box_index)
    if bold is not None:
        shape.CharWeight = 150.0 if bold else 100.0
    if italic is not None:
        shape.CharPosture = uno.Enum("com.sun.star.awt.FontSlant", "ITALIC" if italic else "NONE")
    if underline is not None:
        shape.CharUnderline = 1 if underline else 0


def set_background_color(office: Any, slide_index: int, box_index: int, color: str) -> None:
    shape = _shape(office, slide_index, box_index)
    tint = colour(color)
    shape.FillStyle = uno.Enum("com.sun.star.drawing.FillStyle", "SOLID")
    shape.FillColor = tint


def set_text_color(office: Any, slide_index: int, box_index: int, color: str) -> None:
    _shape(office, slide_index, box_index).CharColor = colour(color)


def delete_content(office: Any, slide_index: int, box_index: int) -> None:
    shape = _shape(office, slide_index, box_index)
    _page(office, slide_index).remove(shape)


def set_slide_orientation(office: Any, orientation: str) -> None:
    choose(orientation, {"portrait": 0, "landscape": 1}, "orientation")
    pages = office.document.DrawPages
    for k in range(pages.Count):
        page = pages.getByIndex(k)
        short, long = sorted((page.Width, page.Height))
        page.Width, page.Height = (short, long) if orientation == "portrait" else (long, short)


def position_box(office: Any, slide_index: int, box_index: int, position: str) -> None:
    shape, page = _shape(office, slide_index, box_index), _page(office, slide_index)
    names = "left right center top bottom top-left top-right bottom-left bottom-right".split()
    choose(position, dict.fromkeys(names), "position")
    width, height = page.Width - shape.Size.Width, page.Height - shape.Size.Height
    at = uno.createUnoStruct("com.sun.star.awt.Point")
    at.X = 0 if "left" in position else width if "right" in position else width // 2
    at.Y = 0 if "top" in position else height if "bottom" in position else height // 2
    shape.Position = at


def set_slide_background(office: Any, slide_index: int | None = None, color: str = "", image_path: str = "") -> None:
    if image_path:
        raise ToolFailure("there are no pictures here: give a color")
    tint, pages = colour(color), office.document.DrawPages
    for number in [slide_index] if slide_index is not None else range(1, pages.Count + 1):
        background = office.document.createInstance("com.sun.star.drawing.Background")
        background.FillStyle = uno.Enum("com.sun.star.drawing.FillStyle", "SOLID")
        background.FillColor = tint
        _page(office, number).Background = background


def set_text_strikethrough(office: Any, slide_index: int, box_index: int, line_numbers: list[int], apply: bool) -> None:
    shape = _shape(office, slide_index, box_index)
    lines = []
    walk = shape.createEnumeration()
    while walk.hasMoreElements():
        lines.append(walk.nextElement())
    for number in line_numbers:
        if not 1 <= number <= len(lines):
            raise ToolFailure(f"there is no line {number}: they are counted from 1 to {len(lines)}")
        lines[number - 1].CharStrikeout = 1 if apply else 0


def set_textbox_alignment(office: Any, slide_index: int, box_index: int, alignment: str) -> None:
    ways = {"left": 0, "right": 1, "justify": 2, "center": 3}
    _shape(office, slide_index, box_index).ParaAdjust = uno.Enum(
        "com.sun.star.style.ParagraphAdjust", ("LEFT", "RIGHT", "BLOCK", "CENTER")[choose(alignment, ways, "alignment")]
    )


def duplicate_slide(office: Any, slide_index: int, target_position: int) -> None:
    document, page = office.document, _page(office, slide_index)
    if not 1 <= target_position <= document.DrawPages.Count:
        raise ToolFailure(f"target_position is from 1 to {document.DrawPages.Count}")
    document.duplicate(page)
    copy = document.DrawPages.getByIndex(slide_index)  # it lies right behind
    if target_position != slide_index:
        raise ToolFailure(f"the copy lies behind slide {slide_index}: this LibreOffice moves no slides by tools")
    office.document.CurrentController.setCurrentPage(copy)


def save_as(office: Any, file_path: str, overwrite: bool = False) -> str:
    target = office.inside(file_path, ".odp")
    if target.exists() and not overwrite:
        raise ToolFailure(f"{target.name} is there already: set overwrite")
    office.document.storeToURL(target.as_uri(), ())
    return target.name


def export_to_image(office: Any, file_path: str, format: str, slide_index: int | None = None) -> str:
    kinds = {"png": "png", "jpeg": "jpg", "jpg": "jpg", "gif": "gif", "bmp": "bmp", "tiff": "tif"}
    choose(format, kinds, "format")
    target = office.inside(file_path, f".{format}")
    office.document.CurrentController.setCurrentPage(_page(office, slide_index or 1))
    name = {"jpeg": "jpg", "tiff": "tif"}.get(format, format)
    office.document.storeToURL(target.as_uri(), properties(FilterName=f"impress_{name}_Export"))
    return target.name


TOOLS = {
    function.__name__: function
    for function in (
        save, env_info, go_to_slide, get_slide_count, set_slide_font, write_text, set_style, set_background_color,
        set_text_color, delete_content, set_slide_orientation, position_box, set_slide_background,
        set_text_strikethrough, set_textbox_alignment, duplicate_slide, save_as, export_to_image,
    )
}  # fmt: skip
