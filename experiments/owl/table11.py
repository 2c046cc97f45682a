"""Table 11: with and without data from virtual worlds.

What the policy is asked are tasks of the virtual worlds, as the paper's PC-Eval and Mobile-Eval are made for what its
virtual environments teach. Without them it has demonstrations of MiniWoB++ pages, which are no worlds of ours; with
them, half of the turns are of each.
"""

from __future__ import annotations

from experiments import table
from experiments.lab import Lab
from experiments.parts import FAMILIES, measured, sft_config, short_tasks, success
from experiments.table import Arm, Outcome, Published, Sizes
from gui_rl.learn.sft import SFTConfig
from gui_rl.scale.compile import CompileOptions

ELSEWHERE = "miniwob25"


def learnt(virtual: bool) -> Arm:
    """SFT with or without the demonstrations of the virtual worlds."""

    async def arm(lab: Lab, seed: int, sizes: Sizes) -> Outcome:
        tasks = await short_tasks(lab, sizes)
        pages = await lab.tasks(ELSEWHERE, scripted=True)
        sources = {"elsewhere": (await lab.collect(pages, sizes.demonstrations, seed), 1.0)}
        if virtual:
            sources["virtual"] = (await lab.collect(tasks, sizes.demonstrations, seed), 1.0)
        policy = await lab.sft(lab.base, sources, sft_config(sizes, seed))
        return {
            "records": await measured(lab, policy, tasks, sizes),
            "elsewhere": await measured(lab, policy, pages, sizes),
        }

    return arm


TABLE = table.Table(
    name="owl/table11",
    title="data from virtual worlds",
    source="GUI-Owl-1.5, table 11",
    says=(
        "The paper loses 33.4 points on PC-Eval and 36.7 on Mobile-Eval without virtual environments: it is confirmed "
        "where `with − without` is above 0. `MiniWoB++` shows what the other data loses by sharing the steps."
    ),
    equal="optimisation steps and turns a step",
    arms={"with virtual worlds": learnt(True), "without virtual worlds": learnt(False)},
    columns={"virtual": success(), **FAMILIES, "MiniWoB++": success(records="elsewhere")},
    differences=[("with virtual worlds", "without virtual worlds")],
    paper={
        "GUI-Owl-1.5": {"PC-Eval": 75.4, "Mobile-Eval": 86.7},
        "without virtual environments": {"PC-Eval": 42.0, "Mobile-Eval": 50.0},
    },
    published=Published(
        settings={"SFT": SFTConfig()},
        ours={"every field of SFT": "the paper states neither steps, batch nor learning rate of its SFT"},
        compiles=[CompileOptions(model="qwen3-vl-8b", topology="v5p:4x4x4", task="sft", seq=16384)],
    ),
)  # fmt: skip
Config, main = table.Config, TABLE.main
