"""A turn to token ids, once (R7): system prompt, user turns with screenshots, earlier responses as sampled.

In: `Tokenizer`, `ContextConfig`, device family, MCP-style tools, instruction, earlier turns, the screenshot.
Out: `Prompt`: ids with every image placeholder expanded, the images in order, and the shared prefix (the *trunk*).

1. the system turn: Qwen's tools header, one JSON signature a line (the family's function, then the tools), the format;
2. the first user turn: the sentence of GUI-Owl-1.5 with the instruction and the collapsed steps, and its screenshot;
3. for each turn that stays whole: the response's ids as sampled, and the next screenshot;
4. the opening of the assistant's turn.

Control tokens come from the literals of this project alone. Whatever comes from outside (instruction, conclusions, tool
signatures and results) is encoded as plain text, even where it spells a control token (R41).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from env_servers.protocol.actions import check_family, tool_schema
from gui_rl.prompt import literals
from gui_rl.prompt.context import ContextConfig, HistoryTurn, window
from gui_rl.prompt.images import ImageInput
from gui_rl.prompt.response import decode_response, encode_response, response_text
from gui_rl.prompt.tokenizer import Tokenizer

__all__ = [
    "Prompt", "check_placeholders", "decode_response", "encode_response", "render", "render_messages",
    "render_question", "response_text", "with_response",
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class Prompt:
    """Token ids up to and including the opening of the assistant's turn.

    images: in the order of their placeholders. image_spans: [start, end) of each image's placeholders in `ids`.
    trunk_length: leading ids (system turn and screenshot) that every prompt with this family, these tools and this
    screenshot shares; 0 where the text precedes the screenshot or earlier turns stay whole.
    """

    ids: list[int]
    images: list[ImageInput]
    image_spans: list[tuple[int, int]]
    trunk_length: int


def render(
    tokenizer: Tokenizer,
    context: ContextConfig,
    device: str,
    tools: Sequence[Mapping[str, Any]],
    instruction: str,
    history: Sequence[HistoryTurn],
    screenshot: ImageInput,
    *,
    date: str | None = None,
    sample_id: str = "",
) -> Prompt:
    """The prompt of the turn after `history`, looking at `screenshot`.

    date: put before the instruction on mobile (GUI-Owl-1.5); other families do not show it.
    sample_id: what errors call this turn.
    Raises ValueError for an unknown family, image placeholders inside a response, or a prompt that is over
    `max_prompt_tokens` even with every earlier turn left out (placeholders are never cut, R9).
    """
    dated = literals.DATE.format(date=date) + instruction if date and device == "mobile" else instruction
    turns, first = min(context.history_turns, len(history)), 0
    while True:
        narrowed = replace(context, history_turns=turns)
        prompt = _render_window(tokenizer, narrowed, device, tools, dated, history, screenshot, sample_id, first)
        if context.max_prompt_tokens is None or len(prompt.ids) <= context.max_prompt_tokens:
            return prompt
        if turns:
            turns -= 1
        elif first < len(history):
            first += 1
        else:
            raise ValueError(
                f"{sample_id or 'prompt'}: {len(prompt.ids)} ids with all earlier turns left out, over the limit of "
                f"{context.max_prompt_tokens}: raise max_prompt_tokens or lower the images' max_pixels"
            )


def render_question(
    tokenizer: Tokenizer,
    context: ContextConfig,
    device: str,
    tools: Sequence[Mapping[str, Any]],
    question: str,
    screenshot: ImageInput,
    *,
    sample_id: str = "",
) -> Prompt:
    """A free question about a screenshot, with the same trunk as the turns that look at it (knowledge and QA data)."""
    out = _Ids(tokenizer)
    _system(out, context, device, tools)
    out.literal(literals.USER)
    trunk = _beside(out, context, screenshot, question)
    out.literal(literals.TURN_END)
    return _open_response(out, context.thinking, trunk, sample_id)


def render_messages(
    tokenizer: Tokenizer,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] | None = None,
    *,
    thinking: bool = False,
    sample_id: str = "",
) -> Prompt:
    """Qwen3-VL's chat format, generation prompt included.

    A message is `{role: system|user|assistant|tool, content}`; content is a text, or a list of
    `{type: "text", text}` and `{type: "image", image: ImageInput}`. An assistant's content is a response (its tags are
    control tokens, as in `encode_response`); a `tool` message becomes `<tool_response>` in a user turn. All other
    content is plain text: a tag that is spelled in it stays text.
    Raises ValueError for other roles or parts, or a system message that is not the first.
    """
    out = _Ids(tokenizer)
    head, rest = (messages[:1], messages[1:]) if messages and messages[0]["role"] == "system" else ((), messages)
    if head or tools:
        out.literal(literals.SYSTEM)
        for message in head:
            _content(out, message["content"], sample_id)
            out.literal("\n\n" if tools else "")
        if tools:
            _tools(out, tools)
        out.literal(literals.TURN_END)
    for role, group in groupby(rest, key=lambda message: message["role"]):
        if role == "tool":
            out.literal("<|im_start|>user")
            for message in group:
                out.literal("\n" + literals.TOOL_RESPONSE)
                _content(out, message["content"], sample_id)
                out.literal(literals.TOOL_RESPONSE_END)
            out.literal(literals.TURN_END)
        elif role == "user":
            for message in group:
                out.literal(literals.USER)
                _content(out, message["content"], sample_id)
                out.literal(literals.TURN_END)
        elif role == "assistant":
            for message in group:
                _response(out, message["content"], None, thinking, sample_id)
        else:
            raise ValueError(f"{sample_id or 'messages'}: role {role!r} (a system message can only be the first)")
    return _open_response(out, thinking, 0, sample_id)


def with_response(prompt: Prompt, response_ids: Sequence[int]) -> tuple[list[int], list[int]]:
    """(ids, loss mask) of a training sample: 1 on the response, its `<|im_end|>` included, 0 on the prompt (R8).

    The newline that the template puts after `<|im_end|>` is never sampled, and so no part of the sample.
    """
    return [*prompt.ids, *response_ids], [0] * len(prompt.ids) + [1] * len(response_ids)


def check_placeholders(ids: Sequence[int], images: Sequence[ImageInput], image_id: int, sample_id: str) -> None:
    """Raise ValueError, naming the sample, unless `ids` hold one placeholder per visual token of `images` (R9)."""
    runs = [sum(1 for _ in run) for is_image, run in groupby(ids, key=lambda token: token == image_id) if is_image]
    expected = [image.tokens for image in images]
    if runs != expected:
        raise ValueError(
            f"{sample_id or 'prompt'}: runs of image placeholders {runs} do not match the images' visual tokens "
            f"{expected}: the sample was cut or expanded twice"
        )


# --- parts -----------------------------------------------------------------------------------------------------------
class _Ids:
    """Ids under construction. Neighbouring texts are joined before they are encoded, so that the seams between
    literals and outside text leave no trace in the ids."""

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer
        self.images: list[ImageInput] = []
        self.spans: list[tuple[int, int]] = []
        self._ids: list[int] = []
        self._pending: list[str] = []

    @property
    def ids(self) -> list[int]:
        """The ids so far, pending text included."""
        if self._pending:
            self._ids += self.tokenizer.encode("".join(self._pending))
            self._pending.clear()
        return self._ids

    def text(self, text: str) -> None:
        """Text from outside: plain, whatever it spells."""
        self._pending.append(text)

    def literal(self, text: str) -> None:
        """A text of this project: control tokens by their names."""
        for piece in self.tokenizer.split_control(text):
            if isinstance(piece, str):
                self._pending.append(piece)
            else:
                self.ids.append(piece)

    def verbatim(self, ids: Iterable[int]) -> None:
        """Ids as they were sampled."""
        self.ids.extend(ids)

    def image(self, image: ImageInput) -> None:
        """The one place where placeholders are expanded."""
        self.literal("<|vision_start|>")
        start = len(self.ids)
        self.ids.extend([self.tokenizer.image_id] * image.tokens)
        self.images.append(image)
        self.spans.append((start, len(self.ids)))
        self.literal("<|vision_end|>")


def _render_window(
    tokenizer: Tokenizer,
    context: ContextConfig,
    device: str,
    tools: Sequence[Mapping[str, Any]],
    instruction: str,
    history: Sequence[HistoryTurn],
    screenshot: ImageInput,
    sample_id: str,
    first: int,
) -> Prompt:
    """first: the first turn whose conclusion is told."""
    collapsed, whole = window(history, context.history_turns)
    screenshots = [*(turn.screenshot for turn in whole), screenshot]
    steps = [literals.STEP.format(step=k, conclusion=turn.conclusion) for k, turn in enumerate(collapsed, 1)]
    steps = steps[first:]
    previous = literals.PREVIOUS + ("\n".join(steps) or literals.NO_PREVIOUS)

    out = _Ids(tokenizer)
    _system(out, context, device, tools)
    out.literal(literals.USER)
    sentence = literals.MOVE + literals.INSTRUCTION + instruction + previous
    trunk = _beside(out, context, screenshots[0], sentence, collapsed[-1].tool_result if collapsed else None)
    for turn, seen in zip(whole, screenshots[1:], strict=True):
        out.literal(literals.TURN_END)
        _response(out, turn.response_text, turn.response_ids, context.thinking, sample_id)
        out.literal(literals.USER)
        _observation(out, context, seen, turn.tool_result)
    out.literal(literals.TURN_END)
    return _open_response(out, context.thinking, 0 if whole else trunk, sample_id)


def _system(out: _Ids, context: ContextConfig, device: str, tools: Sequence[Mapping[str, Any]]) -> None:
    out.literal(literals.SYSTEM)
    _tools(out, [tool_schema(check_family(device)), *tools])
    if context.response_rules:
        out.literal(literals.THINKING_RULES if context.thinking else literals.RESPONSE_RULES)
    out.literal(literals.TURN_END)


def _tools(out: _Ids, tools: Sequence[Mapping[str, Any]]) -> None:
    out.literal(literals.TOOLS_HEADER)
    for tool in tools:
        out.text(literals.json_line(tool) + "\n")
    out.literal(literals.TOOLS_FOOTER)


def _beside(
    out: _Ids, context: ContextConfig, screenshot: ImageInput, text: str, tool_result: str | None = None
) -> int:
    """The first user turn's content; returns how many ids end with the screenshot if it stands first, else 0."""
    trunk = 0
    if context.screenshot_first:
        out.image(screenshot)
        trunk = len(out.ids)
    out.text(text)
    if tool_result is not None:
        out.literal("\n" + literals.TOOL_RESPONSE)
        out.text(tool_result)
        out.literal(literals.TOOL_RESPONSE_END)
    if not context.screenshot_first:
        out.image(screenshot)
    return trunk


