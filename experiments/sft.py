"""Supervised fine-tuning on trajectories, by GUI alone and with tools (GUI-Owl-1.5, section 2.4.2).

gui-rl run sft --start runs/pretrain/policy            demonstrations from the virtual worlds
gui-rl run sft --data mine data/mine --weights mine 2  any datasets, by name
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from experiments import supervised
from experiments.bench import Made
from experiments.lab import Lab


@dataclasses.dataclass(frozen=True)
class Config(supervised.Config):
    __doc__ = supervised.Config.__doc__
    name: str = "sft"


async def recipe(lab: Lab, config: supervised.Config) -> Mapping[str, Made]:
    """Scripted demonstrations, with tools and without, in the form with room for tools."""
    tasks = await lab.tasks("virtual", config.longest)
    offered = {"tools": True, "GUI": False}
    return {
        name: await lab.collect(tasks, config.episodes, config.seed, tools=tools) for name, tools in offered.items()
    }


def main(config: Config = Config(), resume: bool = False) -> Path:  # noqa: B008 - frozen
    """Runs it; a run that was stopped goes on where it was, with `resume` or without."""
    return supervised.run(config, recipe)
