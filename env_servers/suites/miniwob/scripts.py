"""Solutions of some MiniWoB++ pages, through the same actions as a policy's: they show that a task can be solved.

In: the page's state and its visible elements. Out: the next move. Only what a reader of the page would know is used:
the instruction, the names and places of elements, what the form holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ..suite import State
from ..virtual.gestures import Element, Hand, Move

HAND = Hand("web", 160, 210)
Script = Callable[[State, Sequence[Element]], Move]


def _quoted(state: State) -> list[str]:
    return re.findall(r'"([^"]*)"', state["instruction"])


def _click_named(state: State, elements: Sequence[Element]) -> Move:
    return HAND.tap(elements, _quoted(state)[0])


def _click(name: str) -> Script:
    return lambda state, elements: HAND.tap(elements, name)


def _enter(fields: Callable[[State], dict[str, str]], then: str) -> Script:
    """Type each text into its field, then click `then`."""

    def script(state: State, elements: Sequence[Element]) -> Move:
        held = dict(state["fields"])
        for name, text in fields(state).items():
            if held[name] != text:
                return HAND.type(text) if state["focus"] == name else HAND.tap(elements, name)
        return HAND.tap(elements, then)

    return script


def _checkboxes(state: State, elements: Sequence[Element]) -> Move:
    wanted = re.fullmatch(r"Select (.*) and click Submit\.", state["instruction"])[1].split(", ")
    for name, ticked in state["fields"]:
        if (name in wanted) != ticked:
            return HAND.tap(elements, name)
    return HAND.tap(elements, "Submit")


def _list(state: State, elements: Sequence[Element]) -> Move:
    wanted = re.fullmatch(r"Select (.*) from the list and click Submit\.", state["instruction"])[1]
    name, held = state["fields"][0]
    return HAND.tap(elements, "Submit") if held == wanted else HAND.select(elements, name, wanted)


def _tab(state: State, elements: Sequence[Element]) -> Move:
    return HAND.tap(elements, re.search(r"Tab #\d+", state["instruction"])[0])


SCRIPTS: dict[str, Script] = {
    "choose-list": _list,
    "click-button": _click_named,
    "click-checkboxes": _checkboxes,
    "click-link": _click_named,
    "click-option": _checkboxes,
    "click-tab": _tab,
    "click-test": _click("Click Me!"),
    "click-test-2": _click("ONE"),
    "enter-text": _enter(lambda state: {"tt": _quoted(state)[0]}, "Submit"),
    "focus-text": _click("tt"),
    "login-user": _enter(lambda state: dict(zip(("username", "password"), _quoted(state), strict=True)), "Login"),
}
