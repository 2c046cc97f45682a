"""AndroidWorld's JSONAction and our calls of the mobile family, both ways; MobileWorld's, which is the same and a drag.

In: valid arguments of `mobile_use`, or a JSONAction as a dict, and the screen's size in px. Out: the other one. What
has no counterpart raises Unsupported, which says so; nothing is approximated but a swipe, which AndroidWorld's wire
knows only as a scroll of the whole screen: one along an axis becomes that, any other is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..protocol.actions import GRID, from_pixels, to_pixels
from ..screens import Unsupported

Arguments = dict[str, Any]
Box = tuple[float, float, float, float]

STRAIGHT = 2  # a swipe is along an axis if it goes this many times as far on it as on the other
SHORTEST = 100  # of the grid: less is a nudge or a drag of something, never a scroll of the screen
ACTION_TYPES = (
    *("click", "double_tap", "scroll", "swipe", "input_text", "navigate_home", "navigate_back", "keyboard_enter"),
    *("open_app", "status", "wait", "long_press", "answer", "unknown"),
)
KEYS = frozenset(
    "action_type index x y text direction goal_status app_name keycode clear_text start_x start_y end_x end_y".split()
)
_BUTTONS = {"Back": "navigate_back", "Home": "navigate_home", "Enter": "keyboard_enter"}
_STATUS = {"success": "complete", "failure": "infeasible"}
_MIDDLE = [GRID // 2, GRID // 2]
_OPPOSITE = {"up": "down", "down": "up", "left": "right", "right": "left"}
_ENDS = {"up": [GRID // 2, 0], "down": [GRID // 2, GRID], "left": [0, GRID // 2], "right": [GRID, GRID // 2]}


def to_json_action(arguments: Mapping[str, Any], width: int, height: int, mobile_world: bool = False) -> Arguments:
    """The JSONAction of one call. mobile_world: its wire also has `drag` and `ask_user`. Raises Unsupported."""
    action = arguments["action"]
    point = to_pixels(*arguments["coordinate"], width, height) if "coordinate" in arguments else None
    match action:
        case "click" | "long_press":
            return {"action_type": action, "x": point[0], "y": point[1]}
        case "swipe" if mobile_world:
            end = to_pixels(*arguments["coordinate2"], width, height)
            return {"action_type": "drag", "start_x": point[0], "start_y": point[1], "end_x": end[0], "end_y": end[1]}
        case "swipe":
            return {"action_type": "scroll", "direction": _OPPOSITE[_direction(arguments)]}
        case "type":
            return {"action_type": "input_text", "text": arguments["text"]}
        case "system_button" if arguments["button"] in _BUTTONS:
            return {"action_type": _BUTTONS[arguments["button"]]}
        case "key" if (name := arguments["text"].removeprefix("KEYCODE_").capitalize()) in _BUTTONS:
            return {"action_type": _BUTTONS[name]}
        case "open":
            return {"action_type": "open_app", "app_name": arguments["text"]}
        case "wait":
            return {"action_type": "wait"}
        case "answer":
            return {"action_type": "answer", "text": arguments["text"]}
        case "interact" | "ask_user" if mobile_world:
            return {"action_type": "ask_user", "text": arguments["text"]}
        case "terminate":
            return {"action_type": "status", "goal_status": _STATUS[arguments["status"]]}
    what = arguments.get("button") or (arguments["text"] if action == "key" else "")
    raise Unsupported(f"{action} {what}".strip() + " has no counterpart in JSONAction")


def _direction(arguments: Mapping[str, Any]) -> str:
    """Where the finger of a swipe goes."""
    (x0, y0), (x1, y1) = arguments["coordinate"], arguments["coordinate2"]
    right, down = x1 - x0, y1 - y0
    most, least = max(abs(right), abs(down)), min(abs(right), abs(down))
    if most < SHORTEST or most < STRAIGHT * least:
        raise Unsupported("JSONAction has no swipe from a point to a point, only a scroll along an axis")
    if abs(down) > abs(right):
        return "down" if down > 0 else "up"
    return "right" if right > 0 else "left"


def from_json_action(action: Mapping[str, Any], width: int, height: int, boxes: Sequence[Box] = ()) -> list[Arguments]:
    """The calls that do what a JSONAction asks for, in order; boxes: px, what `index` counts.

    Raises ValueError for what is no JSONAction, Unsupported for what the mobile family lacks.
    """
    kind = action.get("action_type")
    given = {name: value for name, value in action.items() if value is not None}
    if kind not in (*ACTION_TYPES, "drag", "ask_user"):
        raise ValueError(f"action_type {kind!r} is none of {', '.join(ACTION_TYPES)}")
    if strange := sorted(set(given) - KEYS):
        raise ValueError(f"a JSONAction has no field {strange[0]!r}")
    if unheard := sorted({"keycode", "clear_text"} & set(given)):
        raise Unsupported(f"{unheard[0]} has no counterpart in the mobile family")
    target = _target(given, width, height, boxes)
    match kind:
        case "click" | "long_press":
            if target is None:
                raise ValueError(f"{kind} needs x and y, or an index")
            return [{"action": kind, "coordinate": target}]
        case "scroll" | "swipe":
            return [_swipe(kind, given, target)]
        case "drag":
            names = (("start_x", "start_y"), ("end_x", "end_y"))
            start, end = ([*from_pixels(*(_need(given, name) for name in pair), width, height)] for pair in names)
            return [{"action": "swipe", "coordinate": start, "coordinate2": end}]
        case "input_text":
            typed = {"action": "type", "text": str(_need(given, "text"))}
            return [typed] if target is None else [{"action": "click", "coordinate": target}, typed]
        case "navigate_back" | "navigate_home" | "keyboard_enter":
            return [{"action": "system_button", "button": next(b for b, name in _BUTTONS.items() if name == kind)}]
        case "open_app":
            return [{"action": "open", "text": _need(given, "app_name")}]
        case "wait":
            return [{"action": "wait", "time": 1}]
        case "answer" | "ask_user":
            return [{"action": kind, "text": str(_need(given, "text"))}]
        case "status":
            status = next((ours for ours, theirs in _STATUS.items() if theirs == _need(given, "goal_status")), None)
            if status is None:
                raise ValueError(f"goal_status {given['goal_status']!r} is neither complete nor infeasible")
            return [{"action": "terminate", "status": status}]
    raise Unsupported(f"{kind} has no counterpart in the mobile family")


def _need(given: Mapping[str, Any], name: str) -> Any:
    if name not in given:
        raise ValueError(f"{given['action_type']} needs {name}")
    return given[name]


def _target(given: Mapping[str, Any], width: int, height: int, boxes: Sequence[Box]) -> list[int] | None:
    if "index" in given:
        if "x" in given or "y" in given:
            raise ValueError("give an index, or x and y")
        index = int(given["index"])
        if not 0 <= index < len(boxes):
            raise ValueError(f"index {index} is not among the {len(boxes)} elements of the screen")
        x0, y0, x1, y1 = boxes[index]
        return [*from_pixels((x0 + x1) / 2, (y0 + y1) / 2, width, height)]
    if "x" in given or "y" in given:
        return [*from_pixels(_need(given, "x"), _need(given, "y"), width, height)]
    return None


def _swipe(kind: str, given: Mapping[str, Any], start: list[int] | None) -> Arguments:
    """A scroll begins in the middle; a swipe crosses the screen. Sideways both move the finger against their name, as
    AndroidWorld carries them out."""
    direction = _need(given, "direction")
    if direction not in _OPPOSITE:
        raise ValueError(f"direction {direction!r} is none of {', '.join(_OPPOSITE)}")
    if start is not None:
        raise Unsupported(f"{kind} of one element has no counterpart: leave out index, x and y")
    against = kind == "scroll" or direction in ("left", "right")
    finger = _OPPOSITE[direction] if against else direction
    begin = _MIDDLE if kind == "scroll" else _ENDS[_OPPOSITE[finger]]
    return {"action": "swipe", "coordinate": list(begin), "coordinate2": list(_ENDS[finger])}
