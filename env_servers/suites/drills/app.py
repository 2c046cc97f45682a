"""The drills: scenes, and what is asked for on them.

State JSON: device · scene · layout {dx, dy, theme} · answer, and by scene:
board, marks: places and things left [things], folder (colour), inside [things], selected, opened, marked [things],
  menu (thing whose menu is open), pointer (what the mouse is on), tips {thing: number}; a hold opens the menu or marks
list, strip: things, offset (rows or columns scrolled), selected · slider: value, 0 to 8
text: words, selection [first, last] or [], clip · keys: pressed ["ctrl+s"] · card: cards, gone [[thing, direction]]
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ..virtual.app import START, App, Element, Move, Slots, State, Subtask, generator
from ..virtual.gestures import Hand
from ..virtual.icons import COLOURS, THINGS
from ..virtual.pages import assemble

SIZES = {"mobile": (128, 160), "desktop": (160, 128), "web": (160, 128)}
HANDS = {device: Hand(device, *size) for device, size in SIZES.items()}
ROWS, COLUMNS = {"mobile": 5, "desktop": 4, "web": 4}, {"mobile": 3, "desktop": 4, "web": 4}
ROW, COLUMN = 28, 40  # css px
OUTCOME = {
    "board": ("things", "inside", "selected", "opened", "marked"),
    "marks": ("things", "inside", "selected", "opened", "marked"),
    "list": ("offset", "selected"),
    "strip": ("offset", "selected"),
    "slider": ("value",),
    "text": ("selection", "clip"),
    "keys": ("pressed",),
    "card": ("gone",),
}
"""What a task is about, by scene; all that its subtask does not touch has to stay."""
CHORDS = ("ctrl s", "ctrl z", "ctrl x", "ctrl b", "alt k", "ctrl shift z", "escape", "delete", "tab", "pagedown", "end")
BUTTONS = ("Back", "Home", "Menu")
WAYS = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}

Script = Callable[[State, Slots, Sequence[Element], Hand], Move]


@dataclass(frozen=True)
class Drill:
    """One primitive action. text, done, move: as in `Subtask`. actions: of the longest script. pick(rng, state): slots.
    touches: the keys of `OUTCOME` that it may change."""

    name: str
    device: str
    scene: str
    text: str
    pick: Callable[[random.Random, State], Slots]
    done: Callable[[State, Slots], bool]
    move: Script
    actions: int = 1
    touches: tuple[str, ...] = ()


# --- scenes ----------------------------------------------------------------------------------------------------------
def _state(device: str, scene: str, seed: int) -> State:
    rng = generator("drills", device, scene, seed)
    names = rng.sample(sorted(THINGS), 12)
    layout = {"dx": rng.randint(0, 4), "dy": rng.randint(0, 4), "theme": rng.randint(0, 5)}
    board = {
        "places": names[:4], "things": names[:4], "folder": rng.choice(sorted(COLOURS)), "inside": [], "selected": "",
        "opened": "", "marked": [], "menu": "", "pointer": "",
        "tips": dict(zip(names[:4], rng.sample(range(10, 100), 4), strict=True)),
    }  # fmt: skip
    own: dict[str, Any] = {
        "board": board,
        "marks": board,
        "list": {"things": names, "offset": 0, "selected": ""},
        "strip": {"things": names[:8], "offset": 0, "selected": ""},
        "slider": {"value": rng.randint(0, 8)},
        "text": {"words": names, "selection": [], "clip": ""},
        "keys": {"pressed": []},
        "card": {"cards": names[:3], "gone": []},
    }[scene]
    return {"device": device, "scene": scene, "layout": layout, "answer": "", **own}


def screen_facts(state: State) -> list[tuple[str, str]]:
    """Questions that the present screen answers."""
    match state["scene"]:
        case "board" | "marks":
            tip = state["tips"].get(state["pointer"])
            tips = [(f"Which number is the tip of the {state['pointer']}?", str(tip))] if tip else []
            return [("What is selected?", state["selected"] or "none"), *tips]
        case "list" | "strip":
            return [("What is selected?", state["selected"] or "none")]
        case "slider":
            return [("Where is the knob?", str(state["value"]))]
        case "text":
            return [("What is copied?", state["clip"] or "nothing")]
        case "keys":
            return [("What was pressed?", " ".join(state["pressed"]) or "nothing")]
        case "card":
            return [("How many cards are left?", str(len(state["cards"]) - len(state["gone"])))]
    raise AssertionError(state["scene"])


def outcome(state: State) -> dict[str, Any]:
    """What the scene's tasks are about."""
    return {key: state[key] for key in OUTCOME[state["scene"]]}


# --- what is asked for -----------------------------------------------------------------------------------------------
def _thing(rng: random.Random, state: State) -> Slots:
    return {"thing": rng.choice(state["things"])}


