"""Advantages and rewards against golden cases and closed forms."""

import numpy as np
import pytest

from gui_rl.learn.advantages import aggregation_weights, group_advantages
from gui_rl.learn.rewards import LENGTHS, rule_reward, teacher_mask, tool_efficient_path


def test_group_advantages_golden(golden):
    for case in golden("group_advantages"):
        group = group_advantages(case["rewards"], case["turns"])
        np.testing.assert_allclose(group.baseline, case["expect_mean"], atol=1e-6)
        assert group.constant is case["expect_constant"]
        assert len(group.per_turn) == len(case["expect_advantage_per_turn"])
        for turns, expected in zip(group.per_turn, case["expect_advantage_per_turn"], strict=True):
            np.testing.assert_allclose(turns, expected, atol=1e-6)


@pytest.mark.parametrize("turns", [[1, 1, 1, 1], [9, 1, 1, 1], [1, 1, 1, 30]])
def test_baseline_is_over_trajectories_whatever_their_turns(turns):
    assert group_advantages([1, 1, 1, 0], turns).baseline == 0.75


def test_constant_groups_are_found_by_raw_outcomes():
    shaped = group_advantages([1.5, 1.2, 1.3], outcomes=[1, 1, 1], normalise=True)
    assert shaped.constant
    np.testing.assert_allclose(shaped.per_trajectory, np.array([1.5, 1.2, 1.3]) - 4 / 3)
    assert not group_advantages([0.5, 0.5], outcomes=[1, 0]).constant
    equal = group_advantages([0.1] * 7)
    assert equal.constant and not equal.per_trajectory.any()


def test_normalisation_has_a_floor():
    group = group_advantages([1.0, 0.0, 0.0, 1.0], normalise=True)
    np.testing.assert_allclose(group.per_trajectory, [1, -1, -1, 1])
    tiny = group_advantages([1e-6, 0.0], normalise=True, std_floor=0.01)
    np.testing.assert_allclose(tiny.per_trajectory, [5e-5, -5e-5])


def test_weighted_baseline():
    assert group_advantages([1.0, 0.0], weights=[3.0, 1.0]).baseline == 0.75


@pytest.mark.parametrize(
    "wrong",
    [
        {"rewards": []},
        {"rewards": [1.0, float("nan")]},
        {"rewards": [1.0], "turns": [1, 2]},
        {"rewards": [1.0], "weights": [0.0]},
        {"rewards": [1.0, 0.0], "outcomes": [1]},
    ],
)
def test_wrong_groups_are_refused(wrong):
    with pytest.raises(ValueError):
        group_advantages(**wrong)


def test_aggregation_weights_give_the_mean_that_is_asked_for():
    tokens, trajectory = [4, 2, 6, 3], [0, 0, 0, 1]
    loss = [np.arange(n) + 10.0 * turn for turn, n in enumerate(tokens)]  # one value per token
    turn_means = [values.mean() for values in loss]
    expected = {
        "token": np.concatenate(loss).mean(),
        "turn": np.mean(turn_means),
        "trajectory": np.mean([np.concatenate(loss[:3]).mean(), loss[3].mean()]),
    }
    for aggregation, mean in expected.items():
        weight = np.repeat(aggregation_weights(tokens, trajectory, aggregation), tokens)
        np.testing.assert_allclose((np.concatenate(loss) * weight).sum() / weight.sum(), mean)
    with pytest.raises(ValueError, match="episode"):
        aggregation_weights(tokens, trajectory, "episode")


def test_tool_efficient_path_golden(golden):
    for case in golden("toolcua_reward"):
        columns = [[entry[name] for entry in case["group"]] for name in ("success", "steps", "tool_calls")]
        settings = [case[name] for name in ("tool_beneficial", "max_steps", "tool_weight", "length_weight")]
        rewards = tool_efficient_path(*columns, *settings)
        for reward, expected in zip(rewards, case["expect"], strict=True):
            got = [reward.accuracy, reward.tool, reward.length, reward.shaped]
            names = ("acc", "tool", "length", "shaped_without_format")
            np.testing.assert_allclose(got, [expected[name] for name in names], atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "match"), [({"steps": [9, 9]}, "limit"), ({"benefit": 0}, "tool_beneficial"), ({"steps": [1]}, "equal")]
)
def test_wrong_paths_are_refused(changes, match):
    steps, benefit = changes.get("steps", [1, 2]), changes.get("benefit", 1)
    with pytest.raises(ValueError, match=match):
        tool_efficient_path([True, False], steps, [0, 0], benefit, 5)


def test_rule_reward_golden(golden):
    for case in golden("mopd_rule_reward"):
        assert rule_reward(case["action_score"]) == case["expect"]
    with pytest.raises(ValueError):
        rule_reward(1.5)


def test_teacher_mask_is_taken_over_the_whole_group():
    assert teacher_mask([1.0, 1.0, -0.5], 0.4) == 0.0
    assert teacher_mask([-1.0, -1.0], 0.4) == 1.0  # all failed: the teacher term stays
    assert teacher_mask([0.4, 0.4], 0.4) == 1.0  # only a mean above the threshold switches it off


def test_other_forms_of_the_length_reward():
    """Steps 2, 4, 6, 8 of at most 10; only successes earn it."""
    expected = {
        "paper": [1 + 3 / 5, 1 + 1 / 5, np.exp(-1 / 5), 0],
        "linear": [0.8, 0.6, 0.4, 0],
        "quartile": [1, 0, 0, 0],
        "inverse": [1 / 2, 1 / 4, 1 / 6, 0],
    }
    assert set(expected) == set(LENGTHS)
    for form, values in expected.items():
        found = tool_efficient_path([True, True, True, False], [2, 4, 6, 8], [0] * 4, -1, 10, 0.0, 1.0, form)
        np.testing.assert_allclose([each.length for each in found], values)
        np.testing.assert_allclose([each.shaped for each in found], [*(1 + v for v in values[:3]), 0])
