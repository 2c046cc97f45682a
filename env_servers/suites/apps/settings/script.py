"""The scripts of the settings and the terminal: the next move of each subtask from any state."""

from __future__ import annotations

from collections.abc import Sequence

from ...virtual.app import Element, Move, Slots, State
from ..office import HAND, HEIGHT, WIDTH, fill_box, shown
from .effects import contacts, node

WHEEL = 160  # css px
SETTINGS_WIDTH = 640


def _open(state: State, elements: Sequence[Element], app: str, dialog: str = "") -> Move | None:
    """The window of `app` in front, with no other dialog than `dialog`; None when it is."""
    if state["dialog"]["kind"] not in ("", dialog):
        return HAND.keys("escape")
    if state["windows"] and state["windows"][-1]["app"] == app:
        return None
    return HAND.tap(elements, f"{app} icon")


def _panel(state: State, elements: Sequence[Element], panel: str, dialog: str = "") -> Move | None:
    """A panel of the settings in front; None when it is."""
    if move := _open(state, elements, "settings", dialog):
        return (
            HAND.tap(elements, f"{panel} panel")
            if shown(elements, f"{panel} panel") and panel != state["panel"]
            else move
        )
    return None if state["panel"] == panel else HAND.tap(elements, f"{panel} panel")


def _press(
    state: State, elements: Sequence[Element], panel: str, name: str, names: Sequence[str], dialog: str = ""
) -> Move:
    """Press `name`, one of the panel's `names` from top to bottom, scrolling to it."""
    if move := _panel(state, elements, panel, dialog):
        return move
    if shown(elements, name):
        return HAND.tap(elements, name)
    if name not in names and (not names or shown(elements, names[-1])):  # looked through to the end: it is not there
        return HAND.give_up()
    seen = [other for other in names if shown(elements, other)]
    above = seen and name in names and names.index(name) < names.index(seen[0])
    return HAND.wheel(elements, seen[0] if seen else f"{panel} settings", WHEEL if above else -WHEEL)


def _slider(state: State, elements: Sequence[Element], panel: str, name: str, value: int) -> Move:
    if move := _panel(state, elements, panel):
        return move
    knob = f"{name} knob"
    return HAND.drag(elements, knob, f"{name} {value}") if state["pointer"] == knob else HAND.hover(elements, knob)


def _form(state: State, elements: Sequence[Element], field: str, text: str, button: str) -> Move:
    return fill_box(elements, state, f"{field} box", state["dialog"][field], text) or HAND.tap(elements, button)


