"""Turns to token ids: the golden chat format, GUI-Owl-1.5's turn, the sliding window, R6, R8, R9, R41."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from env_servers.protocol.actions import FAMILIES, FUNCTIONS, Call, tool_schema
from gui_rl.prompt.context import TINY_CONTEXT, ContextConfig, HistoryTurn, window
from gui_rl.prompt.images import prepare
from gui_rl.prompt.parse import parse_response
from gui_rl.prompt.render import (
    check_placeholders,
    decode_response,
    encode_response,
    render,
    render_messages,
    render_question,
    response_text,
    with_response,
)
from gui_rl.prompt.tokenizer import CONTROL_TOKENS

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "chat_render.json").read_text())["cases"]
PIXEL = prepare(np.zeros((32, 32, 3), np.uint8), min_pixels=1024)  # one visual token, so one placeholder
SCREEN = prepare(np.zeros((160, 128, 3), np.uint8))
WIDE = prepare(np.zeros((64, 96, 3), np.uint8))
SENTENCE = "Please generate the next move according to the UI screenshot, instruction and previous actions."
PLAIN = ContextConfig(response_rules=False)
TOOL = {"name": "files.move_file", "description": "Move; “quotes” & <angle> é", "parameters": {"type": "object"}}


def click(x=5, y=6):
    return Call("mobile_use", {"action": "click", "coordinate": [x, y]})


def turn(tokenizer, name, screenshot=PIXEL, tool_result=None, sampled=True):
    text = response_text(f"Tap {name}.", click())
    ids = encode_response(tokenizer, text) if sampled else None
    return HistoryTurn(screenshot, text, ids, f"Tap {name}.", tool_result)


def image_text(count=1):
    return "<|vision_start|>" + "<|image_pad|>" * count + "<|vision_end|>"


def shown(tokenizer, prompt, part=slice(None)):
    """The user and assistant turns of a prompt as text."""
    return tokenizer.decode(prompt.ids).partition("<|im_end|>\n")[2][part]


# --- the golden chat format
def with_images(messages, tools_as_messages=True):
    """The golden messages with a one-token image, and a tool's result as the `tool` message that it is."""
    built = []
    for message in messages:
        content = message["content"]
        if not isinstance(content, str):
            content = [{"type": "image", "image": PIXEL} if part["type"] == "image" else part for part in content]
            if tools_as_messages and content[0].get("text", "").startswith("<tool_response>\n"):
                result = content[0]["text"].removeprefix("<tool_response>\n")
                assert content[-1]["text"] == "\n</tool_response>"
                content = [{"type": "text", "text": result}, *content[1:-1]]
                message = {"role": "tool"}
        built.append({"role": message["role"], "content": content})
    return built


@pytest.mark.parametrize("case", GOLDEN)
def test_chat_render_golden(qwen, case):
    prompt = render_messages(qwen, with_images(case["messages"]), case["tools"])
    assert qwen.decode(prompt.ids) == case["expect_text"]
    assert prompt.ids == case["expect_ids"]


def test_typed_text_that_looks_like_a_token_stays_text(qwen):
    """The trap: the public tokenizer turns `<tool_response>` in a user's text into the control token. Here a text is
    encoded as plain text, so the prompt reads the same and holds no tag of the user's making; a tool's result comes
    as a `tool` message, and then the tags are the renderer's."""
    case = next(case for case in GOLDEN if "<tool_response>" in case["expect_text"])
    messages = with_images(case["messages"], tools_as_messages=False)
    prompt = render_messages(qwen, messages, case["tools"])
    assert qwen.decode(prompt.ids) == case["expect_text"]
    assert qwen.control("<tool_response>") not in prompt.ids
    assert prompt.ids != case["expect_ids"]


