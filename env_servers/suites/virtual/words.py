"""Short pieces of language that the apps share."""

from __future__ import annotations

from collections.abc import Iterable

from .icons import THINGS


def counted(amount: int, thing: str) -> str:
    """ "1 key", "2 keys"."""
    return f"{amount} {thing if amount == 1 else THINGS[thing].plural}"


def yes(value: bool) -> str:
    """The answer to a yes-or-no question."""
    return "yes" if value else "no"


def fact(name: str, *things: str) -> str:
    """The key of one fact of `App.outcome`."""
    return " ".join((name, *things))


def facts(*names: str) -> frozenset[str]:
    """The keys of several facts, as `Subtask.touches` gives them."""
    return frozenset(names)


def without(names: Iterable[str], *used: Iterable[str]) -> list[str]:
    """`names` in their order without those in `used`."""
    gone = {name for group in used for name in group}
    return [name for name in names if name not in gone]
