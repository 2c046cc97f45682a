"""ToolCUA, figure 6: the course of online RL, whole, without interleaved data, and without the path reward."""

from __future__ import annotations

import numpy as np

from experiments import table
from experiments.lab import Lab
from experiments.parts import measured, number, steps, success
from experiments.table import Arm, Outcome, Sizes
from experiments.toolcua.policies import (
    CALLS,
    TIR,
    Policy,
    Stages,
    without_interleaved,
    without_path_reward,
)  # fmt: skip
from experiments.toolcua.published import C_3
from gui_rl.report.metrics import read_metrics

COURSE = {
    "success": ("success", True), "TIR": ("tool_invocation_rate", True), "tool calls": ("tool_calls_an_episode", False),
    "steps": ("episode_turns", False), "idle calls": ("tool_calls_rewarded_unchanged", True),
}  # fmt: skip
"""Metrics of the training steps, and whether they are shares. Idle: of the calls that were rewarded, those that changed
no state."""


def course(policy: Policy) -> Arm:
    """Rollouts of the first and of the last third of the training, and the policy at its end."""

    async def run(lab: Lab, seed: int, sizes: Sizes) -> Outcome:
        stages = Stages(lab, seed, sizes)
        made = await policy(stages)
        lines = [line["metrics"] for line in read_metrics(made.folder) if line["stage"] == "rl"]
        third = max(len(lines) // 3, 1)
        found = {
            f"{name}, {which} third": float(np.mean([line.get(metric) or 0.0 for line in part]))
            for name, (metric, _) in COURSE.items()
            for which, part in (("first", lines[:third]), ("last", lines[-third:]))
        }
        return {"records": await measured(lab, made, await stages.tasks(), sizes, tools=True), **found}

    return run


TABLE = table.Table(
    name="toolcua/figure6",
    title="The course of online RL, and what it needs",
    source="ToolCUA (2605.12481), figure 6",
    says=(
        "The paper: without interleaved data tools stay unused; without the path reward accuracy ends about 7 points "
        "lower, and neither TIR nor length improve steadily. Ours: the differences of ToolCUA and either arm at the "
        "end, and the rollouts of the first and last third of the training."
    ),
    equal="episodes and updates of online RL",
    arms={
        "ToolCUA": course(Stages.toolcua),
        "without interleaved data": course(without_interleaved),
        "without the path reward": course(without_path_reward),
    },
    columns={
        "success": success(), "TIR": TIR, "tool calls": CALLS, "ACS": steps(),
        **{f"{name}, {which} third": number(f"{name}, {which} third", share)
           for name, (_, share) in COURSE.items() for which in ("first", "last")},
    },
    differences=(("ToolCUA", "without interleaved data"), ("ToolCUA", "without the path reward")),
    paper={
        "ToolCUA": {"success": 46.85, "TIR": 24.32, "tool calls": 0.74, "ACS": 14.93},
        "without interleaved data": {"success": "about 40", "TIR": "about 15", "tool calls": "near 0"},
        "without the path reward": {"success": "about 7 points lower"},
    },
    published=C_3,
)  # fmt: skip
Config, main = table.Config, TABLE.main
