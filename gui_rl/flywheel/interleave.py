"""Interleaved GUI-tool trajectories that are true: plans carried out in the world (ToolCUA, section 2.2, stages 3-4).

In: solved GUI trajectories of worlds whose tools can be executed, and a client of their server. Out: episodes of D_all
in the common form, each of which reached its task's goal, and counts of what was tried.
A plan is first carried out as recorded: its tool calls, and the recorded GUI steps between them. A tool leaves the app
on another screen than the GUI steps that it stands for; where recorded steps then miss, the plan is carried out again,
with the task's script doing the GUI spans from the screens that the tools left. Only success counts.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Literal

from env_servers.protocol.actions import Call
from env_servers.suites import instantiate
from gui_rl.data.schema import Episode
from gui_rl.flywheel.collect import Begun, Item
from gui_rl.flywheel.plans import Part, Plan, Span, ToolStep, exact_calls, interleaved, merged, tool_plan
from gui_rl.flywheel.tasks import MadeTask
from gui_rl.prompt.render import encode_response, response_text
from gui_rl.rollout.agents import Prompts, Reply, View
from gui_rl.rollout.env_client import EnvClient, EnvFault
from gui_rl.rollout.episode import Spec, play

How = Literal["recorded", "redone"]


@dataclasses.dataclass(frozen=True)
class InterleaveConfig:
    """How many variants are made.

    Attributes:
      variants: interleaved variants tried for each trajectory, over all levels of merging; equal ones are tried once.
      levels: how often neighbouring tool steps are merged; the paper's `max_coarse_levels`, whose value is not stated.
      distractors: tools of other apps on offer beside the app's own.
      redo: let the task's script do the GUI spans where the recorded steps miss.
      parallel: trajectories at a time.
      deadline_s: of one attempt.
      seed: of the subsets.
    """

    variants: int = 3
    levels: int = 2
    distractors: int = 0
    redo: bool = True
    parallel: int = 8
    deadline_s: float = 120.0
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class Made:
    """A plan that reached the goal, the episode in which it did, and how."""

    plan: Plan
    episode: Episode
    how: How


class PlanError(Exception):
    """A plan that cannot be played on; `reason`: "unfinished" (its steps are used up, and the task has not ended) or
    "too_long" (a prompt is over the context's limit)."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Planned:
    """An agent that carries out a plan; made for one episode.

    source: the recorded trajectory. how: "recorded" repeats its GUI steps; "redone" asks the script for them.
    """

    source = "script"

    def __init__(self, plan: Plan, source: Episode, prompts: Prompts, how: How):
        self.prompts, self._how, self._source = prompts, how, source
        self._parts: list[Part] = list(plan.parts)
        self._turn = 0  # of the recorded span that is being repeated

    async def act(self, view: View) -> Reply:
        """The plan's next response. Raises EnvFault where the session fails, PlanError where the plan does."""
        while isinstance(self._parts[0], Span) and await self._done(self._parts[0], view):
            self._next()
        part, box = self._parts[0], None
        if isinstance(part, ToolStep):
            text = response_text(part.conclusion, Call(**part.call))
            self._next()
        elif self._how == "recorded":
            number = max(self._turn, part.start)
            if number >= len(self._source.turns):
                raise PlanError("unfinished")
            turn, self._turn = self._source.turns[number], number + 1
            text = response_text(turn.conclusion or "", Call(turn.action["name"], dict(turn.action["arguments"])))
            if turn.target_box is not None:
                width, height = view.session.lease.css_width, view.session.lease.css_height
                sides = (width, height, width, height)
                box = tuple(value * side / 1000 for value, side in zip(turn.target_box, sides, strict=True))
        else:
            move = await view.session.script()
            text = response_text(move.conclusion, Call(move.action.name, dict(move.action.arguments)))
            box = move.box
        try:
            prompt = self.prompts.of(view)
        except ValueError as error:
            raise PlanError("too_long") from error
        return Reply(text, prompt, encode_response(self.prompts.tokenizer, text), box=box)

    def _next(self) -> None:
        del self._parts[0]

    async def _done(self, span: Span, view: View) -> bool:
        if len(self._parts) == 1:
            return False
        if self._how == "recorded":
            return max(self._turn, span.start) >= span.end
        return any(step.held[span.subtask] for step in (await view.session.record()).steps)


async def carry_out(
    client: EnvClient, prompts: Prompts, source: Episode, plan: Plan, how: How, config: InterleaveConfig, name: str
) -> tuple[Episode, bool]:
    """(the episode, whether every tool step led to its recorded state: the checkpoints that it stands for hold).

    Faults of the environment give an episode with their outcome.
    """
    device, instruction = source.device, source.instruction
    made = MadeTask("", device, (), {}, (), instruction, "", source.suite, source.task, source.seed)
    spec = Spec(source.suite, source.task, source.seed, run=name)
    agent = Planned(plan, source, prompts, how)
    try:
        (session,) = await client.create(
            source.suite, source.task, source.seed, tools=plan.tools, composites=plan.composites,
            distractors=config.distractors, script=how == "redone",
        )  # fmt: skip
        begun = Begun(session, Item(made))
        episode = await play(spec, begun, agent, time.monotonic() + config.deadline_s, keep_final=True)  # type: ignore[arg-type]
    except EnvFault as fault:
        return Episode(spec.id, spec.suite, spec.task, spec.seed, device, instruction, (0, 0), (), fault.outcome), False
    steps, grounded = iter(plan.steps), bool(begun.held)
    for turn, held in zip(episode.turns, begun.held, strict=False):
        if turn.action is not None and turn.action["name"] in {step.call["name"] for step in plan.steps}:
            step = next(steps)
            grounded &= all(held[k] for k in step.subtasks)
    made_by = {**source.made_by, "tools": "exact", "plan": how}
    marks = {"id": name, "made_by": made_by, "licence": source.licence, "origin": source.origin}
    return dataclasses.replace(episode, **marks), grounded


async def interleave(
    client: EnvClient,
    prompts: Prompts,
    episodes: Iterable[Episode],
    keep: Callable[[Made], None],
    config: InterleaveConfig = InterleaveConfig(),  # noqa: B008 - frozen
    tick: Callable[[], None] = lambda: None,
) -> Counter[str]:
    """Makes tool-only, coarser and interleaved trajectories of every episode; `keep` gets those that reach the goal.

    Returns:
      Counts: `sources`, `no_tool`, `disordered` (sub-tasks not done one after the other); for each KIND of plan
      (tools, coarse, interleaved) `KIND_tried`, `KIND_recorded` and `KIND_redone` (kept, by how), `KIND_REASON` (not
      kept: the outcome, or that of a `PlanError`); `ungrounded`: trajectories whose tool-only plan did not lead through
      the recorded states, so that nothing else was made of them.
    """
    counts: Counter[str] = Counter()
    gate = asyncio.Semaphore(config.parallel)

    async def attempt(source: Episode, plan: Plan, kind: str, number: int) -> Made | None:
        counts[f"{kind}_tried"] += 1
        outcome = ""
        for how in ("recorded", "redone") if config.redo else ("recorded",):
            name = f"{source.id}~{number}"
            try:
                episode, grounded = await carry_out(client, prompts, source, plan, how, config, name)
            except PlanError as error:
                outcome = error.reason
                continue
            if episode.success and grounded:
                counts[f"{kind}_{how}"] += 1
                return Made(plan, episode, how)
            outcome = "ungrounded" if episode.success else episode.outcome
            if not any(isinstance(part, Span) and part.subtask >= 0 for part in plan.parts):
                break  # there are no GUI spans that a script could do better
        counts[f"{kind}_{outcome}"] += 1
        return None

    async def one(source: Episode) -> list[Made]:
        counts["sources"] += 1
        specs = instantiate(source.suite, source.task, source.seed).tools
        try:
            plan = tool_plan(source, exact_calls(source), [spec.name for spec in specs])
        except ValueError:
            counts["disordered"] += 1
            return []
        if plan is None:
            counts["no_tool"] += 1
            return []
        async with gate:
            first = await attempt(source, plan, "tools", 0)
            if first is None:
                counts["ungrounded"] += 1
                return []
            levels, made = [plan], [first]
            while len(levels) <= config.levels and (coarser := merged(levels[-1])) is not None:
                levels.append(coarser)
                made.append(await attempt(source, coarser, "coarse", len(levels) - 1))
            levels = [level for level, done in zip(levels, made, strict=True) if done is not None]
            rng, seen = random.Random(f"interleave:{config.seed}:{source.id}"), {level.key for level in levels}
            for number in range(config.variants):
                variant = interleaved(rng.choice(levels), rng)
                if variant is not None and variant.key not in seen:
                    seen.add(variant.key)
                    made.append(await attempt(source, variant, "interleaved", config.levels + 1 + number))
        tick()
        return [done for done in made if done is not None]

    coming = iter(episodes)
    while chunk := list(itertools.islice(coming, 4 * config.parallel)):  # held in memory at a time
        for done in await asyncio.gather(*map(one, chunk)):
            for made in done:
                keep(made)
    return counts


def share_kept(counts: Counter[str], kind: str = "interleaved") -> float:
    """Share of the plans tried that reached the goal; nan where none was tried."""
    tried = counts[f"{kind}_tried"]
    return (counts[f"{kind}_recorded"] + counts[f"{kind}_redone"]) / tried if tried else float("nan")
