"""Intervals over training seeds and pairs: closed forms, pairing, and coverage on data that is known."""

import numpy as np
import pytest

from experiments.estimate import combined, difference, estimate


def test_numbers_have_student_s_interval():
    found = estimate([1.0, 2.0, 4.0])
    half = 4.302653 * np.std([1, 2, 4], ddof=1) / np.sqrt(3)  # t at 0.975 with 2 degrees of freedom
    assert (found.mean, found.seeds, found.pairs) == (pytest.approx(7 / 3), 3, 0)
    assert found.low == pytest.approx(7 / 3 - half, abs=1e-5) and found.high == pytest.approx(7 / 3 + half, abs=1e-5)


def test_one_number_has_no_interval():
    assert (estimate([3.0]).low, estimate([3.0]).high) == (None, None)


def test_one_seed_is_the_bootstrap_over_pairs():
    values = {("t", seed): float(seed % 4 == 0) for seed in range(100)}
    found = estimate([values])
    error = 1.96 * np.sqrt(0.25 * 0.75 / 100)
    assert found.mean == 0.25 and found.low == pytest.approx(0.25 - error, abs=0.015)
    assert found.high == pytest.approx(0.25 + error, abs=0.015)


def test_all_lost_still_has_a_width():
    found = estimate([{n: 0.0 for n in range(40)}, {n: 0.0 for n in range(40)}])
    assert found.mean == found.low == 0 and 0.05 < found.high < 0.15  # Wilson's, of 40 pairs


def test_a_difference_is_paired():
    hard = np.random.default_rng(0).random(200) < 0.5  # which pairs are solved at all
    one = [{n: float(h) for n, h in enumerate(hard)}] * 2
    other = [{n: float(h and n % 20 > 0) for n, h in enumerate(hard)}] * 2
    found = difference(one, other)
    apart = combined(lambda a, b: a - b, [one, [{f"x{k}": v for k, v in run.items()} for run in other]])
    assert found.mean == pytest.approx(apart.mean)
    assert found.high - found.low < 0.6 * (apart.high - apart.low)


def test_a_difference_is_taken_on_common_pairs_alone():
    found = difference([{1: 1.0, 2: 1.0, 3: 0.0}], [{1: 0.0, 2: 1.0}])
    assert found.mean == 0.5 and found.pairs == 2
    with pytest.raises(ValueError, match="in common"):
        difference([{1: 1.0}], [{2: 1.0}])


def test_a_function_of_two_columns():
    found = combined(lambda a, b: 2 * a * b / (a + b), [[{1: 0.5, 2: 0.5}], [{3: 0.25, 4: 0.25}]])
    assert found.mean == found.low == found.high == pytest.approx(1 / 3)


def test_coverage_with_few_seeds_and_shared_pairs():
    """Truth 0: seeds and pairs both vary. Three seeds make the interval narrow; it still holds most of the time."""
    random, held = np.random.default_rng(1), 0
    for _ in range(120):
        seeds, pairs = random.normal(0, 0.05, 5), random.normal(0, 0.3, 60)
        runs = [
            {n: s + p + e for n, (p, e) in enumerate(zip(pairs, random.normal(0, 0.3, 60), strict=True))} for s in seeds
        ]
        found = estimate(runs)
        held += found.low <= 0 <= found.high
    assert 0.85 <= held / 120 <= 1.0
