"""ToolCUA, table 1: what policies make of tools that are put on offer: too much, too little, or what helps."""

from __future__ import annotations

from experiments import table
from experiments.estimate import Combined
from experiments.parts import steps, success
from experiments.toolcua.policies import CALLS, POLICIES, arm
from experiments.toolcua.published import C_3


def change(hybrid: float, gui: float) -> float:
    """What tools on offer add."""
    return hybrid - gui


TABLE = table.Table(
    name="toolcua/table1",
    title="GUI alone against GUI and tools",
    source="ToolCUA (2605.12481), table 1",
    says=(
        "The paper: tools on offer make policies worse that were not taught when to use them, by under- or overuse, "
        "and ToolCUA better, with few calls. Ours: the column `change` of each policy."
    ),
    equal=(
        "tasks and seeds with tools and without; ToolCUA and `GUI SFT + RL`: SFT steps, and episodes and updates of "
        "online RL"
    ),
    arms={name: arm(policy, gui=True) for name, policy in POLICIES.items()},
    columns={
        "GUI": success(records="gui"),
        "GUI + tools": success(),
        "change": Combined(change, ("GUI + tools", "GUI")),
        "tool calls": CALLS,
        "steps, GUI": steps("gui"),
        "steps, GUI + tools": steps(),
    },
    differences=(("ToolCUA", "base"), ("ToolCUA", "RFT"), ("ToolCUA", "GUI SFT + RL")),
    paper={
        "Qwen3-VL-8B-Instruct": {"GUI": 29.03, "GUI + tools": 28.23, "steps, GUI + tools": 19.34},
        "Qwen3-VL-235B-A22B": {"GUI": 41.1, "GUI + tools": 38.1, "tool calls": 6.10},
        "EvoCUA-32B": {"change": -12.0, "tool calls": 7.49},
        "Claude-4.5-Sonnet": {"GUI": 61.9, "GUI + tools": 48.4, "change": -13.5},
        "ToolCUA-8B": {
            "GUI": 42.9, "GUI + tools": 46.8, "change": 3.9, "tool calls": 0.74, "steps, GUI": 19.4,
            "steps, GUI + tools": 14.9,
        },
    },
    published=C_3,
)  # fmt: skip
Config, main = table.Config, TABLE.main
