"""What failed trajectories are worth: as they are, thrown away, cut at their last checkpoint, or cut and repaired.

The SFT policy, which has seen tasks of one sub-task alone, plays tasks of two. From what it played four datasets are
made, and the same policy is fine-tuned on each: every trajectory as it is (`raw`); the solved ones (`solved`); these
and the unsolved ones, cut where their last checkpoint held (`cut`, section 2.2.2); and these with what remained played
again by the policy (`repaired`). The paper describes truncation and repair and has no ablation of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from env_servers.suites import instantiate
from experiments import table
from experiments.bench import Made, Tasks, policy_form
from experiments.lab import SEEDS_A_RUN, Lab, listed
from experiments.parts import FAMILIES, by_pair, measured, number, sft_config, started, success
from experiments.table import Arm, Column, Outcome, Sizes
from experiments.trainer import RL_SEEDS
from gui_rl.data.schema import Episode
from gui_rl.flywheel.collect import CollectConfig, collect
from gui_rl.flywheel.tasks import MadeTask

Kept = Literal["raw", "solved", "cut", "repaired"]
ATTEMPTS = 3


async def double_tasks(lab: Lab) -> Tasks:
    """Tasks of two sub-tasks, both of which can be done."""
    every, infos = await lab.tasks("virtual", 2), await lab.infos("virtual")
    return {
        family: [pair for pair in pairs if "+" in pair[1] and infos[pair[1]].feasible]
        for family, pairs in every.items()
    }


async def played(lab: Lab, policy: Made, episodes: int, seed: int, keep: Kept) -> Made:
    """A dataset of what a policy plays, `episodes` tasks a family. `repaired` plays what remains, up to `ATTEMPTS`
    times; the draws of the first attempt are the same for all."""
    tasks = await double_tasks(lab)

    async def make(folder: Path) -> dict[str, Any]:
        agent, made = await lab.agent(policy), []
        for family, pairs in tasks.items():
            for place in range(episodes):
                suite, name = pairs[place % len(pairs)]
                world = RL_SEEDS[-1 - place - SEEDS_A_RUN * seed]
                one = instantiate(suite, name, world)
                made.append(
                    MadeTask(
                        one.app.name, family, one.task.path, one.slots, one.subtask_texts, one.instruction,
                        suite=suite, task=name, seed=world,
                    )
                )  # fmt: skip
        kept: list[Episode] = []
        every: list[Episode] = []
        config = CollectConfig(attempts=ATTEMPTS if keep == "repaired" else 1, parallel=lab.parallel)
        with lab.progress.stage("collect", len(made), "episode") as stage:

            def tick(episode: Episode) -> None:
                every.append(episode)
                stage.advance()

            counts = await collect(lab.client, agent, made, kept.append, config, tick=tick)
        if keep == "raw":
            kept = sorted((e for e in every if e.scored and e.turns), key=lambda e: e.id)
        elif keep == "solved":
            kept = [episode for episode in kept if episode.success]
        lab.write_data(folder, kept or every[:1], policy_form(policy))
        turns = sum(len(episode.turns) for episode in every)
        return {"environment steps": turns, "kept turns": sum(len(e.turns) for e in kept), **counts}

    settings = {"tasks": listed(tasks), "episodes": episodes, "seed": seed, "keep": keep}
    return await lab.stage("collected", settings, {"policy": policy}, make)


def learnt(keep: Kept) -> Arm:
    """The SFT policy, fine-tuned on what it played itself; it stays as it is where nothing is kept."""

    async def arm(lab: Lab, seed: int, sizes: Sizes) -> Outcome:
        policy = await started(lab, seed, sizes)
        data = await played(lab, policy, sizes.demonstrations, seed, keep)
        if data.numbers["kept turns"]:
            config = sft_config(sizes, seed, steps=max(sizes.sft_steps // 2, 2))
            policy = await lab.sft(policy, {"own": (data, 1.0)}, config)
        return {"records": await measured(lab, policy, await double_tasks(lab), sizes), **data.numbers}

    return arm


async def start(lab: Lab, seed: int, sizes: Sizes) -> Outcome:
    """The policy that plays."""
    policy = await started(lab, seed, sizes)
    records = await measured(lab, policy, await double_tasks(lab), sizes)
    return {"records": records, "environment steps": 0.0, "kept turns": 0.0}


TABLE = table.Table(
    name="open/truncation",
    title="failed trajectories: raw, thrown away, cut, cut and repaired",
    source="GUI-Owl-1.5, section 2.2.2 (no ablation there)",
    says=(
        "The paper keeps what a failed trajectory did right and plays the rest again. That pays where `cut − solved` "
        "and `repaired − solved` are above 0; `raw − solved` is what its mistakes cost."
    ),
    equal="tasks that are attempted, optimisation steps; repair plays further episodes (environment steps are listed)",
    arms={
        "start": start, "raw": learnt("raw"), "solved": learnt("solved"), "cut": learnt("cut"),
        "repaired": learnt("repaired"),
    },
    columns={
        "success": success(), **FAMILIES,
        "progress": Column(by_pair(value=lambda record: record.progress / record.length)),
        "kept turns": number("kept turns"), "environment steps": number("environment steps"),
    },
    differences=[("raw", "solved"), ("cut", "solved"), ("repaired", "solved"), ("repaired", "raw")],
)  # fmt: skip
Config, main = table.Config, TABLE.main
