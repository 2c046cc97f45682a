"""What of an episode the policy sees: the sliding window over its earlier turns.

In: `ContextConfig`, the earlier turns. Out: which of them stay whole and which collapse to their conclusions
(GUI-Owl-1.5, section 2.1: the last N turns whole, S = concat(C_1 ... C_{t-N-1}) for the older ones).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gui_rl.prompt.images import FACTOR, ImageInput


@dataclass(frozen=True)
class ContextConfig:
    """How a turn's prompt is put together.

    history_turns: N, the earlier turns that stay whole (screenshot and response); older ones collapse to text.
    screenshot_first: the screenshot stands before the sentence of its user turn, so that several prompts on one
      screenshot share their prefix.
    thinking: the generation prompt opens `<think>`; responses begin with the reasoning.
    response_rules: the system prompt ends with the response format.
    observation: `plain` gives a later observation as its screenshot, with a tool's result before it where there is one
      (GUI-Owl-1.5); `tool_response` wraps every later observation as the result of a call (ToolCUA).
    max_prompt_tokens: longest prompt in ids, images included; whole turns collapse, oldest first, until it fits; then
      the oldest conclusions are left out.
    max_pixels: screenshots with more are made smaller when they are taken in (`images.resized_size`); None: Qwen's own
      limit, `images.DEFAULT_MAX_PIXELS`.
    """

    history_turns: int = 4
    screenshot_first: bool = False
    thinking: bool = False
    response_rules: bool = True
    observation: Literal["plain", "tool_response"] = "plain"
    max_prompt_tokens: int | None = None
    max_pixels: int | None = None

    def __post_init__(self) -> None:
        if self.history_turns < 0:
            raise ValueError(f"history_turns must be 0 or more, got {self.history_turns}")
        if self.observation not in ("plain", "tool_response"):
            raise ValueError(f"observation must be plain or tool_response, got {self.observation!r}")
        if self.max_pixels is not None and self.max_pixels < FACTOR**2:
            raise ValueError(f"max_pixels must be {FACTOR**2} or more, got {self.max_pixels}")


TINY_CONTEXT = ContextConfig(history_turns=0, screenshot_first=True, max_prompt_tokens=208)
"""gui-tiny's: one screenshot a prompt, shared as prefix by everything asked about it."""


@dataclass(frozen=True, eq=False)
class HistoryTurn:
    """An earlier turn: what was seen, what was answered, what came back.

    response_ids: as sampled; None where the response was not sampled by a policy of this vocabulary (then its text is
    encoded). conclusion: the sentence after `Action:`. tool_result: what the turn's tool call returned, if it was one.
    """

    screenshot: ImageInput
    response_text: str
    response_ids: Sequence[int] | None
    conclusion: str
    tool_result: str | None = None


def window(history: Sequence[HistoryTurn], turns: int) -> tuple[Sequence[HistoryTurn], Sequence[HistoryTurn]]:
    """(turns that collapse to their conclusions, the last `turns` turns, which stay whole), both in order."""
    cut = max(len(history) - turns, 0)
    return history[:cut], history[cut:]
