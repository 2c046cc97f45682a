"""Requests inside the engine: a prompt, how it is drawn, where its completion goes; and what several have in common.

In: requests of one round. Out: the distinct prompts among them, and which weights sampled which tokens.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence

from gui_rl.prompt.render import Prompt
from gui_rl.rollout.sampler import Piece, SamplingParams


@dataclasses.dataclass(eq=False)
class Request:
    """A prompt on its way through the engine; what it becomes is put into `future`, and as it grows into `pieces`."""

    prompt: Prompt
    params: SamplingParams
    key: int
    future: asyncio.Future
    spans: list[tuple[int, int]] = dataclasses.field(default_factory=list)  # (version, tokens so far)
    pieces: asyncio.Queue[Piece] | None = None  # where the response is streamed
    given: int = 0  # tokens that were streamed


def shared(new: Sequence[tuple[Request, int, int]]) -> tuple[list[int], list[tuple[Prompt, int, int]]]:
    """For every request, which of the distinct prompts (equal ids and the same images) is its own; and those, each with
    the slot that it goes on from and the tokens that it has there."""
    numbers: dict[tuple, int] = {}
    distinct, owner = [], []
    for request, slot, tokens in new:
        prompt = request.prompt
        number = numbers.setdefault((tuple(prompt.ids), *map(id, prompt.images)), len(distinct))
        if number == len(distinct):
            distinct.append((prompt, slot, tokens))
        owner.append(number)
    return owner, distinct


def version_spans(rounds: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """(version, tokens sampled under it), in order, from (version, tokens so far) after every round."""
    spans: list[tuple[int, int]] = []
    before = 0
    for version, total in rounds:
        if spans and spans[-1][0] == version:
            spans[-1] = (version, spans[-1][1] + total - before)
        elif total > before:
            spans.append((version, total - before))
        before = total
    return spans
