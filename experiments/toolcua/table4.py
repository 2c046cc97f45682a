"""ToolCUA, table 4: a family that no stage with tools has seen, whose tools are others.

The paper transfers from Linux to Windows and lists the base and the end alone; the stages between, and the arm without
tools, say where a gain comes from.
"""

from __future__ import annotations

from experiments import table
from experiments.parts import steps, success
from experiments.toolcua.policies import CALLS, HELD_OUT, POLICIES, TIR, arm, of_benefit
from experiments.toolcua.published import C_3

TABLE = table.Table(
    name="toolcua/table4",
    title="Transfer to a family held out",
    source="ToolCUA (2605.12481), table 4 and section 3.2",
    says=(
        "The paper: what was learnt about tools carries over to a platform and to tasks of several applications that "
        "were held out. Ours: the differences on the family that only the base was shown, by GUI."
    ),
    equal="tasks and seeds",
    arms={name: arm(policy, (HELD_OUT,)) for name, policy in POLICIES.items()},
    columns={
        "success": success(), "tools help": of_benefit(1), "tools do not help": of_benefit(-1), "TIR": TIR,
        "ACS": steps(), "tool calls": CALLS,
    },
    differences=(("ToolCUA", "base"), ("ToolCUA", "RFT"), ("ToolCUA", "GUI SFT + RL")),
    paper={
        "Qwen3-VL-8B-Instruct": {"WindowsAgentArena": 26.4, "multi_apps": 9.8},
        "Qwen3-VL-32B-Instruct": {"WindowsAgentArena": 30.9},
        "Qwen3-VL-235B-A22B": {"WindowsAgentArena": 32.1},
        "RFT": {"multi_apps": 18.5},
        "ToolCUA-8B": {"WindowsAgentArena": 33.8, "multi_apps": 23.9},
    },
    published=C_3,
)  # fmt: skip
Config, main = table.Config, TABLE.main
