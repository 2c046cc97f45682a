"""Swap1's bias, and what corrects it: nothing (the paper), Horvitz-Thompson weights, the whole pool's mean as baseline.

A swap puts the rarer outcome into a group more often than it is in the pool. `bias` is by enumeration: over all numbers
of successes of a pool at success rate 0.9, expected share of successes in the group minus that in the pool, given that
the pool has both outcomes. Horvitz-Thompson weights bring it to 0.
"""

from __future__ import annotations

from scipy.stats import binom

from experiments import table
from experiments.parts import FAMILIES, informative, number, success, tuned
from experiments.table import Arm, Sizes
from gui_rl.learn.buffer import inclusion_probabilities

RATE = 0.9


def bias(n: int, k: int, weighted: bool, rate: float = RATE) -> float:
    """E[weighted share of successes in the group - share in the pool | both outcomes in the pool]."""
    pool, total, chance = n * k, 0.0, 0.0
    for won in range(1, pool):
        here = float(binom.pmf(won, pool, rate))
        kept = inclusion_probabilities(pool, n, won)
        weight = n / pool / kept.success if weighted else 1.0
        total += here * (won * kept.success * weight / n - won / pool)
        chance += here
    return total / chance


def corrected(how: str) -> Arm:
    """MRPO with this correction."""
    changes = {"none": {}, "weights": {"swap_weights": "horvitz_thompson"}, "pool": {"baseline": "pool"}}[how]

    def numbers(sizes: Sizes) -> dict[str, float]:
        return {"bias": bias(sizes.group, sizes.oversample, how == "weights")}

    return tuned(lambda sizes: changes, numbers)


TABLE = table.Table(
    name="open/swap_bias",
    title="Swap1's bias and its correction",
    source="GUI-Owl-1.5, section 2.4.3 (not discussed there)",
    says=(
        "A swapped group shows the rarer outcome more often than the policy does, so that its mean is no unbiased "
        "baseline. `bias` is exact, at success rate 0.9; what it costs is the difference in success to the corrected "
        "arms."
    ),
    equal="optimisation steps, episodes a step, pools that are drawn",
    arms={
        "as published": corrected("none"),
        "Horvitz-Thompson weights": corrected("weights"),
        "pool's mean as baseline": corrected("pool"),
    },
    columns={
        "success": success(), **FAMILIES, "informative": informative(), "bias": number("bias", True),
        "environment steps": number("turns"),
    },
    differences=[("Horvitz-Thompson weights", "as published"), ("pool's mean as baseline", "as published")],
)  # fmt: skip
Config, main = table.Config, TABLE.main
