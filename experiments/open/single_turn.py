"""Single-turn RL by itself: does it help, and do the steps at which GUI and tools meet matter for it?

ToolCUA's ablation takes fine-tuning on interleaved data and single-turn RL away together.
"""

from __future__ import annotations

from experiments import table
from experiments.lab import Made
from experiments.parts import steps, success
from experiments.toolcua.policies import CALLS, TIR, Stages, arm, of_benefit


async def critical_steps(stages: Stages) -> Made:
    """Single-turn RL where GUI and tools meet."""
    return await stages.single_turn(await stages.switching())


async def random_steps(stages: Stages) -> Made:
    """Single-turn RL on as many steps drawn at random."""
    return await stages.single_turn(await stages.elsewhere())


async def without(stages: Stages) -> Made:
    """Online RL right after fine-tuning."""
    return await stages.online(await stages.warm())


TABLE = table.Table(
    name="open/single_turn",
    title="Single-turn RL: without it, on critical steps, on random steps",
    source="ToolCUA (2605.12481), section 2.3, which does not ablate it",
    says=(
        "If single-turn RL is worth its while, `critical steps` is above `warm-up SFT`; if critical steps are the "
        "reason, also above `random steps`; and if online RL does not make up for it, ToolCUA is above the last arm."
    ),
    equal="updates, groups and responses of single-turn RL; the last two arms: episodes and updates of online RL",
    arms={
        "warm-up SFT": arm(Stages.warm),
        "critical steps": arm(critical_steps),
        "random steps": arm(random_steps),
        "ToolCUA": arm(Stages.toolcua),
        "online RL without it": arm(without),
    },
    columns={
        "success": success(), "tools help": of_benefit(1), "tools do not help": of_benefit(-1), "TIR": TIR,
        "ACS": steps(), "tool calls": CALLS,
    },
    differences=(
        ("critical steps", "warm-up SFT"), ("critical steps", "random steps"), ("ToolCUA", "online RL without it"),
    ),
)  # fmt: skip
Config, main = table.Config, TABLE.main