def _observation(out: _Ids, context: ContextConfig, screenshot: ImageInput, tool_result: str | None) -> None:
    """A later user turn: the screenshot after a whole turn, with what its tool call returned."""
    if context.observation == "plain" and tool_result is None:
        out.image(screenshot)
        return
    if context.screenshot_first:
        out.image(screenshot)
    out.literal(literals.TOOL_RESPONSE)
    out.text(literals.NO_TOOL_RESULT if tool_result is None else tool_result)
    if not context.screenshot_first:
        out.image(screenshot)
    out.literal(literals.TOOL_RESPONSE_END)


def _response(out: _Ids, text: str, ids: Sequence[int] | None, thinking: bool, sample_id: str) -> None:
    """An earlier assistant turn, closed even where sampling stopped at the length limit."""
    tokenizer = out.tokenizer
    response = encode_response(tokenizer, text, thinking) if ids is None else [int(token) for token in ids]
    if tokenizer.image_id in response or tokenizer.video_id in response:
        raise ValueError(f"{sample_id or 'prompt'}: a response holds image placeholders; they must never be sampled")
    out.literal(literals.ASSISTANT + (literals.THINK if thinking else ""))
    out.verbatim(response if response[-1:] == [tokenizer.eos_id] else [*response, tokenizer.eos_id])
    out.literal("\n")


def _content(out: _Ids, content: str | Sequence[Mapping[str, Any]], sample_id: str) -> None:
    parts: Sequence[Mapping[str, Any]] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    for part in parts:
        image = part.get("image")
        if part["type"] == "text":
            out.text(part["text"])
        elif part["type"] == "image" and isinstance(image, ImageInput):
            out.image(image)
        else:
            raise ValueError(f"{sample_id or 'messages'}: a content part is a text or an ImageInput: {part!r}")


def _open_response(out: _Ids, thinking: bool, trunk_length: int, sample_id: str) -> Prompt:
    """Open the assistant's turn and count the placeholders."""
    out.literal(literals.ASSISTANT + (literals.THINK if thinking else ""))
    check_placeholders(out.ids, out.images, out.tokenizer.image_id, sample_id)
    return Prompt(out.ids, out.images, out.spans, trunk_length)
