"""Self-test of the tasks (R34): the initial state scores 0, the script 1, near-misses 0, and scoring is read-only.

In: task ids and seeds of a suite. Out: a `Trial` for every run, with what it should have scored and what it did. Every
run goes through the same sessions, screens and verdicts that a policy meets.

The runs of one task and seed (`PLANS`): the script by GUI; the script with tools; `terminate(success)` at once; the
script without its last action; the script ended by `terminate(failure)`; the script never ended. On infeasible tasks
the right end is `terminate(failure)`, which the script has to say itself, and all else scores 0. Where the page ends
the episode itself the last two do not exist, and a task without a script is only ended at once.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tyro

from .errors import UserError
from .protocol.actions import FUNCTIONS
from .protocol.messages import Action, CreateSessions, Disturbance, EvaluateReply, StepRequest
from .sessions import Session, SessionStore, every_screen
from .suites import TaskInstance, instantiate, tasks

PLANS = ("script", "tools", "nothing", "short", "gives up", "unended")


@dataclass(frozen=True)
class Trial:
    """One run: `plan` says how it was played, `wanted` the score that it should have."""

    task: str
    seed: int
    plan: str
    wanted: float
    verdict: EvaluateReply | None
    problem: str = ""

    @property
    def right(self) -> bool:
        """Whether the score is what it must be."""
        return not self.problem and self.verdict is not None and self.verdict.score == self.wanted

    def __str__(self) -> str:
        found = self.verdict.model_dump_json(exclude_none=True) if self.verdict else "no verdict"
        return f"{self.task} seed {self.seed}, {self.plan}: wanted {self.wanted}, {self.problem or found}"


class _Run:
    """A session being played by its script."""

    def __init__(self, store: SessionStore, session: Session) -> None:
        self.store, self.session, self.number, self.ended = store, session, 0, False
        self.said = ""  # how the script itself ends: success, failure, or not at all

    async def act(self, action: dict[str, Any]) -> None:
        request = StepRequest(episode=self.session.episode.number, step=self.number, action=Action(**action))
        reply = await self.store.step(self.session, request)
        self.number += 1
        self.ended = reply.terminated or reply.truncated
        if reply.error:
            raise ValueError(f"the script's call {action} was refused: {reply.error}")

    async def terminate(self, status: str) -> None:
        arguments = {"action": "terminate", "status": status}
        await self.act({"name": FUNCTIONS[self.session.device], "arguments": arguments})

    async def script(self, most: int | None = None) -> int:
        """Play the script's actions, at most `most` towards the task, and keep its terminate in `said`; returns how
        many."""
        played = 0
        while not self.ended and (most is None or played < most):
            aside = self.session.episode.last_state.get("disturbances", {}).get("showing")
            move = (await self.store.script(self.session)).action
            if move.arguments.get("action") == "terminate":
                self.said = move.arguments["status"]
                break
            await self.act(move.model_dump())
            played += not aside
        return played


async def _play(run: _Run, plan: str, length: int) -> int:
    """Play one plan; `length`: actions of the script. Returns how many of the script's it played."""
    played = 0
    if plan != "nothing":
        played = await run.script(max(0, length - 1) if plan == "short" else None)
    if plan != "unended" and not run.ended:
        own = run.said if plan in ("script", "tools") else ""
        await run.terminate(own or ("failure" if plan == "gives up" else "success"))
    return played


def _plans(instance: TaskInstance) -> tuple[str, ...]:
    if not instance.task.scripted:
        return ("nothing",)
    if not instance.task.feasible:
        return ("script", "nothing", "unended")
    return PLANS if instance.tools else tuple(plan for plan in PLANS if plan != "tools")


async def trials(store: SessionStore, suite: str, task_id: str, seed: int, disturb: Sequence[str] = ()) -> list[Trial]:
    """All plans of one task and seed, one after the other, in sessions of their own."""
    found, length, by_itself = [], 0, False
    for plan in _plans(instantiate(suite, task_id, seed)):
        if by_itself and plan in ("gives up", "unended"):
            continue
        wanted = 1.0 if plan in ("script", "tools") else 0.0
        asked = CreateSessions(
            suite=suite, task=task_id, seed=seed, tools=plan == "tools", script=True, disturb=list(disturb)
        )
        (lease,) = await store.create(asked)
        session = store.get(lease.session, lease.token)
        verdict, problem = None, ""
        try:
            await store.reset(session)
            run = _Run(store, session)
            played = await _play(run, plan, length)
            if plan == "script":
                by_itself, length = session.episode.declared is None, played
            verdict = await store.evaluate(session)
            if await store.evaluate(session) != verdict:
                problem = "scoring twice gave two verdicts"
        except Exception as error:  # whatever a task does wrong is a finding, not the end of the check
            problem = f"{type(error).__name__}: {error}"
        finally:
            await store.close(session)
        found.append(Trial(task_id, seed, plan, wanted, verdict, problem))
    return found


async def check(
    suite: str = "virtual",
    task_ids: Sequence[str] = (),
    seeds: Sequence[int] = (0, 1),
    parallel: int = 4,
    disturb: Sequence[str] = (),
) -> list[Trial]:
    """Trials of the tasks (all of the suite if none is named) on every seed.

    disturb: kinds of disturbances, all of them in the way of every trial.

    Raises UserError for an unknown suite or task.
    """
    known = tasks(suite)
    for task_id in task_ids:
        if task_id not in known:
            raise UserError(f"suite {suite!r} has no task {task_id!r}; `gui-rl env tasks` lists them")
    async with every_screen() as screens:
        store = SessionStore(screens, max_sessions=parallel)
        gate = asyncio.Semaphore(parallel)

        async def one(task_id: str, seed: int) -> list[Trial]:
            async with gate:
                return await trials(store, suite, task_id, seed, disturb)

        work = [one(task_id, seed) for task_id in task_ids or known for seed in seeds]
        return [trial for some in await asyncio.gather(*work) for trial in some]


@dataclass(frozen=True)
class CheckConfig:
    """tasks: ids, all of the suite if none is given. seeds: how many, from `first_seed` on. disturb: what gets in the
    way of every task."""

    suite: str = "virtual"
    tasks: tuple[str, ...] = ()
    seeds: int = 2
    first_seed: int = 0
    parallel: int = 4
    disturb: tuple[Disturbance, ...] = ()


def run(config: CheckConfig) -> bool:
    """Checks, prints what went wrong and the count; whether all trials are right."""
    seeds = range(config.first_seed, config.first_seed + config.seeds)
    found = asyncio.run(check(config.suite, config.tasks, seeds, config.parallel, config.disturb))
    wrong = [trial for trial in found if not trial.right]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    print(f"{len(found) - len(wrong)} of {len(found)} trials are right ({len({t.task for t in found})} tasks)")
    return not wrong


def main() -> None:
    """Command line: `python -m env_servers.check`; exit code 1 if a trial went wrong."""
    config = tyro.cli(CheckConfig, prog="env_servers.check", description="Self-test of a suite's tasks.")
    try:
        sys.exit(not run(config))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
