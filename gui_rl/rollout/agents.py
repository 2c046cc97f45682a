"""Who acts: the policy, the task's script, or chance. One loop (`episode`) plays them all.

In: what an agent may see of a turn (`View`). Out: its `Reply`: a response text with the ids that stand for it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from env_servers.protocol.actions import FUNCTIONS, Call
from gui_rl.data.schema import RoleCall
from gui_rl.prompt.context import ContextConfig, HistoryTurn
from gui_rl.prompt.images import ImageInput
from gui_rl.prompt.render import Prompt, decode_response, encode_response, render, response_text
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.rollout.env_client import Session
from gui_rl.rollout.env_fleet import RefusedError
from gui_rl.rollout.sampler import Sampler, SamplingParams


@dataclasses.dataclass(frozen=True)
class View:
    """What is known when an agent has to act.

    Attributes:
      episode: the episode's id, which also seeds the draws.
      device, instruction, tools: of the task.
      screenshot: the present observation.
      history: the turns so far.
      session: the environment's session; only a script asks it for more than the screenshot.
      png: the present observation as it came, for agents that ask others about it.
    """

    episode: str
    device: str
    instruction: str
    tools: Sequence[Mapping[str, Any]]
    screenshot: ImageInput
    history: Sequence[HistoryTurn]
    session: Session
    png: bytes = b""


@dataclasses.dataclass(frozen=True)
class Reply:
    """A response, and how it came about (fields as in `data.schema.Turn`).

    thinking: the prompt opened `<think>`, so that the text begins with the thought.
    """

    text: str
    prompt: Prompt
    response_ids: Sequence[int]
    behaviour_logp: Sequence[float] = ()
    temperature: float = 1.0
    policy_version: int = -1
    policy_spans: Sequence[tuple[int, int]] = ()
    finish_reason: str = "stop"
    box: tuple[float, float, float, float] | None = None
    seconds: float = 0.0
    thinking: bool = False
    calls: tuple[RoleCall, ...] = ()


@dataclasses.dataclass(frozen=True)
class Prompts:
    """The form of the prompts, the same for every agent, so that every turn can be trained on."""

    tokenizer: Tokenizer
    context: ContextConfig

    def of(self, view: View) -> Prompt:
        """The prompt of a view."""
        where = f"{view.episode} turn {len(view.history)}"
        return render(
            self.tokenizer, self.context, view.device, view.tools, view.instruction, view.history, view.screenshot,
            sample_id=where,
        )  # fmt: skip


class Agent(Protocol):
    """Anything that answers a view."""

    source: str
    prompts: Prompts

    async def act(self, view: View) -> Reply:
        """The next response."""
        ...


@dataclasses.dataclass(frozen=True)
class PolicyAgent:
    """The policy behind a sampler; the draws of a turn depend on the episode's id and the turn alone."""

    sampler: Sampler
    prompts: Prompts
    params: SamplingParams = SamplingParams()
    source: str = "policy"

    async def act(self, view: View) -> Reply:
        """Samples a response."""
        started = time.monotonic()
        prompt = self.prompts.of(view)
        key = int.from_bytes(hashlib.sha256(f"{view.episode}/{len(view.history)}".encode()).digest()[:4], "big")
        (done,) = await self.sampler.sample([prompt], self.params, [key])
        return Reply(
            text=decode_response(self.prompts.tokenizer, done.token_ids),
            prompt=prompt,
            response_ids=done.token_ids,
            behaviour_logp=done.logprobs,
            temperature=self.params.temperature,
            policy_version=done.policy_version,
            policy_spans=done.spans,
            finish_reason=done.finish_reason,
            seconds=time.monotonic() - started,
            thinking=self.prompts.context.thinking,
        )


@dataclasses.dataclass(frozen=True)
class ScriptAgent:
    """The task's own script, asked from the environment server; its ids are made once, here.

    Where it knows no way on (what it looks for may be hidden behind something), it says so and calls nothing until
    the episode's steps are used up: a failure like any other, with its reason in the trajectory.
    """

    prompts: Prompts
    source: str = "script"

    async def act(self, view: View) -> Reply:
        """The script's next move as a response."""
        try:
            move = await view.session.script()
        except RefusedError as refused:
            if refused.problem.code != "script_failed":
                raise
            text = f"The script knows no way on: {refused.problem.detail[:120]}"
            return Reply(text, self.prompts.of(view), encode_response(self.prompts.tokenizer, text))
        text = response_text(move.conclusion, Call(move.action.name, dict(move.action.arguments)))
        box = None
        if move.box is not None:
            box = tuple(float(value) for value in move.box)
        ids = encode_response(self.prompts.tokenizer, text)
        return Reply(text, self.prompts.of(view), ids, box=box)


@dataclasses.dataclass(frozen=True)
class RandomAgent:
    """A floor for every score: points at a uniform place four times in five, else ends the task."""

    prompts: Prompts
    source: str = "policy"

    async def act(self, view: View) -> Reply:
        """A random click or tap, or `terminate(success)`."""
        rng = random.Random(f"{view.episode}/{len(view.history)}")
        action = "left_click" if view.device == "desktop" else "click"
        if rng.random() < 0.2:
            call, sentence = Call(FUNCTIONS[view.device], {"action": "terminate", "status": "success"}), "Stop."
        else:
            place = [rng.randint(0, 1000), rng.randint(0, 1000)]
            call, sentence = Call(FUNCTIONS[view.device], {"action": action, "coordinate": place}), "Try."
        text = response_text(sentence, call)
        return Reply(text, self.prompts.of(view), encode_response(self.prompts.tokenizer, text))
