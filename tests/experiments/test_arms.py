"""What arms compute without a lab: the bias of a swap, and when an answer is right."""

import numpy as np
import pytest

from experiments.knowledge import right
from experiments.open.swap_bias import bias
from gui_rl.learn.buffer import select_group


@pytest.mark.parametrize(("n", "k"), [(2, 2), (4, 2)])
def test_the_bias_of_a_swap_is_what_drawing_shows(n, k):
    """At success rate 0.9 failures are rare: a swapped group shows more of them than the pool does."""
    random, seen = np.random.default_rng(0), {False: [], True: []}
    while len(seen[False]) < 4000:
        pool = random.random(n * k) < 0.9
        if pool.all() or not pool.any():
            continue
        for weighted, found in seen.items():
            how = "horvitz_thompson" if weighted else "none"
            group = select_group(len(found), pool, n, how)
            found.append(float((group.weights * pool[group.indices]).sum() / n - pool.mean()))
    for weighted, found in seen.items():
        error = np.std(found) / len(found) ** 0.5
        assert np.mean(found) == pytest.approx(bias(n, k, weighted), abs=3.5 * error)
    assert bias(n, k, False) < -0.05 and bias(n, k, True) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("said", "answer", "box", "verdict"),
    [
        (" Apple ", "apple", None, True),
        ("pear", "apple", None, False),
        ("[120, 80]", "[125, 90]", (100, 60, 150, 120), True),
        ("[90, 80]", "[125, 90]", (100, 60, 150, 120), False),
        ("there", "[125, 90]", (100, 60, 150, 120), False),
    ],
)
def test_an_answer_is_right(said, answer, box, verdict):
    assert right(said, answer, box) is verdict
