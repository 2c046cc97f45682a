"""Sampled texts to calls (R3): the golden cases, strictness, and the way back from a written response."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from env_servers.protocol.actions import Call
from gui_rl.prompt.parse import parse_response
from gui_rl.prompt.response import response_text

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "parser.json").read_text())["cases"]
TOOLS = ({"name": "osworld_mcp_libreoffice_calc.set_column_values"},)
CLICK = '{"name": "mobile_use", "arguments": {"action": "click", "coordinate": [1, 1]}}'


def wrapped(body, head="Action: Tap.\n", tail=""):
    return f"{head}<tool_call>\n{body}\n</tool_call>{tail}"


@pytest.mark.parametrize("case", GOLDEN)
def test_golden(case):
    parsed = parse_response(case["text"], case["device"], TOOLS, case["thinking"])
    expect = case["expect"]
    assert parsed.failure == expect["failure"]
    if expect["failure"] is None:
        assert (parsed.call.name, parsed.call.arguments) == (expect["name"], expect["arguments"])
        assert (parsed.conclusion, parsed.thought) == (expect["conclusion"], expect["thought"])
    else:
        assert parsed.call is None


@pytest.mark.parametrize(
    "text,failure",
    [
        (wrapped(CLICK), None),
        (wrapped(CLICK, tail="\n"), None),
        (wrapped(CLICK, head=""), None),
        (wrapped(CLICK, head="Action: Tap. "), None),
        (f"Action: Tap.\n<tool_call>{CLICK}</tool_call>", None),
        (wrapped(CLICK, tail="\nDone."), "bad_json"),
        (wrapped(CLICK + CLICK), "bad_json"),
        (wrapped(f"[{CLICK}]"), "bad_json"),
        (wrapped('"click"'), "bad_json"),
        (wrapped(""), "bad_json"),
        (f"Action: Tap.\n<tool_call>\n{CLICK}", "bad_json"),
        (wrapped(CLICK.replace("[1, 1]", "[01, 1]")), "bad_json"),
        (wrapped(CLICK.replace("[1, 1]", "[1, 1,]")), "bad_json"),
        (wrapped(CLICK.replace("[1, 1]", "[1, Infinity]")), "bad_json"),
        (wrapped(CLICK.replace("[1, 1]", "[1, 1e999]")), "bad_json"),
        (wrapped(CLICK.replace("[1, 1]", "[" * 100_000)), "bad_json"),
        (wrapped(CLICK.replace("[1, 1]", f"[1, {'1' * 5000}]")), "bad_json"),
        (wrapped(CLICK.replace('"click"', '"click", "action": "wait"')), "bad_json"),
        (wrapped(CLICK.replace('"click"', '"cl\nick"')), "bad_json"),
        (wrapped(CLICK.replace("[1, 1]", "[1.0, 1]")), "bad_argument"),
        (wrapped('{"name": "mobile_use", "arguments": {"action": "type", "text": "\\ud800"}}'), "bad_argument"),
        (wrapped('{"name": "mobile_use", "arguments": "click"}'), "bad_argument"),
        (wrapped('{"name": "mobile_use", "arguments": null}'), "bad_argument"),
        (wrapped('{"name": "mobile_use"}'), "missing_argument"),
        (wrapped('{"arguments": {"action": "click"}}'), "missing_argument"),
        (wrapped('{"name": 7, "arguments": {"action": "click"}}'), "unknown_tool"),
        (wrapped(CLICK[:-1] + ', "id": 3}'), "bad_argument"),
        (wrapped(CLICK) + "\n" + wrapped(CLICK), "bad_json"),
        (wrapped(CLICK) + wrapped(CLICK, head=""), "multi_call"),
    ],
)
def test_strictness(text, failure):
    parsed = parse_response(text, "mobile")
    assert parsed.failure == failure
    assert (parsed.call is None) == (failure is not None)


def test_true_false_null_are_read():
    body = '{"name": "osworld_mcp_libreoffice_calc.set_column_values", "arguments": {"a": [true, false, null]}}'
    assert parse_response(wrapped(body), "web", TOOLS).call.arguments == {"a": [True, False, None]}


@pytest.mark.parametrize(
    "head,conclusion",
    [
        ("Action: Tap.\n", "Tap."),
        ("Action:Tap.\n", "Tap."),
        ("I see it.\nAction: Tap.\n", "Tap."),
        ("Tap the Action: button.\n", "Tap the Action: button."),
        ("Action: Open the Action: menu.\n", "Open the Action: menu."),
        ("", None),
        ("Action:\n", None),
    ],
)
def test_conclusion(head, conclusion):
    assert parse_response(wrapped(CLICK, head=head), "mobile").conclusion == conclusion


def test_conclusion_of_a_response_that_failed():
    assert parse_response("Action: Tap.", "mobile").conclusion == "Tap."
    assert parse_response(wrapped("{", head="Action: Tap.\n"), "mobile").conclusion == "Tap."


def test_the_tag_that_begins_a_line_opens_the_call():
    head = "Action: Type <tool_call> into the box.\n"
    parsed = parse_response(wrapped(CLICK, head=head), "mobile")
    assert parsed.failure is None and parsed.conclusion == "Type <tool_call> into the box."


def test_thinking():
    thought = "First <tool_call> I look.\nAction: no."
    parsed = parse_response(f"{thought}\n</think>\n\n{wrapped(CLICK)}", "mobile", thinking=True)
    assert (parsed.thought, parsed.conclusion, parsed.failure) == (thought, "Tap.", None)
    unfinished = parse_response(wrapped(CLICK), "mobile", thinking=True)
    assert (unfinished.call, unfinished.failure) == (None, "no_call")


def test_unknown_family():
    with pytest.raises(ValueError, match="mobile, desktop, web"):
        parse_response(wrapped(CLICK), "phone")


texts = st.text(max_size=30) | st.sampled_from(
    ["</tool_call>", "\n</tool_call>", "<tool_call>\n{}", "</think>", "<|im_end|>", '"}}\n</tool_call>', "Action: x"]
)
conclusions = texts.map(lambda text: " ".join(text.replace("<tool_call>", "").split()))
grid = st.integers(0, 1000)
calls = st.one_of(
    st.tuples(grid, grid).map(lambda xy: Call("mobile_use", {"action": "click", "coordinate": list(xy)})),
    texts.map(lambda text: Call("mobile_use", {"action": "type", "text": text})),
    st.dictionaries(texts, texts | st.integers() | st.booleans() | st.none(), max_size=3).map(
        lambda arguments: Call(TOOLS[0]["name"], arguments)
    ),
)


@given(conclusions, calls, st.none() | texts.map(lambda text: text.replace("</think>", "").strip()))
def test_what_is_written_is_read(conclusion, call, thought):
    text = response_text(conclusion, call, thought)
    parsed = parse_response(text, "mobile", TOOLS, thinking=thought is not None)
    assert parsed.failure is None
    assert (parsed.call, parsed.conclusion, parsed.thought) == (call, conclusion or None, thought)


@given(st.text(max_size=80), st.booleans())
def test_any_text_gets_a_verdict(text, thinking):
    for candidate in (text, wrapped(text), f"</think>{wrapped(text)}"):
        parsed = parse_response(candidate, "mobile", thinking=thinking)
        assert (parsed.call is None) == (parsed.failure is not None)
