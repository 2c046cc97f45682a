"""From a call of the action language to real input on a screen: touch on phones, mouse and keyboard elsewhere.

In: a `Screen` and a call that `validate_call` has passed. Out: the input has been handled by the page when `perform`
returns. What the page cannot do at all (a mark that is not drawn, a key that does not exist) is `Unsupported`.

Grid coordinates become css px (device pixel ratio 1). A phone's hold is told by the events' own time stamps, so that
it takes no real time. Buttons outside the screen (Back, Home, ...) are `window.app.button(name)`, answers are
`window.app.answer(text)`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .protocol.actions import to_pixels
from .screens import Unsupported

if TYPE_CHECKING:
    from .browser import Screen

__all__ = ["OFF_SCREEN", "UNTOUCHING", "WAIT_LIMIT_S", "Unsupported", "perform"]

OFF_SCREEN = (-10, -10)  # css px: where the mouse is before a policy has moved it

WAIT_LIMIT_S = 1.0  # a policy may ask for any time; a page that is settled needs none
PAGE_WAIT_LIMIT_S = 60.0  # of a page's own clock (`window.app.wait`), which costs no time
HOLD_S = (0.6, 5.0)  # shortest and longest long press
APART_S = 1.0  # event time between two touches: however fast a policy taps, two taps are no double tap
FARTHEST = 10_000  # css px of one scroll
NOTCH = 100  # css px of one turn of the wheel
UNTOUCHING = ("terminate", "interact", "ask_user")  # actions that leave the screen as it is
SWIPE_MOVES = 4
DRAG_MOVES = 4

_KEYS = {
    "ctrl": "Control", "control": "Control", "alt": "Alt", "option": "Alt", "shift": "Shift",
    "meta": "Meta", "cmd": "Meta", "command": "Meta", "super": "Meta", "win": "Meta",
    "enter": "Enter", "return": "Enter", "tab": "Tab", "esc": "Escape", "escape": "Escape", "space": "Space",
    "backspace": "Backspace", "delete": "Delete", "del": "Delete", "insert": "Insert", "home": "Home", "end": "End",
    "pageup": "PageUp", "page_up": "PageUp", "pagedown": "PageDown", "page_down": "PageDown",
    "up": "ArrowUp", "down": "ArrowDown", "left": "ArrowLeft", "right": "ArrowRight",
    "arrowup": "ArrowUp", "arrowdown": "ArrowDown", "arrowleft": "ArrowLeft", "arrowright": "ArrowRight",
    **{f"f{number}": f"F{number}" for number in range(1, 13)},
}  # fmt: skip
_BUTTONS = {"left": 1, "right": 2, "middle": 4}
_SYSTEM = {"back": "Back", "home": "Home", "menu": "Menu"}
_APP = """async function (method, argument) {
  if (!this.app[method]) return false;
  await this.app[method](argument);
  return true;
}"""
_SELECT = """function (x, y, wanted) {
  const list = document.elementFromPoint(x, y)?.closest("select");
  const option = list && [...list.options].find((o) => o.label.trim() === wanted || o.value === wanted);
  if (!option) return false;
  list.value = option.value;
  for (const kind of ["input", "change"]) list.dispatchEvent(new Event(kind, { bubbles: true }));
  return true;
}"""


async def perform(screen: Screen, device: str, arguments: Mapping[str, Any]) -> None:
    """Carry out one GUI call (its validated `arguments`, with `action`) on a screen of `device`'s family.

    `terminate`, `interact` and `ask_user` touch nothing. Raises Unsupported, BrowserLost or PageError.
    """
    action = arguments["action"]
    match action:
        case name if name in UNTOUCHING:
            return
        case "wait":
            if not await screen.call(_APP, "wait", min(arguments["time"], PAGE_WAIT_LIMIT_S)):
                await asyncio.sleep(min(arguments["time"], WAIT_LIMIT_S))
        case "answer":
            await screen.call(_APP, "answer", arguments["text"])
        case "type":
            if target := _target(screen, arguments):
                await _click(screen, target)
            await _type(screen, arguments["text"])
        case _:
            await {"mobile": _touch, "desktop": _desktop, "web": _web}[device](screen, action, arguments)


def _target(screen: Screen, arguments: dict[str, Any], name: str = "coordinate") -> tuple[int, int] | None:
    """The call's point in css px, the centre of a marked element included; None where it has none."""
    if "label" in arguments:
        label = str(arguments["label"])
        if not (label.isascii() and label.isdigit() and 1 <= int(label[:9]) <= len(screen.marks)):
            raise Unsupported(f"the screen draws no mark {label!r}: its marks are 1 to {len(screen.marks)}")
        x0, y0, x1, y1 = screen.marks[int(label) - 1]["box"]
        return round((x0 + x1) / 2), round((y0 + y1) / 2)
    if name not in arguments:
        return None
    return to_pixels(*arguments[name], screen.kind.width, screen.kind.height)


async def _app(screen: Screen, method: str, argument: str) -> None:
    if not await screen.call(_APP, method, argument):
        raise Unsupported(f"the app {screen.kind.name!r} has no {method}")


async def _type(screen: Screen, text: str) -> None:
    """Text as one insertion a line; a line break is the Enter key."""
    for number, line in enumerate(text.split("\n")):
        if number:
            await screen.exchange(screen.page.keyboard.press("Enter"))
        if line:
            await screen.exchange(screen.page.keyboard.insert_text(line))


