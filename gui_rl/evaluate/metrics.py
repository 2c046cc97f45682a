"""Metrics of evaluations, as functions of one record per episode.

In: records (success, steps, tool calls, the task's benefit from tools) or success rates. Out: rates in [0, 1] (or in
the unit they came in), and intervals. Episodes whose environment failed are no records: leave them out and report their
number beside the metric.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri


@dataclass(frozen=True)
class EpisodeRecord:
    """One scored episode: `tool_beneficial` is +1 or -1, `tool_calls` and `steps` are counts."""

    success: bool
    steps: int
    tool_calls: int = 0
    tool_beneficial: int = -1


class Interval(NamedTuple):
    """A two-sided confidence interval."""

    low: float
    high: float


def success_rate(records: Sequence[EpisodeRecord | Mapping]) -> float:
    """Share of successful episodes."""
    return sum(record.success for record in _records(records)) / len(records)


def tool_invocation_rate(records: Sequence[EpisodeRecord | Mapping]) -> float:
    """OSWorld-MCP's TIR: `(n_t + n_g) / (N_t + N_g)`, over all tasks.

    `n_t` counts successes with at least one tool call where tools help, `n_g` successes without any where they do not.
    """
    right = sum(
        record.success and ((record.tool_calls > 0) == (record.tool_beneficial > 0)) for record in _records(records)
    )
    return right / len(records)


def average_completion_steps(records: Sequence[EpisodeRecord | Mapping]) -> float:
    """OSWorld-MCP's ACS: mean number of steps over all tasks, solved or not."""
    return sum(record.steps for record in _records(records)) / len(records)


def h_mean(a: float, b: float) -> float:
    """Harmonic mean `2ab / (a + b)` of two success rates, 0 when both are 0 (UI-MOPD)."""
    if a < 0 or b < 0:
        raise ValueError(f"success rates are not negative: {a}, {b}")
    return 2 * a * b / (a + b) if a + b else 0.0


def min_gain(desktop: float, mobile: float, base_desktop: float, base_mobile: float) -> float:
    """The smaller of the gains over the base model on the two platforms (UI-MOPD)."""
    return min(desktop - base_desktop, mobile - base_mobile)


def bootstrap_interval(
    values: Sequence[float],
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
    clusters: Sequence[str | int] | None = None,
) -> Interval:
    """Percentile bootstrap interval of the mean; a function of its arguments.

    Args:
      values: one value per episode.
      confidence: coverage, in (0, 1).
      resamples: number of bootstrap samples.
      seed: of the resampling.
      clusters: the task of each episode; whole tasks are then resampled, as repeated episodes of a task are not
        independent.
    Raises:
      ValueError: for no values, a confidence outside (0, 1), or a cluster list of another length.
    """
    value = np.asarray(values, np.float64)
    if value.ndim != 1 or not value.size:
        raise ValueError("an interval needs at least one value")
    _check_confidence(confidence)
    if clusters is None:
        inverse = np.arange(value.size)
    elif len(clusters) != value.size:
        raise ValueError(f"{value.size} values but {len(clusters)} clusters")
    else:
        _, inverse = np.unique(np.asarray(clusters), return_inverse=True)
    sums, counts = np.bincount(inverse, weights=value), np.bincount(inverse).astype(np.float64)
    # How often each cluster is drawn is all that a resample's mean depends on.
    draws = np.random.default_rng(seed).multinomial(sums.size, np.full(sums.size, 1 / sums.size), size=resamples)
    means = draws @ sums / (draws @ counts)
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return Interval(float(low), float(high))


def wilson_interval(successes: int, episodes: int, confidence: float = 0.95) -> Interval:
    """Wilson's score interval of a success rate; unlike the bootstrap it has a width at 0 and at 1.

    Raises:
      ValueError: unless `0 <= successes <= episodes`, `episodes >= 1` and the confidence lies in (0, 1).
    """
    if episodes < 1 or not 0 <= successes <= episodes:
        raise ValueError(f"{successes} successes of {episodes} episodes make no rate")
    _check_confidence(confidence)
    z = float(ndtri((1 + confidence) / 2))  # of the normal distribution
    rate, share = successes / episodes, z * z / episodes
    middle = (rate + share / 2) / (1 + share)
    half = z * math.sqrt(rate * (1 - rate) / episodes + share / (4 * episodes)) / (1 + share)
    return Interval(max(0.0, middle - half), min(1.0, middle + half))


def _records(records: Sequence[EpisodeRecord | Mapping]) -> list[EpisodeRecord]:
    """The records as `EpisodeRecord`s."""
    if not len(records):
        raise ValueError("there are no scored episodes to take a metric of")
    return [record if isinstance(record, EpisodeRecord) else EpisodeRecord(**record) for record in records]


def _check_confidence(confidence: float) -> None:
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"a confidence lies strictly between 0 and 1, not {confidence}")
