"""What the desktop apps share: names of people and places, and moves that every script needs."""

from __future__ import annotations

import random
from collections.abc import Sequence

from ..virtual.app import Element, Move, State
from .pages import Family

WIDTH, HEIGHT = 1024, 640
DESKTOP = Family("desktop", WIDTH, HEIGHT, "office")
HAND = DESKTOP.hand

FIRST = (
    "Alma Boris Clara Dario Elena Felix Greta Hugo Irene Jonas Karla Leon Mira Nico Olga Pavel Rosa Simon Tilda "
    "Umberto Vera Willem Yara Zeno Agnes Bruno Celia Dmitri Esther Farid"
).split()
LAST = (
    "Abbott Berger Castillo Dahl Eriksen Fontana Gruber Hansen Ivanov Janssen Keller Lindqvist Moreau Nowak Okafor "
    "Petrov Quist Rossi Sato Tanaka Ulrich Varga Weber Yilmaz Zeller"
).split()
CITIES = (
    "Lisbon Oslo Vienna Prague Dublin Athens Bergen Geneva Krakow Porto Riga Seville Tallinn Turin Utrecht Valencia "
    "Verona Zagreb Antwerp Bilbao Cologne Florence Ghent Helsinki Innsbruck"
).split()
MONTHS = ("January February March April May June July August September October November December").split()


def person(rng: random.Random) -> str:
    """A full name."""
    return f"{rng.choice(FIRST)} {rng.choice(LAST)}"


def day(rng: random.Random) -> str:
    """A day and its month."""
    return f"{rng.randint(1, 28)} {rng.choice(MONTHS)}"


def shown(elements: Sequence[Element], name: str) -> bool:
    """Whether an element of that name is on the screen."""
    return any(element.name == name for element in elements)


def fill_box(elements: Sequence[Element], state: State, name: str, held: str, text: str) -> Move | None:
    """Bring the field `name` of the dialog, which holds `held`, to `text`; None where it does."""
    if held == text:
        return None
    if state["focus"] != name:
        return HAND.tap(elements, name)
    return HAND.type(text) if not held or state["picked"] else HAND.keys("ctrl", "a")


def escape(state: State, keep: str = "") -> Move | None:
    """Close a menu or a dialog other than `keep`; None where none is in the way."""
    if state["menu"] not in ("", keep) or state["dialog"]["kind"] not in ("", keep):
        return HAND.keys("escape")
    return None
