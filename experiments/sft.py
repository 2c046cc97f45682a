"""Supervised training on stored or made data: fine-tuning on trajectories (GUI-Owl-1.5, section 2.4.2).

    gui-rl run sft --start runs/pretrain/policy            demonstrations from the virtual worlds, by GUI and with tools
    gui-rl run sft --data mine data/mine --weights mine 2  any datasets, by name

In: datasets by name (`gui-rl flywheel` makes them), or none: then a recipe makes them in the virtual worlds. Out:
runs/NAME/policy and metrics.jsonl, beside the stages they come from. A run that was stopped goes on where it was.
`experiments.pretrain` is the same training with another recipe.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from experiments.bench import BASE, Made, policy_form
from experiments.lab import Lab
from gui_rl.errors import UserError
from gui_rl.learn.sft import SFTConfig
from gui_rl.report.manifest import as_json, write_manifest


@dataclasses.dataclass(frozen=True)
class Config:
    """A stage of supervised training.

    Attributes:
      name: of the run's folder below `runs`.
      start: folder of the policy to start from.
      data: datasets by name; made in the virtual worlds where none is named.
      weights: of the datasets in the mixture, by name; 1 where not named.
      episodes: scripted episodes a family that data is made from here.
      screens: synthesised pages for grounding that are made here.
      longest: subtasks of a task at most, of what is made here.
      train: settings of the training.
      seed: of what is made here.
    """

    name: str = "sft"
    start: Path = BASE
    data: dict[str, Path] = dataclasses.field(default_factory=dict)
    weights: dict[str, float] = dataclasses.field(default_factory=dict)
    episodes: int = 60
    screens: int = 60
    longest: int = 2
    train: SFTConfig = SFTConfig()
    seed: int = 0


Recipe = Callable[[Lab, Config], Awaitable[Mapping[str, Made]]]
"""Makes datasets by name; the first has the form of the policy's prompts."""


async def recipe(lab: Lab, config: Config) -> Mapping[str, Made]:
    """Scripted demonstrations, with tools and without, in the form with room for tools."""
    tasks = await lab.tasks("virtual", config.longest)
    offered = {"tools": True, "GUI": False}
    return {
        name: await lab.collect(tasks, config.episodes, config.seed, tools=tools) for name, tools in offered.items()
    }


def main(config: Config = Config(), resume: bool = False) -> Path:  # noqa: B008 - frozen
    """Runs it; a run that was stopped goes on where it was, with `resume` or without."""
    return run(config, recipe)


def run(config: Config, recipe: Recipe) -> Path:
    """Trains; returns the policy's folder. Raises UserError for a dataset that is not there, or a run of other
    settings."""
    folder = Path("runs") / config.name
    kept = folder / "config.json"
    if kept.is_file() and json.loads(kept.read_text()) != as_json(config):
        raise UserError(f"{kept} holds other settings: run with those, choose another --name, or remove the run")
    write_manifest(folder, config, {"data": config.seed, "order": config.train.seed})

    async def train() -> Made:
        async with Lab(folder / "stages", config.start) as lab:
            if config.data:
                form = policy_form(lab.base)
                made: Mapping[str, Made] = {name: await lab.given(path, form) for name, path in config.data.items()}
            else:
                made = await recipe(lab, config)
            if unknown := sorted(set(config.weights) - set(made)):
                raise UserError(f"--weights: no dataset is called {', '.join(unknown)}: there are {', '.join(made)}")
            sources = {name: (data, config.weights.get(name, 1.0)) for name, data in made.items()}
            return await lab.sft(lab.base, sources, config.train)

    stage = asyncio.run(train())
    for name in ("policy", "metrics.jsonl"):
        _link(folder / name, stage.folder / name)
    print(folder / "policy")
    return folder / "policy"


def _link(path: Path, target: Path) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.unlink(missing_ok=True)
    partial.symlink_to(os.path.relpath(target, path.parent), target_is_directory=target.is_dir())
    os.replace(partial, path)
