"""UI-MOPD, figure 3: how far each strategy moves the student on either platform."""

from __future__ import annotations

from experiments import table
from experiments.estimate import Combined
from experiments.mopd.policies import PLATFORM_COLUMNS, PLATFORMS, REFERENCES, STRATEGIES, STUDENT, arm
from experiments.mopd.published import TABLE_6


def gain(mine: float, before: float) -> float:
    """Difference of two success rates."""
    return mine - before


TABLE = table.Table(
    name="mopd/figure3",
    title="Gains on one platform against the other",
    source="UI-MOPD (2607.04425), figure 3",
    says=(
        "The paper: a teacher of one platform moves the student along that platform, and UI-MOPD along both. Ours: the "
        "gain on its own platform of each single-platform OPD minus the other's there."
    ),
    equal="as in mopd/table1",
    arms={name: arm(strategy) for name, strategy in {STUDENT: REFERENCES[STUDENT], **STRATEGIES}.items()},
    columns=PLATFORM_COLUMNS | {f"{name} gain": Combined(gain, (name, (STUDENT, name))) for name in PLATFORMS},
    differences=(("desktop-only OPD", "mobile-only OPD"), ("UI-MOPD", "mixed RL")),
    paper={"UI-MOPD": {"OSWorld gain": 4.3, "MobileWorld gain": 4.3}},
    published=TABLE_6,
)
Config, main = table.Config, TABLE.main
