"""The action language: what a policy may ask of a phone, a desktop or a browser, and how a point on a screen is named.

In: a device family (`mobile`, `desktop`, `web`), a call (name + JSON arguments), the MCP-style tools on offer.
Out: the JSON signature that goes into the prompt, the verdict on a call (`None` or a failure by name), pixels.

Coordinates are integers on a 0..1000 grid of the *original* screenshot, for every family. Pure: no I/O, no state.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

GRID = 1000
FAMILIES = ("mobile", "desktop", "web")
FUNCTIONS = {"mobile": "mobile_use", "desktop": "computer_use", "web": "browser_use"}

CallFailure = Literal["unknown_tool", "unknown_action", "missing_argument", "bad_argument", "out_of_range"]


# --- coordinates -----------------------------------------------------------------------------------------------------
def to_pixels(x: int, y: int, width: int, height: int) -> tuple[int, int]:
    """Grid point (0..1000 each) -> pixel of the original `width` x `height` screen, clamped to its last pixel.

    Rounding is Python's (half to even). Raises ValueError for a point off the grid or an empty screen.
    """
    _check_screen(width, height)
    if not (0 <= x <= GRID and 0 <= y <= GRID):
        raise ValueError(f"grid point ({x}, {y}) is outside 0..{GRID}")
    return min(round(x * width / GRID), width - 1), min(round(y * height / GRID), height - 1)


def from_pixels(px: float, py: float, width: int, height: int) -> tuple[int, int]:
    """Pixel of the original screen (0 <= px < width, 0 <= py < height) -> the nearest grid point.

    `to_pixels(*from_pixels(px, py, ...), ...)` is the identity for whole pixels of sides up to 1000; on longer sides
    a grid step is more than a pixel, and the way back is within ceil(side / 2000) pixels.
    Raises ValueError for a pixel off the screen.
    """
    _check_screen(width, height)
    if not (0 <= px < width and 0 <= py < height):
        raise ValueError(f"pixel ({px}, {py}) is outside the {width}x{height} screen")
    return round(px * GRID / width), round(py * GRID / height)


def _check_screen(width: int, height: int) -> None:
    if width < 1 or height < 1:
        raise ValueError(f"a screen has at least one pixel a side, got {width}x{height}")


# --- the tables ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class ArgumentSpec:
    """One argument of a GUI function.

    kind: `coordinate` ([x, y] integers on the grid) | `text` (any string) | `keys` (list of key names) |
    `number` | `seconds` (a number, not negative) | `enum` (one of `choices`) | `label` (set-of-marks label).
    """

    kind: Literal["coordinate", "text", "keys", "number", "seconds", "enum", "label"]
    description: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class ActionSpec:
    """One action: all of `required`, exactly one of `one_of` (where there are any), any of `optional`."""

    name: str
    description: str
    required: tuple[str, ...] = ()
    one_of: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()

    @property
    def order(self) -> tuple[str, ...]:
        """Argument names in the order in which a call is written."""
        return (*self.required, *self.one_of, *self.optional)


_COORDINATE = ArgumentSpec("coordinate", "[x, y], integers from 0 to 1000.")
_SECONDS = ArgumentSpec("seconds", "Seconds.")
_PIXELS = ArgumentSpec("number", "Scroll distance; positive is up (scroll) or left (hscroll).")
_STATUS = ArgumentSpec("enum", "How the task ended.", ("success", "failure"))
_TARGET = ("coordinate", "label")

ARGUMENTS: dict[str, dict[str, ArgumentSpec]] = {
    "mobile": {
        "coordinate": _COORDINATE,
        "coordinate2": ArgumentSpec("coordinate", "[x, y] where a swipe ends."),
        "text": ArgumentSpec("text", "Text to type, key event, app to open, answer, or message to the user."),
        "time": _SECONDS,
        "button": ArgumentSpec("enum", "System button.", ("Back", "Home", "Menu", "Enter")),
        "status": _STATUS,
    },
    "desktop": {
        "keys": ArgumentSpec("keys", "Key names, pressed together in this order."),
        "text": ArgumentSpec("text", "Text to type, answer, or message to the user."),
        "coordinate": _COORDINATE,
        "pixels": _PIXELS,
        "time": _SECONDS,
        "status": _STATUS,
    },
    "web": {
        "coordinate": _COORDINATE,
        "label": ArgumentSpec("label", "Label of a marked element, in place of a coordinate."),
        "text": ArgumentSpec("text", "Text to type, or the answer."),
        "direction": ArgumentSpec("enum", "Where to scroll.", ("up", "down", "left", "right")),
        "option": ArgumentSpec("text", "Option to choose from a list."),
        "time": _SECONDS,
        "url": ArgumentSpec("text", "Address to open."),
        "status": _STATUS,
    },
}

ACTIONS: dict[str, tuple[ActionSpec, ...]] = {
    "mobile": (
        ActionSpec("click", "tap a point", ("coordinate",)),
        ActionSpec("long_press", "press a point for some time", ("coordinate",), optional=("time",)),
        ActionSpec("swipe", "swipe from coordinate to coordinate2", ("coordinate", "coordinate2")),
        ActionSpec("type", "type text into the focused field", ("text",)),
        ActionSpec("system_button", "press a system button", ("button",)),
        ActionSpec("key", "send a key event", ("text",)),
        ActionSpec("open", "open an app by name", ("text",)),
        ActionSpec("wait", "wait for the screen", ("time",)),
        ActionSpec("answer", "answer the user's question", ("text",)),
        ActionSpec("interact", "ask the user", ("text",)),
        ActionSpec("ask_user", "the same as interact", ("text",)),
        ActionSpec("terminate", "end the task", ("status",)),
    ),
    "desktop": (
        ActionSpec("key", "press keys", ("keys",)),
        ActionSpec("type", "type text", ("text",)),
        ActionSpec("mouse_move", "move the cursor", ("coordinate",)),
        ActionSpec("left_click", "click", ("coordinate",)),
        ActionSpec("left_click_drag", "drag from the cursor to a point", ("coordinate",)),
        ActionSpec("right_click", "right-click", ("coordinate",)),
        ActionSpec("middle_click", "middle-click", ("coordinate",)),
        ActionSpec("double_click", "double-click", ("coordinate",)),
        ActionSpec("triple_click", "triple-click", ("coordinate",)),
        ActionSpec("scroll", "turn the wheel, at coordinate if given", ("pixels",), optional=("coordinate",)),
        ActionSpec("hscroll", "scroll sideways, at coordinate if given", ("pixels",), optional=("coordinate",)),
        ActionSpec("wait", "wait for the screen", ("time",)),
        ActionSpec("answer", "answer the user's question", ("text",)),
        ActionSpec("interact", "ask the user", ("text",)),
        ActionSpec("terminate", "end the task", ("status",)),
    ),
    "web": (
        ActionSpec("click", "click an element", one_of=_TARGET),
        ActionSpec("type", "type text, into the target if given", ("text",), optional=_TARGET),
        ActionSpec("scroll", "scroll the page, or the target if given", ("direction",), optional=_TARGET),
        ActionSpec("select", "choose an option of a list", ("option",), one_of=_TARGET),
        ActionSpec("wait", "wait for the page", ("time",)),
        ActionSpec("go_back", "go to the previous page"),
        ActionSpec("goto", "open an address", ("url",)),
        ActionSpec("answer", "answer the user's question", ("text",)),
        ActionSpec("terminate", "end the task", ("status",)),
    ),
}

_SUMMARY = {
    "mobile": "Operate a touch screen.",
    "desktop": "Operate a desktop with mouse and keyboard.",
    "web": "Operate a web browser.",
}
_JSON_TYPES: dict[str, dict[str, Any]] = {
    "coordinate": {"type": "array", "items": {"type": "integer"}},
    "text": {"type": "string"},
    "keys": {"type": "array", "items": {"type": "string"}},
    "number": {"type": "number"},
    "seconds": {"type": "number"},
    "enum": {"type": "string"},
    "label": {"type": ["integer", "string"]},
}


def check_family(device: str) -> str:
    """`device` itself if it is a family; ValueError otherwise (a family is never guessed from a part of a name)."""
    if device not in FAMILIES:
        raise ValueError(f"unknown device family {device!r}: choose one of {', '.join(FAMILIES)}")
    return device


def action_spec(device: str, name: str) -> ActionSpec | None:
    """The action called `name` of a family, or None."""
    return next((spec for spec in ACTIONS[check_family(device)] if spec.name == name), None)


def tool_schema(device: str) -> dict[str, Any]:
    """The family's GUI function as `{"type": "function", "function": {name, description, parameters}}` (JSON schema).

    The same object every time, key order included: its JSON line is part of the prompt.
    """
    check_family(device)
    lines = [f"* {spec.name}: {spec.description}." for spec in ACTIONS[device]]
    properties: dict[str, Any] = {"action": {"type": "string", "enum": [spec.name for spec in ACTIONS[device]]}}
    for name, argument in ARGUMENTS[device].items():
        choices = {"enum": list(argument.choices)} if argument.choices else {}
        properties[name] = {**_JSON_TYPES[argument.kind], **choices, "description": argument.description}
    screen = f"Coordinates are on a {GRID}x{GRID} grid of the screenshot."
    function = {
        "name": FUNCTIONS[device],
        "description": "\n".join([f"{_SUMMARY[device]} {screen}", *lines]),
        "parameters": {"type": "object", "properties": properties, "required": ["action"]},
    }
    return {"type": "function", "function": function}


# --- calls -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Call:
    """What a policy asks for: a GUI function with its `action`, or an MCP-style tool (`<server>_<app>.<function>`)."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """`{"name": ..., "arguments": {...}}`, GUI arguments in the order of the action table."""
        arguments = self.arguments
        device = next((d for d in FAMILIES if FUNCTIONS[d] == self.name), None)
        spec = action_spec(device, arguments["action"]) if device and "action" in arguments else None
        if spec is not None:
            order = [name for name in ("action", *spec.order) if name in arguments]
            arguments = {name: arguments[name] for name in (*order, *(n for n in arguments if n not in order))}
        return {"name": self.name, "arguments": dict(arguments)}


def validate_call(call: Call, device: str, tools: Sequence[Mapping[str, Any]] = ()) -> CallFailure | None:
    """None if the call can be carried out on this family with these tools; otherwise why not.

    `tools`: MCP-style signatures, bare (`{name, description, parameters}`) or wrapped in `{"type": "function", ...}`.
    Raises ValueError for an unknown family or a tool without a name (both are the caller's mistakes, not the policy's).
    """
    check_family(device)
    if not isinstance(call.arguments, dict) or not _can_be_sent(call.arguments):
        return "bad_argument"
    if call.name == FUNCTIONS[device]:
        return _validate_gui(call.arguments, device)
    for tool in tools:
        function = tool_function(tool)
        if function["name"] == call.name:
            return _validate_schema(call.arguments, function.get("parameters") or {})
    return "unknown_tool"


def tool_function(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """The `{name, description, parameters}` of a tool signature, out of `{"type": "function", ...}` if wrapped."""
    function = tool.get("function", tool)
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise ValueError(f"a tool signature needs a name, got {dict(tool)!r}")
    return function


def _validate_gui(arguments: dict[str, Any], device: str) -> CallFailure | None:
    if "action" not in arguments:
        return "missing_argument"
    action = arguments["action"]
    spec = action_spec(device, action) if isinstance(action, str) else None
    if spec is None:
        return "unknown_action"
    targets = [name for name in _TARGET if name in arguments]
    if any(name not in arguments for name in spec.required):
        return "missing_argument"
    if spec.one_of and not any(name in arguments for name in spec.one_of):
        return "missing_argument"
    if any(name != "action" and name not in spec.order for name in arguments) or len(targets) > 1:
        return "bad_argument"
    return _first(_check(ARGUMENTS[device][name], arguments[name]) for name in spec.order if name in arguments)


def _check(argument: ArgumentSpec, value: Any) -> CallFailure | None:
    match argument.kind:
        case "coordinate":
            if not isinstance(value, list) or len(value) != 2 or not all(_is_integer(v) for v in value):
                return "bad_argument"
            return None if all(0 <= v <= GRID for v in value) else "out_of_range"
        case "text":
            return None if isinstance(value, str) else "bad_argument"
        case "keys":
            named = isinstance(value, list) and value and all(isinstance(key, str) and key for key in value)
            return None if named else "bad_argument"
        case "number" | "seconds":
            if not _is_number(value):
                return "bad_argument"
            return None if argument.kind == "number" or value >= 0 else "out_of_range"
        case "enum":
            return None if isinstance(value, str) and value in argument.choices else "bad_argument"
        case "label":
            if _is_integer(value):
                return None if value >= 0 else "out_of_range"
            return None if isinstance(value, str) and value else "bad_argument"


def _first(failures: Iterable[CallFailure | None]) -> CallFailure | None:
    for failure in failures:
        if failure is not None:
            return failure
    return None


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _can_be_sent(arguments: dict[str, Any]) -> bool:
    """Strict JSON in UTF-8: no NaN, no lone surrogates (`"\\ud800"`), nothing nested beyond reason."""
    try:
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        return False
    return True


_TYPE_CHECKS = {
    "string": lambda value: isinstance(value, str),
    "integer": _is_integer,
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}


def _validate_schema(value: Any, schema: Mapping[str, Any]) -> CallFailure | None:
    """The part of JSON schema that tool signatures use: type, enum, required, properties, items, minimum, maximum,
    `additionalProperties: false`."""
    types = schema.get("type", ())
    types = (types,) if isinstance(types, str) else tuple(types)
    if types and not any(_TYPE_CHECKS.get(name, lambda _: True)(value) for name in types):
        return "bad_argument"
    if "enum" in schema and value not in schema["enum"]:
        return "bad_argument"
    if _is_number(value):
        if value < schema.get("minimum", -math.inf) or value > schema.get("maximum", math.inf):
            return "out_of_range"
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        if any(name not in value for name in schema.get("required", ())):
            return "missing_argument"
        if schema.get("additionalProperties") is False and any(name not in properties for name in value):
            return "bad_argument"
        return _first(_validate_schema(value[name], properties[name]) for name in value if name in properties)
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        return _first(_validate_schema(item, schema["items"]) for item in value)
    return None
