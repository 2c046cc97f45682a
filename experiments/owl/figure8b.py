"""Figure 8b: device families in turn, all at once, and all at once with conflicting gradients projected.

Every arm starts from the same SFT policy and plays equally many episodes a step. `experiments.open.interference` shows
the cosines between the families' gradients layer by layer; here they are those of the whole gradient, at the policy
that each arm ends with.
"""

from __future__ import annotations

from experiments import table
from experiments.gradients import cosines
from experiments.lab import Lab
from experiments.parts import FAMILIES, MRPO_OURS, measured, number, rl_config, short_tasks, started, success
from experiments.table import Arm, Outcome, Published, Sizes
from gui_rl.learn.online import MRPOConfig
from gui_rl.learn.schedule import PhaseMode
from gui_rl.scale.compile import CompileOptions


def trained(phases: PhaseMode) -> Arm:
    """MRPO with these device phases."""

    async def arm(lab: Lab, seed: int, sizes: Sizes) -> Outcome:
        tasks, start = await short_tasks(lab, sizes), await started(lab, seed, sizes)
        policy = await lab.mrpo(start, tasks, rl_config(sizes, seed, phases=phases))
        found = (await cosines(lab, policy, tasks, sizes, seed)).numbers
        return {
            "records": await measured(lab, policy, tasks, sizes), "turns": policy.numbers["turns"],
            "across": found["all across"], "within": found["all within"],
        }  # fmt: skip

    return arm


async def start(lab: Lab, seed: int, sizes: Sizes) -> Outcome:
    """The SFT policy that the others start from."""
    tasks, policy = await short_tasks(lab, sizes), await started(lab, seed, sizes)
    found = (await cosines(lab, policy, tasks, sizes, seed)).numbers
    return {
        "records": await measured(lab, policy, tasks, sizes), "turns": 0.0,
        "across": found["all across"], "within": found["all within"],
    }  # fmt: skip


TABLE = table.Table(
    name="owl/figure8b",
    title="device families in turn, mixed, and mixed with conflicting gradients projected",
    source="GUI-Owl-1.5, figure 8b",
    says=(
        "The paper trains on one device family a stage and calls mixed training unstable: it is confirmed where "
        "`alternating − mixed` is above 0 in the mean of the families. `cosine across` below 0 says that families "
        "undo each other's steps; `cosine within` is what noise leaves of a perfect cosine."
    ),
    equal="optimisation steps, and episodes a step (environment steps are listed)",
    arms={
        "SFT": start,
        "alternating": trained("cycle"),
        "mixed": trained("mix"),
        "mixed, projected": trained("project"),
    },
    columns={
        "success": success(), **FAMILIES, "cosine across": number("across"), "cosine within": number("within"),
        "environment steps": number("turns"),
    },
    differences=[("alternating", "mixed"), ("mixed, projected", "mixed"), ("alternating", "SFT"), ("mixed", "SFT")],
    published=Published(
        settings={"MRPO": MRPOConfig(steps=30, phases="curriculum", stage_steps=10)},
        ours=MRPO_OURS,
        compiles=[CompileOptions(model="qwen3-vl-8b", topology="v5p:4x4x4", task="rl", seq=16384)],
    ),
)  # fmt: skip
Config, main = table.Config, TABLE.main