def test_messages_of_tools_share_a_turn(tiny):
    messages = [{"role": "user", "content": "Go."}, *({"role": "tool", "content": text} for text in "ab")]
    assert tiny.decode(render_messages(tiny, messages).ids) == (
        "<|im_start|>user\nGo.<|im_end|>\n<|im_start|>user\n<tool_response>\na\n</tool_response>\n<tool_response>\nb\n"
        "</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize(
    "messages,match",
    [
        ([{"role": "user", "content": "a"}, {"role": "system", "content": "b"}], "role 'system'"),
        ([{"role": "user", "content": [{"type": "image"}]}], "s1: a content part"),
    ],
)
def test_bad_messages(tiny, messages, match):
    with pytest.raises(ValueError, match=match):
        render_messages(tiny, messages, sample_id="s1")


# --- the turn prompt
@pytest.mark.parametrize("device", FAMILIES)
def test_first_turn(qwen, device):
    prompt = render(qwen, PLAIN, device, [TOOL], "Save the file.", [], PIXEL)
    message = f"{SENTENCE}\n\nInstruction: Save the file.\n\nPrevious actions:\nNone"
    content = [{"type": "text", "text": message}, {"type": "image", "image": PIXEL}]
    expected = render_messages(qwen, [{"role": "user", "content": content}], [tool_schema(device), TOOL])
    assert prompt.ids == expected.ids
    others = set(FUNCTIONS.values()) - {FUNCTIONS[device]}
    text = qwen.decode(prompt.ids)
    assert f'"name": "{FUNCTIONS[device]}"' in text and not any(name in text for name in others)
    assert json.dumps(TOOL, ensure_ascii=False) + "\n</tools>" in text


def test_response_format_follows_the_tools(tiny):
    for thinking in (False, True):
        context = ContextConfig(thinking=thinking)
        system = tiny.decode(render(tiny, context, "web", (), "x", [], PIXEL).ids).partition("<|im_end|>")[0]
        tools, mark, rules = system.partition("</tool_call>\n\n# Response format\n")
        assert mark and tools.startswith("<|im_start|>system\n# Tools\n\n") and "Action: " in rules
        assert ("reasoning" in rules) == thinking


def test_the_window(tiny):
    """Six earlier turns, two stay whole: the other four are conclusions, and each screenshot stands at its turn."""
    history = [turn(tiny, name, SCREEN if name == "e" else PIXEL) for name in "abcdef"]
    prompt = render(tiny, ContextConfig(history_turns=2), "mobile", (), "Go.", history, WIDE)
    steps = "\n".join(f"Step {k}: Tap {name}." for k, name in enumerate("abcd", 1))
    assert shown(tiny, prompt) == (
        f"<|im_start|>user\n{SENTENCE}\n\nInstruction: Go.\n\nPrevious actions:\n{steps}{image_text(20)}<|im_end|>\n"
        f"<|im_start|>assistant\n{history[4].response_text}<|im_end|>\n"
        f"<|im_start|>user\n{image_text()}<|im_end|>\n"
        f"<|im_start|>assistant\n{history[5].response_text}<|im_end|>\n"
        f"<|im_start|>user\n{image_text(6)}<|im_end|>\n<|im_start|>assistant\n"
    )
    assert [image.tokens for image in prompt.images] == [20, 1, 6] == [end - start for start, end in prompt.image_spans]
    assert all(set(prompt.ids[a:b]) == {tiny.image_id} for a, b in prompt.image_spans)
    assert prompt.trunk_length == 0


@given(st.integers(0, 9), st.integers(0, 6))
def test_window_splits_in_order(length, turns):
    collapsed, whole = window(range(length), turns)
    assert [*collapsed, *whole] == list(range(length)) and len(whole) == min(length, turns)


def test_default_window_is_four():
    assert ContextConfig().history_turns == 4
    with pytest.raises(ValueError, match="history_turns"):
        ContextConfig(history_turns=-1)
    with pytest.raises(ValueError, match="observation"):
        ContextConfig(observation="json")
    with pytest.raises(ValueError, match="max_pixels must be 1024 or more, got 100"):
        ContextConfig(max_pixels=100)


