"""What an evaluation keeps of an episode, and what it says of many.

In: played episodes and their tasks. Out: `Record`s (a JSON line each), and `Summary`s of the records of one cell: all,
or those of a device, an app, a length. Faults of the environment are counted beside the score and are in no
denominator (R24).
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from env_servers.protocol.actions import FUNCTIONS
from env_servers.protocol.messages import TaskInfo
from gui_rl.data.schema import SCORED_OUTCOMES, Episode
from gui_rl.evaluate import metrics

WAYS_TO_FAIL = ("gave_up", "claimed", "spoiled", "page_ended", "format_fail", "step_limit", "policy_timeout")
"""How an episode was lost: terminate(failure) on what can be done · terminate(success) before every checkpoint was met,
or with another end state although all were met · the page itself ended it · and the outcomes of these names."""


@dataclasses.dataclass(frozen=True)
class Record:
    """One episode of an evaluation.

    Attributes:
      id, agent: of the episode; who acted.
      suite, task, seed, copy: what was played, and which of the repetitions.
      device, app, length: of the task: its family, what stands before "/" in its id, and the number of its checkpoints.
      outcome: as in `data.schema.OUTCOMES`.
      failure: one of `WAYS_TO_FAIL`, "" for a success and for a fault.
      steps: turns. progress: met checkpoints, as a prefix, of `length`.
      tool_calls, tool_beneficial: calls of tools; +1 where the task's tools save actions, else -1.
      parse_errors: responses without a valid call, by kind.
    """

    id: str
    agent: str
    suite: str
    task: str
    seed: int
    copy: int
    device: str
    app: str
    length: int
    outcome: str
    failure: str
    steps: int
    progress: int
    tool_calls: int
    tool_beneficial: int
    parse_errors: Mapping[str, int]

    @classmethod
    def of(cls, episode: Episode, task: TaskInfo, agent: str, copy: int) -> Record:
        """The record of a played episode."""
        calls = [turn.action for turn in episode.turns if turn.action is not None]
        return cls(
            id=episode.id,
            agent=agent,
            suite=episode.suite,
            task=episode.task,
            seed=episode.seed,
            copy=copy,
            device=task.device,
            app=task.id.partition("/")[0],
            length=max(episode.total, 1),
            outcome=episode.outcome,
            failure=way_to_fail(episode, task.feasible),
            steps=len(episode.turns),
            progress=episode.progress,
            tool_calls=sum(call["name"] not in FUNCTIONS.values() for call in calls),
            tool_beneficial=task.tool_beneficial,
            parse_errors=dict(Counter(turn.parse_error for turn in episode.turns if turn.parse_error)),
        )

    @property
    def scored(self) -> bool:
        """Whether it counts."""
        return self.outcome in SCORED_OUTCOMES

    @property
    def success(self) -> bool:
        """Whether the task was solved."""
        return self.outcome == "success"


def way_to_fail(episode: Episode, feasible: bool = True) -> str:
    """How an episode was lost; "" where it was not, or where the environment failed."""
    if episode.success or not episode.scored:
        return ""
    if episode.outcome != "fail":
        return episode.outcome
    last = (episode.turns[-1].action or {}).get("arguments", {}) if episode.turns else {}
    if last.get("action") != "terminate":
        return "page_ended"
    if last.get("status") == "failure":
        return "gave_up" if feasible else "page_ended"
    return "spoiled" if feasible and episode.total and episode.progress == episode.total else "claimed"


@dataclasses.dataclass(frozen=True)
class Summary:
    """What the records of one cell say.

    Attributes:
      episodes, faults: scored episodes, and those that the environment lost.
      success, low, high: mean over episodes with its 95 % interval: Wilson's where every (task, seed) was played once,
        else a bootstrap over (task, seed), as repetitions are not independent. With k repetitions `success` is
        average@k.
      pass_at_k: share of (task, seed) solved at least once in their k repetitions.
      progress: mean of met checkpoints over all checkpoints.
      tir, acs: tool invocation rate and average completion steps (OSWorld-MCP).
      tool_calls: a mean per episode.
      failures: number of episodes by way to fail.
      parse_errors: responses without a valid call, by kind.
    """

    episodes: int
    faults: int
    success: float
    low: float
    high: float
    pass_at_k: float
    progress: float
    tir: float
    acs: float
    tool_calls: float
    failures: Mapping[str, int]
    parse_errors: Mapping[str, int]

    @classmethod
    def of(cls, records: Sequence[Record]) -> Summary:
        """Raises ValueError where no record is scored."""
        scored = [record for record in records if record.scored]
        if not scored:
            raise ValueError(f"all {len(records)} episodes failed in the environment")
        groups: dict[tuple[str, str, int], list[bool]] = {}
        for record in scored:
            groups.setdefault((record.suite, record.task, record.seed), []).append(record.success)
        won = [record.success for record in scored]
        if len(groups) == len(scored) or len(set(won)) == 1:  # the bootstrap has no width at 0 and at 1
            interval = metrics.wilson_interval(round(np.mean(won) * len(groups)), len(groups))
        else:
            clusters = [f"{record.suite}/{record.task}/{record.seed}" for record in scored]
            interval = metrics.bootstrap_interval(won, clusters=clusters)
        errors: Counter[str] = Counter()
        for record in scored:
            errors.update(record.parse_errors)
        lost = Counter(record.failure for record in scored if record.failure)
        return cls(
            episodes=len(scored),
            faults=len(records) - len(scored),
            success=float(np.mean(won)),
            low=interval.low,
            high=interval.high,
            pass_at_k=float(np.mean([any(outcomes) for outcomes in groups.values()])),
            progress=float(np.mean([record.progress / record.length for record in scored])),
            tir=metrics.tool_invocation_rate(_for_metrics(scored)),
            acs=metrics.average_completion_steps(_for_metrics(scored)),
            tool_calls=float(np.mean([record.tool_calls for record in scored])),
            failures={way: lost[way] for way in WAYS_TO_FAIL if lost[way]},
            parse_errors=dict(sorted(errors.items())),
        )


def _for_metrics(records: Sequence[Record]) -> list[metrics.EpisodeRecord]:
    return [metrics.EpisodeRecord(r.success, r.steps, r.tool_calls, r.tool_beneficial) for r in records]


def cells(records: Sequence[Record]) -> dict[str, dict[str, Summary]]:
    """Summaries by "all", "device", "app" and "length": {kind: {value: summary}}; cells of faults only are left out."""
    kinds: dict[str, Any] = {
        "all": lambda record: "all",
        "device": lambda record: record.device,
        "app": lambda record: record.app,
        "length": lambda record: str(record.length),
    }
    out: dict[str, dict[str, Summary]] = {}
    for kind, key in kinds.items():
        grouped: dict[str, list[Record]] = {}
        for record in records:
            grouped.setdefault(key(record), []).append(record)
        scored = {value: group for value, group in sorted(grouped.items()) if any(record.scored for record in group)}
        out[kind] = {value: Summary.of(group) for value, group in scored.items()}
    return out
