"""Hard synthesis (GUI-Owl-1.5, section 2.2.1): procedural pages like professional tools, with boxes from the page.

In: seeds. Out: `Shot`s of 1280 x 800, drawn by real Chromium: menus, toolbars, trees, dense tables, forms, charts, code
and dialogs. An element is a target if it is whole on the screen, nothing covers it (hit tests) and its name is unique.
A page with fewer than `LEAST` targets (a dialog, which covers all else, has three), or one of whose boxes does not fit
the page once the picture is taken, is drawn anew from the next draw of the same seed.
"""

from __future__ import annotations

import asyncio
import html
from collections import Counter, deque
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np

from env_servers.browser import Browser, PageKind
from gui_rl.flywheel.shots import Element, Shot

WIDTH, HEIGHT = 1280, 800
LEAST, LEAST_IN_DIALOG = 20, 3
DRAWS = 5
PAGES = 4
PAGE = PageKind("synthesis", (Path(__file__).parent / "assets" / "synthesis.html").read_text(), WIDTH, HEIGHT)

GLYPHS = {
    "a floppy disk": ("Save", "save the file", '<path d="M4 4h13l3 3v13H4zM8 4v5h8V4M8 20v-6h8v6"/>'),
    "a magnifying glass": ("Find", "search", '<circle cx="10" cy="10" r="6"/><path d="M15 15l6 6"/>'),
    "a dustbin": ("Delete", "delete the selection", '<path d="M4 7h16M9 7V4h6v3M6 7l1 14h10l1-14M10 11v6M14 11v6"/>'),
    "a printer": ("Print", "print", '<path d="M7 9V3h10v6M7 17H3V9h18v8h-4M7 14h10v7H7z"/>'),
    "a folder": ("Open", "open a file", '<path d="M3 6h6l2 3h10v10H3z"/>'),
    "a pair of scissors": ("Cut", "cut the selection",
      '<circle cx="6" cy="6" r="3"/><circle cx="6" cy="18" r="3"/><path d="M8 8l12 11M8 16L20 5"/>'),
    "two sheets": ("Copy", "copy the selection", '<path d="M8 8h12v12H8zM16 8V4H4v12h4"/>'),
    "an arrow turning left": ("Undo", "undo the last change", '<path d="M8 5L3 10l5 5M3 10h11a6 6 0 010 10h-3"/>'),
    "an arrow turning right": ("Redo", "redo what was undone", '<path d="M16 5l5 5-5 5M21 10H10a6 6 0 000 10h3"/>'),
    "a funnel": ("Filter", "filter the rows", '<path d="M3 4h18l-7 9v7l-4-2v-5z"/>'),
    "a bell": ("Notify", "see the notifications", '<path d="M6 17V11a6 6 0 0112 0v6l2 2H4zM10 21h4"/>'),
    "a padlock": ("Lock", "lock the document", '<path d="M5 11h14v10H5zM8 11V7a4 4 0 018 0v4"/>'),
    "an eye": ("Preview", "preview the result",
      '<path d="M2 12c5-8 15-8 20 0-5 8-15 8-20 0z"/><circle cx="12" cy="12" r="3"/>'),
    "a star": ("Star", "mark it as a favourite",
      '<path d="M12 3l3 6 6 1-4.500 4.500 1 6.500-5.500-3-5.500 3 1-6.500L3 10l6-1z"/>'),
    "a triangle pointing right": ("Run", "run the program", '<path d="M6 4l14 8-14 8z"/>'),
    "an arrow into a tray": ("Import", "import data", '<path d="M12 3v11M7 10l5 5 5-5M4 17v4h16v-4"/>'),
    "an arrow out of a tray": ("Export", "export the data", '<path d="M12 15V4M7 8l5-5 5 5M4 17v4h16v-4"/>'),
    "three sliders": ("Adjust", "adjust the parameters", '<path d="M3 6h18M3 12h18M3 18h18M8 3v6M16 9v6M10 15v6"/>'),
    "a person": ("Account", "open your account", '<circle cx="12" cy="8" r="4"/><path d="M4 21c1-9 15-9 16 0"/>'),
    "a calendar sheet": ("Schedule", "schedule it", '<path d="M4 5h16v16H4zM4 10h16M8 2v5M16 2v5"/>'),
    "a chain": ("Link", "insert a link",
      '<path d="M10 14a4 4 0 006 0l4-4a4 4 0 00-6-6M14 10a4 4 0 00-6 0l-4 4a4 4 0 006 6"/>'),
    "a house": ("Home", "go to the start page", '<path d="M3 12l9-8 9 8M6 10v11h12V10"/>'),
}  # fmt: skip
"""Icons by what they show: the name, what pressing them does, and SVG of a 24 x 24 canvas."""
WORDS = (
    "amber basin cedar delta ember fjord grove harbor indigo juniper kelp lumen maple nectar onyx pebble quartz".split()
)
FIELDS = (
    "Title",
    "Owner",
    "Due date",
    "Cost centre",
    "Priority",
    "Region",
    "E-mail",
    "Quantity",
    "Tax code",
    "Supplier",
)
COLUMNS = ("Order", "Customer", "Status", "Amount", "Updated", "Region", "Agent", "Weight", "Margin", "Stage")
MENUS = ("File", "Edit", "View", "Insert", "Format", "Tools", "Data", "Window", "Help")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class _Writer:
    """Writes one page; every marked node carries its facts as data attributes."""

    def __init__(self, rng: np.random.Generator):
        self.rng = rng
        self.glyphs = [list(GLYPHS)[k] for k in rng.permutation(len(GLYPHS))]

    def some(self, words: Sequence[str], least: int, most: int) -> list[str]:
        """Different words, between `least` and `most` of them."""
        count = min(int(self.rng.integers(least, most + 1)), len(words))
        return [words[k] for k in self.rng.permutation(len(words))[:count]]

    def word(self) -> str:
        return str(self.rng.choice(WORDS))

    def mark(self, name: str, text: str, classes: str = "", does: str = "", tag: str = "div", style: str = "") -> str:
        """A node with a text."""
        shown = html.escape(text)
        facts = f'data-name="{html.escape(name)}" data-role="text" data-text="{shown}" data-does="{html.escape(does)}"'
        return f'<{tag} class="{classes}" style="{style}" {facts}>{shown}</{tag}>'

    def icon(self, look: str) -> str:
        """A button that only shows an icon."""
        name, does, body = GLYPHS[look]
        facts = f'data-name="the {name} icon" data-role="icon" data-look="{look}" data-does="{does}"'
        return f'<div class="push icon" {facts}><svg class="glyph" viewBox="0 0 24 24">{body}</svg></div>'

    def menus(self) -> str:
        names = self.some(MENUS, 4, 9)
        return "".join(self.mark(f'the "{n}" menu', n, "push", f"open the {n} menu") for n in names)

    def toolbar(self) -> str:
        count, parts = int(self.rng.integers(7, 15)), []
        for number in range(count):
            parts.append(self.icon(self.glyphs.pop()))
            if number % 4 == 3:
                parts.append("<i></i>")
        return "".join(parts)

    def tree(self) -> str:
        rows = []
        for folder in self.some(WORDS, 4, 7):
            rows.append(self.mark(f'the "{folder}" folder', f"▾ {folder}", "leaf"))
            for _ in range(int(self.rng.integers(2, 7))):
                leaf = f"{self.word()}_{self.rng.integers(10, 99)}.{self.rng.choice(['csv', 'py', 'md', 'svg'])}"
                pad = f"margin-left:{int(self.rng.integers(14, 30))}px"
                rows.append(self.mark(f'"{leaf}" in the tree', leaf, "leaf", style=pad))
        return "".join(rows)

    def table(self) -> str:
        columns = self.some(COLUMNS[1:], 4, 8)
        head = self.mark('the column head "Order"', "Order", tag="th") + "".join(
            self.mark(f'the column head "{c}"', c, does=f"sort by {c.lower()}", tag="th") for c in columns
        )
        rows = []
        for number in self.rng.permutation(900)[: int(self.rng.integers(9, 26))]:
            order = f"A-{1000 + number}"
            cells = [self.mark(f'the order "{order}"', order, tag="td")]
            for column in columns:
                value = self.word() if self.rng.random() < 0.5 else f"{self.rng.integers(1, 99999) / 100:.2f}"
                cells.append(self.mark(f'the cell "{column}" of order {order}', value, tag="td"))
            rows.append(f"<tr>{''.join(cells)}</tr>")
        return f"<h2>Orders</h2><table><tr>{head}</tr>{''.join(rows)}</table>"

    def form(self) -> str:
        rows = []
        for field in self.some(FIELDS, 4, 8):
            value = self.mark(f'the field "{field}"', self.word(), "value", f"enter the {field.lower()}")
            rows.append(f'<div class="row"><div>{field}</div>{value}</div>')
        ends = self.mark('the button "Apply"', "Apply", "push main", "apply the changes of the form")
        ends += self.mark('the button "Reset"', "Reset", "push framed", "reset the form")
        return f"<h2>Properties</h2>{''.join(rows)}<div class=ends style='justify-content:start'>{ends}</div>"

    def chart(self) -> str:
        months, parts = MONTHS[: int(self.rng.integers(6, 13))], []
        for number, month in enumerate(months):
            tall = int(self.rng.integers(20, 150))
            facts = f'data-name="the bar of {month}" data-role="icon" data-look="the bar of {month}"'
            parts.append(
                f'<rect x="{20 + 32 * number}" y="{170 - tall}" width="22" height="{tall}" fill="var(--accent)" '
                f'{facts}/><text x="{20 + 32 * number}" y="184" font-size="10" fill="currentColor">{month}</text>'
            )
        return f'<h2>Revenue</h2><svg width="420" height="190">{"".join(parts)}</svg>'

    def code(self) -> str:
        lines = []
        for number in range(1, int(self.rng.integers(12, 26))):
            name = f"{self.word()}_{self.rng.integers(100, 999)}"
            called = self.mark(f'the name "{name}" in line {number}', name, tag="span")
            space = "  " * int(self.rng.integers(0, 4))
            lines.append(f'<span class="number">{number}</span>{space}{called} = load({self.rng.integers(1, 99)})')
        tabs = "".join(self.mark(f'the tab "{tab}.py"', f"{tab}.py", "push") for tab in self.some(WORDS, 2, 4))
        return f'<div class="tabs">{tabs}</div><pre>{chr(10).join(lines)}</pre>'

    def dialog(self) -> str:
        no, yes = [("Cancel", "Save changes"), ("Keep", "Discard"), ("Not now", "Update")][int(self.rng.integers(3))]
        buttons = self.mark(f'the button "{no}"', no, "push framed", "close the dialog without doing anything")
        buttons += self.mark(f'the button "{yes}"', yes, "push main", "confirm the dialog")
        line = f'<div class="row"><div>Name</div>{self.mark("the field of the dialog", self.word(), "value")}</div>'
        head = f"<h2>{yes}: {self.word()}</h2>"
        return f'<div class="shade"><div class="dialog">{head}{line}<div class="ends">{buttons}</div></div></div>'

    def page(self) -> dict:
        rng = self.rng
        dark, hue = bool(rng.random() < 0.35), int(rng.integers(360))
        light = (12, 17, 15, 88, 32) if dark else (97, 92, 99, 15, 78)
        theme = {f"--{name}": f"hsl({hue} 12% {value}%)"
                 for name, value in zip(("ground", "panel", "field", "ink", "line"), light, strict=True)}  # fmt: skip
        columns, rows = [("1fr", "1fr"), ("3fr 2fr", "1fr"), ("3fr 2fr", "1fr 1fr")][int(rng.integers(3))]
        theme |= {
            "--accent": f"hsl({(hue + 150) % 360} 60% 40%)", "--font": f"{rng.integers(11, 15)}px",
            "--gap": f"{rng.integers(1, 6)}px", "--round": f"{rng.integers(0, 6)}px",
            "--cell": f"{rng.integers(0, 4)}px",
            "--side": f"{rng.integers(150, 230)}px", "--columns": columns, "--rows": rows,
        }  # fmt: skip
        count = len(columns.split()) * len(rows.split())
        panels = self.some(("table", "form", "chart", "code"), count, count)
        work = "".join(f'<div class="panel">{getattr(self, panel)()}</div>' for panel in panels)
        status = self.mark("the word count", f"{rng.integers(10, 9999)} items", "push", "see how many items there are")
        status += self.mark("the zoom", f"{rng.integers(5, 20) * 10} %", "push", "change the zoom")
        body = (
            f'<div class="bar"><div class="bar" style="border:0;padding:0">{self.menus()}</div><i></i>{self.toolbar()}'
            f'</div><div class="side">{self.tree()}</div><div class="work">{work}</div>'
            f'<div class="bar below">{status}</div>'
        )
        dialog = self.dialog() if rng.random() < 0.2 else ""
        return {"theme": theme, "body": body + dialog, "dialog": bool(dialog)}


