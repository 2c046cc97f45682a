"""World modelling alone: does predicting what an action changes help to act?

The paper puts world modelling into pre-training beside much else. Here all arms see the same demonstrations, equally
many turns of them: alone; with the question "what is the next screen?" about the same trajectories mixed in; after a
training on these questions; and with all other questions mixed in instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from experiments import table
from experiments.knowledge import CATEGORIES, WORLD, knowledge
from experiments.lab import Lab
from experiments.parts import FAMILIES, measured, sft_config, short_tasks, success
from experiments.table import Arm, Outcome, Sizes


def learnt(mixed: Sequence[str] = (), first: Sequence[str] = ()) -> Arm:
    """SFT on demonstrations, with these kinds of questions mixed in at a third of the turns, or after them."""

    async def arm(lab: Lab, seed: int, sizes: Sizes) -> Outcome:
        tasks, start = await short_tasks(lab, sizes), lab.base
        data = await lab.collect(tasks, sizes.demonstrations, seed)
        config, sources = sft_config(sizes, seed), {"demonstrations": (data, 2.0)}
        if first:
            start = await lab.sft(start, {"questions": (await knowledge(lab, data, first), 1.0)}, config)
        if mixed:
            sources["questions"] = (await knowledge(lab, data, mixed), 1.0)
            config = sft_config(sizes, seed, steps=sizes.sft_steps * 3 // 2)
        policy = await lab.sft(start, sources, config)
        return {"records": await measured(lab, policy, tasks, sizes)}

    return arm


TABLE = table.Table(
    name="open/world_model",
    title="world modelling alone",
    source="GUI-Owl-1.5, section 2.3.1 (no ablation there)",
    says=(
        "The paper trains on world modelling so that the agent foresees what it does, and does not measure it alone: "
        "it helps where `mixed in − demonstrations` or `first − demonstrations` is above 0."
    ),
    equal="turns of demonstrations that are trained on; the questions come on top",
    arms={
        "demonstrations": learnt(),
        "world modelling mixed in": learnt(mixed=(WORLD,)),
        "world modelling first": learnt(first=(WORLD,)),
        "other questions mixed in": learnt(mixed=CATEGORIES),
    },
    columns={"success": success(), **FAMILIES},
    differences=[
        ("world modelling mixed in", "demonstrations"),
        ("world modelling first", "demonstrations"),
        ("other questions mixed in", "demonstrations"),
    ],
)
Config, main = table.Config, TABLE.main
