"""One episode: observe, answer, act, until the task ends; and many of them at once.

In: an environment session and an agent. Out: an `Episode` with everything that training needs. A fault of the
environment ends the episode with its own outcome and is never a score (R24). A rollout has one wall-clock deadline
(R28): what the policy has not ended by then is a `policy_timeout`, and where the environment still owes a reply the
fault is the environment's. Many episodes share a number of `Places`: who asks first is served first, and a place is
given on as soon as its episode ends.
"""

from __future__ import annotations

import asyncio
import contextlib
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
from gui_rl.rollout.told import sampled

CLOSE_S = 5.0
"""How long an episode waits for its session to be closed; the server ends a forgotten session itself."""


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


class Places:
    """Environments that may be played in at one time; to be made and used inside one event loop.

    Attributes:
      count: how many there are.
    """

    def __init__(self, count: int):
        self.count = count
        self._free, self._order = asyncio.Semaphore(count), asyncio.Lock()
        self._taken, self._occupied, self._since = 0, 0.0, time.monotonic()

    async def take(self, most: int) -> int:
        """Waits for a place; takes it, and as many more, up to `most`, as are free as well. Returns their number."""
        async with self._order:
            await self._free.acquire()
            taken = 1
            while taken < most and not self._free.locked():
                await self._free.acquire()
                taken += 1
        self._change(taken)
        return taken

    def give_back(self) -> None:
        """One place is free again."""
        self._change(-1)
        self._free.release()

    @property
    def occupied_s(self) -> float:
        """Seconds that places were occupied so far, summed over places."""
        self._change(0)
        return self._occupied

    def _change(self, taken: int) -> None:
        now = time.monotonic()
        self._occupied += self._taken * (now - self._since)
        self._taken, self._since = self._taken + taken, now


