"""Means of arms and differences between them, with 95 % intervals over training seeds and over (task, seed) pairs.

In: for each training seed, a value for each (task, evaluation seed) pair, or one number. Out: `Estimate`s.
Values of pairs: both training seeds and pairs are resampled (a bootstrap of a crossed design, Owen 2007), for a
difference the same ones of both arms, so that it is paired. With few training seeds the bootstrap is narrow by about
(S - 1) / S in that part of the variance. Numbers: Student's t over the training seeds; one seed gives no interval.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.stats import t as student

from gui_rl.evaluate.metrics import wilson_interval

Values = Mapping[Hashable, float] | float
"""What a column says of one run: a value for each (task, seed) pair, or a number."""
RESAMPLES = 4000


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A mean with its interval (None where there is none), the training seeds, and the pairs (0 for a number)."""

    mean: float
    low: float | None
    high: float | None
    seeds: int
    pairs: int


@dataclasses.dataclass(frozen=True)
class Combined:
    """A column that is a function of other columns' means, like the harmonic mean of two success rates.

    Attributes:
      of: takes the means in the order of `columns`.
      columns: names; or (arm, name) for another arm's column, as a gain over a base needs.
    """

    of: Callable[..., float]
    columns: tuple[str | tuple[str, str], ...]


def estimate(runs: Sequence[Values]) -> Estimate:
    """The mean of one column of one arm; `runs`: one entry a training seed."""
    values, keys = _matrix(runs)
    known = values[~np.isnan(values)]
    if keys and known.size and known.min() == known.max() and known[0] in (0.0, 1.0):
        low, high = wilson_interval(len(keys) * int(known[0]), len(keys))  # the bootstrap has no width there
        return Estimate(float(known[0]), low, high, len(runs), len(keys))
    return combined(lambda value: value, [runs])


def difference(runs: Sequence[Values], others: Sequence[Values]) -> Estimate:
    """Mean of `runs` minus mean of `others`, on the pairs that both have; entry n of both is of training seed n."""
    if not all(isinstance(one, Mapping) for one in (*runs, *others)):
        return combined(lambda a, b: a - b, [runs, others])
    shared = [sorted(set(a) & set(b), key=str) for a, b in zip(runs, others, strict=True)]
    if not any(shared):
        raise ValueError("the two arms have no pair of task and seed in common")
    first, second = (
        [{key: one[key] for key in keys} for one, keys in zip(each, shared, strict=True)] for each in (runs, others)
    )
    return combined(lambda a, b: a - b, [first, second])


def combined(function: Callable[..., Any], inputs: Sequence[Sequence[Values]]) -> Estimate:
    """A function of the means of several columns; columns over the same pairs are resampled alike."""
    seeds = len(inputs[0])
    if not seeds or any(len(runs) != seeds for runs in inputs):
        raise ValueError(f"need as many runs of every column, not {[len(runs) for runs in inputs]}")
    matrices = [_matrix(runs) for runs in inputs]
    mean = float(function(*(float(np.nanmean(values)) for values, _ in matrices)))
    pairs = max(len(keys) for _, keys in matrices)
    if not pairs:  # numbers alone
        each = np.array([function(*(float(values[n, 0]) for values, _ in matrices)) for n in range(seeds)])
        if seeds == 1:
            return Estimate(mean, None, None, 1, 0)
        half = float(student.ppf(0.975, seeds - 1) * each.std(ddof=1) / np.sqrt(seeds))
        return Estimate(float(each.mean()), float(each.mean()) - half, float(each.mean()) + half, seeds, 0)
    rows = np.random.default_rng(0).multinomial(seeds, np.full(seeds, 1 / seeds), size=RESAMPLES)
    drawn = [_resampled(values, keys, rows) for values, keys in matrices]
    found = np.array([function(*each) for each in zip(*drawn, strict=True)], np.float64)
    low, high = np.nanquantile(found, [0.025, 0.975])
    return Estimate(mean, float(low), float(high), seeds, pairs)


def _matrix(runs: Sequence[Values]) -> tuple[Float[np.ndarray, "S P"], list[Hashable]]:
    """Values by seed and pair, NaN where a pair is missing; numbers are one column, without keys."""
    if not any(isinstance(run, Mapping) for run in runs):
        return np.array([[float(run)] for run in runs]), []
    keys = sorted({key for run in runs for key in run}, key=str)
    if not keys:
        raise ValueError("a column without a single scored episode")
    return np.array([[float(run.get(key, np.nan)) for key in keys] for run in runs]), keys


def _resampled(values: Float[np.ndarray, "S P"], keys: Sequence[Hashable], rows: np.ndarray) -> Float[np.ndarray, " R"]:
    count = values.shape[1]
    random = np.random.default_rng(zlib.crc32(repr(list(keys)).encode()))
    columns = random.multinomial(count, np.full(count, 1 / count), size=len(rows))
    known = ~np.isnan(values)
    total, weight = (rows @ np.where(known, values, 0.0)) * columns, (rows @ known) * columns
    with np.errstate(invalid="ignore"):
        return total.sum(1) / weight.sum(1)
