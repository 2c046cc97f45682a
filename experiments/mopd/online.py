"""UI-MOPD's second stage once, with any settings of the teaching: what sweeps over the mask's threshold run.

gui-rl run mopd/online --teaching.threshold 0.25
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from experiments.mopd.policies import EXACT, PLATFORM_COLUMNS, Stages, arm
from experiments.parts import Single, run_single, success
from gui_rl.learn.teachers import Teaching


@dataclasses.dataclass(frozen=True)
class Config(Single):
    """As `Single`; teaching: whose `threshold` is tau."""

    name: str = "mopd-online"
    teaching: Teaching = EXACT


def main(config: Config = Config(), resume: bool = False) -> Path:  # noqa: B008 - frozen
    """Teachers, student and an evaluation; what is there is not made again, with `resume` or without."""

    async def strategy(stages: Stages):
        return await stages.taught(config.teaching)

    return run_single(config, arm(strategy), {"success": success(), **PLATFORM_COLUMNS})
