"""pyautogui scripts as input on a desktop: the actions of OSWorld, read from their Python and never evaluated.

In: the text of a `python -c` script of plain calls. Out: what to do, one after another, in pixels; ValueError with the
reason for anything else, before anything is done. The names, their arguments and what these mean are pyautogui's
(docs: Mouse Control Functions, Keyboard Control Functions; on X a scroll is in turns of the wheel).

An `Act` is the name of a desktop's action (see `desktop.host.Host.act`) with its arguments. A mouse action without
`x` happens where the pointer is; `wait` has `time` in seconds.
"""

from __future__ import annotations

import ast
import shlex
from collections.abc import Callable, Sequence
from typing import Any

Act = tuple[str, dict[str, Any]]

MODULES = ("pyautogui", "time")
SETTINGS = ("FAILSAFE", "PAUSE", "MINIMUM_DURATION")  # of pyautogui: may be set, and change nothing here
NOTCH = 40  # px of a desktop's scroll for one turn of the wheel
MOST_ACTS, LONGEST_S = 1000, 60.0  # of one script: acts, and seconds of all its sleeps
_CLICKS = {1: "left_click", 2: "double_click", 3: "triple_click"}
_KEYS = {
    "pgup": "pageup", "pgdn": "pagedown", "\n": "enter", "\r": "enter", "\t": "tab",
    **{f"{name}{side}": name for name in ("ctrl", "shift", "alt", "win", "option") for side in ("left", "right")},
}  # fmt: skip


def key_name(name: Any) -> str:
    """A desktop's name of one of pyautogui's keys."""
    if not isinstance(name, str) or not name:
        raise ValueError(f"{name!r} is not the name of a key")
    return _KEYS.get(name.lower(), name if len(name) == 1 else name.lower())


def _point(x: Any, y: Any) -> dict[str, int]:
    if isinstance(x, list | tuple) and len(x) == 2 and y is None:
        x, y = x
    if x is None and y is None:
        return {}
    if not all(isinstance(value, int | float) and abs(value) < 1e6 for value in (x, y)):
        raise ValueError(f"({x!r}, {y!r}) is no point: give both numbers, or none")
    return {"x": round(x), "y": round(y)}


def _count(number: Any) -> int:
    if not isinstance(number, int) or not 0 <= number <= MOST_ACTS:
        raise ValueError(f"{number!r} is not a number of times from 0 to {MOST_ACTS}")
    return number


def _button(name: Any) -> str:
    if name not in ("left", "middle", "right", "primary", "secondary"):
        raise ValueError(f"there is no button {name!r}")
    return {"primary": "left", "secondary": "right"}.get(name, name)


def _click(
    x=None, y=None, clicks=1, interval=0.0, button="left", duration=0.0, tween=None, logScreenshot=None, _pause=True
) -> list[Act]:  # noqa: E501, N803
    where, name = _point(x, y), _button(button)
    if name == "left" and clicks in _CLICKS:
        return [(_CLICKS[clicks], where)]
    return [(f"{name}_click", where)] * _count(clicks)


def _clicks(clicks: int, button: str = "left") -> Callable[..., list[Act]]:
    def click(
        x=None, y=None, interval=0.0, button=button, duration=0.0, tween=None, logScreenshot=None, _pause=True
    ) -> list[Act]:  # noqa: E501, N803
        return _click(x, y, clicks, button=button)

    return click


def _move(x=None, y=None, duration=0.0, tween=None, logScreenshot=False, _pause=True) -> list[Act]:  # noqa: N803
    where = _point(x, y)
    return [("mouse_move", where)] if where else []


def _drag(
    x=None, y=None, duration=0.0, tween=None, button="left", logScreenshot=None, _pause=True, mouseDownUp=True
) -> list[Act]:  # noqa: E501, N803
    where = _point(x, y)
    if not where:
        raise ValueError("dragTo needs a point")
    if _button(button) == "left":
        return [("left_click_drag", where)]
    return [("mouse_down", {"button": button}), ("mouse_move", where), ("mouse_up", {"button": button})]


def _wheel(action: str, sign: int) -> Callable[..., list[Act]]:
    def scroll(clicks, x=None, y=None, logScreenshot=None, _pause=True) -> list[Act]:  # noqa: N803
        if not isinstance(clicks, int | float) or abs(clicks) > MOST_ACTS:
            raise ValueError(f"{clicks!r} is not a number of turns of the wheel up to {MOST_ACTS}")
        where = _point(x, y)
        return [(action, {"pixels": sign * NOTCH * clicks, "at": bool(where), **where})]

    return scroll


def _write(message, interval=0.0, logScreenshot=None, _pause=True) -> list[Act]:  # noqa: N803
    if isinstance(message, str):
        return [("type", {"text": message})]
    if not isinstance(message, list | tuple):
        raise ValueError(f"{message!r} is neither text nor a list of keys")
    return [("key", {"keys": [key_name(name)]}) for name in message]