async def play(
    spec: Spec,
    session: Session,
    agent: Agent,
    deadline: float,
    keep_final: bool = False,
    transport: Transport | None = None,
    tell: bool = False,
) -> Episode:
    """Plays one episode to its end.

    Args:
      spec: what is played.
      session: a session that was leased for it and not yet reset.
      agent: who acts.
      deadline: `time.monotonic()` at which the episode is cut off: `policy_timeout` where the policy had to answer,
        `env_crash` where the environment had to.
      keep_final: store the last observation too.
      transport: where to count whether the server's record of the ids is what was sampled.
      tell: tell the server how every response was sampled, so that a trainer can read the episode from there
        (`told.told_episode`).
    """
    turns: list[Turn] = []
    history: list[HistoryTurn] = []
    observation, begun, owing = None, None, "env_crash"
    try:
        async with asyncio.timeout(deadline - time.monotonic()):
            observation = begun = await session.reset()
            ended = False
            while not ended:
                screenshot = shared(observation.png, max_pixels=agent.prompts.context.max_pixels)
                owing = "policy_timeout"
                view = View(
                    spec.id, observation.device, observation.instruction, session.tools, screenshot, history, session,
                    observation.png,
                )  # fmt: skip
                reply = await agent.act(view)
                parsed = parse_response(reply.text, observation.device, session.tools, reply.thinking)
                call = parsed.call
                action = None if call is None else {"name": call.name, "arguments": dict(call.arguments)}
                started, owing = time.monotonic(), "env_crash"
                images = reply.prompt.images
                first = len(turns) - len(images) + 1
                shown = tuple(range(first, first + len(images)))
                after = await session.step(
                    action, parse_error=parsed.failure, text=reply.text, token_ids=list(reply.response_ids),
                    sampled=sampled(reply, shown) if tell else None,
                )  # fmt: skip
                result = None if after.tool_result is None else json.dumps(after.tool_result)
                turns.append(
                    Turn(
                        index=len(turns),
                        screenshot=observation.png,
                        state_hash=observation.state_hash,
                        prompt_ids=tuple(reply.prompt.ids),
                        image_grids=tuple(image.grid for image in images),
                        image_turns=shown,
                        response_ids=tuple(reply.response_ids),
                        behaviour_logp=tuple(reply.behaviour_logp),
                        temperature=reply.temperature,
                        policy_version=reply.policy_version,
                        policy_spans=reply.policy_spans,
                        text=reply.text,
                        thought=parsed.thought,
                        conclusion=parsed.conclusion,
                        action=action,
                        parse_error=parsed.failure,
                        calls=reply.calls,
                        tool_result=result,
                        target_box=None if reply.box is None else _on_grid(reply.box, observation),
                        seconds={"answer": reply.seconds, "step": time.monotonic() - started},
                        device="" if observation.device == session.device else observation.device,
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
                transport.mismatches += sum(
                    ids != list(turn.response_ids) for ids, turn in zip(kept, turns, strict=True)
                )
    except EnvFault as fault:
        return _episode(spec, session, agent, begun, turns, fault.outcome)
    except TimeoutError:
        return _episode(spec, session, agent, begun, turns, owing)
    finally:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(session.close(), CLOSE_S)
    return dataclasses.replace(
        _episode(spec, session, agent, begun, turns, verdict.outcome),
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
    spec: Spec, session: Session, agent: Agent, begun: Observation | None, turns: Sequence[Turn], outcome: str
) -> Episode:
    return Episode(
        id=spec.id,
        suite=spec.suite,
        task=spec.task,
        seed=spec.seed,
        device=session.device,
        instruction="" if begun is None else begun.instruction,
        screen_size=(0, 0) if begun is None else (begun.width, begun.height),
        turns=tuple(turns),
        outcome=outcome,
        source=agent.source,
        policy_version=turns[0].policy_version if turns else -1,
        tools=tuple(session.tools),
    )


async def play_group(
    client: EnvClient,
    agent: Agent,
    specs: Sequence[Spec],
    places: Places,
    *,
    deadline_s: float,
    deadline: float | None = None,
    resample: int = 2,
    keep_final: bool = False,
    script: bool = False,
    lease: Mapping[str, Any] | None = None,
    transport: Transport | None = None,
    tick: Callable[[Episode], None] = lambda episode: None,
) -> list[Episode]:
    """Plays specs of one task and seed, each in a place of its own; in the order of the specs.

    The sessions of all places that are free at one time are leased in one call (R38). A member whose environment failed
    is played again, at most `resample` times, in a new session; what fails to the last is returned with its outcome, so
    that nothing is lost. The deadline is `deadline_s` after the first member got its place, or the one that is given.
    Members that have not begun by then are `policy_timeout`s of no turn.

    lease: further options of `EnvClient.create`, the same for all: tools, distractors, disturb, marks.
    """
    members: list[asyncio.Task[Episode]] = []

    def unplayed(spec: Spec, outcome: str) -> Episode:
        return Episode(
            spec.id, spec.suite, spec.task, spec.seed, "mobile", "", (0, 0), (), outcome, source=agent.source
        )

    async def create(count: int) -> list[Session]:
        return await client.create(
            first.suite, first.task, first.seed, count=count, **(lease or {}), script=script, deadline=deadline
        )

    async def one(spec: Spec, session: Session | None) -> Episode:
        try:
            for attempt in range(resample + 1):
                if session is None:
                    (session,) = await create(1)
                episode = await play(spec, session, agent, deadline, keep_final, transport)
                session = None
                if episode.scored or attempt == resample or time.monotonic() > deadline:
                    break
        except EnvFault as fault:  # no session to be had
            episode = unplayed(spec, fault.outcome)
        return episode

    def ended(member: asyncio.Task[Episode]) -> None:
        places.give_back()
        if not member.cancelled() and member.exception() is None:
            tick(member.result())

    async def late(spec: Spec) -> Episode:
        return unplayed(spec, "policy_timeout")

    first = specs[0]
    try:
        while len(members) < len(specs):
            taken = await places.take(len(specs) - len(members))
            deadline = time.monotonic() + deadline_s if deadline is None else deadline
            begun = specs[len(members) : len(members) + taken]
            try:
                if time.monotonic() > deadline:
                    playing = [late(spec) for spec in begun]
                else:
                    playing = list(map(one, begun, await create(taken)))
            except EnvFault:
                playing = [one(spec, None) for spec in begun]
            except BaseException:
                for _ in begun:
                    places.give_back()
                raise
            for coroutine in playing:
                members.append(asyncio.create_task(coroutine))
                members[-1].add_done_callback(ended)
        return list(await asyncio.gather(*members))
    finally:
        for member in members:
            member.cancel()
        await asyncio.gather(*members, return_exceptions=True)


async def play_all(
    client: EnvClient,
    agent: Agent,
    specs: Sequence[Spec],
    *,
    parallel: int = 32,
    deadline_s: float = 300.0,
    **options,
) -> list[Episode]:
    """Plays every spec, at most `parallel` at a time, in the order of the specs, all before one deadline.

    Neighbouring specs of one task and seed are a group. `options` are those of `play_group`.
    """
    places, deadline = Places(parallel), time.monotonic() + deadline_s
    groups = itertools.groupby(specs, key=lambda spec: (spec.suite, spec.task, spec.seed))
    played = await asyncio.gather(
        *(
            play_group(client, agent, list(same), places, deadline_s=deadline_s, deadline=deadline, **options)
            for _, same in groups
        )
    )
    return list(itertools.chain.from_iterable(played))
