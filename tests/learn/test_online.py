"""MRPO's step before the gradient: groups, advantages, weights and ids, against hand-made pools."""

import dataclasses
import io

import numpy as np
import pytest
from PIL import Image

from gui_rl.data.schema import Episode, Turn
from gui_rl.errors import UserError
from gui_rl.learn.buffer import BufferState, inclusion_probabilities
from gui_rl.learn.measured import rollout_metrics
from gui_rl.learn.mrpo import MRPOConfig, fill, rewards
from gui_rl.learn.online import draw_tasks
from gui_rl.learn.teachers import Teaching
from gui_rl.learn.toolcua import ACCURACY
from gui_rl.rollout.groups import Pool

IMAGE = 3  # any placeholder id


def png():
    out = io.BytesIO()
    Image.new("RGB", (64, 64)).save(out, "PNG")
    return out.getvalue()


def episode(name, success, turns=2, outcome=None, parse_error=None):
    shot = png()
    steps = tuple(
        Turn(
            index=index,
            screenshot=shot,
            prompt_ids=(1, IMAGE, IMAGE, IMAGE, IMAGE, 2),
            image_grids=((1, 4, 4),),
            image_turns=(index,),
            response_ids=(10 + index, 11, 12)[: 2 + index % 2],
            behaviour_logp=(-0.5, -0.25, -0.125)[: 2 + index % 2],
            policy_version=4,
            parse_error=parse_error if index == 0 else None,
        )
        for index in range(turns)
    )
    outcome = outcome or ("success" if success else "fail")
    return Episode(name, "virtual", "t", 5, "web", "Do it.", (64, 64), steps, outcome, float(success), total=1)


def pool(successes, turns=2):
    return Pool("virtual/t/5", tuple(episode(f"e{n}", s, turns) for n, s in enumerate(successes)), 0)


def test_a_kept_group_gives_reward_minus_mean_over_trajectories_to_every_turn():
    config = MRPOConfig(group=4, oversample=1)
    members = tuple(episode(f"e{n}", n < 3, turns) for n, turns in enumerate((1, 5, 2, 3)))
    samples, _, buffer, counts, _ = fill([Pool("k", members, 0)], BufferState(), config, 0)
    assert counts["groups_kept"] == 1 and buffer.counts["kept"] == 1
    by_episode = {}
    for sample in samples:
        by_episode.setdefault(sample.id.split()[0], []).append(sample.branches[0])
    assert {name: len(turns) for name, turns in by_episode.items()} == {"e0": 1, "e1": 5, "e2": 2, "e3": 3}
    for name, turns in by_episode.items():
        for branch in turns:
            np.testing.assert_allclose(branch.advantage, -0.75 if name == "e3" else 0.25)
            np.testing.assert_allclose(branch.pg_weight, 1.0)


def test_ids_and_log_probabilities_are_those_that_were_sampled():
    samples, *_ = fill([pool([True, False])], BufferState(), MRPOConfig(group=2, oversample=1), 0)
    for sample in samples:
        (branch,) = sample.branches
        index = int(sample.id.split()[-1])
        assert branch.ids.tolist() == [10 + index, 11, 12][: 2 + index % 2]
        assert branch.behaviour_logp.tolist() == [-0.5, -0.25, -0.125][: 2 + index % 2]
        assert sample.ids.tolist() == [1, IMAGE, IMAGE, IMAGE, IMAGE, 2]


@pytest.mark.parametrize("outcome", [True, False])
def test_constant_pools_give_no_samples_whatever_their_shaping(outcome):
    pools = [pool([outcome] * 8)]
    samples, _, buffer, counts, _ = fill(pools, BufferState(), MRPOConfig(), 0)
    assert samples == [] and counts["groups_empty"] == 1 and buffer.counts == {"kept": 0, "swapped": 0, "empty": 1}


