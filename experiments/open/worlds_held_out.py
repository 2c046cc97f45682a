"""Worlds held out: what a policy can do in a world, and a device family, that it was never shown.

One arm learns from all three worlds, each of the others from two of them, and all are asked about all three. Held out
with a world is its device family, so that this is the hardest case; the base, which was pre-trained on screens of all
three, is the floor.
"""

from __future__ import annotations

from experiments import table
from experiments.lab import Lab
from experiments.parts import FAMILIES, demonstrated, measured, short_tasks, success
from experiments.table import Arm, Outcome, Sizes


def learnt(without: str | None = None) -> Arm:
    """SFT on the demonstrations of all worlds but one."""

    async def arm(lab: Lab, seed: int, sizes: Sizes) -> Outcome:
        tasks = await short_tasks(lab, sizes)
        shown = {family: pairs for family, pairs in tasks.items() if family != without}
        policy = await demonstrated(lab, seed, sizes, shown)
        return {"records": await measured(lab, policy, tasks, sizes)}

    return arm


async def base(lab: Lab, seed: int, sizes: Sizes) -> Outcome:
    """The shipped base, which has seen screens and no task."""
    return {"records": await measured(lab, lab.base, await short_tasks(lab, sizes), sizes)}


TABLE = table.Table(
    name="open/worlds_held_out",
    title="worlds held out",
    source="GUI-Owl-1.5 (one policy for all platforms; not asked there)",
    says=(
        "What carries over to a world that was held out is its column in the row without it, against the base; what "
        "the others gain from it is the difference in their columns."
    ),
    equal="optimisation steps and turns a step; demonstrations a world that is shown",
    arms={"base": base, "all worlds": learnt(), **{f"without {family}": learnt(family) for family in FAMILIES}},
    columns={"success": success(), **FAMILIES},
    differences=[(f"without {family}", other) for other in ("base", "all worlds") for family in FAMILIES],
)
Config, main = table.Config, TABLE.main