async def _press(screen: Screen, keys: list[str]) -> None:
    """Keys held together in this order, then let go in the reverse order."""
    names = [_KEYS.get(key.lower(), key if len(key) == 1 and " " <= key <= "~" else None) for key in keys]
    if None in names:
        raise Unsupported(f"there is no key {keys[names.index(None)]!r}")
    lower = any(name in ("Control", "Alt", "Meta") for name in names)
    combination = [name.lower() if lower and len(name) == 1 else name for name in names if name]
    await screen.exchange(screen.page.keyboard.press("+".join(combination)))


# --- touch -----------------------------------------------------------------------------------------------------------
def _finger(kind: str, point: tuple[float, float] | None, at: float) -> tuple[str, dict[str, Any]]:
    points = [] if point is None else [{"x": point[0], "y": point[1]}]
    return "Input.dispatchTouchEvent", {"type": kind, "touchPoints": points, "timestamp": at}


async def _touch(screen: Screen, action: str, arguments: dict[str, Any]) -> None:
    point = _target(screen, arguments)
    now = max(time.time(), screen.touched_at + APART_S)
    screen.touched_at = now
    match action:
        case "click":
            await screen.send_all(_finger("touchStart", point, now), _finger("touchEnd", None, now))
        case "long_press":
            shortest, longest = HOLD_S
            screen.touched_at += min(max(arguments.get("time", shortest), shortest), longest)
            await screen.send_all(_finger("touchStart", point, now), _finger("touchEnd", None, screen.touched_at))
        case "swipe":
            (x0, y0), (x1, y1) = point, _target(screen, arguments, "coordinate2")
            steps = [k / SWIPE_MOVES for k in range(1, SWIPE_MOVES + 1)]
            moves = [_finger("touchMove", (x0 + (x1 - x0) * s, y0 + (y1 - y0) * s), now) for s in steps]
            await screen.send_all(_finger("touchStart", point, now), *moves, _finger("touchEnd", None, now))
        case "system_button" if arguments["button"] == "Enter":
            await _press(screen, ["Enter"])
        case "system_button":
            await _app(screen, "button", arguments["button"])
        case "key":
            name = arguments["text"].strip().lower().removeprefix("keycode_")
            await (_app(screen, "button", _SYSTEM[name]) if name in _SYSTEM else _press(screen, [name]))
        case "open":
            await _app(screen, "open", arguments["text"])


# --- mouse -----------------------------------------------------------------------------------------------------------
def _mouse(kind: str, point: tuple[int, int], **more: Any) -> tuple[str, dict[str, Any]]:
    return "Input.dispatchMouseEvent", {"type": kind, "x": point[0], "y": point[1], **more}


async def _move(screen: Screen, point: tuple[int, int]) -> None:
    await screen.send_all(_mouse("mouseMoved", point))
    screen.pointer = point


async def _click(screen: Screen, point: tuple[int, int], button: str = "left", count: int = 1) -> None:
    """All events on their way at once; the browser handles them in this order."""
    events = [_mouse("mouseMoved", point)]
    for number in range(1, count + 1):
        named = {"button": button, "clickCount": number}
        events.append(_mouse("mousePressed", point, buttons=_BUTTONS[button], force=0.5, **named))
        events.append(_mouse("mouseReleased", point, buttons=0, **named))
    await screen.send_all(*events)
    screen.pointer = point


async def _drag(screen: Screen, point: tuple[int, int]) -> None:
    """From where the pointer is. Through Playwright, which also carries what HTML's own drag and drop picks up."""
    mouse = screen.page.mouse
    await screen.exchange(mouse.move(*screen.pointer))
    await screen.exchange(mouse.down())
    await screen.exchange(mouse.move(*point, steps=DRAG_MOVES))
    await screen.exchange(mouse.up())
    screen.pointer = point


async def _wheel(screen: Screen, point: tuple[int, int] | None, dx: float, dy: float) -> None:
    """Turn the wheel over `point`, else where the pointer is, else over the middle of the screen."""
    if point is None and screen.pointer == OFF_SCREEN:
        point = (screen.kind.width // 2, screen.kind.height // 2)
    dx, dy = (max(-FARTHEST, min(FARTHEST, distance)) for distance in (dx, dy))
    moved = [_mouse("mouseMoved", point)] if point is not None else []
    screen.pointer = point or screen.pointer
    await screen.send_all(*moved, _mouse("mouseWheel", screen.pointer, deltaX=dx, deltaY=dy))


async def _desktop(screen: Screen, action: str, arguments: dict[str, Any]) -> None:
    point = _target(screen, arguments)
    match action:
        case "key":
            await _press(screen, arguments["keys"])
        case "mouse_move":
            await _move(screen, point)
        case "left_click":
            await _click(screen, point)
        case "right_click" | "middle_click":
            await _click(screen, point, action.removesuffix("_click"))
        case "double_click" | "triple_click":
            await _click(screen, point, count={"double_click": 2, "triple_click": 3}[action])
        case "left_click_drag":
            await _drag(screen, point)
        case "scroll":
            await _wheel(screen, point, 0, -arguments["pixels"])
        case "hscroll":
            await _wheel(screen, point, -arguments["pixels"], 0)


async def _web(screen: Screen, action: str, arguments: dict[str, Any]) -> None:
    point = _target(screen, arguments)
    match action:
        case "click":
            await _click(screen, point)
        case "scroll":
            dx, dy = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}[arguments["direction"]]
            await _wheel(screen, point, dx * NOTCH, dy * NOTCH)
        case "select":
            if not await screen.call(_SELECT, *point, arguments["option"]):
                raise Unsupported(f"there is no list with {arguments['option']!r} at this point")
        case "go_back":
            await _app(screen, "button", "Back")
        case "goto":
            await _app(screen, "goto", arguments["url"])
