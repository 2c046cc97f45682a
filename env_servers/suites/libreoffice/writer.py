"""Writer tasks: a short letter of seeded sentences, and twenty things to do with it."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

from ..apps.office import CITIES, FIRST, LAST
from .case import Case, Kind, Model, Part, changed

_THINGS = "contract invoice ticket report sample parcel key map plan list".split()
_DAYS = "Monday Tuesday Wednesday Thursday Friday".split()


class Letter:
    """A letter to begin with: its words by name, its lines, its model."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.sender, self.reader = (f"{a} {b}" for a, b in zip(rng.sample(FIRST, 2), rng.sample(LAST, 2), strict=True))
        self.here, self.there, self.new = rng.sample(CITIES, 3)
        self.thing, self.other, self.third = rng.sample(_THINGS, 3)
        self.day, self.later, self.never = rng.sample(_DAYS, 3)
        self.lines = [
            f"News from {self.here}",
            f"Dear {self.reader}",
            f"The {self.thing} arrived in {self.there} on {self.day}.",
            f"Please send the {self.other} to {self.there} before {self.later}.",
            f"We keep a copy of the {self.thing} for you.",
            f"Yours {self.sender}",
        ]
        self.model: Model = {"paragraphs": [{"text": line} for line in self.lines]}

    def after(self, change: Callable[[list[dict[str, Any]]], None]) -> Model:
        """The model once this has changed its paragraphs."""
        return changed(self.model, lambda model: change(model["paragraphs"]))

    def with_lines(self, lines: list[str]) -> Model:
        """The model with these lines and nothing else."""
        return {"paragraphs": [{"text": line} for line in lines]}


def _to_line(k: int) -> tuple[tuple[Any, ...], ...]:
    """The caret into line k, counted from 0, which is no longer than the page is wide."""
    return ("key", "ctrl", "home"), *((("key", "down"),) * k)


def _whole_line(k: int) -> tuple[tuple[Any, ...], ...]:
    return (*_to_line(k), ("key", "shift", "end"))


_WHICH = {0: "first", 2: "third", 5: "last"}


def _replace_all(rng: random.Random) -> Case:
    letter = Letter(rng)
    old, new = letter.there, letter.new
    hand = (
        ("key", "ctrl", "h"), ("type", old), ("key", "alt", "p"), ("type", new), ("click", "Replace All"),
        ("click", "Close"),
    )  # fmt: skip
    after = letter.with_lines([line.replace(old, new) for line in letter.lines])
    tools = (("find_and_replace", {"pattern": re.escape(old), "replacement": new}),)
    return Case({"old": old, "new": new}, letter.model, after, (Part(hand, tools),))


def _letters(given: dict[str, Any], *keys: str) -> Callable[[random.Random], Case]:
    """Tasks that give one line's letters a form by keys."""

    def make(rng: random.Random) -> Case:
        letter = Letter(rng)
        k = rng.choice(sorted(_WHICH))

        def change(lines: list[dict[str, Any]]) -> None:
            lines[k]["runs"] = [[lines[k]["text"], given]]

        part = Part((*_whole_line(k), ("key", *keys)))
        return Case({"which": _WHICH[k]}, letter.model, letter.after(change), (part,))

    return make


def _paragraph(given: dict[str, Any], keys: tuple[str, ...], tool: tuple[str, dict[str, Any]] | None = None):
    """Tasks that give one paragraph a form by keys."""

    def make(rng: random.Random) -> Case:
        letter = Letter(rng)
        k = rng.choice(sorted(_WHICH))
        tools = ((tool[0], {**tool[1], "paragraph_indices": [k]}),) if tool else None
        after = letter.after(lambda lines: lines[k].update(given))
        return Case({"which": _WHICH[k]}, letter.model, after, (Part((*_to_line(k), ("key", *keys)), tools),))

    return make


