"""The writer's scripts: the next move of each subtask from any state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...virtual.app import Element, Move, Slots, State
from ..office import HAND, escape, fill_box, shown

WHEEL = 260  # css px


def by_id(state: State, key: str) -> dict[str, Any]:
    return next(doc for doc in state["docs"] if doc["id"] == key)


def _in_list(state: State, elements: Sequence[Element], keep: str = "", kind: str = "") -> Move | None:
    """To the list of documents with nothing in the way; None when there."""
    if state["menu"] not in ("", keep) or state["dialog"]["kind"] not in ("", kind):
        return HAND.keys("escape")
    return HAND.tap(elements, "documents") if state["open"] else None


def _in_editor(state: State, slots: Slots, elements: Sequence[Element], keep: str = "") -> Move | None:
    """To the open document with nothing in the way but `keep`; None when there."""
    if move := escape(state, keep):
        return move
    if state["open"] == slots["doc_id"]:
        return None
    if state["open"]:
        return HAND.tap(elements, "documents")
    return HAND.mark(elements, slots["doc"]) if shown(elements, slots["doc"]) else HAND.give_up()


def missing(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """The list of documents shows that it is not there."""
    return _in_list(state, elements) or HAND.give_up()


def _see(state: State, elements: Sequence[Element], name: str, place: int) -> Move | None:
    """Scroll until `name`, in line `place` from 0, is on the screen; None when it is."""
    if shown(elements, name):
        return None
    seen = [int(element.name.split()[1]) - 1 for element in elements if element.name.startswith("paragraph ")]
    return HAND.wheel(elements, "page", WHEEL if seen and place < min(seen) else -WHEEL)


def _place(state: State, slots: Slots, text: str) -> int:
    """The line that holds `text`, from 0."""
    return next(k for k, one in enumerate(by_id(state, slots["doc_id"])["lines"]) if text in one["text"])


def _span(state: State, slots: Slots, text: str, word: str) -> list[int]:
    """[index, length] of `word` in the line that holds `text`."""
    lines = by_id(state, slots["doc_id"])["lines"]
    place = _place(state, slots, text)
    return [sum(len(one["text"]) + 1 for one in lines[:place]) + lines[place]["text"].index(word), len(word)]


def _pick_word(state: State, slots: Slots, elements: Sequence[Element], text: str, word: str) -> Move | None:
    """Mark a word; None when it is marked."""
    if state["selection"] == _span(state, slots, text, word):
        return None
    return _see(state, elements, f"word {word}", _place(state, slots, text)) or HAND.mark(elements, f"word {word}")


def _pick_line(state: State, slots: Slots, elements: Sequence[Element], text: str) -> Move | None:
    """Mark a whole line; None when it is marked."""
    at, length = _span(state, slots, text, text)
    if state["selection"] and state["selection"][0] == at and state["selection"][1] in (length, length + 1):
        return None
    place = _place(state, slots, text)
    name = f"paragraph {place + 1}"
    return _see(state, elements, name, place) or HAND.triple(elements, name)


def _enter_line(state: State, slots: Slots, elements: Sequence[Element], text: str) -> Move | None:
    """Put the cursor into a line; None when it is there."""
    at, length = _span(state, slots, text, text)
    if state["selection"] and at <= state["selection"][0] and sum(state["selection"]) <= at + length:
        return None
    place = _place(state, slots, text)
    name = f"paragraph {place + 1}"
    return _see(state, elements, name, place) or HAND.tap(elements, name)


# --- the list --------------------------------------------------------------------------------------------------------
def star(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    if move := _in_list(state, elements):
        return move
    name = f"star of {slots['star']}"
    return HAND.tap(elements, name) if shown(elements, name) else HAND.give_up()


def _entry(state: State, elements: Sequence[Element], key: str, name: str, entry: str, kind: str = "") -> Move:
    if move := _in_list(state, elements, f"of {key}", kind):
        return move
    if state["menu"]:
        return HAND.tap(elements, entry)
    return HAND.context(elements, name) if shown(elements, name) else HAND.give_up()


def duplicate(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    return _entry(state, elements, slots["copy_id"], slots["copy"], "duplicate")


def delete(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    kind = f"delete {slots['delete_id']}"
    if state["dialog"]["kind"] == kind:
        return HAND.tap(elements, "delete")
    return _entry(state, elements, slots["delete_id"], slots["delete"], "delete", kind)


def create(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    if state["dialog"]["kind"] == "new":
        return fill_box(elements, state, "name box", state["dialog"]["name"], slots["new"]) or HAND.tap(
            elements, "create"
        )
    return _in_list(state, elements) or HAND.tap(elements, "new document")


def open_it(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    return _in_editor(state, slots, elements) or HAND.tap(elements, "documents")


# --- the text --------------------------------------------------------------------------------------------------------
def bold(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    return (
        _in_editor(state, slots, elements)
        or _pick_word(state, slots, elements, slots["bold_line"], slots["bold"])
        or HAND.tap(elements, "bold")
    )


def italic(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    return (
        _in_editor(state, slots, elements)
        or _pick_line(state, slots, elements, slots["italic"])
        or HAND.keys("ctrl", "i")
    )


def heading(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    if move := _in_editor(state, slots, elements, "style"):
        return move
    if move := _enter_line(state, slots, elements, slots["heading"]):
        return HAND.keys("escape") if state["menu"] else move
    return HAND.tap(elements, f"{slots['heading_style']} style" if state["menu"] else "style list")


def center(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    return (
        _in_editor(state, slots, elements)
        or _enter_line(state, slots, elements, slots["center"])
        or HAND.tap(elements, "align center")
    )


def points(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    if move := _in_editor(state, slots, elements):
        return move
    first, last = (_place(state, slots, slots[f"list_{end}"]) for end in ("first", "last"))
    start, end = (_span(state, slots, slots[f"list_{end}"], slots[f"list_{end}"]) for end in ("first", "last"))
    if at := state["selection"]:
        if start[0] <= at[0] <= sum(start) and end[0] <= sum(at) <= sum(end):
            return HAND.tap(elements, slots["list_style"])
    for place in (first, last):
        if move := _see(state, elements, f"paragraph {place + 1}", place):
            return move
    if at and not at[1] and start[0] <= at[0] <= sum(start):
        return HAND.drag(elements, f"paragraph {first + 1}", f"paragraph {last + 1}")
    return HAND.tap(elements, f"paragraph {first + 1}")


def correct(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    return (
        _in_editor(state, slots, elements)
        or _pick_word(state, slots, elements, slots["correct_line"], slots["typo"])
        or HAND.type(slots["right"])
    )


def remove(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    if move := _in_editor(state, slots, elements):
        return move
    lines = by_id(state, slots["doc_id"])["lines"]
    if not any(one["text"] == slots["remove"] for one in lines):  # its line is still there, and empty
        return HAND.keys("backspace")
    return _pick_line(state, slots, elements, slots["remove"]) or HAND.keys("delete")


def append(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    if move := _in_editor(state, slots, elements):
        return move
    lines = by_id(state, slots["doc_id"])["lines"]
    end = sum(len(one["text"]) + 1 for one in lines) - 1
    if not state["selection"]:
        return HAND.tap(elements, next(e.name for e in elements if e.name.startswith("paragraph ")))
    if state["selection"] != [end, 0]:
        return HAND.keys("ctrl", "end")
    return HAND.keys("enter") if lines[-1]["text"] else HAND.type(slots["append"])


def replace(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    if move := _in_editor(state, slots, elements, "find"):
        return move
    if state["dialog"]["kind"] != "find":
        return HAND.keys("ctrl", "h")
    return (
        fill_box(elements, state, "find box", state["dialog"]["find"], slots["find"])
        or fill_box(elements, state, "replace box", state["dialog"]["replace"], slots["put"])
        or HAND.tap(elements, "replace all")
    )


def comment(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    if move := _in_editor(state, slots, elements, "comment"):
        return move
    text = next(one["text"] for one in by_id(state, slots["doc_id"])["lines"] if slots["noted"] in one["text"])
    picked = state["selection"] == _span(state, slots, text, slots["noted"])
    if state["dialog"]["kind"] != "comment":
        return _pick_word(state, slots, elements, text, slots["noted"]) or HAND.tap(elements, "comment button")
    if not picked:
        return HAND.keys("escape")
    return fill_box(elements, state, "comment box", state["dialog"]["comment"], slots["comment"]) or HAND.tap(
        elements, "add"
    )


def footer(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    if state["menu"] == "insert" and state["open"] == slots["doc_id"]:
        return HAND.tap(elements, "footer")
    if move := _in_editor(state, slots, elements, "footer"):
        return move
    if state["dialog"]["kind"] != "footer":
        return HAND.tap(elements, "insert menu")
    return fill_box(elements, state, "footer box", state["dialog"]["footer"], slots["footer"]) or HAND.tap(
        elements, "apply"
    )


def rename(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    return (
        _in_editor(state, slots, elements)
        or fill_box(elements, state, "title", state["title"], slots["title"])
        or HAND.keys("enter")
    )


def save(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    return _in_editor(state, slots, elements) or HAND.keys("ctrl", "s")


def ask(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    if move := _in_editor(state, slots, elements):
        return move
    place = _place(state, slots, slots["ask"] + ":")
    return _see(state, elements, f"paragraph {place + 1}", place) or HAND.answer(slots["ask_answer"])
