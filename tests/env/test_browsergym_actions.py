"""BrowserGym's action strings against our calls, both ways."""

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from env_servers.adapters.browsergym import SIGNATURES, parse, to_calls, to_string
from env_servers.protocol.actions import ACTIONS, FUNCTIONS, Call, validate_call
from env_servers.screens import Unsupported

W = H = 1000
LABELS = {"a12": 3, "7": 4}


@pytest.mark.parametrize(
    ("device", "text", "calls"),
    [
        ("web", "click('a12')", [{"action": "click", "label": 3}]),
        ("web", "mouse_click(60, 100)", [{"action": "click", "coordinate": [60, 100]}]),
        ("web", "select_option('7', \"blue\")", [{"action": "select", "option": "blue", "label": 4}]),
        ("web", "select_option(bid='7', options=['blue'])", [{"action": "select", "option": "blue", "label": 4}]),
        ("web", "scroll(0, 200)", [{"action": "scroll", "direction": "down"}]),
        ("web", "scroll(-50.2, 0)", [{"action": "scroll", "direction": "left"}]),
        ("web", "noop()", [{"action": "wait", "time": 1}]),
        ("web", "send_msg_to_user('1751.')", [{"action": "answer", "text": "1751."}]),
        ("web", "report_infeasible('no such field')", [{"action": "terminate", "status": "failure"}]),
        ("web", "goto('http://x')\ngo_back()", [{"action": "goto", "url": "http://x"}, {"action": "go_back"}]),
        ("desktop", "mouse_click(5, 6, 'right')", [{"action": "right_click", "coordinate": [5, 6]}]),
        ("desktop", "mouse_dblclick(5, 6)", [{"action": "double_click", "coordinate": [5, 6]}]),
        ("desktop", "keyboard_press('Control+a')", [{"action": "key", "keys": ["ctrl", "a"]}]),
        ("desktop", "keyboard_type('it''s')", [{"action": "type", "text": "its"}]),
        ("desktop", "scroll(0, 200)", [{"action": "scroll", "pixels": -200}]),
        (
            "desktop",
            "mouse_drag_and_drop(1, 2, 3, 4)",
            [{"action": "mouse_move", "coordinate": [1, 2]}, {"action": "left_click_drag", "coordinate": [3, 4]}],
        ),
    ],
)
def test_a_string_becomes_calls(device, text, calls):
    found = to_calls(text, device, W, H, LABELS)
    assert found == calls
    assert all(validate_call(Call(FUNCTIONS[device], call), device) is None for call in found)


EXAMPLE = {"options": "'blue'", "button": "'left'", "modifiers": "[]", "url": "'http://x'"}


@pytest.mark.parametrize("name", SIGNATURES)
def test_every_function_is_carried_or_refused_on_both_families(name):
    numbers = ("x", "y", "from_x", "from_y", "to_x", "to_y", "delta_x", "delta_y", "wait_ms")
    words = [EXAMPLE.get(p.rstrip("?"), "7" if p.rstrip("?") in numbers else "'7'") for p in SIGNATURES[name]]
    carried = []
    for device in ("web", "desktop"):
        try:
            calls = to_calls(f"{name}({', '.join(words)})", device, W, H, LABELS)
        except Unsupported as refused:
            assert name in str(refused)
        else:
            carried.append(device)
            assert calls and all(validate_call(Call(FUNCTIONS[device], call), device) is None for call in calls)
    refused = {"dblclick", "hover", "fill", "clear", "check", "uncheck", "press", "drag_and_drop"}
    assert bool(carried) == (name not in refused)


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "click",
        "click(",
        "click()",
        "fly('1')",
        "click('1', '2', [], 4)",
        "click('1', bid='1')",
        "click(**{'bid': '1'})",
        "click(print('x'))",
        "__import__('os').system('true')",
        "x = click('1')",
        "[click('1')]",
        "click(12)",
        "mouse_click('1', 2)",
        "mouse_click(1, 2, 'side')",
        "mouse_click(5000, 2)",
        "click('1'" + ")" * 3,
    ],
)
def test_what_is_no_action_is_an_error_and_never_run(wrong):
    with pytest.raises(ValueError):
        to_calls(wrong, "web", W, H)


def test_a_bid_without_a_mark_is_said():
    with pytest.raises(Unsupported, match="b9"):
        to_calls("click('b9')", "web", W, H, LABELS)


WEB = {
    "click": {"label": 3},
    "type": {"text": "a\\'\"\nb", "coordinate": [10, 20]},
    "scroll": {"direction": "left"},
    "select": {"option": "b'lue", "label": 4},
    "wait": {"time": 2.5},
    "go_back": {},
    "goto": {"url": "http://x"},
    "answer": {"text": "7"},
    "terminate": {"status": "failure"},
}


@pytest.mark.parametrize("name", [spec.name for spec in ACTIONS["web"]])
def test_every_web_action_goes_there_and_back(name):
    ours = {"action": name, **WEB[name]}
    back = to_calls(to_string(ours, W, H, LABELS), "web", W, H, LABELS)
    if name == "type":
        assert back == [{"action": "click", "coordinate": [10, 20]}, {"action": "type", "text": ours["text"]}]
    else:
        assert back == [ours]


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=30))
def test_typed_text_is_data(text):
    string = to_string({"action": "type", "text": text}, W, H)
    assert len(ast.parse(string).body) == 1
    assert parse(string) == [("keyboard_type", {"text": text})]
