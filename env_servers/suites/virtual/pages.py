"""Assembles an app's page: the skeleton, the shared style, glossary and input code, and the app's own page.js.

In: the app's name and size in css px. Out: one HTML text that needs no network and no other file.
"""

from __future__ import annotations

from pathlib import Path

from . import icons

_HERE = Path(__file__).parent


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def assemble(app: str, width: int, height: int, code: Path | None = None) -> str:
    """The page of `app`, whose own code is `<app>/page.js` beside this module, or the file `code`."""
    own = (code or _HERE / app / "page.js").read_text(encoding="utf-8")
    script = "\n".join((icons.script(), _read("common_look.js"), _read("common.js"), own))
    filled = {
        "@TITLE@": app,
        "@STYLE@": _read("common.css"),
        "@WIDTH@": str(width),
        "@HEIGHT@": str(height),
        "@SCRIPT@": script.replace("</", "<\\/"),
    }
    page = _read("page.html")
    for mark, text in filled.items():
        page = page.replace(mark, text)
    return page