def _size(rng: random.Random) -> Case:
    letter = Letter(rng)
    size = rng.choice([10, 14, 16, 18, 20])

    def change(lines: list[dict[str, Any]]) -> None:
        for line in lines:
            line["runs"] = [[line["text"], {"size": size}]]

    hand = (("key", "ctrl", "a"), ("triple", "Font Size"), ("type", f"{size}\n"))
    tools = (("set_font_size", {"font_size": size, "pattern": ".+"}),)
    return Case({"size": size}, letter.model, letter.after(change), (Part(hand, tools),))


def _colour(rng: random.Random) -> Case:
    letter = Letter(rng)
    old = letter.thing

    def change(lines: list[dict[str, Any]]) -> None:
        for line in lines:
            before, found, behind = line["text"].partition(old)
            if found:
                runs = [[before, {}], [found, {"colour": "#c9211e"}], [behind, {}]]
                line["runs"] = [run for run in runs if run[0]]

    places = [k for k, line in enumerate(letter.lines) if old in line]
    hand = []
    for k in places:
        words = letter.lines[k].split(" ").index(old)
        hand += [*_to_line(k), ("key", "home"), *((("key", "ctrl", "right"),) * words)]
        hand += [("key", "ctrl", "shift", "right"), ("key", "shift", "left"), ("click", "Font Color")]
    tools = (("set_color", {"pattern": old, "color": "#C9211E"}),)
    return Case({"thing": old}, letter.model, letter.after(change), (Part(tuple(hand), tools),))


def _add_end(rng: random.Random) -> Case:
    letter = Letter(rng)
    line = f"PS: see you in {letter.new}"
    hand = (("key", "ctrl", "end"), ("type", f"\n{line}"))
    return Case({"line": line}, letter.model, letter.with_lines([*letter.lines, line]), (Part(hand),))


def _add_start(rng: random.Random) -> Case:
    letter = Letter(rng)
    line = f"{letter.here}, {letter.day}"
    hand = (("key", "ctrl", "home"), ("type", f"{line}\n"))
    tools = (("write_text", {"text": f"{line}\n"}),)
    return Case({"line": line}, letter.model, letter.with_lines([line, *letter.lines]), (Part(hand, tools),))


def _delete_line(rng: random.Random) -> Case:
    letter = Letter(rng)
    k = rng.choice((2, 3, 4))
    which = {2: "third", 3: "fourth", 4: "fifth"}[k]
    hand = (*_whole_line(k), ("key", "delete"), ("key", "delete"))
    after = letter.with_lines([line for n, line in enumerate(letter.lines) if n != k])
    return Case({"which": which}, letter.model, after, (Part(hand),))


def _replace_word(rng: random.Random) -> Case:
    letter = Letter(rng)
    after = letter.with_lines([line.replace(letter.later, letter.never) for line in letter.lines])
    words = letter.lines[3].rstrip(".").split(" ").index(letter.later)
    hand = (*_to_line(3), ("key", "home"), *((("key", "ctrl", "right"),) * words))
    hand = (*hand, ("key", "ctrl", "shift", "right"), ("type", letter.never))
    tools = (("find_and_replace", {"pattern": letter.later, "replacement": letter.never}),)
    return Case({"old": letter.later, "new": letter.never}, letter.model, after, (Part(hand, tools),))


def _break(rng: random.Random) -> Case:
    """Ctrl+Enter leaves an empty line behind, which goes again."""
    letter = Letter(rng)
    k = rng.choice((2, 5))
    after = letter.after(lambda lines: lines[k].update({"break": True}))
    hand = (*_to_line(k), ("key", "home"), ("key", "ctrl", "enter"), ("key", "up"), ("key", "backspace"))
    return Case({"which": _WHICH[k]}, letter.model, after, (Part(hand),))


def _swap(rng: random.Random) -> Case:
    """The greeting and the closing line change places."""
    letter = Letter(rng)
    lines = [*letter.lines[:4], letter.lines[5], letter.lines[4]]
    hand = (*_to_line(5), ("key", "ctrl", "alt", "up"))
    return Case({}, letter.model, letter.with_lines(lines), (Part(hand),))


