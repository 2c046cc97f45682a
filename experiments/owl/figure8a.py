"""Figure 8a: training on all tasks, or on the unstable ones: those whose recent rollouts had both outcomes.

Which tasks are unstable is read off the rollouts of the run itself and refreshed with every step; a share of the tasks
is always drawn from all, so that none is lost for good.
"""

from __future__ import annotations

from experiments import table
from experiments.parts import FAMILIES, MRPO_OURS, informative, number, success, tuned
from experiments.table import Arm, Published
from gui_rl.learn.online import MRPOConfig
from gui_rl.scale.compile import CompileOptions


def exploring(share: float) -> Arm:
    """MRPO that draws this share of its tasks from all of them, the others from the unstable ones."""
    return tuned(lambda sizes: {"explore": share})


TABLE = table.Table(
    name="owl/figure8a",
    title="all tasks, or the unstable ones",
    source="GUI-Owl-1.5, figure 8a",
    says=(
        "The paper reports faster convergence and a higher end where training is focused on tasks with both outcomes: "
        "it is confirmed where `unstable − all` is above 0. `informative` is the share of pools with both outcomes."
    ),
    equal="optimisation steps, and episodes a step (environment steps are listed)",
    arms={"all tasks": exploring(1.0), "half unstable": exploring(0.5), "unstable": exploring(0.1)},
    columns={
        "success": success(), **FAMILIES, "informative": informative(),
        "environment steps": number("turns"),
    },
    differences=[("unstable", "all tasks"), ("half unstable", "all tasks")],
    published=Published(
        settings={"MRPO": MRPOConfig(explore=0.0)},
        ours=MRPO_OURS | {"explore": "the paper does not say how unstable tasks are told, or whether others are kept"},
        compiles=[CompileOptions(model="qwen3-vl-8b", topology="v5p:4x4x4", task="rl", seq=16384)],
    ),
)  # fmt: skip
Config, main = table.Config, TABLE.main
