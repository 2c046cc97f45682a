"""Table 10: with and without the synthesis of unified chains of thought, on tasks that need memory.

Both arms learn from demonstrations of the same tasks and seeds. With synthesis, every step has an exact thought in few
words, and what a later step needs is noted in the conclusion, which the history keeps (`flywheel.thoughts`); without,
the conclusion says the action alone.
"""

from __future__ import annotations

from experiments import table
from experiments.bench import ROOM
from experiments.lab import Lab
from experiments.parts import FAMILIES, by_pair, demonstrated, measured, memory_tasks, success
from experiments.table import Arm, Column, Outcome, Published, Sizes
from gui_rl.learn.sft import SFTConfig
from gui_rl.scale.compile import CompileOptions

MORE = (2, 3)
"""Times the usual demonstrations and steps of SFT: these tasks take seven steps and more."""


def remembering(thinking: bool = False, roles: bool = False) -> Arm:
    """SFT on demonstrations of memory tasks in this form; it acts as it learnt to."""

    async def arm(lab: Lab, seed: int, sizes: Sizes) -> Outcome:
        tasks = await memory_tasks(lab)
        policy = await demonstrated(lab, seed, sizes, tasks, more=MORE, thinking=thinking, roles=roles, room=ROOM)
        return {"records": await measured(lab, policy, tasks, sizes, **({"roles": True} if roles else {}))}

    return arm


TABLE = table.Table(
    name="owl/table10",
    title="unified chain-of-thought synthesis",
    source="GUI-Owl-1.5, table 10",
    says=(
        "The paper loses 5.5 points on OSWorld and 6.6 on AndroidWorld without the synthesis: it is confirmed where "
        "`with − without` is above 0 on tasks whose values are out of sight when they are needed."
    ),
    equal="demonstrations (tasks and seeds), optimisation steps, room of the prompt; not the tokens of a response",
    arms={"with CoT": remembering(thinking=True), "without CoT": remembering()},
    columns={
        "memory": success(), **{f"memory, {name}": column for name, column in FAMILIES.items()},
        "progress": Column(by_pair(value=lambda record: record.progress / record.length)),
    },
    differences=[("with CoT", "without CoT")],
    paper={
        "GUI-Owl-1.5-8B-Thinking": {"OSWorld-Verified": 52.9, "AndroidWorld": 71.6},
        "without CoT synthesis": {"OSWorld-Verified": 47.4, "AndroidWorld": 65.0},
    },
    published=Published(
        settings={"SFT": SFTConfig()},
        ours={"every field of SFT": "the paper states neither steps, batch nor learning rate of its SFT"},
        compiles=[CompileOptions(model="qwen3-vl-8b", topology="v5p:4x4x4", task="sft", seq=16384)],
    ),
)  # fmt: skip
Config, main = table.Config, TABLE.main
