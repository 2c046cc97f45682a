"""One episode: observe, answer, act, until the task ends; and many of them at once.

In: an environment session and an agent. Out: an `Episode` with everything that training needs. A fault of the
environment ends the episode with its own outcome and is never a score (R24); a rollout has one wall-clock deadline, and
what has not ended by then is a `policy_timeout` (R28).
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from env_servers.protocol.messages import Observation
from gui_rl.data.schema import Episode, Turn
from gui_rl.prompt.context import HistoryTurn
from gui_rl.prompt.images import shared
from gui_rl.prompt.parse import parse_response
from gui_rl.rollout.agents import Agent, View
from gui_rl.rollout.env_client import EnvClient, EnvFault, Session


@dataclasses.dataclass(frozen=True)
class Spec:
    """An episode to be played: `copy` tells the members of a group apart, `run` the rounds they belong to."""

    suite: str
    task: str
    seed: int
    copy: int = 0
    run: str = ""

    @property
    def id(self) -> str:
        """Unique name of the episode."""
        return f"{self.run + ':' if self.run else ''}{self.suite}:{self.task}:{self.seed}:{self.copy}"


@dataclasses.dataclass
class Transport:
    """How often the ids that the server keeps with an episode were not the ids that were sampled (must stay 0, R7)."""

    turns: int = 0
    mismatches: int = 0

    @property
    def rate(self) -> float:
        """`tito_mismatch_rate`."""
        return self.mismatches / max(self.turns, 1)


async def play(
    spec: Spec,
    session: Session,
    agent: Agent,
    deadline: float,
    keep_final: bool = False,
    transport: Transport | None = None,
) -> Episode:
    """Plays one episode to its end.

    Args:
      spec: what is played.
      session: a session that was leased for it and not yet reset.
      agent: who acts.
      deadline: `time.monotonic()` at which the episode is cut off as `policy_timeout`.
      keep_final: store the last observation too.
      transport: where to count whether the server's record of the ids is what was sampled.
    """
    turns: list[Turn] = []
    history: list[HistoryTurn] = []
    observation = None
    try:
        observation = await session.reset()
        ended = False
        while not ended:
            if time.monotonic() > deadline:
                return _episode(spec, session, agent, observation, turns, "policy_timeout")
            screenshot = shared(observation.png)
            view = View(
                spec.id, observation.device, observation.instruction, session.tools, screenshot, history, session,
                observation.png,
            )  # fmt: skip
            reply = await agent.act(view)
            parsed = parse_response(reply.text, observation.device, session.tools, reply.thinking)
            call = parsed.call
            action = None if call is None else {"name": call.name, "arguments": dict(call.arguments)}
            started = time.monotonic()
            after = await session.step(
                action, parse_error=parsed.failure, text=reply.text, token_ids=list(reply.response_ids)
            )
            result = None if after.tool_result is None else json.dumps(after.tool_result)
            images = reply.prompt.images
            first = len(turns) - len(images) + 1
            turns.append(
                Turn(
                    index=len(turns),
                    screenshot=observation.png,
                    prompt_ids=tuple(reply.prompt.ids),
                    image_grids=tuple(image.grid for image in images),
                    image_turns=tuple(range(first, first + len(images))),
                    response_ids=tuple(reply.response_ids),
                    behaviour_logp=tuple(reply.behaviour_logp),
                    temperature=reply.temperature,
                    policy_version=reply.policy_version,
                    text=reply.text,
                    thought=parsed.thought,
                    conclusion=parsed.conclusion,
                    action=action,
                    parse_error=parsed.failure,
                    tool_result=result,
                    target_box=None if reply.box is None else _on_grid(reply.box, observation),
                    seconds={"answer": reply.seconds, "step": time.monotonic() - started},
                    calls=reply.calls,
                )
            )
            conclusion = parsed.conclusion or ""
            history.append(HistoryTurn(screenshot, reply.text, reply.response_ids, conclusion, result))
            observation = after.observation
            ended = after.terminated or after.truncated
        verdict = await session.evaluate()
        if transport is not None:
            record = await session.record()
            kept = [step.response.token_ids if step.response else None for step in record.steps]
            transport.turns += len(turns)
            transport.mismatches += sum(ids != list(turn.response_ids) for ids, turn in zip(kept, turns, strict=True))
    except EnvFault as fault:
        return _episode(spec, session, agent, observation, turns, fault.outcome)
    finally:
        await session.close()
    return dataclasses.replace(
        _episode(spec, session, agent, observation, turns, verdict.outcome),
        score=verdict.score or 0.0,
        progress=verdict.progress,
        total=verdict.total,
        checkpoints=tuple(verdict.checkpoints),
        final_screenshot=observation.png if keep_final else None,
    )


def _on_grid(box: Sequence[float], seen: Observation) -> tuple[float, ...]:
    """A box in css px on the coordinate grid."""
    width, height = seen.css_width, seen.css_height
    return tuple(1000 * value / side for value, side in zip(box, (width, height, width, height), strict=True))


def _episode(
    spec: Spec, session: Session, agent: Agent, observation: Observation | None, turns: Sequence[Turn], outcome: str
) -> Episode:
    return Episode(
        id=spec.id,
        suite=spec.suite,
        task=spec.task,
        seed=spec.seed,
        device=session.device if observation is None else observation.device,
        instruction="" if observation is None else observation.instruction,
        screen_size=(0, 0) if observation is None else (observation.width, observation.height),
        turns=tuple(turns),
        outcome=outcome,
        source=agent.source,
        policy_version=turns[0].policy_version if turns else -1,
        tools=tuple(session.tools),
    )


async def play_all(
    client: EnvClient,
    agent: Agent,
    specs: Sequence[Spec],
    *,
    parallel: int = 32,
    deadline_s: float = 300.0,
    resample: int = 2,
    keep_final: bool = False,
    script: bool = False,
    session: Mapping[str, Any] | None = None,
    transport: Transport | None = None,
    tick: Callable[[Episode], None] = lambda episode: None,
) -> list[Episode]:
    """Plays every spec, at most `parallel` at a time, in the order of the specs.

    session: further options of `EnvClient.create`, the same for all: tools, disturb, marks.

    Neighbouring specs of one task and seed are a group and lease their sessions in one call (R38). A member whose
    environment failed is played again, at most `resample` times, in a new session; what fails to the
    last is returned with its outcome, so that nothing is lost. Episodes that have not begun at the deadline are
    `policy_timeout`s of no turn.
    """
    deadline = time.monotonic() + deadline_s
    options = {**(session or {}), "script": script, "deadline": deadline}
    gate, order = asyncio.Semaphore(parallel), asyncio.Lock()

    async def one(spec: Spec, session: Session | None) -> Episode:
        try:
            for attempt in range(resample + 1):
                if session is None:
                    (session,) = await client.create(spec.suite, spec.task, spec.seed, count=1, **options)
                episode = await play(spec, session, agent, deadline, keep_final, transport)
                session = None
                if episode.scored or attempt == resample or time.monotonic() > deadline:
                    break
        except EnvFault as fault:  # no session to be had
            episode = Episode(
                spec.id, spec.suite, spec.task, spec.seed, "mobile", "", (0, 0), (), fault.outcome, source=agent.source
            )
        finally:
            gate.release()
        tick(episode)
        return episode

    async def group(specs: Sequence[Spec]) -> list[Episode]:
        async with order:  # a group waits for all its places before the next one takes any
            for _ in specs:
                await gate.acquire()
        first = specs[0]
        try:
            sessions = await client.create(first.suite, first.task, first.seed, count=len(specs), **options)
        except EnvFault:
            sessions = [None] * len(specs)
        return list(await asyncio.gather(*map(one, specs, sessions)))

    groups = [list(same) for _, same in itertools.groupby(specs, key=lambda spec: (spec.suite, spec.task, spec.seed))]
    if any(len(same) > parallel for same in groups):
        raise ValueError(f"a group of {max(map(len, groups))} episodes needs parallel >= its size, not {parallel}")
    return list(itertools.chain.from_iterable(await asyncio.gather(*map(group, groups))))
