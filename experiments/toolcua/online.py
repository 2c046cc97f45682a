"""ToolCUA's online stage once, with any path reward: what sweeps over lambda and beta run.

gui-rl run toolcua/online --path.tool-weight 0.8 --path.length-weight 0
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from experiments.parts import Single, run_single, steps, success
from experiments.toolcua.policies import CALLS, PATH, TIR, Stages, arm
from gui_rl.learn.toolcua import PathConfig

COLUMNS = {"success": success(), "TIR": TIR, "ACS": steps(), "tool calls": CALLS}


@dataclasses.dataclass(frozen=True)
class Config(Single):
    """As `Single`; path: the reward (lambda is `tool_weight`, beta `length_weight`)."""

    name: str = "toolcua-online"
    path: PathConfig = PATH


def main(config: Config = Config(), resume: bool = False) -> Path:  # noqa: B008 - frozen
    """All three stages, and an evaluation; what is there is not made again, with `resume` or without."""

    async def policy(stages: Stages):
        return await stages.online(await stages.rft(), config.path)

    return run_single(config, arm(policy), COLUMNS)