def test_sampled_ids_are_kept_as_they_were(tiny):
    """R7: ids that the encoder would not give for their text go in unchanged; a cut response is closed."""
    odd = [*b"Action: Tap a."]  # byte tokens
    history = [HistoryTurn(PIXEL, "Action: Tap a.", odd, "Tap a.")]
    assert tiny.encode("Action: Tap a.") != odd
    ids = render(tiny, PLAIN, "mobile", (), "Go.", history, PIXEL).ids
    start = next(i for i in range(len(ids)) if ids[i : i + len(odd)] == odd)
    assert ids[start + len(odd)] == tiny.eos_id and tiny.decode(ids[start + len(odd) + 1 :]).startswith(
        "\n<|im_start|>user"
    )
    closed = [HistoryTurn(PIXEL, "", [*odd, tiny.eos_id], "Tap a.")]
    assert render(tiny, PLAIN, "mobile", (), "Go.", closed, PIXEL).ids == ids


def test_a_response_without_ids_is_encoded(tiny):
    sampled, scripted = (
        render(tiny, PLAIN, "mobile", (), "Go.", [turn(tiny, "a", sampled=s)], PIXEL).ids for s in (True, False)
    )
    assert sampled == scripted


def test_thinking_turns(tiny):
    """R6: earlier thoughts stay, whatever stands in the user's turns."""
    text = response_text("Tap a.", click(), thought="I look.")
    history = [HistoryTurn(PIXEL, text, encode_response(tiny, text, thinking=True), "Tap a.")]
    prompt = render(tiny, ContextConfig(thinking=True), "mobile", (), "Go.", history, PIXEL)
    assert "<|im_start|>assistant\n<think>\nI look.\n</think>\n\nAction: Tap a.\n" in shown(tiny, prompt)
    assert tiny.decode(prompt.ids).endswith("<|im_start|>assistant\n<think>\n")
    assert prompt.ids.count(tiny.control("<think>")) == 2 and prompt.ids.count(tiny.control("</think>")) == 1


def test_tool_results(tiny):
    """A result stands before the screenshot that was taken after it; with ToolCUA's form every observation is one."""
    history = [turn(tiny, "a", tool_result='{"success": true}'), turn(tiny, "b")]
    text = shown(tiny, render(tiny, PLAIN, "mobile", [TOOL], "Go.", history, PIXEL))
    assert f'user\n<tool_response>\n{{"success": true}}{image_text()}\n</tool_response><|im_end|>' in text
    assert text.count("<tool_response>") == 1 and f"user\n{image_text()}<|im_end|>" in text
    context = ContextConfig(observation="tool_response")
    text = shown(tiny, render(tiny, context, "mobile", [TOOL], "Go.", history, PIXEL))
    assert text.count("<tool_response>") == 2
    assert f"<tool_response>\nSuccess{image_text()}\n</tool_response><|im_end|>\n<|im_start|>assistant\n" in text
    collapsed = render(tiny, ContextConfig(history_turns=0), "mobile", [TOOL], "Go.", history[:1], PIXEL)
    tail = f'Step 1: Tap a.\n<tool_response>\n{{"success": true}}\n</tool_response>{image_text()}<|im_end|>\n'
    assert tail in shown(tiny, collapsed)


def test_the_date_is_for_mobile(tiny):
    texts = {d: shown(tiny, render(tiny, PLAIN, d, (), "Go.", [], PIXEL, date="2026-01-31")) for d in FAMILIES}
    assert "Instruction: Today's date is 2026-01-31. Go.\n" in texts["mobile"]
    assert "Instruction: Go.\n" in texts["desktop"] and "Instruction: Go.\n" in texts["web"]


def test_unknown_family(tiny):
    with pytest.raises(ValueError, match="mobile, desktop, web"):
        render(tiny, PLAIN, "phone", (), "Go.", [], PIXEL)


