"""Collection of trajectories with checkpoints, truncation and repair (GUI-Owl-1.5, section 2.2.2).

In: tasks with their paths, an agent, an environment server. Out: `Episode`s, a queue for people, and counts.
1. The agent plays a task. Which checkpoints hold after each of its steps comes from the world itself, or, where there
   are no predicates, from a judge that is asked sub-task by sub-task (UI-MOPD, appendix B).
2. Solved: the trajectory is kept. Otherwise it is cut after step t*, which leaves what its completed prefix needs
   (tau'), and kept together with I_rem, the instruction of the path that remains.
3. The remaining path is a task of its own: it is queued again, to be begun where tau' ended (tau' is replayed in a
   fresh session, and must lead to the same states). After so many attempts it goes to the queue for people.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from env_servers.protocol.messages import EvaluateReply, Observation, StepReply
from gui_rl.data.schema import Episode, Turn
from gui_rl.errors import UserError
from gui_rl.flywheel.annotator import Annotator, AnnotatorError
from gui_rl.flywheel.judge import judged
from gui_rl.flywheel.tasks import MadeTask
from gui_rl.rollout.agents import Agent
from gui_rl.rollout.env_client import EnvClient, EnvFault, Session
from gui_rl.rollout.episode import Spec, play


@dataclass(frozen=True)
class PrefixProgress:
    """How far a trajectory got along its path of K checkpoints.

    Attributes:
      progress: `m`, the length of the longest prefix of checkpoints that were each met at some step.
      truncate_after_step: `t*`, the last step (from 1) at which checkpoint m holds; 0 keeps nothing.
      remaining: indices (from 0) of the path's vertices after the prefix.
      accepted: whether `m = K`.
    """

    progress: int
    truncate_after_step: int
    remaining: tuple[int, ...]
    accepted: bool


def prefix_progress(checkpoint_met: Sequence[Sequence[bool]]) -> PrefixProgress:
    """Progress of a trajectory from its checkpoints.

    `c_k = max_t phi_k(o_t)`, `m = max {m : c_k = 1 for all k <= m}`, `t* = max {t : phi_m(o_t) = 1}`.

    Args:
      checkpoint_met: rows are steps 1..T, columns are checkpoints 1..K.
    Raises:
      ValueError: for no step, no checkpoint, or rows of different lengths.
    """
    if not len(checkpoint_met) or len({len(row) for row in checkpoint_met}) != 1:
        raise ValueError("prefix_progress needs at least one step and as many checkpoints at every step")
    met = np.asarray(checkpoint_met, bool)
    steps, checkpoints = met.shape
    if not checkpoints:
        raise ValueError("a task's path needs at least one checkpoint")
    progress = int(np.cumprod(met.any(axis=0)).sum())
    last = int(np.flatnonzero(met[:, progress - 1])[-1]) + 1 if progress else 0
    return PrefixProgress(progress, last, tuple(range(progress, checkpoints)), progress == checkpoints)


def first_cut(checkpoint_met: Sequence[Sequence[bool]], progress: int) -> int:
    """The earliest step (from 1) by which the first `progress` checkpoints were all met at some step; 0 where none.

    An alternative to `t*`: a checkpoint that keeps holding (a thing stays starred) puts t* at the last step of all.
    """
    met = np.asarray(checkpoint_met, bool)[:, :progress]
    return int(met.argmax(axis=0).max()) + 1 if progress else 0


def truncate(steps: Sequence, progress: PrefixProgress) -> list:
    """The steps `1..t*` of a trajectory (all that its prefix needs).

    Raises:
      ValueError: when the trajectory is shorter than its own truncation.
    """
    if progress.truncate_after_step > len(steps):
        raise ValueError(f"the progress speaks of step {progress.truncate_after_step} but there are {len(steps)} steps")
    return list(steps[: progress.truncate_after_step])


@dataclass(frozen=True)
class CollectConfig:
    """How tasks are collected.

    Attributes:
      attempts: how often a task, or what remains of it, is played before it goes to a person.
      parallel: sessions at a time.
      cut: where a trajectory that did not solve its task ends: `last` is the paper's t* (the last step at which the
        last checkpoint of the prefix holds; not before the prefix was complete, which t* alone does not promise where
        checkpoints are met out of order), `first` the step at which the prefix was complete.
      deadline_s: for one attempt.
      chunk: tasks that are played before any of them is played again; also what is held in memory.
      script: sessions offer the task's script.
      tools: sessions offer the app's tools too.
    """

    attempts: int = 3
    parallel: int = 16
    cut: Literal["last", "first"] = "last"
    deadline_s: float = 300.0
    chunk: int = 256
    script: bool = False
    tools: bool = False


@dataclass(frozen=True)
class Done:
    """A step that is replayed: what was sent, and the hash of the state that it led to."""

    action: dict[str, Any] | None
    parse_error: str | None
    state_hash: str


@dataclass(frozen=True)
class Item:
    """What is to be played: a task from its sub-task `reached` on, begun where `prefix` leads."""

    task: MadeTask
    reached: int = 0
    prefix: tuple[Done, ...] = ()
    attempt: int = 0

    @property
    def instruction(self) -> str:
        """I(p), or I(p_rem) of what remains."""
        return self.task.instruction if not self.reached else " ".join(self.task.subtasks[self.reached :])

    def to_dict(self) -> dict[str, Any]:
        """A line of the queue for people."""
        steps = [dataclasses.asdict(step) for step in self.prefix]
        return {"task": self.task.to_dict(), "reached": self.reached, "prefix": steps, "attempt": self.attempt}

    @classmethod
    def from_dict(cls, line: dict[str, Any]) -> Item:
        """The item of a line. Raises UserError for one that is none."""
        try:
            task = MadeTask(**{**line["task"], **{n: tuple(line["task"][n]) for n in ("path", "subtasks")}})
            prefix = tuple(Done(**step) for step in line.get("prefix", ()))
            return cls(task, int(line.get("reached", 0)), prefix, int(line.get("attempt", 0)))
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"not a task of the queue ({error!r}): {str(line)[:80]}") from None


class Begun:
    """A session whose episodes begin where an item's prefix leads, with the item's instruction.

    Steps, checkpoints and progress are those after the prefix, of what remains; the session's limit of steps counts the
    prefix too. `held` and `hashes` are known once the episode was evaluated: which remaining checkpoints hold after
    each step, and the state's hash.
    """

    def __init__(self, session: Session, item: Item):
        self._session, self._item = session, item
        self.held: list[list[bool]] = []
        self.hashes: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def reset(self) -> Observation:
        """The first observation. Raises EnvFault where the prefix does not lead where it led before."""
        observation = await self._session.reset()
        for number, step in enumerate(self._item.prefix):
            reply = await self._session.step(step.action, parse_error=step.parse_error)
            observation = reply.observation
            if observation.state_hash != step.state_hash or reply.terminated or reply.truncated:
                raise EnvFault("reset_failed", f"{self._item.task.task}: step {number} of the prefix led elsewhere")
        return self._asked(observation)

    async def step(self, *arguments: Any, **options: Any) -> StepReply:
        """See `Session.step`."""
        reply = await self._session.step(*arguments, **options)
        return reply.model_copy(update={"observation": self._asked(reply.observation)})

    async def evaluate(self) -> EvaluateReply:
        """See `Session.evaluate`; what remains is what counts."""
        reached, before = self._item.reached, len(self._item.prefix)
        verdict, record = await self._session.evaluate(), await self._session.record()
        steps = record.steps[before:]
        self.held, self.hashes = [step.held[reached:] for step in steps], [step.state_hash for step in steps]
        first = [None if step is None else max(step - before, 0) for step in verdict.checkpoints[reached:]]
        progress = max(verdict.progress - reached, 0)
        return verdict.model_copy(
            update={"checkpoints": first, "progress": progress, "total": len(first), "steps": len(steps)}
        )

    def _asked(self, observation: Observation) -> Observation:
        return observation.model_copy(update={"instruction": self._item.instruction})


async def collect(
    client: EnvClient,
    agent: Agent,
    tasks: Iterable[MadeTask | Item],
    keep: Callable[[Episode], None],
    config: CollectConfig = CollectConfig(),  # noqa: B008 - frozen
    *,
    judge: Annotator | None = None,
    people: Path | None = None,
    run: str = "collect",
    tick: Callable[[Episode], None] = lambda episode: None,
) -> Counter[str]:
    """Plays every task, and what remains of it, until it is solved or has had its attempts.

    Args:
      client: of the environment server.
      agent: who acts.
      tasks: what is played; an `Item` is played from where its prefix leads.
      keep: takes every episode that is kept, in an order that does not depend on how fast the sessions are.
      config: settings.
      judge: asked for the checkpoints instead of the world.
      people: file of JSON lines for what stays unsolved.
      run: first part of the episodes' ids.
      tick: called with every episode that was played.
    Returns:
      Counts: `accepted`, `cut` and `steps` (those kept), `people`, and what was not kept: outcomes of environment
      faults, `no_progress`, `unsettled` (every checkpoint met, yet not solved), `no_verdict` (the judge gave none).
    """
    counts: Counter[str] = Counter()
    queue = deque(enumerate(task if isinstance(task, Item) else Item(task) for task in tasks))
    gate = asyncio.Semaphore(config.parallel)

    async def one(number: int, item: Item) -> tuple[Episode, list[list[bool]] | None, list[str]]:
        spec = Spec(item.task.suite, item.task.task, item.task.seed, item.attempt, f"{run}-{number}")
        async with gate:
            try:
                made = await client.create(spec.suite, spec.task, spec.seed, tools=config.tools, script=config.script)
                session = Begun(made[0], item)
                limit = time.monotonic() + config.deadline_s
                episode = await play(spec, session, agent, limit, keep_final=True)  # type: ignore[arg-type]
            except EnvFault as fault:
                nothing = Episode(
                    spec.id, spec.suite, spec.task, spec.seed, item.task.device, item.instruction, (0, 0), (),
                    fault.outcome, source=agent.source,
                )  # fmt: skip
                return nothing, [], []
        tick(episode)
        who, held = "exact", session.held
        if judge is not None and episode.scored and episode.turns:
            who = judge.name
            try:
                held = await judged(judge, episode, item.task.subtasks[item.reached :], session.held)
            except AnnotatorError:
                held = None
        made_by = {"instruction": item.task.made_by, "checkpoints": who}
        return dataclasses.replace(episode, made_by=made_by), held, session.hashes

    while queue:
        chunk = [queue.popleft() for _ in range(min(config.chunk, len(queue)))]
        played = await asyncio.gather(*(one(number, item) for number, item in chunk))
        for (number, item), (episode, held, hashes) in zip(chunk, played, strict=True):
            kept, left = settle(item, episode, held, hashes, config.cut, judge is not None, counts)
            if kept is not None:
                keep(kept)
                counts["steps"] += len(kept.turns)
            if left is None:
                continue
            if left.attempt < config.attempts:
                queue.append((number, left))
            else:
                counts["people"] += 1
                if people is not None:
                    people.parent.mkdir(parents=True, exist_ok=True)
                    with open(people, "a", encoding="utf-8") as lines:
                        lines.write(json.dumps(left.to_dict(), ensure_ascii=False) + "\n")
    return counts


def settle(
    item: Item,
    episode: Episode,
    held: Sequence[Sequence[bool]] | None,
    hashes: Sequence[str],
    cut: str,
    by_judge: bool,
    counts: Counter[str],
) -> tuple[Episode | None, Item | None]:
    """(what is kept of a played episode, what is still to be done); counts why where nothing is kept.

    held: rows are the steps, columns the remaining checkpoints; None where the judge gave no verdict.
    """
    again = dataclasses.replace(item, attempt=item.attempt + 1)
    if not episode.scored or held is None or not held:
        counts["no_verdict" if held is None else episode.outcome] += 1
        return None, again
    turns = episode.turns
    if len(turns) > 1 and (turns[-1].action or {}).get("arguments", {}).get("action") == "terminate":
        held = held[:-1]  # what follows the end of a task is no observation, and no place to cut
    found = prefix_progress(held)
    solved = found.accepted and episode.outcome in ("success", "fail") if by_judge else episode.success
    if solved:
        counts["accepted"] += 1
        return dataclasses.replace(episode, turns=tuple(map(_usable, episode.turns))), None
    if found.accepted or not found.progress:
        counts["unsettled" if found.accepted else "no_progress"] += 1
        return None, again
    end = first_cut(held, found.progress)
    if cut == "last":
        end = max(end, found.truncate_after_step)
    turns = truncate(turns, dataclasses.replace(found, truncate_after_step=end))
    steps = tuple(Done(t.action, t.parse_error, h) for t, h in zip(turns, hashes, strict=False))
    left = dataclasses.replace(
        again, reached=item.reached + found.progress, prefix=(*item.prefix, *(_plain(step) for step in steps))
    )
    counts["cut"] += 1
    after = episode.turns[end].screenshot if end < len(episode.turns) else episode.final_screenshot
    return dataclasses.replace(
        episode, turns=tuple(map(_usable, turns)), remaining=left.instruction, final_screenshot=after,
        progress=found.progress, total=len(held[0]),
    ), left  # fmt: skip


def _usable(turn: Turn) -> Turn:
    """A response without a valid call is history, never a sample."""
    return turn if turn.parse_error is None else dataclasses.replace(turn, use=False)


def _plain(step: Done) -> Done:
    return step if step.action is None else dataclasses.replace(step, action=dict(step.action))