def test_a_rare_success_is_swapped_in_and_weighed_back():
    config = MRPOConfig(group=2, oversample=4, swap_weights="horvitz_thompson")
    inclusion = inclusion_probabilities(8, 2, 1)
    swapped = 0
    for step in range(40):
        samples, _, _, counts, _ = fill([pool([True] + [False] * 7, turns=1)], BufferState(), config, step)
        swapped += counts["groups_swapped"]
        weights = {sample.id.split()[0]: float(sample.branches[0].pg_weight[0]) for sample in samples}
        assert len(weights) == 2 and "e0" in weights
        assert weights.pop("e0") == pytest.approx(2 / 8 / inclusion.success)
        assert weights.popitem()[1] == pytest.approx(2 / 8 / inclusion.fail)
    assert 20 <= swapped <= 38  # three in four subsamples miss the one success


def test_a_pool_that_the_environment_emptied_forms_no_group():
    short = Pool("k", (episode("e0", True), episode("e1", False)), faults=6)
    samples, _, buffer, counts, _ = fill([short], BufferState(), MRPOConfig(group=4), 0)
    assert samples == [] and counts["groups_short"] == 1 and counts["faults"] == 6
    assert sum(buffer.counts.values()) == 0  # it is played again, and is no group until then


def test_the_parse_penalty_is_taken_once_a_trajectory():
    config = MRPOConfig(parse_penalty=0.1)
    bad = episode("e", True, turns=4, parse_error="no_call")
    assert rewards([bad, episode("e", False)], config) == [
        {"outcome": 1.0, "format": pytest.approx(-0.1)}, {"outcome": 0.0, "format": 0.0},
    ]  # fmt: skip


def test_a_pool_s_baseline_is_its_mean_whatever_was_selected():
    """Three of eight succeed: the advantages of the four that are chosen are those of the whole pool."""
    config = MRPOConfig(group=4, oversample=2, baseline="pool")
    for number in range(6):
        samples, families, *_ = fill([pool([True] * 3 + [False] * 5, turns=1)], BufferState(), config, number)
        assert len(samples) == 4 and families == ["web"] * 4
        for sample in samples:
            won = sample.id.split()[0] in ("e0", "e1", "e2")
            np.testing.assert_allclose(sample.branches[0].advantage, (1 if won else 0) - 3 / 8)


def test_turn_and_trajectory_means_weigh_as_they_say():
    pools = [Pool("k", (episode("a", True, 1), episode("b", False, 3)), 0)]
    for aggregation, owner_total in (("trajectory", {"a": 1.0, "b": 1.0}), ("turn", {"a": 1.0, "b": 3.0})):
        config = MRPOConfig(group=2, oversample=1, aggregation=aggregation)
        samples, *_ = fill(pools, BufferState(), config, 0)
        total = {}
        for sample in samples:
            name = sample.id.split()[0]
            total[name] = total.get(name, 0.0) + float(sample.branches[0].pg_weight.sum())
        assert total == pytest.approx(owner_total)


def test_the_divergence_counts_on_empty_groups_too():
    pools, config = [pool([False] * 8), pool([True, False] * 4)], MRPOConfig(group=4)
    plain, *_ = fill(pools, BufferState(), config, 0)
    held, _, buffer, counts, _ = fill(pools, BufferState(), dataclasses.replace(config, kl=0.1), 0)
    assert counts["groups_empty"] == 1 and buffer.counts["empty"] == 1
    assert len(plain) == 8 and len(held) == 16  # two turns of four members of each group
    assert all((sample.branches[0].kl_weight == 0).all() for sample in plain)
    assert all((sample.branches[0].kl_weight == 1).all() for sample in held)
    pushed = [sample for sample in held if sample.branches[0].pg_weight.any()]
    assert len(pushed) == 8 and all((sample.branches[0].advantage != 0).all() for sample in pushed)


