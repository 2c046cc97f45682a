"""Device phases, unstable tasks, and merging of parameters."""

import numpy as np
import pytest

from gui_rl.learn.merge import average, ties
from gui_rl.learn.schedule import device_phases, unstable_tasks


def test_phases_cycle_through_one_family_a_stage():
    phases = device_phases(7, "cycle", ("mobile", "web"), stage_steps=2)
    assert phases == [("mobile",), ("mobile",), ("web",), ("web",), ("mobile",), ("mobile",), ("web",)]


def test_phases_by_curriculum_switch_at_the_papers_step():
    phases = device_phases(12, "curriculum")
    assert phases == [("mobile",)] * 10 + [("desktop",)] * 2


def test_mixed_phases_hold_all_families():
    assert device_phases(2, "mix") == [("mobile", "desktop", "web")] * 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "random"},
        {"families": ("tablet",)},
        {"families": ()},
        {"families": ("web", "web")},
        {"stage_steps": 0},
        {"mode": "curriculum", "curriculum": (("mobile", 1),)},
        {"mode": "curriculum", "curriculum": (("mobile", 0), ("web", 0))},
        {"mode": "curriculum", "curriculum": ()},
    ],
)
def test_wrong_phases_are_refused(wrong):
    with pytest.raises(ValueError):
        device_phases(5, **wrong)


def test_unstable_tasks_have_both_outcomes():
    outcomes = {"a": [1, 1, 1, 0], "b": [1, 0], "always": [1, 1], "never": [0, 0, 0], "once": [1], "c": [0, 1]}
    assert unstable_tasks(outcomes) == ["b", "c", "a"]
    assert unstable_tasks(outcomes, high=0.75) == ["b", "c"]
    with pytest.raises(ValueError):
        unstable_tasks(outcomes, low=0.5, high=0.5)


def test_ties_golden(golden):
    for case in golden("ties_merge"):
        base = {"w": np.array(case["base"])}
        models = [{"w": np.array(model)} for model in case["models"]]
        merged = ties(base, models, case["density"], case["scale"])
        np.testing.assert_allclose(merged["w"], case["expect"], atol=1e-6)


def test_ties_of_one_whole_model_is_that_model():
    base, model = {"w": np.zeros((2, 3), np.float32)}, {"w": np.arange(6, dtype=np.float32).reshape(2, 3)}
    np.testing.assert_array_equal(ties(base, [model], density=1.0)["w"], model["w"])
    kept = ties(base, [model], density=0.01)["w"]
    assert (kept != 0).sum() == 1 and kept[1, 2] == 5


def test_average_is_weighted_and_keeps_the_dtype():
    models = [{"a": np.array([0.0, 2.0], np.float32)}, {"a": np.array([4.0, 6.0], np.float32)}]
    assert average(models)["a"].dtype == np.float32
    np.testing.assert_allclose(average(models)["a"], [2, 4])
    np.testing.assert_allclose(average(models, [3, 1])["a"], [1, 3])


def test_merging_names_what_differs():
    with pytest.raises(ValueError, match="'w'"):
        average([{"w": np.zeros(2)}, {"w": np.zeros(3)}])
    with pytest.raises(ValueError, match="other parameters"):
        ties({"w": np.zeros(2)}, [{"v": np.zeros(2)}])
    with pytest.raises(ValueError, match="no model"):
        average([])
    with pytest.raises(ValueError, match="density"):
        ties({"w": np.zeros(2)}, [{"w": np.zeros(2)}], density=0.0)
    with pytest.raises(ValueError, match="weight"):
        average([{"w": np.zeros(2)}], [0.0])
