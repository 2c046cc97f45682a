"""Evaluation metrics against golden cases, scipy and published figures."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from gui_rl.evaluate import metrics

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


def cases(name):
    return json.loads((GOLDEN / f"{name}.json").read_text())["cases"]


def test_tool_metrics_golden():
    for case in cases("toolcua_metrics"):
        records = case["records"]
        got = [metrics.success_rate(records), metrics.tool_invocation_rate(records)]
        got.append(metrics.average_completion_steps(records))
        names = ("accuracy", "tool_invocation_rate", "average_completion_steps")
        np.testing.assert_allclose(got, [case[f"expect_{name}"] for name in names], atol=1e-6)


def test_balance_metrics_golden():
    for case in cases("balance_metrics"):
        np.testing.assert_allclose(metrics.h_mean(case["desktop"], case["mobile"]), case["expect_h_mean"], atol=1e-6)
        gain = metrics.min_gain(case["desktop"], case["mobile"], case["base_desktop"], case["base_mobile"])
        np.testing.assert_allclose(gain, case["expect_min_gain"], atol=1e-6)
    assert round(metrics.h_mean(38.2, 12.0), 1) == 18.3  # UI-MOPD's published H-mean


def test_bootstrap_agrees_with_scipy():
    values = np.random.default_rng(0).normal(3.0, 2.0, 60)
    interval = metrics.bootstrap_interval(values, 0.9, seed=1)
    reference = stats.bootstrap((values,), np.mean, confidence_level=0.9, method="percentile", rng=2)
    np.testing.assert_allclose(interval, reference.confidence_interval, atol=0.05)
    assert interval == metrics.bootstrap_interval(values, 0.9, seed=1)


def test_bootstrap_of_clusters_resamples_whole_tasks():
    values, tasks = [1.0] * 30 + [0.0] * 30, ["a"] * 30 + ["b"] * 30
    apart = metrics.bootstrap_interval(values, clusters=tasks)
    assert apart == (0.0, 1.0)  # two tasks: both may be drawn as the same one
    alone = metrics.bootstrap_interval(values)
    assert alone.low > 0.3 and alone.high < 0.7


@pytest.mark.parametrize(("successes", "episodes"), [(0, 10), (3, 10), (10, 10), (37, 120)])
def test_wilson_agrees_with_scipy(successes, episodes):
    reference = stats.binomtest(successes, episodes).proportion_ci(0.95, method="wilson")
    np.testing.assert_allclose(metrics.wilson_interval(successes, episodes), (reference.low, reference.high))


def test_metrics_refuse_what_is_no_evaluation():
    for function in (metrics.success_rate, metrics.tool_invocation_rate, metrics.average_completion_steps):
        with pytest.raises(ValueError, match="no scored episodes"):
            function([])
    with pytest.raises(ValueError):
        metrics.wilson_interval(3, 2)
    with pytest.raises(ValueError):
        metrics.bootstrap_interval([])
    with pytest.raises(ValueError):
        metrics.bootstrap_interval([1.0], confidence=1.0)
    with pytest.raises(ValueError):
        metrics.bootstrap_interval([1.0], clusters=["a", "b"])
    with pytest.raises(ValueError):
        metrics.h_mean(-1.0, 2.0)