def test_teachers_teach_where_the_reward_is_low_and_all_failed_groups_stay():
    """UI-MOPD's mask is of the whole pool before any filtering; an empty group keeps its KL alone."""
    pools = [pool([False] * 8), pool([True, False] * 4), pool([True] * 7 + [False]), pool([True] * 8)]
    pools = [dataclasses.replace(each, key=f"k{n}") for n, each in enumerate(pools)]
    config = MRPOConfig(group=4, teaching=Teaching(threshold=0.6))
    found = fill(pools, BufferState(), config, 0)
    assert found.metrics["taught"] == 0.5
    streams = {}
    for sample, key in zip(found.samples, found.groups, strict=True):
        (branch,) = sample.branches
        streams.setdefault(key, set()).add((bool(branch.kl_weight.any()), bool(branch.pg_weight.any())))
    assert streams == {"k0": {(True, False)}, "k1": {(True, True)}, "k2": {(False, True)}}
    always = fill(pools, BufferState(), dataclasses.replace(config, teaching=Teaching(threshold=None)), 0)
    assert set(always.groups) == {"k0", "k1", "k2", "k3"}
    assert all((sample.branches[0].kl_weight == 1).all() for sample in always.samples)
    with pytest.raises(UserError, match="one of the two"):
        MRPOConfig(kl=0.1, teaching=Teaching())


def test_the_rule_reward_reads_the_score_of_a_single_step():
    config = MRPOConfig(reward="rule")
    right, near = episode("e", True, 1), dataclasses.replace(episode("e", False, 1), score=0.5)
    found = rewards([right, near, episode("e", False, 1, parse_error="no_call")], config)
    assert found == [{"rule": 1}, {"rule": -0.5}, {"rule": -1}]


def test_tasks_are_drawn_by_seed_and_step_and_none_twice_before_all_were():
    tasks = {"web": [("virtual", f"w{n}") for n in range(5)], "mobile": [("virtual", f"m{n}") for n in range(5)]}
    drawn = draw_tasks(tasks, ("web",), range(100), 10, [0, 3])
    assert drawn == draw_tasks(tasks, ("web",), range(100), 10, [0, 3])
    assert drawn != draw_tasks(tasks, ("web",), range(100), 10, [0, 4])
    assert (
        sorted(task for _, task, *_ in drawn[:5])
        == sorted(task for _, task, *_ in drawn[5:])
        == [f"w{n}" for n in range(5)]
    )
    mixed = draw_tasks(tasks, ("web", "mobile"), range(100), 6, [1])
    assert [task[0] for _, task, *_ in mixed] == ["w", "m"] * 3


def test_unstable_tasks_are_preferred_and_the_others_still_covered():
    tasks = {"web": [("virtual", f"w{n}") for n in range(10)]}
    drawn = [
        t for step in range(300) for _, t, *_ in draw_tasks(tasks, ("web",), range(9), 4, [0, step], ["w3", "w7"], 0.5)
    ]
    often = sum(task in ("w3", "w7") for task in drawn) / len(drawn)
    assert often == pytest.approx(0.5 + 0.5 * 0.2, abs=0.05)  # half of the draws, and their share of the rest
    assert set(drawn) == {f"w{n}" for n in range(10)}
    only = draw_tasks(tasks, ("web",), range(9), 4, [0, 0], ["w3", "w7"], 0.0)
    assert sorted(task for _, task, *_ in only) == ["w3", "w3", "w7", "w7"]
    assert draw_tasks(tasks, ("web",), range(9), 4, [0, 0], [], 0.0)  # before anything is known: from all


def test_what_is_logged_counts_faults_apart():
    parts = [{"outcome": 1.0, "format": 0.0}, {"outcome": 0.0, "format": -0.3}]
    found = rollout_metrics([pool([True, False]), Pool("k", (), faults=2)], parts, number=6)
    assert found["success"] == found["success/web"] == 0.5 and found["episodes"] == 2 and found["faults"] == 2
    assert found["reward/outcome"] == 0.5 and found["reward/format"] == -0.15 and found["reward"] == 0.35
    assert found["staleness"] == found["staleness_max"] == 2  # sampled by version 4, trained by version 6


def with_tool(found, changed=True):
    """The episode with a tool call at its first turn, after which the state is another, or the same."""
    hashes = ["a", "b" if changed else "a", "c", "d", "e"]
    call = {"name": "shop.add", "arguments": {}}
    turns = [dataclasses.replace(turn, state_hash=hashes[turn.index]) for turn in found.turns]
    result = '{"success": true, "result": null, "error_message": null}'
    turns[0] = dataclasses.replace(turns[0], action=call, tool_result=result)
    return dataclasses.replace(found, turns=tuple(turns))


