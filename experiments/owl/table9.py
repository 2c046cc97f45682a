"""Table 9: memory, on tasks whose values are out of sight when they are needed.

One policy that acts at once, one that thinks and notes, and one that acts in four roles, with a Notetaker
(`rollout.roles`); all of them learn from demonstrations of the same tasks and seeds.
"""

from __future__ import annotations

from experiments import table
from experiments.owl.table10 import remembering
from experiments.parts import FAMILIES, by_pair, steps, success
from experiments.table import Column

TABLE = table.Table(
    name="owl/table9",
    title="memory",
    source="GUI-Owl-1.5, table 9 (MemGUI-Bench, easy)",
    says=(
        "The paper's native agents reach 22.9 and 27.1 % where those before them reach at most 18.8 %, and credits the "
        "memory in its chains of thought: here that is `thinking − acting at once`; notes by a role of its own are "
        "`roles − acting at once`."
    ),
    equal="demonstrations (tasks and seeds), optimisation steps, room of the prompt; a step in roles has four answers",
    arms={"acting at once": remembering(), "thinking": remembering(thinking=True), "roles": remembering(roles=True)},
    columns={
        "success": success(), **FAMILIES,
        "progress": Column(by_pair(value=lambda record: record.progress / record.length)), "steps": steps(),
    },
    differences=[("thinking", "acting at once"), ("roles", "acting at once")],
    paper={
        "GUI-Owl-1.5-8B": {"MemGUI easy": 22.9},
        "GUI-Owl-1.5-32B": {"MemGUI easy": 27.1},
        "Qwen3-VL-8B-Instruct": {"MemGUI easy": 18.8},
        "Agent-S2 (Gemini-2.5-Pro)": {"MemGUI easy": 41.7},
    },
)  # fmt: skip
Config, main = table.Config, TABLE.main
