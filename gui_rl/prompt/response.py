"""The response format: `Action: <sentence>`, then one tool call; in the thinking variant the reasoning comes first.

In: a conclusion, a call, a thought. Out: the exact text a policy should answer, and its ids ending in `<|im_end|>`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from env_servers.protocol.actions import Call
from gui_rl.prompt import literals
from gui_rl.prompt.tokenizer import Tokenizer

OPEN, CLOSE, THINK_END = "<tool_call>", "</tool_call>", "</think>"
_OPEN_LINE = re.compile(r"^<tool_call>", re.MULTILINE)


def response_text(conclusion: str, call: Call, thought: str | None = None) -> str:
    """The response that says `conclusion` and makes `call`; with a thought, what follows the opened `<think>`.

    Raises ValueError for a conclusion of several lines, or a text that holds the tag that would end it.
    """
    if "\n" in conclusion or OPEN in conclusion:
        raise ValueError(f"a conclusion is one line without a tool call, got {conclusion!r}")
    if thought is not None and THINK_END in thought:
        raise ValueError(f"a thought cannot hold {THINK_END}, got {thought!r}")
    thinking = "" if thought is None else thought + literals.THOUGHT_END
    call_json = literals.json_line(call.to_json())
    return f"{thinking}{literals.CONCLUSION}{conclusion}\n{literals.CALL}{call_json}{literals.CALL_END}"


def encode_response(tokenizer: Tokenizer, text: str, thinking: bool = False) -> list[int]:
    """A response's text -> ids ending in `<|im_end|>`, all of them part of the loss (R8).

    Only the tags that give the response its structure become control tokens: the one that ends the thought (with
    `thinking`), the one that opens the call and the one that closes it. The same letters inside the conclusion or a
    typed text stay plain text (R41).
    """
    ids: list[int] = []
    rest = text
    if thinking and THINK_END in rest:
        thought, _, rest = rest.partition(THINK_END)
        ids += [*tokenizer.encode(thought), tokenizer.control(THINK_END)]
    start = find_call(rest)
    if start is None:
        return [*ids, *tokenizer.encode(rest), tokenizer.eos_id]
    head, body = rest[:start], rest[start + len(OPEN) :]
    ids += [*tokenizer.encode(head), tokenizer.control(OPEN)]
    if body.rstrip().endswith(CLOSE):
        inner, _, tail = body.rpartition(CLOSE)
        ids += [*tokenizer.encode(inner), tokenizer.control(CLOSE), *tokenizer.encode(tail)]
    else:
        ids += tokenizer.encode(body)
    return [*ids, tokenizer.eos_id]


def decode_response(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """Sampled ids -> the response's text, without the `<|im_end|>` that ended it (if one did)."""
    ended = len(ids) > 0 and ids[-1] == tokenizer.eos_id
    return tokenizer.decode(ids[:-1] if ended else ids)


def find_call(text: str) -> int | None:
    """Where the call's opening tag stands: the first that begins a line, else the first at all, else None."""
    line = _OPEN_LINE.search(text)
    start = line.start() if line else text.find(OPEN)
    return None if start < 0 else start
