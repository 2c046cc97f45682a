"""Tables 1 and 2: end-to-end success by platform, with tools and without, Instruct against Thinking.

Two policies learn from the same tasks and seeds, half of the demonstrations by GUI alone and half with the apps' tools:
one answers at once (Instruct), one thinks first. Each is measured with tools on offer and without.
"""

from __future__ import annotations

from experiments import table
from experiments.bench import ROOM
from experiments.lab import Lab
from experiments.parts import FAMILIES, by_pair, measured, sft_config, steps, success
from experiments.table import Arm, Column, Outcome, Published, Sizes
from gui_rl.learn.sft import SFTConfig
from gui_rl.scale.compile import CompileOptions

LONGEST = 2
"""Sub-tasks of a task: with one alone, tools seldom save anything."""


def trained(thinking: bool, tools: bool) -> Arm:
    """The policy of this form, with tools on offer or without."""

    async def arm(lab: Lab, seed: int, sizes: Sizes) -> Outcome:
        tasks = await lab.tasks("virtual", LONGEST)
        half = max(sizes.demonstrations // 2, 1)
        sources = {
            name: (await lab.collect(tasks, half, seed, tools=offered, thinking=thinking, room=ROOM), 1.0)
            for name, offered in (("tools", True), ("GUI", False))
        }
        policy = await lab.sft(lab.base, sources, sft_config(sizes, seed, steps=2 * sizes.sft_steps))
        return {"records": await measured(lab, policy, tasks, sizes, tools=tools)}

    return arm


TABLE = table.Table(
    name="owl/table1_2",
    title="end to end by platform, with tools and without, Instruct against Thinking",
    source="GUI-Owl-1.5, tables 1 and 2",
    says=(
        "In the paper Thinking is ahead on the browser and on WindowsAgentArena and behind with tools (OSWorld-MCP, "
        "MobileWorld): it is so here where `thinking − instruct` is above 0 on web, and below 0 with tools."
    ),
    equal="demonstrations (tasks and seeds), optimisation steps, turns a step; not the tokens of a response",
    arms={
        "instruct": trained(False, False),
        "instruct, tools": trained(False, True),
        "thinking": trained(True, False),
        "thinking, tools": trained(True, True),
    },
    columns={
        "success": success(), **FAMILIES, "steps": steps(),
        "used a tool": Column(by_pair(value=lambda record: record.tool_calls > 0)),
    },
    differences=[
        ("thinking", "instruct"), ("thinking, tools", "instruct, tools"), ("instruct, tools", "instruct"),
        ("thinking, tools", "thinking"),
    ],
    paper={
        "2B-Instruct": {"OSWorld-Verified": 43.5, "AndroidWorld": 67.9},
        "4B-Instruct": {"OSWorld-Verified": 48.2},
        "8B-Instruct": {
            "OSWorld-Verified": 52.3, "AndroidWorld": 69.0, "OSWorld-MCP": 41.8, "WindowsAgentArena": 31.66,
            "WebArena": 45.7, "VisualWebArena": 39.4, "WebVoyager": 69.9, "Online-Mind2Web": 41.7,
        },
        "8B-Thinking": {
            "OSWorld-Verified": 52.9, "AndroidWorld": 71.6, "OSWorld-MCP": 38.8, "WindowsAgentArena": 35.07,
            "WebArena": 46.7, "VisualWebArena": 40.8, "WebVoyager": 78.1, "Online-Mind2Web": 48.6,
        },
        "32B-Instruct": {
            "OSWorld-Verified": 56.5, "AndroidWorld": 69.8, "OSWorld-MCP": 47.6, "MobileWorld": 46.8,
            "WindowsAgentArena": 44.76,
        },
        "32B-Thinking": {
            "OSWorld-Verified": 56.0, "AndroidWorld": 69.8, "OSWorld-MCP": 43.8, "MobileWorld": 42.8, "WebArena": 48.4,
            "VisualWebArena": 46.6, "WebVoyager": 82.1,
        },
    },
    published=Published(
        settings={"SFT": SFTConfig()},
        ours={"every field of SFT": "the paper states neither steps, batch nor learning rate of its SFT"},
        compiles=[
            CompileOptions(model="qwen3-vl-8b", topology="v5p:4x4x4", task="sft", seq=16384),
            CompileOptions(model="qwen3-vl-32b", topology="v5p:4x4x8", task="sft", seq=16384),
        ],
    ),
)  # fmt: skip
Config, main = table.Config, TABLE.main
