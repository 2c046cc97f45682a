"""Prefix progress against golden cases and brute force."""

import json
from pathlib import Path

import numpy as np
import pytest

from gui_rl.flywheel.collect import prefix_progress, truncate

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


def test_prefix_progress_golden():
    for case in json.loads((GOLDEN / "prefix_progress.json").read_text())["cases"]:
        got = prefix_progress(case["checkpoint_met"])
        assert got.progress == case["expect_progress"]
        assert got.truncate_after_step == case["expect_truncate_after_step"]
        assert list(got.remaining) == case["expect_remaining"]
        assert got.accepted is case["expect_accepted"]


def test_prefix_progress_by_brute_force():
    random = np.random.default_rng(0)
    for _ in range(200):
        met = random.random((random.integers(1, 7), random.integers(1, 5))) < 0.4
        steps, total = met.shape
        progress = max(m for m in range(total + 1) if all(any(met[t, k] for t in range(steps)) for k in range(m)))
        last = max((t + 1 for t in range(steps) if progress and met[t, progress - 1]), default=0)
        got = prefix_progress(met.tolist())
        assert (got.progress, got.truncate_after_step, got.accepted) == (progress, last, progress == total)


def test_truncation_keeps_the_steps_of_the_prefix():
    progress = prefix_progress([[0, 0], [1, 0], [0, 0]])
    assert truncate(["a", "b", "c"], progress) == ["a", "b"]
    with pytest.raises(ValueError, match="step 2"):
        truncate(["a"], progress)


@pytest.mark.parametrize("wrong", [[], [[]], [[1], [1, 0]]])
def test_wrong_tables_are_refused(wrong):
    with pytest.raises(ValueError):
        prefix_progress(wrong)