def _far(rng: random.Random, state: State) -> Slots:
    """Something that is out of sight at first."""
    shown = (ROWS if state["scene"] == "list" else COLUMNS)[state["device"]]
    return {"thing": rng.choice(state["things"][shown:])}


def _none(rng: random.Random, state: State) -> Slots:
    return {}


def _value(rng: random.Random, state: State) -> Slots:
    return {"value": rng.choice([value for value in range(9) if value != state["value"]])}


def _word(rng: random.Random, state: State) -> Slots:
    return {"word": rng.choice(state["words"])}


def _range(rng: random.Random, state: State) -> Slots:
    first, last = sorted(rng.sample(range(len(state["words"])), 2))
    return {"first": state["words"][first], "last": state["words"][last], "range": [first, last]}


def _chord(rng: random.Random, state: State) -> Slots:
    return {"keys": rng.choice(CHORDS)}


def _button(rng: random.Random, state: State) -> Slots:
    button = rng.choice(BUTTONS)
    return {"button": button, "button_word": button.lower()}


def _way(rng: random.Random, state: State) -> Slots:
    return {"way": rng.choice(sorted(WAYS))}


def _last(state: State) -> int:
    """The offset at the end of the list or strip."""
    return len(state["things"]) - (ROWS if state["scene"] == "list" else COLUMNS)[state["device"]]


def _on(gesture: str) -> Script:
    """One gesture of the hand on the thing or word."""
    return lambda state, slots, elements, hand: getattr(hand, gesture)(elements, slots.get("thing") or slots["word"])


def _menu(state: State, slots: Slots, elements: Sequence[Element], hand: Hand) -> Move:
    if state["menu"] == slots["thing"]:
        return hand.tap(elements, "trash")
    if state["menu"]:
        return hand.tap(elements, "back")
    return (hand.hold if hand.device == "mobile" else hand.context)(elements, slots["thing"])


def _carry(state: State, elements: Sequence[Element], hand: Hand, name: str, onto: str) -> Move:
    """A drag: by the finger, or by the mouse, which goes to its beginning first."""
    if hand.device == "mobile":
        return hand.stroke(elements, name, onto)
    return hand.drag(elements, name, onto) if state.get("pointer") == name else hand.hover(elements, name)


def _slide(state: State, slots: Slots, elements: Sequence[Element], hand: Hand) -> Move:
    goal = str(slots["value"])
    return hand.tap(elements, goal) if hand.device == "web" else _carry(state, elements, hand, "knob", goal)


def _onwards(state: State, elements: Sequence[Element], hand: Hand, down: bool) -> Move:
    """Some rows or columns further, or back."""
    over, sign = next(element.name for element in elements if element.name != "back"), 1 if down else -1
    if state["scene"] == "list":
        if hand.device == "mobile":
            return hand.swipe("up" if down else "down")
        return hand.scroll("down" if down else "up") if hand.device == "web" else hand.wheel(elements, over, -84 * sign)
    if hand.device == "mobile":
        return hand.slide(-50 * sign, 0)
    return hand.scroll("right" if down else "left") if hand.device == "web" else hand.hwheel(elements, over, -80 * sign)


def _seek(state: State, slots: Slots, elements: Sequence[Element], hand: Hand) -> Move:
    place = state["things"].index(slots["thing"])
    if any(element.name == slots["thing"] for element in elements):
        return hand.tap(elements, slots["thing"])
    return _onwards(state, elements, hand, place > state["offset"])


def _selected(state: State, slots: Slots) -> bool:
    place = state["words"].index(slots["word"])
    return state["selection"] == [place, place]


def _line(state: State, slots: Slots) -> bool:
    first = state["words"].index(slots["word"]) // 3 * 3
    return state["selection"] == [first, first + 2]


def _copy(state: State, slots: Slots, elements: Sequence[Element], hand: Hand) -> Move:
    return hand.keys("ctrl", "c") if _selected(state, slots) else hand.mark(elements, slots["word"])


def _tip(state: State, slots: Slots, elements: Sequence[Element], hand: Hand) -> Move:
    if state["pointer"] != slots["thing"]:
        return hand.hover(elements, slots["thing"])
    return hand.answer(str(state["tips"][slots["thing"]]))


def _sway(state: State, slots: Slots, elements: Sequence[Element], hand: Hand) -> Move:
    x, y = WAYS[slots["way"]]
    return hand.slide(0.4 * x * hand.width, 0.4 * y * hand.height)


def _is(key: str) -> Callable[[State, Slots], bool]:
    return lambda state, slots: state[key] == slots["thing"]


_SEEKING = {"actions": 6, "touches": ("offset", "selected")}