# --- display and sound -----------------------------------------------------------------------------------------------
def brightness(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    return _slider(state, elements, "display", "brightness", slots["brightness"])


def volume(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    return _slider(state, elements, "sound", "volume", slots["volume"])


def night(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    return _panel(state, elements, "display") or HAND.tap(elements, "night light")


def scale(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    return _panel(state, elements, "display") or HAND.tap(elements, f"scale {slots['scale']}")


def mute(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    return _panel(state, elements, "sound") or HAND.tap(elements, "mute")


def output(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    outputs = [f"output {name}" for name in state["settings"]["sound"]["outputs"]]
    return _press(state, elements, "sound", f"output {slots['output']}", outputs)


# --- network ---------------------------------------------------------------------------------------------------------
def join(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    kind = f"join {slots['network']}"
    if state["dialog"]["kind"] == kind:
        return _form(state, elements, "password", slots["password"], "connect")
    network = state["settings"]["network"]
    if not network["wifi"]:
        return _panel(state, elements, "network") or HAND.tap(elements, "wifi")
    names = [f"connect {name}" for name in network["networks"] if name != network["connected"]]
    return _press(state, elements, "network", f"connect {slots['network']}", names, kind)


def forget(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    network = state["settings"]["network"]
    if not network["wifi"]:
        return _panel(state, elements, "network") or HAND.tap(elements, "wifi")
    names = [f"forget {name}" for name in network["networks"] if name in network["known"]]
    return _press(state, elements, "network", f"forget {slots['forgotten']}", names)


def wifi(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    return _panel(state, elements, "network") or HAND.tap(elements, "wifi")


# --- users and notifications -----------------------------------------------------------------------------------------
def _users(state: State, verb: str) -> list[str]:
    """The buttons of a kind; there is none to remove oneself."""
    names = [user["name"] for user in state["settings"]["users"]]
    return [f"{verb} {name}" for name in names if verb != "remove" or not state["home"].endswith(f"/{name}")]


def add(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    if state["dialog"]["kind"] == "user":
        return _form(state, elements, "name", slots["new_user"], "create")
    return _press(state, elements, "users", "add user", [*_users(state, "role of"), "add user"], "user")


def remove(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    kind = f"remove {slots['old_user']}"
    if state["dialog"]["kind"] == kind:
        return HAND.tap(elements, "remove")
    return _press(state, elements, "users", kind, _users(state, "remove"), kind)


def missing(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    return _press(state, elements, "users", f"remove {slots['missing']}", _users(state, "remove"))


def role(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    return _press(state, elements, "users", f"role of {slots['role_user']}", _users(state, "role of"))


def quiet(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    names = ["do not disturb", *(f"notifications of {app}" for app in state["settings"]["notifications"]["order"])]
    return _press(state, elements, "notifications", "do not disturb", names)


def app(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    names = [f"notifications of {app}" for app in state["settings"]["notifications"]["order"]]
    return _press(state, elements, "notifications", f"notifications of {slots['app']}", names)


# --- about -----------------------------------------------------------------------------------------------------------
def device(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    return (
        _panel(state, elements, "about")
        or fill_box(elements, state, "device name", state["field"], slots["device"])
        or HAND.tap(elements, "apply")
    )


def fact(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    return _panel(state, elements, "about") or HAND.answer(slots["fact_answer"])


# --- the terminal ----------------------------------------------------------------------------------------------------
def command(state: State, elements: Sequence[Element], text: str) -> Move:
    """Run a command line."""
    if move := _open(state, elements, "terminal"):
        return move
    held = state["terminal"]["input"]
    return fill_box(elements, state, "terminal input", held, text) or HAND.keys("enter")


def _commanded(slot: str):
    return lambda state, slots, elements: command(state, elements, slots[slot])


def _on_file(slot: str, line: str, folder: str):
    """A command line about a file of a folder; one that is not there is looked for by a list of the folder."""

    def move(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
        if slots[slot] in node(state, f"~/{folder}")["items"]:
            return command(state, elements, slots[line])
        return looked_up(state, elements, f"ls ~/{folder}")

    return move


def looked_up(state: State, elements: Sequence[Element], line: str) -> Move:
    """Runs a command that shows that something is not there, then gives up."""
    seen = any(other.endswith(f"$ {line}") for other in state["terminal"]["lines"])
    return (_open(state, elements, "terminal") if seen else command(state, elements, line)) or HAND.give_up()


folder, write = map(_commanded, ("folder_line", "write_line"))
shift, erase = (
    _on_file(slot, line, "Downloads") for slot, line in (("shifted", "shift_line"), ("erased", "erase_line"))
)
mode = _on_file("moded", "mode_line", "Documents")


def serial(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """Look the number up, then write it."""
    if state["panel"] != "about":
        return _panel(state, elements, "about") or HAND.keys("escape")
    return command(state, elements, slots["serial_line"])


def phone(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    if slots["contact"] in contacts(state) and any(
        slots["phone_answer"] in line for line in state["terminal"]["lines"][-6:]
    ):
        return _open(state, elements, "terminal") or HAND.answer(slots["phone_answer"])
    if slots["contact"] not in contacts(state):
        return looked_up(state, elements, f'grep "{slots["contact"]}" ~/contacts.txt')
    return command(state, elements, slots["phone_line"])


# --- windows ---------------------------------------------------------------------------------------------------------
def panel(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    return _panel(state, elements, slots["panel"]) or HAND.tap(elements, f"{slots['panel']} panel")


def snap(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    if move := _open(state, elements, "settings"):
        return move
    if state["pointer"] != "settings title":
        return HAND.hover(elements, "settings title")
    y = state["windows"][-1]["y"] + 17
    return HAND.drag_to(
        "settings title", slots["side"], WIDTH - 6 if slots["side"] == "right" else 6, min(y, HEIGHT - 1)
    )


def close(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    return _open(state, elements, "settings") or HAND.tap(elements, "close settings")