def _press(keys, presses=1, interval=0.0, logScreenshot=None, _pause=True) -> list[Act]:  # noqa: N803
    names = [keys] if isinstance(keys, str) else list(keys)
    return [("key", {"keys": [key_name(name)]}) for name in names] * _count(presses)


def _hotkey(*keys, interval=0.0, logScreenshot=None, _pause=True) -> list[Act]:  # noqa: N803
    names = keys[0] if len(keys) == 1 and isinstance(keys[0], list | tuple) else keys
    if not names:
        raise ValueError("hotkey needs keys")
    return [("key", {"keys": [key_name(name) for name in names]})]


def _held(action: str) -> Callable[..., list[Act]]:
    def hold(key, logScreenshot=None, _pause=True) -> list[Act]:  # noqa: N803
        return [(action, {"keys": [key_name(key)]})]

    return hold


def _pressed(action: str) -> Callable[..., list[Act]]:
    def hold(x=None, y=None, button="left", duration=0.0, tween=None, logScreenshot=None, _pause=True) -> list[Act]:  # noqa: N803
        where = _point(x, y)
        return [*([("mouse_move", where)] if where else []), (action, {"button": _button(button)})]

    return hold


def _sleep(seconds) -> list[Act]:
    if not isinstance(seconds, int | float) or not 0 <= seconds <= LONGEST_S:
        raise ValueError(f"{seconds!r} is no time from 0 to {LONGEST_S:g} s")
    return [("wait", {"time": seconds})]


CALLS: dict[str, Callable[..., list[Act]]] = {
    "pyautogui.click": _click, "pyautogui.leftClick": _clicks(1), "pyautogui.rightClick": _clicks(1, "right"),
    "pyautogui.middleClick": _clicks(1, "middle"), "pyautogui.doubleClick": _clicks(2),
    "pyautogui.tripleClick": _clicks(3), "pyautogui.moveTo": _move, "pyautogui.dragTo": _drag,
    "pyautogui.scroll": _wheel("scroll", 1), "pyautogui.vscroll": _wheel("scroll", 1),
    "pyautogui.hscroll": _wheel("hscroll", -1), "pyautogui.typewrite": _write, "pyautogui.write": _write,
    "pyautogui.press": _press, "pyautogui.hotkey": _hotkey, "pyautogui.keyDown": _held("key_down"),
    "pyautogui.keyUp": _held("key_up"), "pyautogui.mouseDown": _pressed("mouse_down"),
    "pyautogui.mouseUp": _pressed("mouse_up"), "pyautogui.sleep": _sleep, "time.sleep": _sleep,
}  # fmt: skip


def script_of(command: str | Sequence[str]) -> str:
    """The script of a command `python -c SCRIPT`, a line or a list of words; ValueError for any other command."""
    words = shlex.split(command) if isinstance(command, str) else list(command)
    if len(words) == 3 and words[0] in ("python", "python3") and words[1] == "-c" and isinstance(words[2], str):
        return words[2]
    raise ValueError(f"only `python -c` with pyautogui calls is carried out, not {' '.join(map(str, words))[:80]!r}")


def parse(script: str) -> list[Act]:
    """What a script of plain calls does; ValueError that names the line and what is not supported."""
    try:
        body = ast.parse(script).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"the script is not Python: {error}") from error
    acts: list[Act] = []
    for statement in body:
        try:
            acts += _statement(statement)
        except (ValueError, TypeError) as error:
            raise ValueError(f"line {statement.lineno}: {error}") from error
        if len(acts) > MOST_ACTS:
            raise ValueError(f"line {statement.lineno}: more than {MOST_ACTS} actions in one script")
    if sum(more["time"] for action, more in acts if action == "wait") > LONGEST_S:
        raise ValueError(f"the script sleeps longer than {LONGEST_S:g} s")
    return acts


def _statement(statement: ast.stmt) -> list[Act]:
    match statement:
        case ast.Import(names=names) if all(one.name in MODULES and one.asname is None for one in names):
            return []
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="pyautogui"), attr=name)]) if name in SETTINGS:
            ast.literal_eval(statement.value)
            return []
        case ast.Pass() | ast.Expr(value=ast.Constant()):
            return []
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=name)) as call):
            known = CALLS.get(f"{module}.{name}")
            if known is None:
                raise ValueError(f"{module}.{name} is not supported, only: {', '.join(CALLS)}")
            if any(word.arg is None for word in call.keywords):
                raise ValueError(f"{module}.{name}: write its arguments out")
            given = [ast.literal_eval(argument) for argument in call.args]
            return known(*given, **{word.arg: ast.literal_eval(word.value) for word in call.keywords})
    raise ValueError(f"`{ast.unparse(statement)[:80]}` is not supported: write plain calls of pyautogui and time.sleep")
