"""Prefix progress and truncation of collected trajectories (GUI-Owl-1.5, section 2.2.2).

In: for each step of a trajectory, which checkpoints of its task's path hold. Out: how far the trajectory got, whether
it is accepted, and where it is cut when it is not. A cut trajectory is still correct for what its prefix reached, and
its remaining path is a task of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


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


def truncate(steps: Sequence, progress: PrefixProgress) -> list:
    """The steps `1..t*` of a trajectory (all that its prefix needs).

    Raises:
      ValueError: when the trajectory is shorter than its own truncation.
    """
    if progress.truncate_after_step > len(steps):
        raise ValueError(f"the progress speaks of step {progress.truncate_after_step} but there are {len(steps)} steps")
    return list(steps[: progress.truncate_after_step])
