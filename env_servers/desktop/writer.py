"""Writer: what is true of a text, and the tools that act on it (names and arguments as in OSWorld-MCP).

A text's facts hold what differs from plain paragraphs:

    {"paragraphs": [{"text", "style": "Heading 1", "align": "center", "spacing": 1.5, "break": true,
                     "runs": [[text, {"bold": true, "italic", "underline", "size", "font", "colour"}], ...]}],
     "header": text, "footer": text, "font": [name, size] of the default style where they are not the usual ones}

A key that would be empty or usual is left out; fields in a header or footer are written as their kind ("<page>").
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import uno
from com.sun.star.style.BreakType import PAGE_BEFORE
from com.sun.star.style.ParagraphAdjust import BLOCK, CENTER, LEFT, RIGHT
from com.sun.star.text.ControlCharacter import PARAGRAPH_BREAK

from .tools import ToolFailure, choose, colour, hexadecimal, properties

SERVICE = "com.sun.star.text.TextDocument"
STYLE, FONT, SIZE = "Standard", "DejaVu Sans", 12.0
_ALIGNED = {0: "left", 1: "right", 2: "justify", 3: "center"}  # com.sun.star.style.ParagraphAdjust
_LETTERS = ("CharWeight", "CharPosture", "CharUnderline", "CharHeight", "CharFontName", "CharColor")


# --- facts -----------------------------------------------------------------------------------------------------------
def _parts(container: Any) -> Iterator[Any]:
    walk = container.createEnumeration()
    while walk.hasMoreElements():
        yield walk.nextElement()


def facts(document: Any) -> dict[str, Any]:
    """See the module."""
    found: dict[str, Any] = {"paragraphs": [_paragraph(document, one) for one in _parts(document.Text)]}
    page = document.StyleFamilies.getByName("PageStyles").getByName("Standard")
    if page.HeaderIsOn:
        found["header"] = _with_fields(page.HeaderText)
    if page.FooterIsOn:
        found["footer"] = _with_fields(page.FooterText)
    usual = document.StyleFamilies.getByName("ParagraphStyles").getByName(STYLE)
    if [usual.CharFontName, usual.CharHeight] != [FONT, SIZE]:
        found["font"] = [usual.CharFontName, usual.CharHeight]
    return found


def _with_fields(text: Any) -> str:
    found = ""
    for paragraph in _parts(text):
        for portion in _parts(paragraph):
            if portion.TextPortionType == "TextField":
                field = portion.TextField
                found += "<page>" if field.supportsService("com.sun.star.text.TextField.PageNumber") else "<field>"
            else:
                found += portion.String
    return found


def _paragraph(document: Any, one: Any) -> dict[str, Any]:
    if not one.supportsService("com.sun.star.text.Paragraph"):
        return {"text": "", "table": [list(row) for row in one.getDataArray()]}
    style = document.StyleFamilies.getByName("ParagraphStyles").getByName(one.ParaStyleName)
    found: dict[str, Any] = {"text": one.String}
    if one.ParaStyleName != STYLE:
        found["style"] = one.ParaStyleName
    if one.ParaAdjust != style.ParaAdjust:
        found["align"] = _ALIGNED.get(one.ParaAdjust, "justify")
    spacing = one.ParaLineSpacing
    if (spacing.Mode, spacing.Height) != (style.ParaLineSpacing.Mode, style.ParaLineSpacing.Height):
        found["spacing"] = spacing.Height / 100 if spacing.Mode == 0 else -1
    if one.BreakType.value != "NONE":
        found["break"] = True
    runs: list[list[Any]] = []
    for portion in _parts(one):
        letters = _letters(portion, style)
        if portion.String and runs and runs[-1][1] == letters:
            runs[-1][0] += portion.String
        elif portion.String:
            runs.append([portion.String, letters])
    if any(letters for _, letters in runs):
        found["runs"] = runs
    return found


def _letters(portion: Any, style: Any) -> dict[str, Any]:
    weight, posture, underline, height, font, tint = (getattr(portion, name) for name in _LETTERS)
    found: dict[str, Any] = {}
    if weight != style.CharWeight:
        found["bold"] = weight > 100
    if posture != style.CharPosture:
        found["italic"] = posture.value != "NONE"
    if underline != style.CharUnderline:
        found["underline"] = bool(underline)
    if height != style.CharHeight:
        found["size"] = int(height) if float(height).is_integer() else height
    if font != style.CharFontName:
        found["font"] = font
    if tint != style.CharColor:
        found["colour"] = hexadecimal(tint)
    return found


# --- the screen ------------------------------------------------------------------------------------------------------
def home(document: Any) -> None:
    """The view as every episode begins: the caret before the first letter."""
    document.CurrentController.ViewCursor.gotoStart(False)


def selection(document: Any) -> str:
    """The selected text."""
    selected = document.CurrentSelection
    if selected is None or not selected.supportsService("com.sun.star.text.TextRanges"):
        return ""
    return "\n".join(selected.getByIndex(k).String for k in range(selected.Count))


def cells(document: Any, table: Any) -> Iterator[tuple[str, Any]]:
    """A text of very many parts has none of them named."""
    return iter(())


def named(names: list[str]) -> list[str]:
    """Names of elements as sentences say them."""
    return names


# --- tools -----------------------------------------------------------------------------------------------------------
def _paragraphs(office: Any, indices: list[int] | None) -> list[Any]:
    every = [one for one in _parts(office.document.Text) if one.supportsService("com.sun.star.text.Paragraph")]
    if indices is None:
        return every
    for index in indices:
        if not 0 <= index < len(every):
            raise ToolFailure(f"there is no paragraph {index}: they are counted from 0 to {len(every) - 1}")
    return [every[index] for index in indices]


def _matches(office: Any, pattern: str, indices: list[int] | None) -> list[Any]:
    """The places of a regular expression, as cursors, the last one first."""
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise ToolFailure(f"{pattern!r} is no regular expression: {error}") from None
    found = []
    for paragraph in _paragraphs(office, indices):
        for match in wanted.finditer(paragraph.String):
            if match.end() > match.start():
                cursor = office.document.Text.createTextCursorByRange(paragraph.Start)
                cursor.goRight(match.start(), False)
                cursor.goRight(match.end() - match.start(), True)
                found.append((cursor, match))
    return found[::-1]


def save(office: Any) -> None:
    office.save()


def env_info(office: Any) -> str:
    return "\n".join(f"[{k}] {one.String[:500]}" for k, one in enumerate(_paragraphs(office, None)))


def write_text(office: Any, text: str, bold: bool = False, italic: bool = False, size: float | None = None) -> None:
    cursor = office.document.CurrentController.ViewCursor
    inner = cursor.Text.createTextCursorByRange(cursor.End)
    for number, line in enumerate(text.split("\n")):
        if number:
            inner.Text.insertControlCharacter(inner, PARAGRAPH_BREAK, False)
        start = inner.Text.createTextCursorByRange(inner.End)
        inner.Text.insertString(inner, line, False)
        start.gotoRange(inner.End, True)
        if bold:
            start.CharWeight = 150.0
        if italic:
            start.CharPosture = uno.Enum("com.sun.star.awt.FontSlant", "ITALIC")
        if size:
            start.CharHeight = float(size)


def set_color(office: Any, pattern: str, color: str | int, paragraph_indices: list[int] | None = None) -> int:
    places = _matches(office, pattern, paragraph_indices)
    for cursor, _ in places:
        cursor.CharColor = colour(color)
    return len(places)


def find_and_replace(office: Any, pattern: str, replacement: str, paragraph_indices: list[int] | None = None) -> int:
    places = _matches(office, pattern, paragraph_indices)
    for cursor, match in places:
        cursor.String = match.expand(replacement)
    return len(places)


def set_font(office: Any, font_name: str, paragraph_indices: list[int] | None = None) -> None:
    for paragraph in _paragraphs(office, paragraph_indices):
        paragraph.CharFontName = font_name


def set_font_size(office: Any, font_size: float, pattern: str, paragraph_indices: list[int] | None = None) -> int:
    if not 2 <= font_size <= 400:
        raise ToolFailure("font_size is from 2 to 400 points")
    places = _matches(office, pattern, paragraph_indices)
    for cursor, _ in places:
        cursor.CharHeight = float(font_size)
    return len(places)


def set_line_spacing(office: Any, spacing_value: float, paragraph_indices: list[int] | None = None) -> None:
    if not 0.1 <= spacing_value <= 10:
        raise ToolFailure("spacing_value is from 0.1 to 10 lines")
    spacing = uno.createUnoStruct("com.sun.star.style.LineSpacing")
    spacing.Mode, spacing.Height = 0, round(100 * spacing_value)
    for paragraph in _paragraphs(office, paragraph_indices):
        paragraph.ParaLineSpacing = spacing


def set_paragraph_alignment(office: Any, alignment: str, paragraph_indices: list[int] | None = None) -> None:
    ways = {"left": LEFT, "center": CENTER, "right": RIGHT, "justify": BLOCK}
    way = choose(alignment, ways, "alignment")
    for paragraph in _paragraphs(office, paragraph_indices):
        paragraph.ParaAdjust = way


def set_default_font(office: Any, font_name: str, font_size: float | None = None) -> None:
    usual = office.document.StyleFamilies.getByName("ParagraphStyles").getByName(STYLE)
    usual.CharFontName = font_name
    if font_size:
        usual.CharHeight = float(font_size)


def add_page_numbers(office: Any, position: str, start_number: int = 1, format: str = "1") -> None:
    place, _, side = position.partition("_")
    choose(place, {"bottom": 0, "top": 1}, "position")
    way = choose(side, {"left": LEFT, "center": CENTER, "right": RIGHT}, "position")
    page = office.document.StyleFamilies.getByName("PageStyles").getByName("Standard")
    if place == "bottom":
        page.FooterIsOn = True
    else:
        page.HeaderIsOn = True
    text = page.FooterText if place == "bottom" else page.HeaderText
    cursor = text.createTextCursor()
    cursor.ParaAdjust = way
    field = office.document.createInstance("com.sun.star.text.TextField.PageNumber")
    field.NumberingType, field.SubType = 4, uno.Enum("com.sun.star.text.PageNumberType", "CURRENT")
    field.Offset = start_number - 1
    before, after = ("Page ", "") if format.lower().startswith("page") else ("", "")
    if "of" in format.lower():
        count = office.document.createInstance("com.sun.star.text.TextField.PageCount")
        count.NumberingType, after = 4, " of "
    text.insertString(cursor, before, False)
    text.insertTextContent(cursor, field, False)
    text.insertString(cursor, after, False)
    if after:
        text.insertTextContent(cursor, count, False)


def insert_page_break(office: Any, position: str = "at_cursor") -> None:
    choose(position, {"at_cursor": 0, "end_of_document": 1}, "position")
    view = office.document.CurrentController.ViewCursor
    if position == "end_of_document":
        view.gotoEnd(False)
    cursor = view.Text.createTextCursorByRange(view.End)
    if not cursor.isStartOfParagraph():
        view.Text.insertControlCharacter(cursor, PARAGRAPH_BREAK, False)
    cursor.BreakType = PAGE_BEFORE


def insert_formula_at_cursor(office: Any, formula: str) -> None:
    cursor = office.document.CurrentController.ViewCursor
    inner = office.document.createInstance("com.sun.star.text.TextEmbeddedObject")
    inner.CLSID = "078B7ABA-54FC-457F-8551-6147E776A997"
    inner.AnchorType = uno.Enum("com.sun.star.text.TextContentAnchorType", "AS_CHARACTER")
    cursor.Text.insertTextContent(cursor, inner, False)
    inner.EmbeddedObject.Formula = formula


def export_to_pdf(
    office: Any, output_path: str = "", output_filename: str = "", include_comments: bool = False,
    quality: str = "standard",
) -> str:  # fmt: skip
    choose(quality, {"standard": 0, "high": 0, "print": 0}, "quality")
    target = office.inside(output_path or output_filename, ".pdf")
    office.document.storeToURL(target.as_uri(), properties(FilterName="writer_pdf_Export"))
    return target.name


TOOLS = {
    function.__name__: function
    for function in (
        save, env_info, write_text, set_color, find_and_replace, set_font, set_font_size, set_line_spacing,
        set_paragraph_alignment, set_default_font, add_page_numbers, insert_page_break, insert_formula_at_cursor,
        export_to_pdf,
    )
}  # fmt: skip
