"""ToolCUA, table 2: success by whether tools help on the task, how fitting their use is, and how long it takes."""

from __future__ import annotations

from experiments import table
from experiments.parts import steps, success
from experiments.toolcua.policies import CALLS, POLICIES, TIR, arm, of_benefit
from experiments.toolcua.published import C_3

TABLE = table.Table(
    name="toolcua/table2",
    title="Success by benefit of tools, TIR and ACS",
    source="ToolCUA (2605.12481), table 2",
    says=(
        "The paper: ToolCUA gains on tasks where tools help and where they do not, TIR rises and ACS falls. Ours: the "
        "differences of ToolCUA and the base, and of ToolCUA and RFT."
    ),
    equal="tasks and seeds",
    arms={name: arm(POLICIES[name]) for name in ("base", "warm-up SFT", "RFT", "ToolCUA")},
    columns={
        "success": success(), "tools help": of_benefit(1), "tools do not help": of_benefit(-1), "TIR": TIR,
        "ACS": steps(), "tool calls": CALLS,
    },
    differences=(("ToolCUA", "base"), ("ToolCUA", "RFT"), ("RFT", "warm-up SFT")),
    paper={
        "Qwen3-VL-8B-Instruct": {
            "success": 28.23, "tools help": 27.73, "tools do not help": 29.47, "TIR": 8.41, "ACS": 19.34,
        },
        "GUI-Owl-1.5-8B": {"success": 43.84, "ACS": 21.19},
        "EvoCUA-8B": {"success": 35.74},
        "EvoCUA-32B": {"success": 40.54, "tools help": 37.82, "tools do not help": 47.37},
        "Gemini-3.1-Pro": {"success": 41.14},
        "Claude-4-Sonnet": {"success": 43.54},
        "Claude-4.5-Sonnet": {"success": 48.35, "tools help": 50.00, "TIR": 40.24},
        "ToolCUA-8B": {
            "success": 46.85, "tools help": 45.80, "tools do not help": 49.47, "TIR": 24.32, "ACS": 14.93,
            "tool calls": 0.74,
        },
    },
    published=C_3,
)  # fmt: skip
Config, main = table.Config, TABLE.main
