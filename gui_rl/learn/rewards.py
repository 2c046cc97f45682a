"""Rewards of trajectories from their outcomes.

In: outcomes of the trajectories of a group (success, steps, tool calls) or the score of one action. Out: rewards by
component, so that a run can log them apart. Raw outcomes decide what counts as diverse, never these shaped rewards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

LengthForm = Literal["paper", "linear", "quartile", "inverse"]


@dataclass(frozen=True)
class PathReward:
    """Components of one trajectory's reward (ToolCUA).

    Attributes:
      accuracy: 1 for success, else 0.
      tool: 1 where the trajectory succeeded and used tools exactly where they help.
      length: efficiency against the group's mean number of steps; 0 without success.
      shaped: `accuracy + tool_weight * tool + length_weight * length`. The format term is not in it: the caller adds
        it once per trajectory.
    """

    accuracy: float
    tool: float
    length: float
    shaped: float


def _as_published(taken: int, steps: Sequence[int], max_steps: int) -> float:
    mean = sum(steps) / len(steps)
    if taken < mean:
        return 1.0 + (mean - taken) / mean
    return math.exp(-(taken - mean) / (max_steps - mean)) if mean < max_steps else 1.0


LENGTHS: Mapping[LengthForm, Callable[[int, Sequence[int], int], float]] = {
    "paper": _as_published,
    "linear": lambda taken, steps, max_steps: 1 - taken / max_steps,
    "quartile": lambda taken, steps, max_steps: float(taken <= np.quantile(steps, 0.25)),
    "inverse": lambda taken, steps, max_steps: 1 / taken,
}
"""Forms of R_length for a success of so many steps, the steps of its whole group, and S_max: the paper's, and others to
compare it with, of which "linear" and "inverse" do not look at the group."""


def tool_efficient_path(
    success: Sequence[bool],
    steps: Sequence[int],
    tool_calls: Sequence[int],
    tool_beneficial: int,
    max_steps: int,
    tool_weight: float = 0.4,
    length_weight: float = 0.2,
    form: LengthForm = "paper",
) -> list[PathReward]:
    """ToolCUA's tool-efficient path reward for every trajectory of a group (2605.12481: lambda 0.4, beta 0.2).

    `R_tool = 1[success] 1[(b > 0 and c > 0) or (b < 0 and c = 0)]` for `c` tool calls on a task of benefit `b`.
    `R_length = 1[success] (1 + (m - s) / m if s < m else exp(-(s - m) / (S_max - m)))` for `s` steps, where `m` is the
    mean number of steps over *all* trajectories of the group; where `m = S_max` the factor is 1.

    Args:
      success, steps, tool_calls: one entry per trajectory.
      tool_beneficial: +1 where tools help on this task, -1 where they do not.
      max_steps: the task's step limit `S_max`.
      tool_weight, length_weight: the factors lambda and beta.
      form: of R_length; another than the paper's is one of `LENGTHS`.
    Raises:
      ValueError: for lengths that differ, an empty group, a benefit that is not +1 or -1, or more steps than the limit.
    """
    if not len(success) == len(steps) == len(tool_calls) or not len(steps):
        raise ValueError(f"a group needs equally many outcomes: {len(success)}, {len(steps)}, {len(tool_calls)} given")
    if tool_beneficial not in (1, -1):
        raise ValueError(f"tool_beneficial must be +1 or -1, not {tool_beneficial!r}")
    if max(steps) > max_steps:
        raise ValueError(f"a trajectory has {max(steps)} steps but the task's limit is {max_steps}")
    rewards = []
    for won, taken, calls in zip(success, steps, tool_calls, strict=True):
        if not won:
            rewards.append(PathReward(0.0, 0.0, 0.0, 0.0))
            continue
        tool = float(calls > 0 if tool_beneficial > 0 else calls == 0)
        length = LENGTHS[form](taken, steps, max_steps)
        rewards.append(PathReward(1.0, tool, length, 1.0 + tool_weight * tool + length_weight * length))
    return rewards


def rule_reward(action_score: float | None) -> float:
    """UI-MOPD's rule reward (section 3.4): 1.0 for an action score of 1, -0.5 below it, -1.0 for no valid action.

    Args:
      action_score: agreement of the action with the reference, in [0, 1]; `None` where the response held none.
    Raises:
      ValueError: for a score outside [0, 1].
    """
    if action_score is None:
        return -1.0
    if not 0.0 <= action_score <= 1.0:
        raise ValueError(f"an action score lies in [0, 1], not {action_score}")
    return 1.0 if action_score == 1.0 else -0.5


def teacher_mask(rewards: Sequence[float], threshold: float) -> float:
    """UI-MOPD's adaptive mask of one group: 0 where its mean reward exceeds the threshold, else 1.

    The mean is over the whole group, before any filtering: an all-fail group keeps its teacher term.
    """
    if not len(rewards):
        raise ValueError("a group needs at least one reward")
    return 0.0 if sum(rewards) / len(rewards) > threshold else 1.0
