"""Assembles an app: the screen of its device family and its page, which is the skeleton, the front-end packages that it
is built on, the kit and the app's own code."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ..virtual.app import App
from ..virtual.gestures import Hand
from . import vendor

_HERE = Path(__file__).parent


def _read(name: str) -> str:
    path = _HERE / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


@cache
def assemble(app: str, device: str, packages: tuple[str, ...] = (), parts: tuple[str, ...] = ()) -> str:
    """The whole page of `app`, whose own code is `<app>/page.js` and `<app>/page.css`; it needs no other file.

    parts: what it shares with other apps, each a `<part>.js` and `<part>.css` of this folder.

    Raises UserError where a front-end package was not fetched.
    """
    built = [vendor.read(package) for package in packages]
    own = ("kit", *parts, f"{app}/page")
    style = "\n".join((*(style for style, _ in built), *(_read(f"{name}.css") for name in own)))
    script = "\n;\n".join((*(script for _, script in built), *(_read(f"{name}.js") for name in own)))
    filled = {
        "@TITLE@": app,
        "@DEVICE@": device,
        "@STYLE@": style.replace("</", "<\\/"),
        "@SCRIPT@": script.replace("</", "<\\/").replace("<!--", "<\\!--"),
    }
    page = _read("page.html")
    for mark, text in filled.items():
        page = page.replace(mark, text)
    return page


@dataclass(frozen=True)
class Family:
    """What the apps of a device family share: the screen in css px, and `<part>.js` and `<part>.css` of this folder."""

    device: str
    width: int
    height: int
    part: str

    @property
    def hand(self) -> Hand:
        """The hand that their scripts move."""
        return Hand(self.device, self.width, self.height)

    def app(self, name: str, packages: tuple[str, ...] = (), *, parts: tuple[str, ...] = (), **given: Any) -> App:
        """The app `name`. packages, parts: see `assemble`; given: what else an `App` wants."""
        page = assemble(name, self.device, packages, (self.part, *parts))
        return App(name, self.device, self.width, self.height, page, **given)
