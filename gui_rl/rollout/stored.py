"""Single steps on stored states (UI-MOPD, section 3.4): n responses to one stored prompt, scored against what was done.

In: turns that were recorded, as `TurnRecord`s by name. Out: `Pool`s of one-turn episodes, for the same groups,
advantages and updates as whole episodes (`online.train(play=make_play_stored(...), ...)` with tickets of the suite
"stored"). The prompt's ids and images are those that are stored; nothing is rendered anew (R7). An episode's score is
the agreement of its action with the reference, its outcome `success` at agreement 1 and `format_fail` without a valid
call, so that `MRPOConfig.reward` "rule" is the paper's reward.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from gui_rl.data.schema import Episode, Turn, TurnRecord
from gui_rl.errors import UserError
from gui_rl.prompt.images import as_seen
from gui_rl.prompt.parse import parse_response
from gui_rl.prompt.render import decode_response
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.rollout.chat import prompt_of
from gui_rl.rollout.groups import Pool, Ticket
from gui_rl.rollout.sampler import Sampler, SamplingParams

SUITE = "stored"
NEAR = 40.0
"""How far a point may be from the reference's, on the grid of 1000, where the target's box is not known."""


def agreement(action: Mapping[str, Any], reference: Mapping[str, Any], box: Sequence[float] | None = None) -> float:
    """Agreement `f_a` of an action with the reference, in [0, 1]: the share of its parts that are right.

    The parts are the function together with its `action`, and every argument that one of the two has: points (pairs of
    numbers) agree inside the target's box, or within `NEAR`; text but for case and outer spaces; all else exactly. With
    another function or `action` it is 0. The paper does not say how f_a is computed; this is ours.
    """
    mine, theirs = dict(action["arguments"]), dict(reference["arguments"])
    if action["name"] != reference["name"] or mine.pop("action", None) != theirs.pop("action", None):
        return 0.0
    names = sorted({*mine, *theirs})
    right = sum(
        name in mine and name in theirs and _same(mine[name], theirs[name], box if name == "coordinate" else None)
        for name in names
    )
    return (1 + right) / (1 + len(names))


def _same(value: Any, reference: Any, box: Sequence[float] | None) -> bool:
    if isinstance(value, str) and isinstance(reference, str):
        return value.strip().casefold() == reference.strip().casefold()
    if not (_is_point(value) and _is_point(reference)):
        return value == reference
    if box is not None:
        return box[0] <= value[0] <= box[2] and box[1] <= value[1] <= box[3]
    return max(abs(a - b) for a, b in zip(value, reference, strict=True)) <= NEAR


def _is_point(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 2 and all(isinstance(v, (int, float)) for v in value)


def make_play_stored(
    states: Mapping[str, TurnRecord],
    sampler: Sampler,
    tokenizer: Tokenizer,
    size: int,
    params: SamplingParams = SamplingParams(),  # noqa: B008 - frozen
    *,
    thinking: bool = False,
    agree: Callable[[Mapping[str, Any], Mapping[str, Any], Sequence[float] | None], float] = agreement,
) -> Callable[[Ticket, int], Awaitable[Pool]]:
    """What plays a ticket `(SUITE, name of a state, seed)` in the place of whole episodes.

    Args:
      states: by the name that tickets call them; each has prompt ids and a reference action.
      sampler: the policy.
      tokenizer: its vocabulary.
      size: responses a state, k*n.
      params: how they are drawn.
      thinking: whether responses begin with a thought.
      agree: `(action, reference, target box) -> agreement in [0, 1]`.
    Raises:
      UserError: for a state without prompt ids or reference action or with earlier screenshots in its prompt (training
        shows the current one alone, table 6), and, when played, for an unknown one.
    """
    for name, state in states.items():
        if not state.turn.prompt_ids or state.turn.action is None:
            raise UserError(f"stored state {name!r} has no {'prompt ids' if state.turn.action else 'reference action'}")
        if len(state.screens) > 1:
            raise UserError(
                f"stored state {name!r} shows {len(state.screens)} screenshots: render it with history_turns 0"
            )

    async def play(ticket: Ticket, number: int) -> Pool:
        if ticket.task not in states:
            raise UserError(f"no stored state is called {ticket.task!r}")
        state = states[ticket.task]
        device = state.episode.device_of(state.turn)
        images = [as_seen(*seen, name=ticket.task) for seen in zip(state.screens, state.turn.image_grids, strict=True)]
        prompt = prompt_of(tokenizer, state.turn.prompt_ids, images)
        names = [f"{ticket.key}/{number}/{copy}" for copy in range(size)]
        keys = [int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") for name in names]
        found = await sampler.sample([prompt] * size, params, keys)
        episodes = []
        for name, done in zip(names, found, strict=True):
            text = decode_response(tokenizer, done.token_ids)
            parsed = parse_response(text, device, state.episode.tools, thinking)
            action = None
            if parsed.call is not None:
                action = {"name": parsed.call.name, "arguments": dict(parsed.call.arguments)}
            score = 0.0 if action is None else agree(action, state.turn.action, state.turn.target_box)
            outcome = "format_fail" if action is None else "success" if score == 1.0 else "fail"
            turn = Turn(
                0, state.turn.screenshot, prompt_ids=tuple(prompt.ids), image_grids=state.turn.image_grids,
                image_turns=(0,) * len(images), response_ids=tuple(done.token_ids), behaviour_logp=tuple(done.logprobs),
                temperature=params.temperature, policy_version=done.policy_version, policy_spans=done.spans, text=text,
                thought=parsed.thought, conclusion=parsed.conclusion, action=action, parse_error=parsed.failure,
            )  # fmt: skip
            episodes.append(
                Episode(
                    name,
                    ticket.suite,
                    ticket.task,
                    ticket.seed,
                    device,
                    state.episode.instruction,
                    state.episode.screen_size,
                    (turn,),
                    outcome,
                    score,
                    policy_version=done.policy_version,
                    tools=state.episode.tools,
                )  # fmt: skip
            )
        return Pool(ticket.key, tuple(episodes), 0)

    return play
