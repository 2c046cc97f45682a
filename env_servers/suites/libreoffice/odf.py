"""Documents as files: the models that tasks begin with, written as OpenDocument (ISO 26300) packages.

In: a model in the form of the facts that `desktop.calc`, `desktop.writer` or `desktop.impress` read from an open
document. Out: the bytes of a file that opens as just that. The same model gives the same bytes.
"""

from __future__ import annotations

import io
import zipfile
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from ...desktop.tools import cell_place, column_name

_SPACES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{urn}:1.0"'
    for name, urn in (
        *((name, name) for name in ("office", "style", "text", "table", "presentation")),
        ("draw", "drawing"), ("number", "datastyle"), ("fo", "xsl-fo-compatible"), ("svg", "svg-compatible"),
    )
)  # fmt: skip
_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
_TYPE = "application/vnd.oasis.opendocument."
_MOMENT = (2024, 1, 1, 0, 0, 0)


def package(kind: str, content: str, styles: str) -> bytes:
    """An OpenDocument package. kind: spreadsheet, text or presentation. content, styles: bodies of its two files."""

    def document(part: str, body: str) -> str:
        return f'{_HEAD}<office:document-{part} {_SPACES} office:version="1.3">{body}</office:document-{part}>'

    files = {
        "mimetype": _TYPE + kind,
        "content.xml": document("content", content),
        "styles.xml": document("styles", styles),
        "META-INF/manifest.xml": f'{_HEAD}<manifest:manifest manifest:version="1.3" '
        'xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">'
        + "".join(
            f'<manifest:file-entry manifest:full-path="{path}" manifest:media-type="{media}"/>'
            for path, media in (("/", _TYPE + kind), ("content.xml", "text/xml"), ("styles.xml", "text/xml"))
        )
        + "</manifest:manifest>",
    }
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name, _MOMENT)
            entry.compress_type = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            archive.writestr(entry, text)
    return out.getvalue()


# --- spreadsheets ----------------------------------------------------------------------------------------------------
def _cell_style(name: str, given: dict[str, Any]) -> str:
    cell = f' fo:background-color="{given["fill"]}"' if "fill" in given else ""
    align = {"left": "start", "center": "center", "right": "end"}.get(given.get("align", ""))
    paragraph = f'<style:paragraph-properties fo:text-align="{align}"/>' if align else ""
    source = ' style:text-align-source="fix"' if align else ""
    letters = ' fo:font-weight="bold"' if given.get("bold") else ""
    letters += ' fo:font-style="italic"' if given.get("italic") else ""
    letters += f' fo:color="{given["colour"]}"' if "colour" in given else ""
    return (
        f'<style:style style:name="{name}" style:family="table-cell" style:parent-style-name="Default">'
        f"<style:table-cell-properties{cell}{source}/>{paragraph}<style:text-properties{letters}/></style:style>"
    )


def _cell(value: Any, style: str) -> str:
    named = f' table:style-name="{style}"' if style else ""
    if value is None:
        return f"<table:table-cell{named}/>"
    if isinstance(value, str):
        return (
            f'<table:table-cell{named} office:value-type="string"><text:p>{escape(value)}</text:p></table:table-cell>'
        )
    return (
        f'<table:table-cell{named} office:value-type="float" office:value="{value}"><text:p>{value}</text:p>'
        "</table:table-cell>"
    )


def spreadsheet(model: dict[str, Any]) -> bytes:
    """An .ods file of a model without formulas, charts, pivots and number formats."""
    styles: dict[str, str] = {}

    def style(given: dict[str, Any]) -> str:
        if not given:
            return ""
        return styles.setdefault(repr(sorted(given.items())), f"c{len(styles)}")

    tables, kinds = [], {}
    for sheet in model["sheets"]:
        cells, formats = sheet["cells"], sheet.get("formats", {})
        places = {cell_place(name): name for name in {*cells, *formats}}
        columns = max((x for x, _ in places), default=0) + 1
        rows = []
        for y in range(max((y for _, y in places), default=0) + 1):
            names = [f"{column_name(x)}{y + 1}" for x in range(columns)]
            for name in names:
                kinds[style(formats.get(name, {}))] = formats.get(name, {})
            body = "".join(_cell(cells.get(name), style(formats.get(name, {}))) for name in names)
            hidden = ' table:visibility="collapse"' if y + 1 in sheet.get("hidden_rows", ()) else ""
            rows.append(f"<table:table-row{hidden}>{body}</table:table-row>")
        tables.append(
            f"<table:table table:name={quoteattr(sheet['name'])}>"
            f'<table:table-column table:number-columns-repeated="{columns}"/>{"".join(rows)}</table:table>'
        )
    made = "".join(_cell_style(name, given) for name, given in kinds.items() if name)
    content = (
        f"<office:automatic-styles>{made}</office:automatic-styles>"
        f"<office:body><office:spreadsheet>{''.join(tables)}</office:spreadsheet></office:body>"
    )
    return package(
        "spreadsheet", content,
        '<office:styles><style:style style:name="Default" style:family="table-cell">'
        '<style:text-properties fo:font-family="DejaVu Sans" fo:font-size="10pt" fo:language="en" fo:country="US"/>'
        "</style:style></office:styles>",
    )  # fmt: skip


