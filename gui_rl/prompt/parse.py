"""A sampled text to a call, or to the one reason why it is none.

In: the response's text as sampled, the device family, the tools on offer. Out: `ParsedResponse`. The text itself is
never repaired: what is stored and trained on stays what was sampled (R3).

The call is strict JSON (RFC 8259: no NaN, no single quotes, no repeated keys) between `<tool_call>` and
`</tool_call>`, and nothing follows it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from env_servers.protocol.actions import Call, CallFailure, check_family, validate_call
from gui_rl.prompt.response import CLOSE, OPEN, THINK_END, find_call

ParseFailure = Literal["no_call", "bad_json", "multi_call"]
_JSON_SPACE = " \t\n\r"
_CONCLUSION = re.compile(r"^Action:", re.MULTILINE)


@dataclass(frozen=True)
class ParsedResponse:
    """What a response says.

    call: the valid call, or None with `failure` saying why. thought: the reasoning (thinking variant only).
    conclusion: the sentence after `Action:`; where that word is missing, whatever text stands before the call;
    None where there is none.
    """

    call: Call | None
    thought: str | None
    conclusion: str | None
    failure: ParseFailure | CallFailure | None


def parse_response(
    text: str, device: str, tools: Sequence[Mapping[str, Any]] = (), thinking: bool = False
) -> ParsedResponse:
    """Read a response.

    text: without the final `<|im_end|>`. tools: MCP-style signatures on offer besides the family's function.
    thinking: the generation prompt opened `<think>`, so the text begins with the thought; without `</think>` there is
    no call.
    Failures: `no_call`; `bad_json` (not strict JSON, not an object, cut off, or followed by more text); `multi_call`;
    and those of `validate_call`. Raises ValueError for an unknown family only.
    """
    check_family(device)
    thought = None
    if thinking:
        thought, end, text = text.partition(THINK_END)
        thought = thought.strip()
        if not end:
            return ParsedResponse(None, thought, None, "no_call")
    start = find_call(text)
    if start is None:
        return ParsedResponse(None, thought, _conclusion(text), "no_call")
    conclusion = _conclusion(text[:start])
    call = _read_call(text[start + len(OPEN) :])
    if not isinstance(call, Call):
        return ParsedResponse(None, thought, conclusion, call)
    failure = validate_call(call, device, tools)
    return ParsedResponse(None if failure else call, thought, conclusion, failure)


def _conclusion(head: str) -> str | None:
    match = _CONCLUSION.search(head)
    sentence = (head[match.end() :] if match else head).strip()
    return sentence or None


def _read_call(body: str) -> Call | ParseFailure | CallFailure:
    """What follows the opening tag -> the call. The JSON's own end decides where the closing tag is looked for, so a
    tag inside a typed text does no harm."""
    body = body.lstrip(_JSON_SPACE)
    try:
        value, end = _DECODER.raw_decode(body)
    except (ValueError, RecursionError):
        return "bad_json"
    rest = body[end:].lstrip(_JSON_SPACE)
    if not isinstance(value, dict) or not rest.startswith(CLOSE):
        return "bad_json"
    rest = rest[len(CLOSE) :].strip()
    if rest:
        return "multi_call" if rest.startswith(OPEN) else "bad_json"
    if "name" not in value or "arguments" not in value:
        return "missing_argument"
    if not isinstance(value["name"], str):
        return "unknown_tool"
    if not isinstance(value["arguments"], dict) or len(value) > 2:
        return "bad_argument"
    return Call(value["name"], value["arguments"])


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"{digits} is beyond the range of a double")
    return value


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key is repeated")
    return value


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_without_repeats)