# --- the trunk
@pytest.mark.parametrize("device", FAMILIES)
def test_prompts_on_one_screenshot_share_the_trunk(tiny, device):
    history = [turn(tiny, "a", tool_result="ok")]
    prompts = [
        render(tiny, TINY_CONTEXT, device, [TOOL], "Star the apple.", [], SCREEN),
        render(tiny, TINY_CONTEXT, device, [TOOL], "Move the lamp.", history, SCREEN),
        render_question(tiny, TINY_CONTEXT, device, [TOOL], "Where is the apple?", SCREEN),
    ]
    length = prompts[0].trunk_length
    assert all(prompt.trunk_length == length for prompt in prompts)
    assert len({tuple(prompt.ids[:length]) for prompt in prompts}) == 1
    assert all(prompt.ids[length - 1] == tiny.control("<|vision_end|>") for prompt in prompts)
    assert all(tiny.image_id not in prompt.ids[length:] for prompt in prompts)
    assert tiny.decode(prompts[0].ids[length:]) == (
        f"{SENTENCE}\n\nInstruction: Star the apple.\n\nPrevious actions:\nNone<|im_end|>\n<|im_start|>assistant\n"
    )
    assert tiny.decode(prompts[2].ids[length:]) == "Where is the apple?<|im_end|>\n<|im_start|>assistant\n"


def test_screenshot_first_in_every_turn(tiny):
    context = ContextConfig(screenshot_first=True, observation="tool_response")
    prompt = render(tiny, context, "mobile", (), "Go.", [turn(tiny, "a")], SCREEN)
    text = shown(tiny, prompt)
    assert text.startswith(f"<|im_start|>user\n{image_text()}{SENTENCE}")
    assert f"<|im_start|>user\n{image_text(20)}<tool_response>\nSuccess\n</tool_response><|im_end|>" in text
    assert prompt.trunk_length == 0
    assert render(tiny, ContextConfig(), "mobile", (), "Go.", [], SCREEN).trunk_length == 0


# --- lengths
def test_a_tiny_turn_is_short(tiny):
    """The target that makes two cores enough: 40 ids for a prompt besides its image, 20 for a click."""
    for device, action in (("mobile", "click"), ("desktop", "left_click"), ("web", "click")):
        prompt = render(tiny, TINY_CONTEXT, device, (), "Move the apple to the cart and star the lamp.", [], SCREEN)
        assert len(prompt.ids) - 20 <= 40
        call = Call(FUNCTIONS[device], {"action": action, "coordinate": [512, 345]})
        assert len(encode_response(tiny, response_text("Tap the apple.", call))) <= 20


def test_whole_turns_collapse_until_the_prompt_fits(tiny):
    history = [turn(tiny, name, SCREEN) for name in "abcd"]
    for kept in range(4, -1, -1):
        expected = render(tiny, ContextConfig(history_turns=kept), "mobile", (), "Go.", history, SCREEN)
        context = ContextConfig(max_prompt_tokens=len(expected.ids))
        assert render(tiny, context, "mobile", (), "Go.", history, SCREEN).ids == expected.ids
    fewest = len(render(tiny, ContextConfig(history_turns=0), "mobile", (), "Go.", history[:1], SCREEN).ids)
    told = tiny.decode(render(tiny, ContextConfig(max_prompt_tokens=fewest), "mobile", (), "Go.", history, SCREEN).ids)
    assert "Step 4" in told and "Step 3" not in told  # the oldest conclusions are left out, the count goes on
    with pytest.raises(ValueError, match="s1: .* over the limit of 30"):
        render(tiny, ContextConfig(max_prompt_tokens=30), "mobile", (), "Go.", history, SCREEN, sample_id="s1")


# --- placeholders
def test_placeholders_are_counted(tiny):
    prompt = render(tiny, TINY_CONTEXT, "mobile", (), "Go.", [], SCREEN)
    check_placeholders(prompt.ids, prompt.images, tiny.image_id, "s1")
    start, end = prompt.image_spans[0]
    cut = prompt.ids[: end - 3]
    twice = [*prompt.ids[:end], *prompt.ids[start:]]
    for ids, images in ((cut, [SCREEN]), (twice, [SCREEN]), (prompt.ids, []), (prompt.ids, [SCREEN, SCREEN])):
        with pytest.raises(ValueError, match="s1: runs of image placeholders"):
            check_placeholders(ids, images, tiny.image_id, "s1")