def page_of(seed: int, draw: int = 0) -> dict:
    """The page of a seed, `{"theme": ..., "body": HTML, "dialog": bool}`; `draw` counts how often it was redrawn."""
    return _Writer(np.random.default_rng([seed, draw])).page()


async def synthesise(browser: Browser, seeds: Sequence[int], counts: Counter | None = None) -> AsyncIterator[Shot]:
    """The shots of seeds, in their order, some pages at a time.

    `counts` gets `shots`, `targets`, `redrawn`, `given up` (no valid page in `DRAWS` draws) and why elements were no
    targets (`not unique`, `covered`, ...).
    """
    counts, waiting, drawing = Counter() if counts is None else counts, deque(seeds), deque()
    try:
        while waiting or drawing:
            while waiting and len(drawing) < PAGES:
                drawing.append(asyncio.create_task(_shot(browser, waiting.popleft(), counts)))
            if (shot := await drawing[0]) is not None:
                yield shot
            drawing.popleft()
    finally:
        for task in drawing:
            task.cancel()


async def _shot(browser: Browser, seed: int, counts: Counter) -> Shot | None:
    screen = await browser.lease(PAGE)
    try:
        for draw in range(DRAWS):
            page = page_of(seed, draw)
            await screen.load(page)
            png = (await screen.view()).png
            found = await screen.elements()
            good = [_element(e) for e in found if not e["bad"]]
            least = LEAST_IN_DIALOG if page["dialog"] else LEAST
            if len(good) >= least and not await wrong_boxes(screen, good):
                counts.update(e["bad"] for e in found if e["bad"])
                counts.update(shots=1, targets=len(good))
                obstacles = tuple(_element(e) for e in found if e["bad"])
                return Shot(f"synthesis/{seed}", png, WIDTH, HEIGHT, tuple(good), obstacles)
            counts["redrawn"] += 1
        counts["given up"] += 1
        return None
    finally:
        await browser.release(screen)


def _element(e: dict) -> Element:
    return Element(e["name"], tuple(e["box"]), e["role"], e.get("text", ""), e.get("does", ""), e.get("look", ""))


async def wrong_boxes(screen, elements: Sequence[Element]) -> list[str]:
    """Names of the elements whose box does not fit the page that `screen` shows now (points inside and outside)."""
    given = [{"name": element.name, "box": list(element.box)} for element in elements]
    return await screen.call("function (elements) { return this.app.wrong(elements) }", given)