PATH = MRPOConfig(group=4, oversample=1, reward="path")
HELPS = {("virtual", "t"): 1}


def mixed_pool():
    """Two successes by a tool (one of them idle), one without, one failure; 2, 2, 4 and 4 steps."""
    return Pool("virtual/t/5", (
        with_tool(episode("a", True)), with_tool(episode("b", True), changed=False), episode("c", True, 4),
        with_tool(episode("d", False, 4)),
    ), 0)  # fmt: skip


def test_the_path_reward_makes_the_advantages_of_a_kept_group():
    """R = R_acc + 0.4 R_tool + 0.2 R_length by hand: mean length 3, S_max 30; the shorter ones get 1 + 1/3."""
    found = fill([mixed_pool()], BufferState(), PATH, 0, HELPS)
    short, long = 0.2 * (1 + 1 / 3), 0.2 * np.exp(-1 / 27)
    expected = np.array([1.4 + short, 1.4 + short, 1 + long, 0])
    told = {sample.id.split()[0]: float(sample.branches[0].advantage[0]) for sample in found.samples}
    np.testing.assert_allclose([told[name] for name in "abcd"], expected - expected.mean(), rtol=1e-6)
    parts = {name.split("/")[1]: value for name, value in found.metrics.items() if name.startswith("reward/")}
    assert parts == pytest.approx({"outcome": 0.75, "format": 0, "tool": 0.2, "length": (2 * short + long) / 4})
    assert found.metrics["reward"] == pytest.approx(expected.mean())
    assert found.metrics["tool_invocation_rate"] == 0.5
    assert found.metrics["tool_calls_rewarded"] == 2 and found.metrics["tool_calls_rewarded_unchanged"] == 0.5
    harmed = fill([mixed_pool()], BufferState(), PATH, 0, {("virtual", "t"): -1})
    assert harmed.metrics["reward/tool"] == pytest.approx(0.1)  # of the one that got on without
    guarded = dataclasses.replace(PATH, path=dataclasses.replace(PATH.path, effective=True))
    assert fill([mixed_pool()], BufferState(), guarded, 0, HELPS).metrics["reward/tool"] == pytest.approx(0.1)


def test_only_accuracy_is_the_plain_reward_with_the_guard_s_report():
    accuracy = dataclasses.replace(PATH, path=ACCURACY)
    shaped, plain = (
        fill([mixed_pool()], BufferState(), config, 0, HELPS)
        for config in (accuracy, dataclasses.replace(PATH, reward="outcome"))
    )
    for one, other in zip(shaped.samples, plain.samples, strict=True):
        np.testing.assert_array_equal(one.branches[0].advantage, other.branches[0].advantage)
    assert shaped.metrics["tool_calls"] == 3 and "tool_calls" not in plain.metrics


def test_groups_are_chosen_by_success_whatever_the_path_is_worth():
    """Four successes that differ in length and tools are one constant pool; a swap follows the outcome alone."""
    ways = Pool("virtual/t/5", tuple(with_tool(episode(f"e{n}", True, 1 + n % 3)) for n in range(8)), 0)
    found = fill([ways], BufferState(), PATH, 0, HELPS)
    assert found.samples == [] and found.metrics["groups_empty"] == 1 and found.metrics["reward/length"] > 0
    rare = Pool("virtual/t/5", (*ways.episodes[:7], episode("lost", False)), 0)
    config = dataclasses.replace(PATH, group=2)
    for number in range(12):
        shaped = fill([rare], BufferState(), config, number, HELPS)
        plain = fill([rare], BufferState(), dataclasses.replace(config, reward="outcome"), number)
        assert [sample.id for sample in shaped.samples] == [sample.id for sample in plain.samples]
        assert {sample.id.split()[0] for sample in shaped.samples} >= {"lost"}


def test_the_path_reward_has_to_know_whether_tools_help():
    with pytest.raises(UserError, match="whether tools help.*'t'"):
        fill([mixed_pool()], BufferState(), PATH, 0)