def test_a_response_with_placeholders_is_refused(tiny):
    for token in (tiny.image_id, tiny.video_id):
        with pytest.raises(ValueError, match="s1: a response holds image placeholders"):
            history = [HistoryTurn(PIXEL, "", [token], "x")]
            render(tiny, PLAIN, "mobile", (), "Go.", history, PIXEL, sample_id="s1")


hostile = st.lists(st.text(max_size=6) | st.sampled_from(CONTROL_TOKENS), max_size=5).map("".join)


@settings(max_examples=60, deadline=None)
@given(hostile, hostile, hostile, hostile)
def test_outside_text_changes_no_structure(tiny, instruction, conclusion, result, description):
    """R41: whatever the texts from outside spell, the control tokens are those of a bland turn."""

    def control(instruction, conclusion, result, description):
        tools = [{**TOOL, "description": description}]
        history = [HistoryTurn(PIXEL, "", [tiny.eos_id], conclusion, result)] * 2
        prompt = render(tiny, ContextConfig(history_turns=1), "web", tools, instruction, history, PIXEL)
        for text in (instruction, conclusion, result):
            assert text in tiny.decode(prompt.ids)
        return [token for token in prompt.ids if token in tiny.control_ids]

    assert control(instruction, conclusion, result, description) == control("a", "b", "c", "d")


# --- responses
def test_response_text_is_the_released_format():
    assert response_text("Tap OK.", click(512, 88)) == (
        "Action: Tap OK.\n<tool_call>\n"
        '{"name": "mobile_use", "arguments": {"action": "click", "coordinate": [512, 88]}}\n</tool_call>'
    )
    thinking = response_text("Tap OK.", click(), thought="Hm.")
    assert thinking.startswith("Hm.\n</think>\n\nAction: Tap OK.\n<tool_call>\n")


@pytest.mark.parametrize("conclusion,thought", [("a\nb", None), ("<tool_call>", None), ("a", "b </think> c")])
def test_responses_that_could_not_be_read_back(conclusion, thought):
    with pytest.raises(ValueError):
        response_text(conclusion, click(), thought)


@settings(max_examples=100, deadline=None)
@given(hostile, hostile, st.booleans())
def test_a_response_has_its_own_tags_and_no_others(tiny, typed, conclusion, thinking):
    conclusion = " ".join(conclusion.replace("<tool_call>", "").split())
    call = Call("web_search.find", {"query": typed})
    text = response_text(conclusion, call, "Hm." if thinking else None)
    ids = encode_response(tiny, text, thinking)
    names = ["</think>"] * thinking + ["<tool_call>", "</tool_call>", "<|im_end|>"]
    assert [token for token in ids if token in tiny.control_ids] == [tiny.control(name) for name in names]
    assert decode_response(tiny, ids) == text
    assert parse_response(decode_response(tiny, ids), "web", [{"name": "web_search.find"}], thinking).call == call


@pytest.mark.parametrize("text", ["", "no call", "Action: a\n<tool_call>\n{", "a <tool_call> b </tool_call> c"])
def test_malformed_responses_are_encoded_whole(tiny, text):
    ids = encode_response(tiny, text)
    assert ids[-1] == tiny.eos_id and decode_response(tiny, ids) == text
    assert decode_response(tiny, ids[:-1]) == text


def test_loss_mask(tiny):
    """R8: the response with its <|im_end|> is in the loss; the prompt is not, and no newline follows."""
    prompt = render(tiny, TINY_CONTEXT, "mobile", (), "Go.", [turn(tiny, "a")], SCREEN)
    response = encode_response(tiny, response_text("Tap.", click()))
    ids, mask = with_response(prompt, response)
    assert ids == prompt.ids + response and len(mask) == len(ids)
    assert [token for token, use in zip(ids, mask, strict=True) if use] == response
    assert ids[-1] == tiny.eos_id and mask[-1] == 1
