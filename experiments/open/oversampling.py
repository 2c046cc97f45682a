"""k: how far to oversample, at equally many episodes a step; a larger k means fewer tasks.

`closed form` is P(A) = 1 - p^(kn) - (1-p)^(kn), the chance that a pool has both outcomes, at p = 0.9 and the run's n.
"""

from __future__ import annotations

from experiments import table
from experiments.parts import FAMILIES, informative, number, success, tuned
from experiments.table import Arm, Sizes
from gui_rl.learn.buffer import pool_diversity


def oversampled(k: int) -> Arm:
    """MRPO with pools of k*n, on as many tasks as the episodes are enough for."""

    def changes(sizes: Sizes) -> dict[str, int]:
        return {"oversample": k, "tasks": max(sizes.rl_tasks * sizes.oversample // k, 1)}

    return tuned(changes, lambda sizes: {"closed form": pool_diversity(0.9, sizes.group, k)})


TABLE = table.Table(
    name="open/oversampling",
    title="how far to oversample",
    source="GUI-Owl-1.5, section 2.4.3 (k is not stated)",
    says=(
        "The paper gives the chance of a diverse pool and no k. A larger k finds more informative groups among fewer "
        "tasks; whether that pays at equal cost is the difference in success."
    ),
    equal="optimisation steps, and episodes a step (environment steps are listed)",
    arms={f"k = {k}": oversampled(k) for k in (1, 2, 4)},
    columns={
        "success": success(), **FAMILIES, "informative": informative(), "closed form": number("closed form", True),
        "environment steps": number("turns"),
    },
    differences=[("k = 2", "k = 1"), ("k = 4", "k = 1")],
)  # fmt: skip
Config, main = table.Config, TABLE.main
