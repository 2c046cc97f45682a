"""The oversample-and-swap buffer against golden probabilities, and against full enumeration."""

import itertools
import json
import math
from collections import Counter

import jax
import numpy as np
import pytest

from gui_rl.learn.buffer import BufferState, inclusion_probabilities, pool_diversity, select_group
from gui_rl.rollout.groups import Ticket

DRAWS = 3000


def pool_of(case):
    return [True] * case["successes"] + [False] * (case["pool"] - case["successes"])


def test_pool_diversity_golden(golden):
    for case in golden("pool_diversity"):
        np.testing.assert_allclose(pool_diversity(case["p"], case["n"], case["k"]), case["expect"], atol=1e-6)


def test_inclusion_probabilities_golden(golden):
    for case in golden("swap_buffer"):
        expected = case["expect"]
        if 0 < case["successes"] < case["pool"]:
            got = inclusion_probabilities(case["pool"], case["group"], case["successes"])
            np.testing.assert_allclose(got, [expected["inclusion_success"], expected["inclusion_fail"]], atol=1e-6)
        else:
            with pytest.raises(ValueError, match="constant"):
                inclusion_probabilities(case["pool"], case["group"], case["successes"])


def test_draws_follow_the_golden_probabilities(golden):
    for number, case in enumerate(golden("swap_buffer")):
        expected, won = case["expect"], np.array(pool_of(case))
        counts, included = {"kept": 0, "swapped": 0, "empty": 0}, np.zeros(case["pool"])
        weights = {True: set(), False: set()}
        for draw in range(DRAWS):
            group = select_group(number * DRAWS + draw, won, case["group"], "horvitz_thompson")
            counts[group.status] += 1
            included[group.indices] += 1
            for index, weight in zip(group.indices, group.weights, strict=True):
                weights[bool(won[index])].add(float(weight))
            if group.status != "empty":
                assert len(set(group.indices.tolist())) == case["group"]
                assert 0 < won[group.indices].sum() < case["group"]

        def close(count, probability, trials):
            sigma = np.sqrt(max(probability * (1 - probability), 0) / trials)
            assert abs(count / trials - probability) <= 4.5 * sigma + 1e-9

        for status, count in counts.items():
            close(count, expected[status], DRAWS)
        for outcome, name in ((True, "success"), (False, "fail")):
            members, inclusion = int((won == outcome).sum()), expected[f"inclusion_{name}"]
            if members:
                # Members of one outcome exclude one another, which only narrows the spread of their sum.
                close(included[won == outcome].sum(), inclusion, DRAWS * members)
            if weights[outcome]:
                np.testing.assert_allclose(list(weights[outcome]), expected[f"weight_{name}"], atol=1e-6)


@pytest.mark.parametrize("swap_weights", ["none", "horvitz_thompson"])
def test_group_mean_by_enumeration(golden, swap_weights):
    """Expected weighted group mean of any statistic: the pool's mean with weights, the golden bias without."""
    for case in golden("swap_buffer"):
        size, n, won = case["pool"], case["group"], np.array(pool_of(case))
        if not 0 < case["successes"] < size:
            continue
        value = np.random.default_rng(0).normal(size=size)
        inclusion = inclusion_probabilities(size, n, case["successes"])
        weight = n / size / np.where(won, *inclusion) if swap_weights == "horvitz_thompson" else np.ones(size)
        groups = list(itertools.combinations(range(size), n))
        mean = share = 0.0
        for members in groups:
            members = list(members)
            if 0 < won[members].sum() < n:
                finals = [members]
            else:
                others = np.flatnonzero(won != won[members[0]])
                finals = [[*members[:p], other, *members[p + 1 :]] for p in range(n) for other in others]
            for final in finals:
                mean += (weight * value)[final].sum() / n / len(finals) / len(groups)
                share += won[final].mean() / len(finals) / len(groups)
        np.testing.assert_allclose(share, case["expect"]["success_share_of_group"], atol=1e-6)
        if swap_weights == "horvitz_thompson":
            np.testing.assert_allclose(mean, value.mean(), atol=1e-9)
        elif case["expect"]["swapped"] > 0 and case["successes"] * 2 != size:
            assert abs(mean - value.mean()) > 1e-6


def test_draw_is_a_function_of_the_key():
    pool = [True, False] * 8
    key = jax.random.key(3)
    first, second = select_group(key, pool, 4), select_group(key, pool, 4)
    np.testing.assert_array_equal(first.indices, second.indices)
    others = {tuple(select_group(jax.random.fold_in(key, i), pool, 4).indices.tolist()) for i in range(8)}
    assert len(others) > 1


@pytest.mark.parametrize(
    ("outcomes", "n", "weights"), [([1, 0], 3, "none"), ([1.5, 0], 2, "none"), ([1, 0], 2, "ht"), ([1, 0], 0, "none")]
)
def test_wrong_pools_are_refused(outcomes, n, weights):
    with pytest.raises(ValueError):
        select_group(0, outcomes, n, weights)


def test_state_survives_a_document_and_counts():
    one, two = Ticket("virtual", "t", 5), Ticket("virtual", "u", 6, tries=1)
    state = BufferState().begin(3, [one, two]).begin(4, [one]).remember("t", [True, False, True], 2)
    state = state.record("kept").record("kept").record("empty").record("swapped")
    assert state.rounds == {3: (one, two), 4: (one,)} and state.recent == {"t": (False, True)}
    assert BufferState.from_dict(json.loads(json.dumps(state.to_dict()))) == state
    assert state.rates() == {"kept": 0.5, "swapped": 0.25, "empty": 0.25}
    ended = state.end(3, again=[two])
    assert ended.rounds == {4: (one,)} and ended.waiting == (two._replace(tries=2),)
    assert ended.begin(5, ended.waiting).waiting == ()
    assert BufferState.from_dict(json.loads(json.dumps(ended.to_dict()))) == ended
    assert BufferState().rates() == {"kept": 0.0, "swapped": 0.0, "empty": 0.0}


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_the_first_n_are_as_good_a_subsample_as_any(p):
    """Groups of lazy pools, which end after n members that differ, have the distribution of the paper's groups."""
    n, size = 3, 6
    paper, lazy = Counter(), Counter()
    for pool in itertools.product((False, True), repeat=size):
        chance = math.prod(p if won else 1 - p for won in pool)
        subsets = list(itertools.combinations(range(size), n))
        for chosen in subsets:
            won = sum(pool[i] for i in chosen)
            if len(set(pool)) == 1:
                result = ("empty", 0)
            else:
                result = ("kept", won) if 0 < won < n else ("swapped", 1 if won == 0 else n - 1)
            paper[result] += chance / len(subsets)
        played = pool[:n] if len(set(pool[:n])) == 2 else pool
        group = select_group(0, played, n, subsample="first")
        lazy[group.status, sum(played[i] for i in group.indices)] += chance
    assert paper.keys() == lazy.keys()
    for result, chance in paper.items():
        assert lazy[result] == pytest.approx(chance, abs=1e-12)
