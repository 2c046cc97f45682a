"""BrowserGym's action strings and our calls of the web and desktop families.

In: a string as agents for BrowserGym, MiniWoB++ and WebArena write it ("click('12')", "mouse_click(60, 100)"), and the
viewport's size in px; or valid arguments of a call. Out: the other one. A string is parsed, never evaluated: calls of
known functions with literal arguments, nothing else.

A `bid` names an element as a mark's label does: `labels` says which label has which bid (the same text where it is
left out). Raises ValueError for what is no action string, Unsupported for what has no counterpart.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from ..protocol.actions import from_pixels, to_pixels
from ..screens import Unsupported

Arguments = dict[str, Any]

SIGNATURES: dict[str, tuple[str, ...]] = {
    "click": ("bid", "button?", "modifiers?"),
    "dblclick": ("bid", "button?", "modifiers?"),
    "hover": ("bid",),
    "fill": ("bid", "value"),
    "clear": ("bid",),
    "focus": ("bid",),
    "check": ("bid",),
    "uncheck": ("bid",),
    "press": ("bid", "key_comb"),
    "select_option": ("bid", "options"),
    "drag_and_drop": ("from_bid", "to_bid"),
    "scroll": ("delta_x", "delta_y"),
    "mouse_move": ("x", "y"),
    "mouse_click": ("x", "y", "button?"),
    "mouse_dblclick": ("x", "y", "button?"),
    "mouse_drag_and_drop": ("from_x", "from_y", "to_x", "to_y"),
    "keyboard_press": ("key",),
    "keyboard_type": ("text",),
    "keyboard_insert_text": ("text",),
    "goto": ("url",),
    "go_back": (),
    "noop": ("wait_ms?",),
    "send_msg_to_user": ("text",),
    "report_infeasible": ("reason",),
}
"""The functions that are known, with their arguments in order; "?" marks those that may be left out."""

_NUMBERS = frozenset("x y from_x from_y to_x to_y delta_x delta_y wait_ms".split())
_CLICKS = {"left": "left_click", "middle": "middle_click", "right": "right_click"}
_KEYS = {"Control": "ctrl", "Meta": "meta", "Alt": "alt", "Shift": "shift"}
_PAGE = 200  # px that a scroll of the web family is written as


def parse(text: str) -> list[tuple[str, dict[str, Any]]]:
    """(function, its arguments by name) of every call in an action string, in order; ValueError with what is wrong."""
    try:
        body = ast.parse(text.strip()).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"no action string: {type(error).__name__}") from None
    if not body:
        raise ValueError("the action string is empty")
    return [_call(statement) for statement in body]


def _call(statement: ast.stmt) -> tuple[str, dict[str, Any]]:
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
        raise ValueError("an action string is calls of functions, as click('12')")
    name = call.func.id
    if name not in SIGNATURES:
        raise ValueError(f"there is no action {name!r}")
    names = [parameter.rstrip("?") for parameter in SIGNATURES[name]]
    if len(call.args) > len(names):
        raise ValueError(f"{name} takes {len(names)} arguments, not {len(call.args)}")
    given = dict(zip(names, map(_literal, call.args), strict=False))
    for keyword in call.keywords:
        if keyword.arg not in names or keyword.arg in given:
            raise ValueError(f"{name}: argument {keyword.arg!r} is unknown or given twice")
        given[keyword.arg] = _literal(keyword.value)
    if missing := [p for p in SIGNATURES[name] if not p.endswith("?") and p not in given]:
        raise ValueError(f"{name} needs {missing[0]}")
    for argument, value in given.items():
        _check(name, argument, value)
    return name, given


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError, MemoryError):
        raise ValueError("arguments are literals: text, numbers, lists of them") from None


def _check(name: str, argument: str, value: Any) -> None:
    if argument in _NUMBERS:
        right = isinstance(value, int | float) and not isinstance(value, bool)
    elif argument in ("options", "modifiers"):
        right = isinstance(value, str) or (isinstance(value, list) and all(isinstance(one, str) for one in value))
    else:
        right = isinstance(value, str)
    if not right or (argument == "button" and value not in _CLICKS):
        raise ValueError(f"{name}: {argument} cannot be {value!r}"[:200])


def to_calls(
    text: str, device: str, width: int, height: int, labels: Mapping[str, int | str] | None = None
) -> list[Arguments]:
    """The calls of a family (web or desktop) that do what an action string asks for, in order.

    labels: the label of every bid that is marked; None where bids are labels. Raises ValueError, Unsupported.
    """
    if device not in ("web", "desktop"):
        raise ValueError(f"BrowserGym's actions are for web and desktop, not {device!r}")
    made: list[Arguments] = []
    for name, given in parse(text):
        made += _shared(name, given) or {"web": _web, "desktop": _desktop}[device](name, given, width, height, labels)
    return made


def _shared(name: str, given: Mapping[str, Any]) -> list[Arguments]:
    match name:
        case "keyboard_type" | "keyboard_insert_text":
            return [{"action": "type", "text": given["text"]}]
        case "noop":
            return [{"action": "wait", "time": max(given.get("wait_ms", 1000), 0) / 1000}]
        case "send_msg_to_user":
            return [{"action": "answer", "text": given["text"]}]
        case "report_infeasible":
            return [{"action": "terminate", "status": "failure"}]
    return []


def _web(
    name: str, given: Mapping[str, Any], width: int, height: int, labels: Mapping[str, int | str] | None
) -> list[Arguments]:
    if given.get("button", "left") != "left" or given.get("modifiers"):
        raise Unsupported(f"{name} with another button or with modifiers has no counterpart in the web family")
    mark = {"label": _label(given["bid"], labels)} if "bid" in given else {}
    match name:
        case "click" | "focus":
            return [{"action": "click", **mark}]
        case "select_option" if isinstance(given["options"], str) or len(given["options"]) == 1:
            option = given["options"] if isinstance(given["options"], str) else given["options"][0]
            return [{"action": "select", "option": option, **mark}]
        case "scroll" if bool(given["delta_x"]) != bool(given["delta_y"]):
            names = ("left", "right") if given["delta_x"] else ("up", "down")
            return [{"action": "scroll", "direction": names[(given["delta_x"] or given["delta_y"]) > 0]}]
        case "mouse_click":
            return [{"action": "click", "coordinate": _point(given, "x", "y", width, height)}]
        case "goto":
            return [{"action": "goto", "url": given["url"]}]
        case "go_back":
            return [{"action": "go_back"}]
    raise Unsupported(f"{name} has no counterpart in the web family")


def _desktop(
    name: str, given: Mapping[str, Any], width: int, height: int, labels: Mapping[str, int | str] | None
) -> list[Arguments]:
    match name:
        case "mouse_click":
            return [
                {"action": _CLICKS[given.get("button", "left")], "coordinate": _point(given, "x", "y", width, height)}
            ]
        case "mouse_dblclick" if given.get("button", "left") == "left":
            return [{"action": "double_click", "coordinate": _point(given, "x", "y", width, height)}]
        case "mouse_move":
            return [{"action": "mouse_move", "coordinate": _point(given, "x", "y", width, height)}]
        case "mouse_drag_and_drop":
            start, end = (_point(given, f"{at}_x", f"{at}_y", width, height) for at in ("from", "to"))
            return [{"action": "mouse_move", "coordinate": start}, {"action": "left_click_drag", "coordinate": end}]
        case "keyboard_press" if given["key"]:
            keys = given["key"].split("+") if given["key"] != "+" else ["+"]
            return [{"action": "key", "keys": [_KEYS.get(key, key) for key in keys]}]
        case "scroll":
            moves = (("hscroll", given["delta_x"]), ("scroll", given["delta_y"]))
            if turned := [{"action": action, "pixels": -pixels} for action, pixels in moves if pixels]:
                return turned
    raise Unsupported(f"{name} has no counterpart in the desktop family")


def _label(bid: str, labels: Mapping[str, int | str] | None) -> int | str:
    if labels is None:
        return bid
    if bid not in labels:
        raise Unsupported(f"no mark is drawn for the element {bid!r}")
    return labels[bid]


def _point(given: Mapping[str, Any], x: str, y: str, width: int, height: int) -> list[int]:
    return [*from_pixels(given[x], given[y], width, height)]


def to_string(
    arguments: Mapping[str, Any], width: int, height: int, labels: Mapping[str, int | str] | None = None
) -> str:
    """The action string of one call of the web family. Raises Unsupported."""
    bids = {str(label): bid for bid, label in labels.items()} if labels is not None else None
    bid = None
    if "label" in arguments:
        bid = str(arguments["label"]) if bids is None else bids.get(str(arguments["label"]))
        if bid is None:
            raise Unsupported(f"label {arguments['label']!r} has no bid")
    point = to_pixels(*arguments["coordinate"], width, height) if "coordinate" in arguments else None
    click = f"click({bid!r})" if bid is not None else f"mouse_click({point[0]}, {point[1]})" if point else ""
    match arguments["action"]:
        case "click":
            return click
        case "type":
            typed = f"keyboard_type({arguments['text']!r})"
            return f"{click}\n{typed}" if click else typed
        case "select" if bid is not None:
            return f"select_option({bid!r}, {arguments['option']!r})"
        case "scroll" if not click:
            x, y = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}[arguments["direction"]]
            return f"scroll({x * _PAGE}, {y * _PAGE})"
        case "wait":
            return f"noop({1000 * arguments['time']:g})"
        case "goto":
            return f"goto({arguments['url']!r})"
        case "go_back":
            return "go_back()"
        case "answer":
            return f"send_msg_to_user({arguments['text']!r})"
        case "terminate" if arguments["status"] == "failure":
            return "report_infeasible('the task cannot be done')"
    raise Unsupported(f"{arguments['action']} has no counterpart among BrowserGym's actions")
