"""UI-MOPD, table 2: what of it is needed: specialised teachers, good ones, the right one, the mask.

At tiny scale there is one size of policy: instead of smaller teachers the table has weaker ones, before their online
training. One more arm is the paper's own kind of stage 2: single steps on stored states, with the rule reward.
"""

from __future__ import annotations

from experiments import table
from experiments.mopd.policies import (
    ABLATIONS,
    BALANCE,
    EXACT,
    PLATFORM_COLUMNS,
    PLATFORMS,
    REFERENCES,
    STRATEGIES,
    STUDENT,
    Stages,
    arm,
)  # fmt: skip
from experiments.mopd.published import TABLE_6

SAME = ("desktop-only OPD", "mobile-only OPD", "unified teacher", "UI-MOPD")


async def stored_steps(stages: Stages):
    """Stage 2 on single steps of the teachers' demonstrations, as published."""
    return await stages.online(
        await stages.student(), teachers=await stages.specialists(), teaching=EXACT, reward="rule",
        stored=await stages.demonstrations(*PLATFORMS),
    )  # fmt: skip


ARMS = {STUDENT: REFERENCES[STUDENT], **{name: STRATEGIES[name] for name in SAME}, **ABLATIONS}
ARMS["on stored single steps"] = stored_steps
TABLE = table.Table(
    name="mopd/table2",
    title="UI-MOPD without one of its parts",
    source="UI-MOPD (2607.04425), table 2",
    says=(
        "The paper: every part is needed: teachers that are specialised and strong, the teacher of the platform, and "
        "the mask. Ours: UI-MOPD minus each arm, in H-mean and MinGain, should be above 0."
    ),
    equal="updates, and groups a step; on stored single steps a response takes the place of an episode",
    arms={name: arm(strategy) for name, strategy in ARMS.items()},
    columns=PLATFORM_COLUMNS | BALANCE,
    differences=tuple(("UI-MOPD", name) for name in ARMS if name != "UI-MOPD"),
    paper={
        "unified teacher": {"OSWorld": 35.9, "MobileWorld": 8.7},
        "UI-MOPD": {"OSWorld": 38.2, "MobileWorld": 12.0, "MinGain": 4.3},
    },
    published=TABLE_6,
)
Config, main = table.Config, TABLE.main
