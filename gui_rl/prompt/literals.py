"""The fixed texts of a prompt, each once, and the phrase tokens that hold them in the tiny vocabulary.

In: the action tables. Out: the literals that `render` puts together, and `phrases()` for `build_tokenizer`.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from env_servers.protocol.actions import (
    ACTIONS,
    ARGUMENTS,
    FAMILIES,
    FUNCTIONS,
    ActionSpec,
    ArgumentSpec,
    tool_function,
    tool_schema,
)

SYSTEM = "<|im_start|>system\n"
USER = "<|im_start|>user\n"
ASSISTANT = "<|im_start|>assistant\n"
TURN_END = "<|im_end|>\n"
THINK = "<think>\n"

TOOLS_HEADER = (
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n"
)
TOOLS_FOOTER = (
    "</tools>\n\nFor each function call, return a json object with function name and arguments within "
    "<tool_call></tool_call> XML tags:\n<tool_call>\n"
    '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'
)
_RULES = (
    "\n\nRules:\n- Nothing before, between or after these parts.\n- One sentence and one call a turn."
    "\n- When the task is done, or cannot be done, call the terminate action."
)
RESPONSE_RULES = (
    "\n\n# Response format\n\nEvery response has two parts, in this order:\n"
    "1) Action: one short sentence that says what to do on the screen.\n"
    "2) One tool call block that holds only the JSON of the call." + _RULES
)
THINKING_RULES = RESPONSE_RULES.replace(
    "two parts, in this order:\n", "two parts, in this order, after the reasoning:\n"
)

MOVE = "Please generate the next move according to the UI screenshot, instruction and previous actions."
INSTRUCTION = "\n\nInstruction: "
DATE = "Today's date is {date}. "
PREVIOUS = "\n\nPrevious actions:\n"
NO_PREVIOUS = "None"
STEP = "Step {step}: {conclusion}"
TOOL_RESPONSE = "<tool_response>\n"
TOOL_RESPONSE_END = "\n</tool_response>"
NO_TOOL_RESULT = "Success"

CONCLUSION = "Action: "
CALL = "<tool_call>\n"
CALL_END = "\n</tool_call>"
THOUGHT_END = "\n</think>\n\n"

_NUMBER, _TEXT = "#number#", "#text#"  # marks of the free values in an example call


def json_line(value: Any) -> str:
    """JSON on one line, as in Qwen's template: `, ` and `: ` between parts, characters beyond ASCII as they are."""
    return json.dumps(value, ensure_ascii=False)


def phrases(tools: Sequence[Mapping[str, Any]] = ()) -> tuple[str, ...]:
    """The texts that are one token each in the tiny vocabulary, without duplicates, in a fixed order.

    tools: MCP-style signatures whose prompt lines and calls get phrases of their own.
    No phrase holds a control token: literals are cut at those, so a phrase never stands for a turn mark or a tag.
    """
    fixed = [
        "system\n" + TOOLS_HEADER, *(json_line(tool_schema(device)) + "\n" for device in FAMILIES),
        *_between_tags(TOOLS_FOOTER + RESPONSE_RULES), *_between_tags(TOOLS_FOOTER + THINKING_RULES),
        "user\n", "assistant\n", MOVE + INSTRUCTION, INSTRUCTION, PREVIOUS + NO_PREVIOUS, PREVIOUS + "Step ", "\nStep ",
        CONCLUSION.rstrip(), ", ",
    ]  # fmt: skip
    gui = [piece for device in FAMILIES for spec in ACTIONS[device] for piece in _gui_pieces(device, spec)]
    mcp = [piece for tool in tools for piece in (json_line(tool) + "\n", *_tool_pieces(tool))]
    return tuple(dict.fromkeys([*fixed, *gui, *mcp, *_JSON_PIECES]))


_JSON_PIECES = (
    '{"name": "', '{"type": "function", "function": {"name": "', '", "description": "',
    '", "parameters": {"type": "object", "properties": {"', '": {"type": "string"}', ', "required": ["', '", "',
    '"]}}\n', '"]}}}\n', '\n{"name": "', '", "arguments": {"', '", "arguments": {}}\n', '": "',
    '{"success": true, "result": ', '{"success": false, "result": null, "error_message": "', ', "error_message": null}',
)  # fmt: skip


def _between_tags(text: str) -> list[str]:
    """A literal without its control tags; pieces of whitespace alone stay with the plain vocabulary."""
    pieces = re.split(r"</?tool_call>", text)
    return [piece for piece in pieces if piece.strip()]


def _gui_pieces(device: str, spec: ActionSpec) -> list[str]:
    """The fixed pieces of a GUI call, for each set of arguments it may have and each enumerated value."""
    pieces: list[str] = []
    choices = [(*spec.required, name) for name in spec.one_of] or [spec.required]
    for names in choices + [(*names, option) for names in choices for option in spec.optional]:
        values = {name: _gui_values(ARGUMENTS[device][name]) for name in names}
        pieces += _call_pieces(FUNCTIONS[device], {"action": [spec.name], **values})
    return pieces


def _gui_values(argument: ArgumentSpec) -> list[Any]:
    match argument.kind:
        case "coordinate":
            return [[_NUMBER, _NUMBER]]
        case "keys":
            return [[_TEXT, _TEXT]]
        case "enum":
            return list(argument.choices)
        case "text":
            return [_TEXT]
        case _:
            return [_NUMBER]


def _tool_pieces(tool: Mapping[str, Any]) -> list[str]:
    """The fixed pieces of a tool's call: with its required arguments, and with each optional one besides."""
    function = tool_function(tool)
    parameters = function.get("parameters") or {}
    values = {name: _tool_values(schema) for name, schema in parameters.get("properties", {}).items()}
    required = [name for name in values if name in parameters.get("required", ())]
    sets = [required, *([*required, name] for name in values if name not in required)]
    return [piece for names in sets for piece in _call_pieces(function["name"], {name: values[name] for name in names})]


def _tool_values(schema: Mapping[str, Any]) -> list[Any]:
    if "enum" in schema:
        return list(schema["enum"])
    return {"string": [_TEXT], "boolean": [True, False]}.get(schema.get("type", ""), [_NUMBER])


def _call_pieces(name: str, values: Mapping[str, Sequence[Any]]) -> list[str]:
    """What stands before, between and after the free values of a call; one opening per choice of the others."""
    pieces: list[str] = []
    for choice in itertools.product(*values.values()):
        arguments = dict(zip(values, choice, strict=True))
        text = "\n" + json_line({"name": name, "arguments": arguments}) + "\n"
        pieces += re.split(f'"{_NUMBER}"|{_TEXT}', text)
    return pieces
