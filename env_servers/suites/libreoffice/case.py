"""What a LibreOffice task is made of: a case (document before and after, and how to get there) and its verdict.

In: a `Kind` and a seed. Out: an instance whose goal is exact: the open document's facts *and* those of the saved file
must equal the model after, so that every side effect counts and what was not saved is not done. Both are read as facts
(see `desktop.calc`, `desktop.writer`, `desktop.impress`); a model of a case has their form.

A case's way is a list of parts, each given as input by keyboard and mouse and, where there is one, as calls of tools.
Moves of the hand are short tuples, see `_HAND`. A script is played from the episode's beginning, move by move.
"""

from __future__ import annotations

import base64
import copy
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .. import suite
from ..suite import DesktopKind, State, split_of
from ..virtual.gestures import CallDict, Element, Hand, Move
from . import odf
from .tools import SPECS

WIDTH, HEIGHT = 1280, 800
SCREENS = {app: DesktopKind(app, WIDTH, HEIGHT) for app in ("calc", "writer", "impress")}
FILES = {"calc": odf.spreadsheet, "writer": odf.text, "impress": odf.presentation}
NAMES = {"calc": "report.ods", "writer": "letter.odt", "impress": "slides.odp"}
BENEFICIAL = 2  # actions that tools must save
HAND = Hand("desktop", WIDTH, HEIGHT)

Model = dict[str, Any]
HandMove = tuple[Any, ...]


@dataclass(frozen=True)
class Part:
    """A piece of work by hand and, where it exists, by tools (each a name without its app, and arguments)."""

    hand: tuple[HandMove, ...]
    tools: tuple[tuple[str, dict[str, Any]], ...] | None = None


SAVE = Part((("key", "ctrl", "s"),), (("save", {}),))


@dataclass(frozen=True)
class Case:
    """slots: of the instruction. before, after: models; after None where nothing changes. parts: the way, saving not
    counted. answer: to a question. files: what must lie beside the document at the end."""

    slots: dict[str, Any]
    before: Model
    after: Model | None
    parts: tuple[Part, ...] = ()
    answer: str = ""
    files: dict[str, str] = field(default_factory=dict)

    @property
    def way(self) -> tuple[Part, ...]:
        """The script's parts, saving among them."""
        return self.parts if self.after is None else (*self.parts, SAVE)


@dataclass(frozen=True)
class Kind:
    """A kind of task. make(rng): a case. feasible: false where what it asks for does not exist. tools: offered beside
    those that its script calls."""

    id: str
    text: str
    make: Callable[[random.Random], Case]
    feasible: bool = True
    tags: tuple[str, ...] = ()

    @property
    def app(self) -> str:
        """Which of the programs it is for."""
        return self.id.partition("/")[0]

    @cached_property
    def task(self) -> suite.Task:
        """The task; whether tools help is measured on the scripts of one instance."""
        way = self.make(generator(self.id, 0)).way
        hand, mixed = length(way, False), length(way, True)
        saved = hand - mixed if self.feasible else 0
        return suite.Task(
            id=self.id,
            device="desktop",
            instruction_template=self.text,
            tags=(self.app, *self.tags, *(() if self.feasible else ("infeasible",))),
            tool_beneficial=1 if saved >= BENEFICIAL else -1,
            feasible=self.feasible,
            max_steps=2 * max(hand, 2) + 4,
        )


def generator(*parts: object) -> random.Random:
    """A random generator that depends on the parts' text alone."""
    return random.Random(":".join(map(str, ("libreoffice", *parts))))


def length(way: Sequence[Part], tools: bool) -> int:
    """Actions of a way without terminate; tools: each part in the shorter of its two forms."""
    return sum(min(len(p.hand), len(p.tools)) if tools and p.tools is not None else len(p.hand) for p in way)


def whole(app: str, name: str) -> str:
    """A tool's whole name; one of another program has it already."""
    return name if "." in name else f"libreoffice_{app}.{name}"


def script(way: Sequence[Part], app: str, offered: Sequence[str]) -> list[HandMove | CallDict]:
    """All moves in order. A part is done by tools where all that it needs are offered and it is no longer so."""
    moves: list[HandMove | CallDict] = []
    for part in way:
        calls = [{"name": whole(app, name), "arguments": given} for name, given in part.tools or ()]
        by_tools = calls and len(calls) <= len(part.hand) and all(call["name"] in offered for call in calls)
        moves += calls if by_tools else part.hand
    return moves


_HAND: dict[str, Callable[..., Move]] = {
    "click": Hand.tap,
    "double": Hand.mark,
    "triple": Hand.triple,
    "right": Hand.context,
    "hover": Hand.hover,
    "drag": Hand.drag,
    "key": lambda hand, elements, *keys: hand.keys(*keys),
    "type": lambda hand, elements, text: hand.type(text),
    "answer": lambda hand, elements, text: hand.answer(text),
    "wait": lambda hand, elements, seconds: hand.wait(seconds),
}


def same(state: State, where: str, case: Case) -> bool:
    """Whether the document ("document") or the file ("saved") is as it should be at the end."""
    return state[where] == (case.before if case.after is None else case.after)


@dataclass(frozen=True)
class Instance(suite.TaskInstance):
    """A kind with its seed."""

    case: Case

    @property
    def app(self) -> str:
        """Which of the programs has the document."""
        return self.page.name

    def succeeded(self, state: State, declared: str | None, complete: bool) -> bool:
        """See the module; what is infeasible is solved by terminate(failure) alone (R4)."""
        if not self.task.feasible:
            return declared == "failure" and same(state, "document", self.case) and same(state, "saved", self.case)
        right = all(checkpoint(state) for checkpoint in self.checkpoints)
        return declared == "success" and complete and right

    def move(self, state: State, elements: Sequence[Element], met: Sequence[bool], tools: Sequence[str]) -> Move:
        """The script's next move, the episode having been played by the script so far."""
        if not self.task.feasible:
            return HAND.give_up()
        moves = script(self.case.way, self.app, tools)
        if state["acted"] >= len(moves):
            return HAND.finish()
        move = moves[state["acted"]]
        if isinstance(move, dict):
            return Move(move, f"Use the tool {move['name'].rpartition('.')[2].replace('_', ' ')}.")
        kind, *rest = move
        return _HAND[kind](Hand("desktop", self.page.width, self.page.height), elements, *rest)


def instantiate(kind: Kind, seed: int) -> Instance:
    """The instance that belongs to `seed`; ValueError for a seed of no split."""
    split_of(seed)
    case = kind.make(generator(kind.id, seed))
    checkpoints: list[Callable[[State], bool]] = []
    if case.answer:
        checkpoints.append(lambda state: state["answer"].strip().casefold() == case.answer.casefold())
    if case.after is not None or not checkpoints:
        checkpoints.append(lambda state: same(state, "document", case))
    if case.after is not None:
        checkpoints.append(lambda state: same(state, "saved", case))
    if case.files:
        checkpoints.append(lambda state: state["files"] == case.files)
    if not kind.feasible:
        checkpoints = [lambda state: False]
    return Instance(
        task=kind.task,
        seed=seed,
        page=SCREENS[kind.app],
        instruction=kind.text.format(**case.slots),
        initial={"file": NAMES[kind.app], "data": base64.b64encode(FILES[kind.app](case.before)).decode()},
        checkpoints=tuple(checkpoints),
        tools=SPECS[kind.app],
        case=case,
    )


def changed(model: Model, change: Callable[[Model], None]) -> Model:
    """A copy of the model, changed."""
    found = copy.deepcopy(model)
    change(found)
    return found
