"""What to train on, step by step: device phases and unstable tasks (MRPO, GUI-Owl-1.5 section 2.4.3 and figure 8).

In: device families, stage lengths, success rates of earlier rounds. Out: the families of every step, the tasks worth
training on. Learning-rate schedules are in `optim`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import numpy as np

from gui_rl.rollout.groups import Ticket

FAMILIES = ("mobile", "desktop", "web")
PhaseMode = Literal["cycle", "curriculum", "mix", "project"]


def device_phases(
    steps: int,
    mode: PhaseMode = "cycle",
    families: Sequence[str] = FAMILIES,
    stage_steps: int = 10,
    curriculum: Sequence[tuple[str, int]] = (("mobile", 0), ("desktop", 10)),
) -> list[tuple[str, ...]]:
    """The device families whose tasks make up the gradient of each step.

    Args:
      steps: number of optimisation steps.
      mode: "cycle" and "curriculum" alternate, one family a stage (`theta <- theta - eta g_d`): "cycle" takes the
        families in turn, `stage_steps` each, over and over; "curriculum" changes family at given steps. "mix" trains on
        all families in every step (the paper's unstable baseline), "project" as well, with a gradient for each family
        and conflicting ones projected (`make_train_step`).
      families: the families of the other modes, in order.
      stage_steps: length of a stage of "cycle".
      curriculum: `(family, first step)` of "curriculum", ascending, from step 0 (figure 8b: mobile, then desktop from
        step 10).
    Raises:
      ValueError: for unknown or repeated families, an unknown mode, or a curriculum that does not start at 0 or ascend.
    """
    if steps < 0 or stage_steps < 1:
        raise ValueError(f"device_phases needs steps >= 0 and stage_steps >= 1, not {steps} and {stage_steps}")
    if mode == "curriculum":
        names, starts = [family for family, _ in curriculum], [start for _, start in curriculum]
        _check_families(names)
        if starts[0] != 0 or any(b <= a for a, b in zip(starts, starts[1:], strict=False)):
            raise ValueError(f"a curriculum's first steps must ascend from 0, not {starts}")
        return [(names[sum(start <= step for start in starts) - 1],) for step in range(steps)]
    _check_families(families)
    if len(set(families)) != len(families):
        raise ValueError(f"a family is named twice in {list(families)}")
    if mode == "cycle":
        return [(families[step // stage_steps % len(families)],) for step in range(steps)]
    if mode in ("mix", "project"):
        return [tuple(families)] * steps
    raise ValueError(f"unknown mode {mode!r}: choose 'cycle', 'curriculum', 'mix' or 'project'")


def unstable_tasks(
    outcomes: Mapping[str, Sequence[bool]], low: float = 0.0, high: float = 1.0, least: int = 2
) -> list[str]:
    """Tasks whose success rate over several rollouts lies strictly between `low` and `high` (figure 8a).

    Such a task gives diverse groups; one that is always or never solved gives none. The paper states no thresholds: the
    defaults keep every task with both outcomes.

    Args:
      outcomes: raw outcomes of the scored rollouts of each task.
      low, high: bounds on the success rate, both excluded.
      least: rollouts needed before a task can be called stable or not; a task with fewer is not listed.
    Returns:
      Task ids, the least certain first (success rate nearest to one half), then by id.
    """
    if not 0.0 <= low < high <= 1.0:
        raise ValueError(f"unstable_tasks needs 0 <= low < high <= 1, not {low} and {high}")
    rates = {task: sum(map(bool, won)) / len(won) for task, won in outcomes.items() if len(won) >= max(least, 1)}
    return sorted((t for t, rate in rates.items() if low < rate < high), key=lambda t: (abs(rates[t] - 0.5), t))


def _check_families(families: Sequence[str]) -> None:
    """Raises a ValueError for an empty list or a family that does not exist."""
    unknown = [family for family in families if family not in FAMILIES]
    if unknown or not families:
        raise ValueError(f"unknown device families {unknown or list(families)}: choose among {', '.join(FAMILIES)}")


def draw_tasks(
    tasks: Mapping[str, Sequence[tuple[str, str]]],
    families: Sequence[str],
    seeds: range,
    count: int,
    entropy: Sequence[int],
    unstable: Collection[str] = (),
    explore: float = 1.0,
) -> list[Ticket]:
    """`count` tickets of the families in turn.

    With probability `explore` a task is drawn from all of its family, else from the `unstable` ones, where there are
    any. No task is drawn twice before all that it is drawn from were.
    """
    rng = np.random.default_rng(list(entropy))
    left: dict[tuple[str, bool], list[tuple[str, str]]] = {}
    drawn = []
    for number in range(count):
        family = families[number % len(families)]
        narrow = [pair for pair in tasks[family] if pair[1] in unstable]
        chosen = bool(narrow) and rng.random() >= explore
        if not left.get((family, chosen)):
            pairs = narrow if chosen else tasks[family]
            left[family, chosen] = [pairs[index] for index in rng.permutation(len(pairs))]
        drawn.append(Ticket(*left[family, chosen].pop(), seeds[int(rng.integers(len(seeds)))]))
    return drawn
