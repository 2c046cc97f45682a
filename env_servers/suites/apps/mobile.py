"""What the scripts and states of the phone's apps share: the screen, the look, ways to reach things and to write."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from ..virtual.gestures import Element, Move
from .pages import Family

WIDTH, HEIGHT = 360, 640
PHONE = Family("mobile", WIDTH, HEIGHT, "mobile")
HAND = PHONE.hand

_WEEK = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = (("Mar", 31), ("Apr", 30), ("May", 31), ("Jun", 30), ("Sep", 30), ("Oct", 31))


def look(rng: random.Random) -> dict[str, Any]:
    """The part of `layout` that mobile.js draws by."""
    return {
        "look": rng.choice(("ios", "md")),
        "dark": rng.random() < 0.3,
        "accent": rng.randrange(6),
        "tabs": rng.choice(("below", "below", "below", "above")),
        "clock": f"{rng.randrange(7, 23)}:{rng.randrange(60):02d}",
    }


def days(rng: random.Random, count: int) -> list[str]:
    """`count` days in a row of one month, as "Tue 4 Mar"."""
    month, length = rng.choice(_MONTHS)
    first, weekday = rng.randint(1, length - count), rng.randrange(7)
    return [f"{_WEEK[(weekday + k) % 7]} {first + k} {month}" for k in range(count)]


def money(cents: int) -> str:
    """ "12.50"."""
    return f"{cents // 100}.{cents % 100:02d}"


def shows(elements: Sequence[Element], name: str) -> bool:
    """Whether something called `name` is in sight."""
    return any(element.name == name for element in elements)


def reach(elements: Sequence[Element], name: str, order: Sequence[str]) -> Move | None:
    """The swipe that brings `name` into sight in a list whose elements stand in `order`; None where it is there."""
    if shows(elements, name):
        return None
    seen = [k for k, other in enumerate(order) if shows(elements, other)]
    return HAND.swipe("down" if seen and order.index(name) < seen[0] else "up")


def tap_in(elements: Sequence[Element], name: str, order: Sequence[str]) -> Move:
    """A tap on `name`, or the swipe towards it (see `reach`)."""
    return reach(elements, name, order) or HAND.tap(elements, name)


def look_through(elements: Sequence[Element], order: Sequence[str]) -> Move:
    """A list whose elements stand in `order` is looked through to its end, then given up: what is sought is absent."""
    return HAND.swipe("up") if order and not shows(elements, order[-1]) else HAND.give_up()


def write(elements: Sequence[Element], focus: str, box: str, holds: str, text: str) -> Move | None:
    """The move towards `text` alone in the box called `box`, which now holds `holds`; None where that is so."""
    if holds == text:
        return None
    if holds:
        return HAND.tap(elements, f"clear {box}")
    return HAND.type(text) if focus == box else HAND.tap(elements, box)