def _everywhere(device: str) -> tuple[Drill, ...]:
    """What every family can do."""
    return (
        Drill("scroll", device, "list", "Select the {thing}.", _far, _is("selected"), _seek, **_SEEKING),
        Drill(
            "end", device, "list", "Scroll to the end.", _none, lambda state, slots: state["offset"] == _last(state),
            lambda state, slots, elements, hand: _onwards(state, elements, hand, True), 4, ("offset",),
        ),
        Drill("sideways", device, "strip", "Select the {thing}.", _far, _is("selected"), _seek, **_SEEKING),
        Drill(
            "slider", device, "slider", "Set the slider to {value}.", _value,
            lambda state, slots: state["value"] == slots["value"], _slide, 2, ("value",),
        ),
    )  # fmt: skip


def _by_hand(device: str) -> tuple[Drill, ...]:
    """What takes a finger or a mouse: drags, menus, words."""
    mobile = device == "mobile"
    return (
        Drill(
            "drag", device, "board", "Drag the {thing} into the folder.", _thing,
            lambda state, slots: state["inside"] == [slots["thing"]],
            lambda state, slots, elements, hand: _carry(state, elements, hand, slots["thing"], "folder"),
            2, ("things", "inside"),
        ),
        Drill(
            "menu", device, "board", "Delete the {thing} by its menu.", _thing,
            lambda state, slots: slots["thing"] not in state["things"] and not state["inside"], _menu, 2, ("things",),
        ),
        Drill(
            "word", device, "text", "Select the word {word}.", _word, _selected,
            _on("hold" if mobile else "mark"), 1, ("selection",),
        ),
    )  # fmt: skip


DRILLS: tuple[Drill, ...] = (
    *(drill for device in SIZES for drill in _everywhere(device)),
    *(drill for device in ("mobile", "desktop") for drill in _by_hand(device)),
    Drill(
        "hold", "mobile", "marks", "Mark the {thing}: hold it.", _thing,
        lambda state, slots: state["marked"] == [slots["thing"]], _on("hold"), 1, ("marked",),
    ),
    Drill(
        "swipe", "mobile", "card", "Swipe the card {way}.", _way,
        lambda state, slots: [way for _, way in state["gone"]] == [slots["way"]], _sway, 1, ("gone",),
    ),
    Drill(
        "button", "mobile", "keys", "Press {button_word}.", _button,
        lambda state, slots: state["pressed"] == [slots["button"]],
        lambda state, slots, elements, hand: hand.system(slots["button"]), 1, ("pressed",),
    ),
    Drill(
        "double", "desktop", "board", "Open the {thing}: double click it.", _thing,
        _is("opened"), _on("double"), 1, ("opened", "selected"),
    ),
    Drill(
        "middle", "desktop", "board", "Close the {thing}: middle click it.", _thing,
        lambda state, slots: slots["thing"] not in state["things"] and not state["inside"],
        _on("middle"), 1, ("things",),
    ),
    Drill(
        "hover", "desktop", "board", "Which number is the tip of the {thing}?", _thing,
        lambda state, slots: state["answer"] == str(state["tips"][slots["thing"]]), _tip, 2,
    ),
    Drill(
        "line", "desktop", "text", "Select the line with {word}: triple click it.", _word, _line, _on("triple"),
        1, ("selection",),
    ),
    Drill(
        "text", "desktop", "text", "Select the text from {first} to {last}.", _range,
        lambda state, slots: state["selection"] == slots["range"],
        lambda state, slots, elements, hand: _carry(state, elements, hand, slots["first"], slots["last"]),
        2, ("selection",),
    ),
    Drill(
        "copy", "desktop", "text", "Copy the word {word}.", _word,
        lambda state, slots: state["clip"] == slots["word"], _copy, 2, ("selection", "clip"),
    ),
    Drill(
        "keys", "desktop", "keys", "Press {keys}.", _chord,
        lambda state, slots: state["pressed"] == [slots["keys"].replace(" ", "+")],
        lambda state, slots, elements, hand: hand.keys(*slots["keys"].split()), 1, ("pressed",),
    ),
    Drill(
        "back", "web", "keys", "Go back.", _none, lambda state, slots: state["pressed"] == ["Back"],
        lambda state, slots, elements, hand: hand.back(), 1, ("pressed",),
    ),
)  # fmt: skip


def make_app(drill: Drill) -> App:
    """An app of one vertex."""
    device, hand = drill.device, HANDS[drill.device]
    width, height = SIZES[device]
    subtask = Subtask(
        drill.name, drill.text, drill.done,
        lambda state, slots, elements: drill.move(state, slots, elements, hand),
        after=(START,), at="start", actions=drill.actions,
        touches=lambda slots: frozenset(drill.touches),
    )  # fmt: skip
    return App(
        name=device,
        device=device,
        width=width,
        height=height,
        page=assemble(f"drills on {device}", width, height, Path(__file__).with_name("page.js")),
        subtasks=(subtask,),
        tools=(),
        initial=partial(_state, device, drill.scene),
        sample_state=partial(_state, device, drill.scene),
        facts=screen_facts,
        fill=lambda rng, path, state: drill.pick(rng, state),
        outcome=outcome,
        home="start",
        names=(*sorted(THINGS), "folder", "trash", "back", "knob"),
    )
