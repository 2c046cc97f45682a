"""Pre-training on GUI knowledge: questions, world modelling, tools and grounding (GUI-Owl-1.5, section 2.4.1).

    gui-rl run pretrain                                    made in the virtual worlds, from the shipped base
    gui-rl run pretrain --data qa data/qa web data/web     any datasets, by name

Here the questions about screens are exact (`experiments.knowledge`); questions from documentation need a model that
writes them: `gui-rl flywheel knowledge --documents`, then `--data`. How the shipped base itself was made, from nothing,
is `experiments.base`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from experiments import sft
from experiments.bench import Made
from experiments.grounding import grounding_data
from experiments.knowledge import CATEGORIES, WORLD, knowledge
from experiments.lab import Lab


@dataclasses.dataclass(frozen=True)
class Config(sft.Config):  # noqa: D101 - the parent's
    __doc__ = sft.Config.__doc__
    name: str = "pretrain"


async def recipe(lab: Lab, config: sft.Config) -> Mapping[str, Made]:
    """Tool trajectories, questions, world modelling and grounding, in the form with room for tools."""
    tasks = await lab.tasks("virtual", config.longest)
    trajectories = await lab.collect(tasks, config.episodes, config.seed)
    return {
        "tools": await lab.collect(tasks, config.episodes, config.seed, tools=True),
        "questions": await knowledge(lab, trajectories, CATEGORIES),
        "world": await knowledge(lab, trajectories, (WORLD,)),
        "grounding": await grounding_data(lab, config.screens, config.seed),
    }


def main(config: Config = Config(), resume: bool = False) -> Path:  # noqa: B008 - frozen
    """Runs it; a run that was stopped goes on where it was, with `resume` or without."""
    return sft.run(config, recipe)