# --- texts -----------------------------------------------------------------------------------------------------------
_TEXT_STYLES = """<office:styles><style:default-style style:family="paragraph">
<style:text-properties fo:font-family="DejaVu Sans" fo:font-size="12pt" fo:language="en" fo:country="US"/>
</style:default-style>
<style:style style:name="Standard" style:family="paragraph" style:class="text">
<style:text-properties fo:font-family="DejaVu Sans" fo:font-size="12pt"/></style:style>
</office:styles>
<office:automatic-styles><style:page-layout style:name="p"><style:page-layout-properties fo:page-width="21cm"
fo:page-height="29.7cm" fo:margin-top="2cm" fo:margin-bottom="2cm" fo:margin-left="2cm" fo:margin-right="2cm"/>
</style:page-layout></office:automatic-styles>
<office:master-styles><style:master-page style:name="Standard" style:page-layout-name="p"/></office:master-styles>"""


def text(model: dict[str, Any]) -> bytes:
    """An .odt file of a model of plain paragraphs."""
    lines = "".join(f'<text:p text:style-name="Standard">{escape(one["text"])}</text:p>' for one in model["paragraphs"])
    return package("text", f"<office:body><office:text>{lines}</office:text></office:body>", _TEXT_STYLES)


# --- presentations ---------------------------------------------------------------------------------------------------
_SLIDE_STYLES = """<office:styles><style:default-style style:family="graphic">
<style:text-properties fo:font-family="DejaVu Sans" fo:font-size="18pt" fo:language="en" fo:country="US"/>
</style:default-style>
<style:style style:name="Plain-title" style:family="presentation"><style:graphic-properties draw:stroke="none"
draw:fill="none"/><style:paragraph-properties fo:text-align="start"/><style:text-properties fo:font-size="32pt"/>
</style:style>
<style:style style:name="Plain-outline1" style:family="presentation"><style:graphic-properties draw:stroke="none"
draw:fill="none"/><style:text-properties fo:font-size="24pt"/></style:style></office:styles>
<office:automatic-styles><style:page-layout style:name="p"><style:page-layout-properties fo:page-width="28cm"
fo:page-height="15.75cm" style:print-orientation="landscape" fo:margin-top="0cm" fo:margin-bottom="0cm"
fo:margin-left="0cm" fo:margin-right="0cm"/></style:page-layout>
<style:style style:name="dp" style:family="drawing-page"><style:drawing-page-properties draw:fill="none"/></style:style>
</office:automatic-styles>
<office:master-styles><style:master-page style:name="Plain" style:page-layout-name="p" draw:style-name="dp"/>
</office:master-styles>"""
_PLACES = {"title": (1.4, 0.6, 25.2, 2.6), "outline": (1.4, 3.7, 25.2, 9.1)}
_FRAMES = "".join(
    f'<style:style style:name="{kind}" style:family="presentation" style:parent-style-name="{parent}"/>'
    for kind, parent in (("title", "Plain-title"), ("outline", "Plain-outline1"))
)


def presentation(model: dict[str, Any]) -> bytes:
    """An .odp file of a model whose slides have a title and an outline box, in this order."""
    pages = []
    for number, slide in enumerate(model["slides"], start=1):
        frames = []
        for box in slide["boxes"]:
            x, y, width, height = _PLACES[box["kind"]]
            lines = box["text"].split("\n")
            if box["kind"] == "outline":
                items = "".join(f"<text:list-item><text:p>{escape(line)}</text:p></text:list-item>" for line in lines)
                inner = f'<text:list text:style-name="L1">{items}</text:list>'
            else:
                inner = "".join(f"<text:p>{escape(line)}</text:p>" for line in lines)
            frames.append(
                f'<draw:frame presentation:style-name="{box["kind"]}" presentation:class="{box["kind"]}" '
                f'presentation:user-transformed="true" '
                f'svg:x="{x}cm" svg:y="{y}cm" svg:width="{width}cm" svg:height="{height}cm">'
                f"<draw:text-box>{inner}</draw:text-box></draw:frame>"
            )
        pages.append(f'<draw:page draw:name="page{number}" draw:master-page-name="Plain">{"".join(frames)}</draw:page>')
    bullets = (
        '<office:automatic-styles><text:list-style style:name="L1"><text:list-level-style-bullet text:level="1" '
        'text:bullet-char="●"><style:list-level-properties text:space-before="0.3cm" text:min-label-width="0.9cm"/>'
        f"</text:list-level-style-bullet></text:list-style>{_FRAMES}</office:automatic-styles>"
    )
    body = f"<office:body><office:presentation>{''.join(pages)}</office:presentation></office:body>"
    return package("presentation", bullets + body, _SLIDE_STYLES)
