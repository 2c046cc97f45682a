"""ToolCUA, table 3: training by GUI alone against training with tools, stage by stage."""

from __future__ import annotations

from experiments import table
from experiments.parts import steps, success
from experiments.toolcua.policies import POLICIES, TIR, arm
from experiments.toolcua.published import C_3

GUI = ("base", "GUI SFT", "GUI SFT + RL")
HYBRID = ("base", "warm-up SFT", "RFT", "ToolCUA")
TABLE = table.Table(
    name="toolcua/table3",
    title="Pure GUI against hybrid training, by stage",
    source="ToolCUA (2605.12481), table 3",
    says=(
        "The paper: the hybrid pipeline ends higher than that of GUI alone with the same data, and loses nothing by "
        "GUI alone. Ours: `tools: ToolCUA` minus `GUI: GUI SFT + RL`, and `GUI: ToolCUA` minus the same."
    ),
    equal="SFT steps, and episodes and updates of online RL; the hybrid arm has single-turn RL besides",
    arms={
        **{f"GUI: {name}": arm(POLICIES[name], tools=False) for name in (*GUI, "ToolCUA")},
        **{f"tools: {name}": arm(POLICIES[name]) for name in HYBRID},
    },
    columns={"success": success(), "TIR": TIR, "ACS": steps()},
    differences=(
        ("tools: ToolCUA", "GUI: GUI SFT + RL"), ("GUI: ToolCUA", "GUI: GUI SFT + RL"), ("tools: RFT", "GUI: GUI SFT"),
    ),
    paper={
        "GUI: Qwen3-VL-8B-Instruct": {"success": 29.03},
        "GUI: SFT": {"success": 34.93},
        "GUI: SFT + agentic RL": {"success": 42.05},
        "GUI: ToolCUA": {"success": 42.9},
        "tools: Qwen3-VL-8B-Instruct": {"success": 28.23},
        "tools: RFT": {"success": 38.13},
        "tools: ToolCUA": {"success": 46.85},
    },
    published=C_3,
)  # fmt: skip
Config, main = table.Config, TABLE.main
