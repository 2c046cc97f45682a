"""Token-ID transport over the environment server (GUI-Owl-1.5, section 2.4.3).

Where the agent loop runs beside the environment, the trainer reads its episodes from the server: the loop tells the
server with every step how the response was sampled, and the server keeps it as it came (R7). In: the server's record
and verdict. Out: the `Episode` that the loop itself would have returned.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence

from PIL import Image

from env_servers.protocol.messages import EpisodeReply, EvaluateReply, Sampled
from gui_rl.data.schema import Episode, Turn
from gui_rl.errors import UserError
from gui_rl.prompt.parse import parse_response
from gui_rl.rollout.agents import Reply


def told_episode(record: EpisodeReply, verdict: EvaluateReply, id: str) -> Episode:
    """The episode that an agent loop beside the environment played (`play` with `tell`), as the server keeps it.

    What training needs of it is what the loop itself would have returned: nothing is tokenised or rendered again.

    Args:
      record: from `Session.record(screenshots=True)`.
      verdict: from `Session.evaluate()`.
      id: name of the episode.
    Raises:
      UserError: for a record without screenshots, or with a response of which the loop did not tell how it came about.
    """
    if len(record.screenshots) != len(record.steps) + 1:
        raise UserError(f"{id}: {len(record.screenshots)} screenshots for {len(record.steps)} steps: ask for them all")
    turns = []
    hashes = [record.first_hash, *(step.state_hash for step in record.steps)]
    for step, screenshot, state_hash in zip(record.steps, record.screenshots, hashes, strict=False):
        if step.response is None or step.response.sampled is None:
            raise UserError(f"{id} step {step.step}: the agent loop did not tell how the response was sampled")
        told = step.response.sampled
        parsed = parse_response(step.response.text, step.device or record.device, record.tools)
        turns.append(
            Turn(
                index=step.step,
                screenshot=base64.b64decode(screenshot),
                state_hash=state_hash,
                prompt_ids=tuple(told.prompt_ids),
                image_grids=tuple(told.image_grids),
                image_turns=tuple(told.image_turns),
                response_ids=tuple(step.response.token_ids),
                behaviour_logp=tuple(told.logprobs),
                temperature=told.temperature,
                policy_version=told.policy_version,
                policy_spans=tuple(told.policy_spans),
                text=step.response.text,
                thought=parsed.thought,
                conclusion=parsed.conclusion,
                action=None if step.action is None else step.action.model_dump(),
                parse_error=step.parse_error,
                tool_result=None if step.tool_result is None else json.dumps(step.tool_result),
                device="" if step.device in (None, record.device) else step.device,
            )
        )
    with Image.open(io.BytesIO(turns[0].screenshot)) as image:
        size = image.size
    return Episode(
        id=id,
        suite=record.suite,
        task=record.task,
        seed=record.seed,
        device=record.device,
        instruction=record.instruction,
        screen_size=size,
        turns=tuple(turns),
        outcome=verdict.outcome,
        score=verdict.score or 0.0,
        progress=verdict.progress,
        total=verdict.total,
        checkpoints=tuple(verdict.checkpoints),
        policy_version=turns[0].policy_version,
        tools=tuple(record.tools),
    )


def sampled(reply: Reply, shown: Sequence[int]) -> Sampled:
    """What the server is told of a response; `shown`: the observation of each image of its prompt."""
    return Sampled(
        prompt_ids=list(reply.prompt.ids),
        image_grids=[image.grid for image in reply.prompt.images],
        image_turns=list(shown),
        logprobs=list(map(float, reply.behaviour_logp)),
        temperature=reply.temperature,
        policy_version=reply.policy_version,
        policy_spans=list(reply.policy_spans),
    )
