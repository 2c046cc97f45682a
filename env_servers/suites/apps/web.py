"""What the three web apps share: their screen, their looks, people and places, and the script's way down a page."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from ..virtual.app import CallDict
from ..virtual.gestures import Element, Move
from .pages import Family

WEB = Family("web", 1024, 640, "web")
THEMES = 8  # of web.js
HAND = WEB.hand

FIRST = (
    "Maria", "Jonas", "Aiko", "Omar", "Lena", "Pedro", "Nadia", "Victor", "Ingrid", "Samuel", "Chen", "Fatima", "Hugo",
    "Elena", "Marcus", "Priya", "Tomas", "Zoe", "Karim", "Ruth", "Felix", "Amara", "Dario", "Sofia",
)  # fmt: skip
LAST = (
    "Silva", "Berg", "Tanaka", "Haddad", "Novak", "Costa", "Petrov", "Laurent", "Olsen", "Mbeki", "Wei", "Rahman",
    "Keller", "Rossi", "Doyle", "Sharma", "Varga", "Quinn", "Aziz", "Adler", "Moreau", "Okafor", "Conti", "Lindgren",
)  # fmt: skip
CITIES = (
    "Lisbon", "Oslo", "Kyoto", "Vienna", "Porto", "Bergen", "Turin", "Ghent", "Lyon", "Gdansk", "Valencia", "Bologna",
    "Leipzig", "Utrecht", "Malmo", "Graz",
)  # fmt: skip
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def people(rng: random.Random, count: int) -> list[str]:
    """`count` full names, no first name and no last name twice."""
    firsts, lasts = rng.sample(FIRST, count), rng.sample(LAST, count)
    return [f"{first} {last}" for first, last in zip(firsts, lasts, strict=True)]


def address(name: str, host: str = "post.example") -> str:
    """The e-mail address of a person or a company."""
    return f"{name.lower().replace(' ', '.').replace('&', 'and')}@{host}"


def layout(rng: random.Random, **more: Sequence[Any]) -> dict[str, Any]:
    """Theme, and one of each of `more`."""
    return {"theme": rng.randrange(THEMES), **{name: rng.choice(choices) for name, choices in more.items()}}


def shown(elements: Sequence[Element], name: str) -> bool:
    """Whether an element of this name is on the screen."""
    return any(element.name == name for element in elements)


def towards(elements: Sequence[Element], name: str, order: Sequence[str]) -> Move | None:
    """A scroll towards `name`, whose place among the page's names is that in `order`; None where it is on the screen.

    Raises ValueError where the page has no such name.
    """
    if shown(elements, name):
        return None
    if name not in order:
        raise ValueError(f"the page has no {name!r}")
    seen = [order.index(element.name) for element in elements if element.name in order]
    return HAND.scroll("up" if seen and max(seen) > order.index(name) else "down")


def reach(elements: Sequence[Element], name: str, order: Sequence[str] = ()) -> Move:
    """A click on `name`, or the scroll towards it."""
    return towards(elements, name, order or (name,)) or HAND.tap(elements, name)


def look_through(elements: Sequence[Element], order: Sequence[str]) -> Move:
    """A page whose names stand in `order` is looked through to its end, then given up: what is sought is not there."""
    return HAND.scroll("down") if order and not shown(elements, order[-1]) else HAND.give_up()


def fill_in(elements: Sequence[Element], name: str, text: str, order: Sequence[str] = ()) -> Move:
    """Text into the box `name`, or the scroll towards it."""
    return towards(elements, name, order or (name,)) or HAND.enter(elements, name, text)


def call(app: str, tool: str, **arguments: object) -> CallDict:
    """A call of a tool of `app`."""
    return {"name": f"{app}.{tool}", "arguments": arguments}