def _ask(pick: Callable[[Letter], str]) -> Callable[[random.Random], Case]:
    def make(rng: random.Random) -> Case:
        letter = Letter(rng)
        return Case(
            {"thing": letter.other}, letter.model, None, (Part((("answer", pick(letter)),)),), answer=pick(letter)
        )

    return make


def _pdf(rng: random.Random) -> Case:
    letter = Letter(rng)
    hand = (("click", "Export Directly as PDF"), ("key", "enter"))
    part = Part(hand, (("export_to_pdf", {}),))
    return Case({}, letter.model, None, (part,), files={"letter.pdf": b"%PDF".hex()})


def _absent_word(rng: random.Random) -> Case:
    letter = Letter(rng)
    return Case({"old": letter.new, "new": letter.here}, letter.model, None)


def _absent_table(rng: random.Random) -> Case:
    return Case({"n": rng.randint(2, 5)}, Letter(rng).model, None)


FORMAT = ("format",)
KINDS: tuple[Kind, ...] = (
    Kind("writer/replace", "Replace {old} by {new} everywhere, and save.", _replace_all),
    Kind("writer/word", "Change {old} to {new}, and save.", _replace_word),
    Kind("writer/bold", "Make the {which} line bold, and save.", _letters({"bold": True}, "ctrl", "b"), tags=FORMAT),
    Kind("writer/italic", "Make the {which} line italic, and save.", _letters({"italic": True}, "ctrl", "i"),
         tags=FORMAT),
    Kind("writer/underline", "Underline the {which} line, and save.", _letters({"underline": True}, "ctrl", "u"),
         tags=FORMAT),
    Kind("writer/center", "Center the {which} line, and save.",
         _paragraph({"align": "center"}, ("ctrl", "e"), ("set_paragraph_alignment", {"alignment": "center"})),
         tags=FORMAT),
    Kind("writer/right", "Align the {which} line to the right, and save.",
         _paragraph({"align": "right"}, ("ctrl", "r"), ("set_paragraph_alignment", {"alignment": "right"})),
         tags=FORMAT),
    Kind("writer/justify", "Justify the {which} line, and save.",
         _paragraph({"align": "justify"}, ("ctrl", "j"), ("set_paragraph_alignment", {"alignment": "justify"})),
         tags=FORMAT),
    Kind("writer/heading", "Make the {which} line a Heading 1, and save.",
         _paragraph({"style": "Heading 1"}, ("ctrl", "1")), tags=FORMAT),
    Kind("writer/heading-2", "Make the {which} line a Heading 2, and save.",
         _paragraph({"style": "Heading 2"}, ("ctrl", "2")), tags=FORMAT),
    Kind("writer/size", "Set the whole text in {size} points, and save.", _size, tags=FORMAT),
    Kind("writer/colour", "Give the word {thing} the colour of the Font Color button (dark red 2, #C9211E) wherever it "
         "stands, and save.", _colour, tags=FORMAT),
    Kind("writer/add-end", "Add a new last line that says: {line} . Save.", _add_end),
    Kind("writer/add-start", "Add a new first line that says: {line} . Save.", _add_start),
    Kind("writer/delete", "Delete the {which} line, without leaving an empty one, and save.", _delete_line),
    Kind("writer/break", "Start a new page with the {which} line, and save.", _break),
    Kind("writer/swap", "Let the last two lines change places, and save.", _swap),
    Kind("writer/pdf", "Export the letter as PDF beside it, under its own name.", _pdf),
    Kind("writer/sender", "Who has signed the letter? Answer with first and last name.",
         _ask(lambda letter: letter.sender),
         tags=("question",)),
    Kind("writer/deadline", "Before which day is the {thing} to be sent? Answer with the day.",
         _ask(lambda letter: letter.later),
         tags=("question",)),
    Kind("writer/absent-word", "Change {old} to {new}, and save.", _absent_word, feasible=False),
    Kind("writer/absent-table", "Delete row {n} of the table, and save.", _absent_table, feasible=False),
)  # fmt: skip
