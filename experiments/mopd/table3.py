"""UI-MOPD, table 3: what is left of what the policy could before.

AndroidControl's place takes the agreement on stored steps, that of the grounding sets the base's own skills, and beside
them stands success on a third family, which the student was shown and stage 2 does not play.
"""

from __future__ import annotations

from experiments import table
from experiments.estimate import Values
from experiments.lab import Lab
from experiments.mopd import static
from experiments.mopd.policies import REFERENCES, STRATEGIES, STUDENT, Stages, Strategy
from experiments.mopd.published import TABLE_6
from experiments.parts import measured, number, success
from experiments.table import Arm, Column, Outcome, Sizes

KEPT = ("mixed SFT", "mixed RL", "TIES", "unified teacher", "UI-MOPD")


def retained(strategy: Strategy) -> Arm:
    """What a strategy's policy can on the family left out, on stored steps, and of the base's skills."""

    async def run(lab: Lab, seed: int, sizes: Sizes) -> Outcome:
        stages = Stages(lab, seed, sizes)
        policy = await strategy(stages)
        every = await stages.tasks("mobile", "desktop", "web")
        skills = await static.skills(lab, policy, max(sizes.evaluation // 3, 1))
        return {
            "records": await measured(lab, policy, await stages.tasks("web"), sizes),
            "steps": await static.steps(lab, policy, every, max(sizes.evaluation // 2, 1)),
            "naming": skills["app_name"], "pointing": skills["app_digit1"],
        }  # fmt: skip

    return run


def steps_on(device: str) -> Column:
    """Agreement on the stored steps of a device."""

    def of(outcome: Outcome) -> Values:
        return {name: score for name, score in outcome["steps"].items() if name.startswith(device)}

    return Column(of)


TABLE = table.Table(
    name="mopd/table3",
    title="What stage 2 leaves of what the policy could before",
    source="UI-MOPD (2607.04425), table 3",
    says=(
        "The paper: UI-MOPD keeps static understanding and grounding within 0.6 points of the base or improves them, "
        "while mixed SFT and merging lose more. Ours: the differences to the student before stage 2."
    ),
    equal="as in mopd/table1",
    arms={name: retained({**REFERENCES, **STRATEGIES}[name]) for name in (STUDENT, *KEPT)},
    columns={
        "web, not played": success("web"),
        **{f"stored steps, {device}": steps_on(device) for device in ("desktop", "mobile", "web")},
        "naming": number("naming", percent=True),
        "pointing": number("pointing", percent=True),
    },
    differences=tuple((name, STUDENT) for name in KEPT),
    paper={
        "Qwen3-VL-8B-Thinking": {"AndroidControl*": 78.73, "OSWorld-G": 52.13},
        "UI-MOPD": {
            "AndroidControl*": 80.05, "OSWorld-G": 52.84, "ScreenSpot-Pro": "within 0.6", "ScreenSpot-V2": "within 0.6"
        },
    },
    published=TABLE_6,
)  # fmt: skip
Config, main = table.Config, TABLE.main
