"""The record of one episode and the verdict on it: pure, no browser, no clock (R33, R34).

In: the state JSON after every step and how the policy ended. Out: which checkpoints held when, the prefix progress m
of K, the outcome. A checkpoint that throws makes the episode a `grader_error`, never a reward.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from .protocol.actions import FUNCTIONS
from .protocol.messages import EvaluateReply, Outcome, StepRecord
from .suites.suite import State, TaskInstance

Status = Literal["running", "terminated", "truncated", "fault", "closed"]


def prefix_progress(first_met: Sequence[int | None]) -> int:
    """m: length of the longest prefix of checkpoints that were each met at some step (GUI-Owl-1.5, section 2.2.2)."""
    return next((k for k, step in enumerate(first_met) if step is None), len(first_met))


@dataclass
class Episode:
    """What has happened since a reset. `states` are not kept, except the last: a checkpoint sees a state once."""

    number: int
    instance: TaskInstance
    instruction: str = ""
    status: Status = "running"
    steps: list[StepRecord] = field(default_factory=list)
    first_met: list[int | None] = field(default_factory=list)
    last_state: State = field(default_factory=dict)
    declared: str | None = None  # the status of `terminate`; None where the page ended the episode
    parse_failures: int = 0
    fault: tuple[Outcome, str] | None = None
    verdict: EvaluateReply | None = None

    def __post_init__(self) -> None:
        self.first_met = [None] * len(self.instance.checkpoints)

    @property
    def met(self) -> list[bool]:
        """For every checkpoint whether it was met at some step so far."""
        return [step is not None for step in self.first_met]

    def observe(self, state: State, step: int) -> list[bool]:
        """Note the state of observation `step`; returns which checkpoints hold in it."""
        self.last_state = state
        if step == 0:
            self.instruction = self.instance.instruction or str(state.get("instruction", ""))
        try:
            held = [bool(checkpoint(state)) for checkpoint in self.instance.checkpoints]
        except Exception as error:  # any failure of a predicate is the grader's, not the policy's
            self.fail("grader_error", f"a checkpoint of {self.instance.task.id} failed: {error!r}")
            return [False] * len(self.first_met)
        for k, holds in enumerate(held):
            if holds and self.first_met[k] is None:
                self.first_met[k] = step
        return held

    def end_of_step(self, record: StepRecord) -> None:
        """Append a step that was carried out (or refused) and work out whether the episode is over."""
        self.steps.append(record)
        self.parse_failures += record.action is None
        action = record.action
        gui = action and not record.error and action.name in FUNCTIONS.values()
        ends = gui and action.arguments["action"] == "terminate"
        if self.status == "running" and ends:
            self.status, self.declared = "terminated", action.arguments["status"]
        elif self.status == "running" and self.instance.ended(self.last_state):
            self.status = "terminated"
        elif self.status == "running" and len(self.steps) >= self.instance.task.max_steps:
            self.status = "truncated"

    def fail(self, outcome: Outcome, detail: str) -> None:
        """The environment's own fault: the first one counts, and nothing is scored."""
        if self.fault is None:
            self.fault, self.status = (outcome, detail), "fault"

    def evaluate(self) -> EvaluateReply:
        """The verdict; the first call decides, and ends an episode that is still running."""
        if self.verdict is None:
            outcome, detail = self._outcome()
            self.verdict = EvaluateReply(
                outcome=outcome,
                score=None if self.fault else float(outcome == "success"),
                progress=prefix_progress(self.first_met),
                total=len(self.first_met),
                checkpoints=list(self.first_met),
                steps=len(self.steps),
                parse_failures=self.parse_failures,
                detail=detail,
            )
            if self.status == "running":
                self.status = "closed"
        return self.verdict

    def _outcome(self) -> tuple[Outcome, str | None]:
        if self.fault is None and self.status == "terminated":
            try:
                return ("success" if self._succeeded() else "fail"), None
            except Exception as error:
                self.fail("grader_error", f"the final predicate of {self.instance.task.id} failed: {error!r}")
        if self.fault is not None:
            return self.fault
        if self.steps and self.parse_failures == len(self.steps):
            return "format_fail", "no response held a valid call"
        if self.status == "truncated":
            return "step_limit", None
        return "policy_timeout", "the episode was evaluated before the policy had ended it"

    def _succeeded(self) -> bool:
        complete = prefix_progress(self.first_met) == len(self.first_met)
        return self.instance.succeeded(self.last_state, self.declared, complete)
