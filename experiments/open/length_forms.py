"""Forms of R_length: does it have to look at the group, and how?"""

from __future__ import annotations

import dataclasses

import numpy as np

from experiments import table
from experiments.lab import Lab, Made
from experiments.parts import measured, number, steps, success
from experiments.table import Arm, Outcome, Sizes
from experiments.toolcua.policies import PATH, TIR, Stages
from gui_rl.learn.rewards import LENGTHS, LengthForm


async def trained(stages: Stages, form: LengthForm | None) -> Made:
    """ToolCUA with R_length in this form, or without it."""
    path = dataclasses.replace(PATH, length_weight=0.0) if form is None else dataclasses.replace(PATH, length=form)
    return await stages.online(await stages.rft(), path)


def formed(form: LengthForm | None) -> Arm:
    """Its records, and the standard deviation of their lengths."""

    async def run(lab: Lab, seed: int, sizes: Sizes) -> Outcome:
        stages = Stages(lab, seed, sizes)
        records = await measured(lab, await trained(stages, form), await stages.tasks(), sizes, tools=True)
        lengths = [record.steps for record in records if record.scored]
        return {"records": records, "spread": float(np.std(lengths))}

    return run


TABLE = table.Table(
    name="open/length_forms",
    title="Forms of the length reward",
    source="ToolCUA (2605.12481), section 2.4, which has one",
    says=(
        "The paper takes a form that compares a trajectory with its group: a bonus that is linear below the mean, and "
        "a penalty that is exponential above it. If the form matters, other arms end longer (ACS) or lower."
    ),
    equal="episodes and updates of online RL, and the weight of R_length (0.2) but in `none`",
    arms={form: formed(form) for form in LENGTHS} | {"none": formed(None)},
    columns={
        "success": success(), "TIR": TIR, "ACS": steps(),
        "spread of steps": number("spread"),
    },
    differences=tuple((form, "none") for form in LENGTHS),
)  # fmt: skip
Config, main = table.Config, TABLE.main
