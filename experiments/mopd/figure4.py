"""UI-MOPD, figure 4: where a teacher's correction of the student is useful, and where it is harmful."""

from __future__ import annotations

from experiments import table
from experiments.lab import Lab
from experiments.mopd.corrections import corrections, rates
from experiments.mopd.policies import EXACT, PLATFORMS, Stages
from experiments.mopd.published import TABLE_6
from experiments.parts import number
from experiments.table import Arm, Outcome, Sizes

GROUP = 4
"""Episodes of a group, whose mean says whether the mask would let the teacher speak."""
PLACES = {
    "desktop states": lambda state: state["device"] == "desktop",
    "mobile states": lambda state: state["device"] == "mobile",
    "low-reward groups": lambda state: state["mean"] <= EXACT.threshold,
    "high-reward groups": lambda state: state["mean"] > EXACT.threshold,
}


def teacher(name: str) -> Arm:
    """Its disagreements with the student before stage 2, by place."""

    async def run(lab: Lab, seed: int, sizes: Sizes) -> Outcome:
        stages = Stages(lab, seed, sizes)
        groups = max(sizes.evaluation // 2, 1)
        states = await corrections(
            lab, await stages.student(), await stages.specialists(), await stages.tasks(), groups, GROUP
        )
        found = {}
        for place, there in PLACES.items():
            mine = [state for state in states if there(state)]
            found |= {f"{kind}, {place}": share for kind, share in rates(mine, name).items()}
        return {**found, "states": len(states)}

    return run


TABLE = table.Table(
    name="mopd/figure4",
    title="Corrections by teachers, of all disagreements on states that the student visits",
    source="UI-MOPD (2607.04425), figure 4",
    says=(
        "The paper: (a) each teacher corrects most usefully on its own platform; (b) the routed teacher's corrections "
        "are more useful than harmful in low-reward groups, and less so in the others. Ours: (a) the difference of the "
        "teachers on either platform; (b) the row `routed`, useful against harmful. Low: a mean success of at most 0.5."
    ),
    equal="the states, which are the student's",
    arms={**{f"{name} teacher": teacher(name) for name in PLATFORMS}, "routed": teacher("routed")},
    columns={
        **{name: number(name, percent=True)
           for name in (f"{kind}, {place}" for place in PLACES for kind in ("useful", "harmful"))},
        "states": number("states"),
    },
    differences=(("desktop teacher", "mobile teacher"),),
    published=TABLE_6,
)  # fmt: skip
Config, main = table.Config, TABLE.main
