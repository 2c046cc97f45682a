"""What a sampler is: prompts of token ids in, completions of token ids and log-probabilities out.

The engine in this process, a remote server and our own HTTP service all keep this protocol, so that a rollout does not
know where its policy lives. Token ids are made here, once, and are never made again (R7).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal, Protocol

from gui_rl.prompt.render import Prompt


@dataclasses.dataclass(frozen=True)
class SamplingParams:
    """How completions are drawn.

    Attributes:
      temperature: divides the logits; 0 takes the most likely token. There is no top-p and no top-k: renormalising
        would bias the ratio between trainer and sampler (R14).
      max_tokens: longest completion, the end token included.
      stop_token_ids: end tokens besides the tokenizer's own.
    """

    temperature: float = 1.0
    max_tokens: int = 48
    stop_token_ids: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Completion:
    """One sampled response.

    Attributes:
      token_ids: as sampled, the end token included when it came.
      logprobs: nats of each token under the policy at the sampling temperature (1 where the temperature is 0).
      finish_reason: "stop" when the end token came, "length" when the budget ended first.
      policy_version: the weights that sampled its first token.
      spans: (policy version, tokens sampled under it), in order; several where weights changed on the way.
    """

    token_ids: list[int]
    logprobs: list[float]
    finish_reason: Literal["stop", "length"]
    policy_version: int
    spans: tuple[tuple[int, int], ...] = ()


@dataclasses.dataclass(frozen=True)
class Piece:
    """The next tokens of a response that is streamed, and their log-probabilities (see `Completion`)."""

    token_ids: list[int]
    logprobs: list[float]


class Sampler(Protocol):
    """Anything that completes prompts."""

    async def sample(self, prompts: Sequence[Prompt], params: SamplingParams, keys: Sequence[int]) -> list[Completion]:
        """Completes every prompt; `keys` seed the draws, one a prompt, whatever else is in the batch."""
        ...

    async def update_weights(self, params, version: int) -> None:
        """Replaces the weights; completions begun before keep their version."""
        ...
