"""Lambda and beta of the path reward: how sensitive is the policy to them?"""

from __future__ import annotations

import dataclasses

from experiments import table
from experiments.lab import Made
from experiments.parts import steps, success
from experiments.toolcua.policies import CALLS, PATH, TIR, Policy, Stages, arm

WEIGHTS = ((0.0, 0.0), (0.4, 0.0), (0.0, 0.2), (0.4, 0.2), (1.0, 0.5))
"""(lambda, beta): each of the paper's by itself, both, none, and both two and a half times as large."""


def weighed(tool: float, length: float) -> Policy:
    """ToolCUA with these weights of R_tool and R_length."""

    async def policy(stages: Stages) -> Made:
        path = dataclasses.replace(PATH, tool_weight=tool, length_weight=length)
        return await stages.online(await stages.rft(), path)

    return policy


ARMS = {f"λ {tool:g}, β {length:g}": arm(weighed(tool, length)) for tool, length in WEIGHTS}
TABLE = table.Table(
    name="open/path_weights",
    title="Weights of the path reward",
    source="ToolCUA (2605.12481), section 2.4, which has one pair",
    says=(
        "The paper takes λ 0.4 and β 0.2 and compares with none of both. If R_tool does its work, TIR rises along λ; "
        "if R_length does, ACS falls along β; a success that falls along either says that shaping has its price."
    ),
    equal="episodes and updates of online RL",
    arms=ARMS,
    columns={"success": success(), "TIR": TIR, "ACS": steps(), "tool calls": CALLS},
    differences=tuple((name, "λ 0, β 0") for name in ARMS if name != "λ 0, β 0"),
)
Config, main = table.Config, TABLE.main
