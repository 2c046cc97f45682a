"""The action language: coordinates (R1), tables and signatures of the three families, verdicts on calls (R3, R5)."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from env_servers.protocol.actions import (
    ACTIONS,
    FAMILIES,
    FUNCTIONS,
    GRID,
    Call,
    action_spec,
    check_family,
    from_pixels,
    to_pixels,
    tool_function,
    tool_schema,
    validate_call,
)

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "coordinates.json").read_text())["cases"]
sides = st.integers(1, 4000)


# --- coordinates
@pytest.mark.parametrize("case", GOLDEN)
def test_to_pixels_golden(case):
    assert list(to_pixels(case["x"], case["y"], case["width"], case["height"])) == case["expect_px"]


@given(sides, sides, st.data())
def test_pixels_to_grid_and_back(width, height, data):
    """The identity on sides up to 1000; on longer ones within half a grid step, rounded up to pixels."""
    px, py = data.draw(st.integers(0, width - 1)), data.draw(st.integers(0, height - 1))
    x, y = from_pixels(px, py, width, height)
    assert 0 <= x <= GRID and 0 <= y <= GRID
    for pixel, back, side in zip((px, py), to_pixels(x, y, width, height), (width, height), strict=True):
        assert abs(pixel - back) <= (0 if side <= GRID else math.ceil(side / (2 * GRID)))


@pytest.mark.parametrize("side", [128, 160, 320, 768, 999, 1000])
def test_every_pixel_of_a_small_side_survives(side):
    assert [to_pixels(*from_pixels(p, 0, side, side), side, side)[0] for p in range(side)] == list(range(side))


@pytest.mark.parametrize("width,height", [(1000, 1000), (1920, 1080), (1080, 2400), (3840, 2160)])
def test_grid_to_pixels_and_back_on_large_screens(width, height):
    """A grid step is a pixel or more, so every grid point but the clamped last one comes back."""
    for v in range(GRID):
        assert from_pixels(*to_pixels(v, v, width, height), width, height) == (v, v)


@given(st.integers(0, GRID), sides, sides)
def test_to_pixels_stays_on_the_screen(v, width, height):
    px, py = to_pixels(v, v, width, height)
    assert 0 <= px < width and 0 <= py < height


@pytest.mark.parametrize("x,y", [(-1, 0), (0, 1001)])
def test_off_the_grid(x, y):
    with pytest.raises(ValueError, match="outside 0..1000"):
        to_pixels(x, y, 100, 100)


@pytest.mark.parametrize("px,py", [(-1, 0), (100, 0), (0, 50)])
def test_off_the_screen(px, py):
    with pytest.raises(ValueError, match="100x50"):
        from_pixels(px, py, 100, 50)


def test_no_screen():
    with pytest.raises(ValueError, match="at least one pixel"):
        to_pixels(0, 0, 0, 10)


# --- tables (names and arguments as in the released agents' cookbooks)
DESKTOP_POINTS = "mouse_move left_click left_click_drag right_click middle_click double_click triple_click".split()
VALID = {
    "desktop": [
        {"action": "key", "keys": ["ctrl", "s"]},
        {"action": "type", "text": "a"},
        *({"action": name, "coordinate": [1, 2]} for name in DESKTOP_POINTS),
        {"action": "scroll", "pixels": -120},
        {"action": "hscroll", "pixels": 3.5},
        {"action": "wait", "time": 2},
        {"action": "answer", "text": "42"},
        {"action": "interact", "text": "Which file?"},
        {"action": "terminate", "status": "failure"},
    ],
    "mobile": [
        {"action": "click", "coordinate": [0, 1000]},
        {"action": "long_press", "coordinate": [5, 5]},
        {"action": "swipe", "coordinate": [5, 5], "coordinate2": [5, 900]},
        {"action": "type", "text": ""},
        {"action": "system_button", "button": "Home"},
        {"action": "key", "text": "volume_up"},
        {"action": "open", "text": "Clock"},
        {"action": "wait", "time": 0},
        {"action": "answer", "text": "yes"},
        {"action": "interact", "text": "Which one?"},
        {"action": "ask_user", "text": "Which one?"},
        {"action": "terminate", "status": "success"},
    ],
    "web": [
        {"action": "click", "coordinate": [7, 7]},
        {"action": "type", "text": "a"},
        {"action": "scroll", "direction": "down"},
        {"action": "select", "option": "Blue", "coordinate": [7, 7]},
        {"action": "wait", "time": 1},
        {"action": "go_back"},
        {"action": "goto", "url": "https://example.org"},
        {"action": "answer", "text": "a"},
        {"action": "terminate", "status": "success"},
    ],
}
CALLS = [(device, arguments) for device in FAMILIES for arguments in VALID[device]]
OPTIONAL = [
    ("mobile", {"action": "long_press", "coordinate": [5, 5], "time": 1.5}),
    ("desktop", {"action": "scroll", "pixels": 5, "coordinate": [5, 5]}),
    ("desktop", {"action": "hscroll", "pixels": 5, "coordinate": [5, 5]}),
    ("web", {"action": "click", "label": 3}),
    ("web", {"action": "click", "label": "A"}),
    ("web", {"action": "type", "text": "a", "label": 0}),
    ("web", {"action": "type", "text": "a", "coordinate": [5, 5]}),
    ("web", {"action": "scroll", "direction": "up", "coordinate": [5, 5]}),
    ("web", {"action": "select", "option": "Blue", "label": 3}),
]


def gui(device, arguments):
    return validate_call(Call(FUNCTIONS[device], arguments), device)


def test_families_and_functions():
    assert FAMILIES == ("mobile", "desktop", "web")
    assert FUNCTIONS == {"mobile": "mobile_use", "desktop": "computer_use", "web": "browser_use"}


@pytest.mark.parametrize("device", FAMILIES)
def test_tables_hold_these_actions_and_no_others(device):
    assert [spec.name for spec in ACTIONS[device]] == [arguments["action"] for arguments in VALID[device]]


@pytest.mark.parametrize("device,arguments", CALLS + OPTIONAL)
def test_valid_calls(device, arguments):
    assert gui(device, arguments) is None


@pytest.mark.parametrize("device,arguments", CALLS)
def test_each_argument_of_a_shortest_call_is_needed(device, arguments):
    for name in arguments:
        rest = {key: value for key, value in arguments.items() if key != name}
        assert gui(device, rest) == "missing_argument"


@pytest.mark.parametrize("device,arguments", CALLS)
def test_each_argument_is_checked(device, arguments):
    for name in arguments:
        failure = "unknown_action" if name == "action" else "bad_argument"
        for wrong in (None, True, {}, [1.5, "x"]):
            assert gui(device, {**arguments, name: wrong}) == failure


@pytest.mark.parametrize(
    "device,arguments,failure",
    [
        ("mobile", {"action": "click", "coordinate": [1, 1001]}, "out_of_range"),
        ("mobile", {"action": "click", "coordinate": [1.0, 10]}, "bad_argument"),
        ("mobile", {"action": "click", "coordinate": [True, 10]}, "bad_argument"),
        ("mobile", {"action": "click", "coordinate": [1, 2, 3]}, "bad_argument"),
        ("mobile", {"action": "swipe", "coordinate": [1, 2], "coordinate2": [1, -2]}, "out_of_range"),
        ("mobile", {"action": "wait", "time": -1}, "out_of_range"),
        ("mobile", {"action": "wait", "time": math.nan}, "bad_argument"),
        ("mobile", {"action": "left_click", "coordinate": [1, 1]}, "unknown_action"),
        ("mobile", {"action": "system_button", "button": "back"}, "bad_argument"),
        ("mobile", {"action": "type", "text": "\ud800"}, "bad_argument"),
        ("mobile", {"action": "click", "coordinate": [1, 1], "speed": 3}, "bad_argument"),
        ("mobile", {}, "missing_argument"),
        ("desktop", {"action": "key", "keys": []}, "bad_argument"),
        ("desktop", {"action": "key", "keys": "ctrl+s"}, "bad_argument"),
        ("desktop", {"action": "key", "keys": ["ctrl", ""]}, "bad_argument"),
        ("web", {"action": "click", "coordinate": [1, 1], "label": 3}, "bad_argument"),
        ("web", {"action": "click", "label": -1}, "out_of_range"),
        ("web", {"action": "click", "label": ""}, "bad_argument"),
        ("web", {"action": "scroll", "direction": "sideways"}, "bad_argument"),
    ],
)
def test_failures(device, arguments, failure):
    assert gui(device, arguments) == failure


def test_another_family_has_another_function():
    assert validate_call(Call("computer_use", {"action": "wait", "time": 1}), "mobile") == "unknown_tool"


@pytest.mark.parametrize("device", ["phone", "mobile_use", "", "Mobile"])
def test_a_family_is_never_guessed(device):
    for function in (check_family, tool_schema, lambda d: validate_call(Call("x", {}), d)):
        with pytest.raises(ValueError, match="mobile, desktop, web"):
            function(device)


# --- signatures
@pytest.mark.parametrize("device", FAMILIES)
def test_schema_offers_what_validation_accepts(device):
    schema = tool_schema(device)
    function = schema["function"]
    parameters = function["parameters"]
    assert schema["type"] == "function" and function["name"] == FUNCTIONS[device]
    assert parameters["type"] == "object" and parameters["required"] == ["action"]
    assert parameters["properties"]["action"]["enum"] == [arguments["action"] for arguments in VALID[device]]
    used = {name for arguments in VALID[device] for name in arguments} | {
        n for d, a in OPTIONAL if d == device for n in a
    }
    assert set(parameters["properties"]) == used
    assert all(f"* {name}: " in function["description"] for name in parameters["properties"]["action"]["enum"])
    assert json.loads(json.dumps(schema)) == schema


def test_the_schema_of_a_function_judges_as_an_mcp_tool_does():
    """The signature itself is a JSON schema: the generic check agrees with the table where the schema can tell."""
    for device, arguments in CALLS + OPTIONAL:
        renamed = {"name": "other", "parameters": tool_schema(device)["function"]["parameters"]}
        assert validate_call(Call("other", arguments), device, [renamed]) is None
        assert validate_call(Call("other", {**arguments, "action": "hover"}), device, [renamed]) == "bad_argument"


# --- tools
TOOL = {
    "name": "files.move_file",
    "description": "Move a file.",
    "parameters": {
        "type": "object",
        "properties": {
            "item": {"type": "string"},
            "folder": {"type": "string", "enum": ["red", "blue"]},
            "count": {"type": "integer", "minimum": 1, "maximum": 3},
            "rows": {"type": "array", "items": {"type": "integer"}},
            "deep": {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]},
            "maybe": {"type": ["string", "null"]},
        },
        "required": ["item"],
        "additionalProperties": False,
    },
}


@pytest.mark.parametrize(
    "arguments,failure",
    [
        ({"item": "key"}, None),
        ({"item": "key", "folder": "red", "count": 3, "rows": [1, 2], "deep": {"a": True}, "maybe": None}, None),
        ({}, "missing_argument"),
        ({"item": 3}, "bad_argument"),
        ({"item": "key", "folder": "green"}, "bad_argument"),
        ({"item": "key", "count": 4}, "out_of_range"),
        ({"item": "key", "count": 1.5}, "bad_argument"),
        ({"item": "key", "rows": [1, "2"]}, "bad_argument"),
        ({"item": "key", "deep": {}}, "missing_argument"),
        ({"item": "key", "maybe": 1}, "bad_argument"),
        ({"item": "key", "other": 1}, "bad_argument"),
        ({"item": "\udfff"}, "bad_argument"),
    ],
)
@pytest.mark.parametrize("wrapped", [False, True])
def test_tool_arguments(arguments, failure, wrapped):
    tools = [{"type": "function", "function": TOOL} if wrapped else TOOL]
    assert validate_call(Call("files.move_file", arguments), "web", tools) == failure


def test_a_tool_that_is_not_offered():
    assert validate_call(Call("files.move_file", {"item": "key"}), "web") == "unknown_tool"


def test_a_tool_without_a_name_is_the_callers_mistake():
    with pytest.raises(ValueError, match="needs a name"):
        tool_function({"description": "?"})


# --- calls
def test_a_call_is_written_in_the_order_of_the_table():
    call = Call("mobile_use", {"coordinate2": [1, 2], "coordinate": [3, 4], "action": "swipe"})
    assert list(call.to_json()["arguments"]) == ["action", "coordinate", "coordinate2"]
    assert call.to_json()["arguments"] == call.arguments
    tool = Call("files.move_file", {"folder": "red", "item": "key"})
    assert list(tool.to_json()["arguments"]) == ["folder", "item"]


def test_action_spec():
    assert action_spec("web", "click").one_of == ("coordinate", "label")
    assert action_spec("web", "left_click") is None
