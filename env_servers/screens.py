"""What a session is played on, whatever draws it: a page of a browser, or a display with programs on it.

In: kinds of screens. Out: `Screen`s, leased to one user at a time by the `Source` that draws their kind. A source is a
browser (`browser.Browser`), a room of desktops (`desktop.room.Desktops`), or all of them together (`Screens`).
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from .errors import UserError
from .suites.suite import ScreenKind


class ScreenLost(Exception):
    """What draws the screen has died, or does not reply: the screen is of no more use, and nobody knows what it did."""


class ScreenError(Exception):
    """The program on the screen failed at something that it was asked for."""


class Unsupported(Exception):
    """A well-formed call that this screen has no way to carry out; it did nothing."""


@dataclass(frozen=True)
class View:
    """What a screen shows: base64 PNG with its size in pixels as read from its own header, the state's JSON, and the
    elements whose marks are drawn, in the order of their labels from 1 on."""

    png_base64: str
    width: int
    height: int
    state: dict[str, Any]
    marks: list[dict[str, Any]] = field(default_factory=list)

    @property
    def png(self) -> bytes:
        """The picture's bytes."""
        return base64.b64decode(self.png_base64)


def png_size(png_base64: str) -> tuple[int, int]:
    """(width, height) in pixels from the header of a base64 PNG; ValueError if it is none."""
    head = base64.b64decode(png_base64[:32])
    if len(head) < 24 or head[:8] != b"\x89PNG\r\n\x1a\n":
        raise ValueError("the screenshot is not a PNG")
    return struct.unpack(">II", head[16:24])


class Screen(Protocol):
    """One screen on lease. usable: false once it is lost. Methods raise ScreenLost and ScreenError."""

    kind: ScreenKind
    usable: bool

    async def load(self, state: Mapping[str, Any]) -> None:
        """Begin an episode from an instance's `initial`."""
        ...

    async def view(self, marks: bool = False) -> View:
        """State and pixels once all is settled, with numbered marks if asked."""
        ...

    async def elements(self) -> list[dict[str, Any]]:
        """Visible interactive elements: {"name", "box": [x0, y0, x1, y1]} in css px."""
        ...

    async def perform(self, device: str, arguments: Mapping[str, Any]) -> None:
        """Carry out one valid GUI call of `device`'s family; raises Unsupported too."""
        ...

    async def tool(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Result of a tool of the instance: {"success", "result", "error_message"}."""
        ...


class Source(Protocol):
    """What draws screens. launches: programs started so far."""

    launches: int

    async def start(self) -> None:
        """Make ready, unless it is; raises UserError if that cannot be."""
        ...

    async def stop(self) -> None:
        """End every screen and what draws them; a second call does nothing."""
        ...

    async def lease(self, kind: Any) -> Screen:
        """A screen of this kind for one user, until `release`. Raises ScreenLost, UserError."""
        ...

    async def release(self, screen: Any) -> None:
        """Give a screen back."""
        ...


class Screens:
    """Several sources as one: the type of a kind says which of them draws it."""

    def __init__(self, sources: Mapping[type, Source]) -> None:
        self._sources = dict(sources)

    async def __aenter__(self) -> Screens:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def launches(self) -> int:
        """How often anything was started."""
        return sum(source.launches for source in self._sources.values())

    async def start(self) -> None:
        """Start every source; raises UserError if one cannot."""
        for source in self._sources.values():
            await source.start()

    async def stop(self) -> None:
        """Stop every source."""
        for source in self._sources.values():
            await source.stop()

    async def lease(self, kind: ScreenKind) -> Screen:
        """See `Source.lease`; raises UserError for a kind that nothing here draws."""
        source = self._sources.get(type(kind))
        if source is None:
            raise UserError(f"nothing here draws a {type(kind).__name__}: {kind.name!r}")
        return await source.lease(kind)

    async def release(self, screen: Screen) -> None:
        """See `Source.release`."""
        await self._sources[type(screen.kind)].release(screen)
