"""Impress tasks: three seeded slides with a title and a list each, and ten things to do with them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from ..apps.office import CITIES, MONTHS
from .case import Case, Kind, Model, Part, changed

_SUBJECTS = "Harvest Travel Budget Garden Energy Water Music Sport Health Traffic".split()
_POINTS = "Costs Dates People Places Risks Goals Tools Steps Rules Offers".split()


class Slides:
    """Slides to begin with, and the words that they do not hold."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        subjects = rng.sample(_SUBJECTS, 4)
        self.titles, self.other = subjects[:3], f"{rng.choice(CITIES)} {rng.choice(MONTHS)}"
        self.absent = subjects[3]
        self.lists = [rng.sample(_POINTS, 3) for _ in self.titles]
        self.model: Model = {
            "slides": [
                {"boxes": [{"text": title, "kind": "title"}, {"text": "\n".join(points), "kind": "outline"}]}
                for title, points in zip(self.titles, self.lists, strict=True)
            ]
        }

    def after(self, change: Callable[[list[dict[str, Any]]], None]) -> Model:
        """The model once this has changed its slides."""
        return changed(self.model, lambda model: change(model["slides"]))


def _to_slide(k: int) -> tuple[tuple[Any, ...], ...]:
    """Slide k, counted from 0, by the keyboard in the view."""
    return (("key", "pagedown"),) * k


def _title(rng: random.Random) -> Case:
    slides = Slides(rng)
    k = rng.randrange(3)

    def change(pages: list[dict[str, Any]]) -> None:
        pages[k]["boxes"][0]["text"] = slides.other

    hand = (*_to_slide(k), ("key", "ctrl", "enter"), ("key", "ctrl", "a"), ("type", slides.other), ("key", "escape"))
    tools = (("write_text", {"content": slides.other, "page_index": k + 1, "box_index": 0}),)
    return Case({"n": k + 1, "title": slides.other}, slides.model, slides.after(change), (Part(hand, tools),))


def _style(given: dict[str, Any], keys: tuple[str, ...], tool: tuple[str, dict[str, Any]]):
    """Tasks that give a title a form by keys."""

    def make(rng: random.Random) -> Case:
        slides = Slides(rng)
        k = rng.randrange(3)
        after = slides.after(lambda pages: pages[k]["boxes"][0].update(given))
        hand = (*_to_slide(k), ("key", "tab"), ("key", *keys), ("key", "escape"))
        tools = ((tool[0], {"slide_index": k + 1, "box_index": 0, **tool[1]}),)
        return Case({"n": k + 1}, slides.model, after, (Part(hand, tools),))

    return make


def _delete_box(rng: random.Random) -> Case:
    slides = Slides(rng)
    k = rng.randrange(3)

    def change(pages: list[dict[str, Any]]) -> None:
        del pages[k]["boxes"][1]

    hand = (*_to_slide(k), ("key", "tab"), ("key", "tab"), ("key", "delete"))
    tools = (("delete_content", {"slide_index": k + 1, "box_index": 1}),)
    return Case({"n": k + 1}, slides.model, slides.after(change), (Part(hand, tools),))


def _add_point(rng: random.Random) -> Case:
    slides = Slides(rng)
    k = rng.randrange(3)
    point = slides.rng.choice([p for p in _POINTS if p not in slides.lists[k]])

    def change(pages: list[dict[str, Any]]) -> None:
        pages[k]["boxes"][1]["text"] += f"\n{point}"

    hand = (
        *_to_slide(k), ("key", "ctrl", "enter"), ("key", "ctrl", "enter"), ("key", "ctrl", "end"),
        ("type", f"\n{point}"), ("key", "escape"),
    )  # fmt: skip
    tools = (("write_text", {"content": f"\n{point}", "page_index": k + 1, "box_index": 1, "append": True}),)
    return Case({"n": k + 1, "point": point}, slides.model, slides.after(change), (Part(hand, tools),))


def _ask(rng: random.Random) -> Case:
    slides = Slides(rng)
    k = rng.randrange(1, 3)
    return Case({"n": k + 1}, slides.model, None, (Part((*_to_slide(k), ("answer", slides.titles[k]))),),
                answer=slides.titles[k])  # fmt: skip


def _delete_slide(rng: random.Random) -> Case:
    slides = Slides(rng)
    k = rng.randrange(3)

    def change(pages: list[dict[str, Any]]) -> None:
        del pages[k]

    return Case({"title": slides.titles[k]}, slides.model, slides.after(change),
                (Part((("click", f"Slide {k + 1}"), ("key", "delete"))),))  # fmt: skip


def _duplicate(rng: random.Random) -> Case:
    slides = Slides(rng)
    k = rng.randrange(3)

    def change(pages: list[dict[str, Any]]) -> None:
        pages.insert(k + 1, pages[k])

    hand = (("click", f"Slide {k + 1}"), ("click", "Duplicate Slide"))
    tools = (("duplicate_slide", {"slide_index": k + 1, "target_position": k + 1}),)
    return Case({"n": k + 1}, slides.model, slides.after(change), (Part(hand, tools),))


def _absent_slide(rng: random.Random) -> Case:
    slides = Slides(rng)
    return Case({"title": slides.absent}, slides.model, None)


FORMAT = ("format",)
KINDS: tuple[Kind, ...] = (
    Kind("impress/title", "Change the title of slide {n} to {title}, and save.", _title),
    Kind("impress/bold", "Make the title of slide {n} bold, and save.",
         _style({"bold": True}, ("ctrl", "b"), ("set_style", {"bold": True})), tags=FORMAT),
    Kind("impress/italic", "Make the title of slide {n} italic, and save.",
         _style({"italic": True}, ("ctrl", "i"), ("set_style", {"italic": True})), tags=FORMAT),
    Kind("impress/center", "Center the title of slide {n}, and save.",
         _style({"align": "center"}, ("ctrl", "e"), ("set_textbox_alignment", {"alignment": "center"})), tags=FORMAT),
    Kind("impress/delete-box", "Delete the list of slide {n}, box and all, and save.", _delete_box),
    Kind("impress/point", "Add {point} as the last point of slide {n}, and save.", _add_point),
    Kind("impress/delete-slide", "Delete the slide about {title}, and save.", _delete_slide),
    Kind("impress/duplicate", "Put a copy of slide {n} right behind it, and save.", _duplicate),
    Kind("impress/ask", "What is the title of slide {n}?", _ask, tags=("question",)),
    Kind("impress/absent", "Delete the slide about {title}, and save.", _absent_slide, feasible=False),
)  # fmt: skip
