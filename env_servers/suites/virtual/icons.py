"""The one glossary of pictures that every virtual app draws with.

In: nothing. Out: `THINGS` (20 entities) and `CONTROLS` (16 buttons and tabs, 4 folders, 4 chips), each with its name
as sentences say it and its body as SVG markup on a 24 x 24 canvas; `script()` gives them to a page as JavaScript.

Every thing and every button differs from every other in outline *and* in colour, so that a small vision encoder can
tell them apart at 22 px: things are free shapes on the background, controls are white glyphs on a rounded tile of their
own colour, folders and chips are named after their colour.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

SIZE = 24  # side of the canvas the bodies are drawn on


@dataclass(frozen=True)
class Thing:
    """An entity of the apps. `colour` is its class for colour filters ("" for none); `body` is SVG markup."""

    name: str
    plural: str
    colour: str
    body: str


def _path(d: str, fill: str) -> str:
    return f'<path d="{d}" fill="{fill}"/>'


def _line(d: str, stroke: str, width: float) -> str:
    ends = 'stroke-linecap="round" stroke-linejoin="round"'
    return f'<path d="{d}" fill="none" stroke="{stroke}" stroke-width="{width}" {ends}/>'


def _circle(x: float, y: float, r: float, fill: str) -> str:
    return f'<circle cx="{x}" cy="{y}" r="{r}" fill="{fill}"/>'


def _rect(x: float, y: float, w: float, h: float, fill: str, r: float = 0) -> str:
    return f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="{r}" fill="{fill}"/>'


def _petals(fill: str, radius: float, distance: float) -> str:
    around = ((0, -1), (0.95, -0.31), (0.59, 0.81), (-0.59, 0.81), (-0.95, -0.31))
    return "".join(_circle(round(12 + distance * x, 2), round(12 + distance * y, 2), radius, fill) for x, y in around)


_RAYS = "M12 1V4M12 20V23M1 12H4M20 12H23M4.2 4.2L6.3 6.3M17.7 17.7L19.8 19.8M4.2 19.8L6.3 17.7M17.7 6.3L19.8 4.2"

THINGS: dict[str, Thing] = {
    thing.name: thing
    for thing in (
        # red
        Thing(
            "apple",
            "apples",
            "red",
            _circle(8.6, 14.5, 7.2, "#ef1c1c")
            + _circle(15.4, 14.5, 7.2, "#ef1c1c")
            + _line("M12 9V4", "#5b3a1a", 2)
            + _path("M12.5 6C13 2 17 1 20 2C19 6 16 7.5 12.5 6Z", "#22b022"),
        ),
        Thing(
            "heart",
            "hearts",
            "red",
            _path(
                "M12 22L2.6 12.2C-1 8 1.2 2.4 6 2.4C9 2.4 11 4 12 6C13 4 15 2.4 18 2.4C22.8 2.4 25 8 21.4 12.2Z",
                "#e0115f",
            ),
        ),
        Thing(
            "car",
            "cars",
            "red",
            _path("M1 17V12L4 11L7 5H17L20 11L23 12V17Z", "#b3130b")
            + _path("M8.2 6.6H11.3V11H6.2Z", "#bfe9ff")
            + _path("M12.8 6.6H15.8L17.8 11H12.8Z", "#bfe9ff")
            + _circle(6.5, 17.5, 3.6, "#111111")
            + _circle(17.5, 17.5, 3.6, "#111111")
            + _circle(6.5, 17.5, 1.4, "#dddddd")
            + _circle(17.5, 17.5, 1.4, "#dddddd"),
        ),
        # green
        Thing(
            "tree",
            "trees",
            "green",
            _rect(10, 17, 4, 6.5, "#7a4a1c")
            + _path("M12 0L20 10H4Z", "#0b7a2c")
            + _path("M12 6L22.5 18H1.5Z", "#0b7a2c"),
        ),
        Thing(
            "leaf",
            "leaves",
            "green",
            _path("M2 22C-1 8 8 1 23 1C24 15 16 24 2 22Z", "#7ddb1e") + _line("M2.5 21.5L16 8", "#2f6b00", 2.2),
        ),
        Thing(
            "frog",
            "frogs",
            "green",
            _path("M1 14C1 8 5 6 12 6C19 6 23 8 23 14C23 20 18 22.5 12 22.5C6 22.5 1 20 1 14Z", "#16c46a")
            + _circle(6, 5.5, 4, "#16c46a")
            + _circle(18, 5.5, 4, "#16c46a")
            + _circle(6, 5.5, 2.4, "#ffffff")
            + _circle(18, 5.5, 2.4, "#ffffff")
            + _circle(6, 5.5, 1.2, "#000000")
            + _circle(18, 5.5, 1.2, "#000000")
            + _line("M6.5 16C9 18.5 15 18.5 17.5 16", "#054d27", 1.8),
        ),
        # blue
        Thing(
            "fish",
            "fish",
            "blue",
            _path(
                "M0.5 12C3 6 8 4.5 12 4.5C15 4.5 17 6.5 18.5 9L23.5 4.5V19.5L18.5 15"
                "C17 17.5 15 19.5 12 19.5C8 19.5 3 18 0.5 12Z",
                "#1464f4",
            )
            + _circle(6, 10.6, 1.8, "#ffffff")
            + _line("M11 8C13 10.5 13 13.5 11 16", "#0a2f80", 1.6),
        ),
        Thing(
            "drop",
            "drops",
            "blue",
            _path(
                "M12 0.5C15 6 20 10.5 20 15.5C20 20 16.4 23.5 12 23.5C7.6 23.5 4 20 4 15.5C4 10.5 9 6 12 0.5Z",
                "#27b7f5",
            )
            + _line("M8 15.5C8 17.8 9.4 19.3 11.5 19.6", "#ffffff", 1.9),
        ),
        Thing(
            "cup",
            "cups",
            "blue",
            _line("M17 8H19.5C23.5 8 23.5 15.5 19 15.5H17", "#2b2fb0", 2.6)
            + _path("M2 5H18V17C18 20.5 15.5 22 13 22H7C4.5 22 2 20.5 2 17Z", "#2b2fb0")
            + _rect(2, 9, 16, 3.2, "#f4f4ff"),
        ),
        # yellow
        Thing(
            "key",
            "keys",
            "yellow",
            _path(
                "M7 3A6 6 0 1 0 7 15A6 6 0 0 0 12.6 11.2H15V14.5H18V11.2H20V16H23.5V7H12.6A6 6 0 0 0 7 3Z"
                "M7 6.6A2.4 2.4 0 1 1 7 11.4A2.4 2.4 0 0 1 7 6.6Z",
                "#d9a400",
            ),
        ),
        Thing("sun", "suns", "yellow", _line(_RAYS, "#ff9d00", 2.6) + _circle(12, 12, 6.4, "#ffd500")),
        Thing(
            "duck",
            "ducks",
            "yellow",
            _path(
                "M1 13C4 15 8 14 10.5 12C8.5 5 11 1 15.5 1C19.5 1 21.5 4 20.5 8"
                "C20 11 22.5 13 21.5 17C20.5 21 17 22.5 12 22.5C5 22.5 1.5 19 1 13Z",
                "#f7e017",
            )
            + _path("M20 5L24 7L20 9Z", "#f26a00")
            + _circle(16, 5.6, 1.5, "#111111"),
        ),
        # no colour class
        Thing(
            "lamp",
            "lamps",
            "",
            _path("M7 1H17L22.5 12H1.5Z", "#8b2be2")
            + _rect(10.6, 12, 2.8, 8, "#444444")
            + _rect(5, 20, 14, 3.4, "#444444", 1.5),
        ),
        Thing("moon", "moons", "", _path("M16 1A11.3 11.3 0 1 0 23 16.5A9 9 0 0 1 16 1Z", "#4b5c8a")),
        Thing(
            "ball",
            "balls",
            "",
            _circle(12, 12, 11, "#ff7a1a")
            + _line("M12 1V23M1 12H23M4.5 4.5C9.5 9 9.5 15 4.5 19.5M19.5 4.5C14.5 9 14.5 15 19.5 19.5", "#2b1500", 1.5),
        ),
        Thing("flower", "flowers", "", _petals("#ff77c8", 5, 6.6) + _circle(12, 12, 4, "#7a1fa0")),
        Thing(
            "cake",
            "cakes",
            "",
            _rect(11, 1, 2, 6, "#2f9ae0")
            + _rect(2, 7, 20, 6, "#ffb3c7", 2.5)
            + _rect(2, 12, 20, 5, "#fff3d6")
            + _rect(2, 16, 20, 7, "#8a4b22", 1),
        ),
        Thing(
            "hat",
            "hats",
            "",
            _rect(0.5, 17, 23, 4.6, "#1a1a1a", 2.3)
            + _rect(5.5, 2, 13, 16, "#1a1a1a", 1.5)
            + _rect(5.5, 12, 13, 3.4, "#ff2d2d"),
        ),
        Thing(
            "boot",
            "boots",
            "",
            _path("M4 1H13V11C15 13 22.5 13 22.5 19V20H4Z", "#a5632a")
            + _rect(3.5, 20, 19.5, 3, "#3a1d08")
            + _rect(3.2, 1, 10.6, 3.6, "#f0d2a8", 1.5),
        ),
        Thing(
            "robot",
            "robots",
            "",
            _line("M12 7V2", "#607080", 2)
            + _circle(12, 2, 1.9, "#ff2d2d")
            + _rect(2, 6.5, 20, 16, "#9fb4c2", 3)
            + _circle(8, 13, 2.7, "#00e0d0")
            + _circle(16, 13, 2.7, "#00e0d0")
            + _rect(7, 17.8, 10, 2.4, "#33424d"),
        ),
    )
}

COLOURS: dict[str, str] = {"red": "#e5342b", "green": "#2fa84a", "blue": "#2f6fe5", "yellow": "#f0bf00"}
"""Colours of folders and filter chips: name -> fill."""


def _tile(fill: str, glyph: str) -> str:
    return _rect(0, 0, 24, 24, fill, 6) + glyph


def _folder(fill: str) -> str:
    return _path("M1 6C1 4 2 3 4 3H9L12 6H20C22 6 23 7 23 9V19C23 21 22 22 20 22H4C2 22 1 21 1 19Z", fill) + _path(
        "M1 10H23V19C23 21 22 22 20 22H4C2 22 1 21 1 19Z", "#00000030"
    )


_W = "#ffffff"
_STAR = "M12 3L14.7 9L21.2 9.6L16.3 13.9L17.8 20.3L12 16.9L6.2 20.3L7.7 13.9L2.8 9.6L9.3 9Z"

CONTROLS: dict[str, str] = {
    "back": _tile("#334155", _line("M13.5 5L6 12L13.5 19M6.5 12H19", _W, 3.2)),
    "home": _tile("#f0600a", _path("M12 3.5L21 12H18.5V20H14V15H10V20H5.5V12H3Z", _W)),
    "cart": _tile(
        "#7c3aed",
        _path("M2.5 4.5H6L7 7.5H21.5L19.5 15.5H8L5.2 7H2.5Z", _W)
        + _circle(9.5, 19, 2.1, _W)
        + _circle(17.5, 19, 2.1, _W),
    ),
    "search": _tile(
        "#0284c7",
        '<circle cx="10.5" cy="10.5" r="5.2" fill="none" stroke="#ffffff" stroke-width="2.8"/>'
        + _line("M14.8 14.8L20 20", _W, 3.2),
    ),
    "plus": _tile("#16a34a", _line("M12 5V19M5 12H19", _W, 4)),
    "minus": _tile("#dc2626", _line("M5 12H19", _W, 4)),
    "trash": _tile(
        "#6b4f3f", _rect(5, 5, 14, 2.6, _W, 1) + _rect(9.5, 3, 5, 2.5, _W) + _path("M6.5 9H17.5L16.5 21H7.5Z", _W)
    ),
    "check": _tile("#0d9488", _line("M5 12.5L10 17.5L19 7", _W, 3.6)),
    "menu": _tile("#111827", _line("M6 7H18M6 12H18M6 17H18", _W, 2.4)),
    "list": _tile(
        "#2563eb", "".join(_rect(4, y, 3.4, 3.4, _W) + _rect(9.5, y, 10.5, 3.4, _W) for y in (4.6, 10.3, 16))
    ),
    "form": _tile(
        "#c026d3",
        _rect(5, 3, 14, 18, _W, 1.5)
        + _rect(7.5, 6, 9, 3, "#c026d3")
        + _rect(7.5, 11, 9, 3, "#c026d3")
        + _rect(12, 16.4, 4.5, 2.4, "#c026d3"),
    ),
    "done": _tile("#65a30d", _line("M6 21V3.5", _W, 2.4) + _path("M7 3.5H20L16.5 8L20 12.5H7Z", _W)),
    "copy": _tile(
        "#0891b2",
        _rect(3.5, 3.5, 11, 12, _W, 1.5) + _rect(8, 7.5, 13, 14, "#0891b2", 1.5) + _rect(9.5, 9, 10.5, 11.5, _W, 1.5),
    ),
    "paste": _tile(
        "#b45309",
        _rect(5, 5, 14, 16, _W, 1.5)
        + _rect(8.5, 2.6, 7, 5, _W, 1.5)
        + _rect(8, 10, 8, 2.2, "#b45309")
        + _rect(8, 14.5, 8, 2.2, "#b45309"),
    ),
    "star": _tile("#facc15", _path(_STAR, "#7a4a00")),
    "grid": _tile("#4338ca", "".join(_rect(x, y, 6.6, 6.6, _W, 1) for x in (4.4, 13) for y in (4.4, 13))),
    **{f"{colour} folder": _folder(fill) for colour, fill in COLOURS.items()},
    **{
        f"{colour} chip": _circle(12, 12, 11, fill) + _circle(12, 12, 4, "#ffffffb0")
        for colour, fill in COLOURS.items()
    },
}


def bodies() -> dict[str, str]:
    """Name -> SVG body on the 24 x 24 canvas, things and controls together."""
    return {**{name: thing.body for name, thing in THINGS.items()}, **CONTROLS}


def script() -> str:
    """JavaScript for a page: `ICONS` (name -> SVG body), `COLOURS` and `CLASS_OF` (thing -> colour class)."""
    constants = {
        "ICONS": bodies(),
        "COLOURS": COLOURS,
        "CLASS_OF": {name: thing.colour for name, thing in THINGS.items()},
    }
    return "".join(f"const {name} = {json.dumps(value)};\n" for name, value in constants.items())
