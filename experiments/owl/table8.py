"""Table 8: GUI knowledge in eight sub-categories, asked about screens of the virtual worlds.

The questions are those of `experiments.knowledge`: open, with exact answers, about trajectories on evaluation seeds.
The paper's benchmark is multiple choice on real programs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from experiments import table
from experiments.bench import Made
from experiments.knowledge import CATEGORIES, answers, knowledge
from experiments.lab import Lab
from experiments.parts import sft_config, short_tasks, started
from experiments.table import Arm, Column, Outcome, Sizes


async def asked(lab: Lab, sizes: Sizes) -> Made:
    """The questions that every policy is asked."""
    data = await lab.collect(await short_tasks(lab, sizes), sizes.questions, split="evaluation")
    return await knowledge(lab, data, most=sizes.questions)


async def base(lab: Lab, seed: int, sizes: Sizes) -> Made:
    """The shipped base: it was pre-trained on facts, names, places and effects."""
    return lab.base


async def with_knowledge(lab: Lab, seed: int, sizes: Sizes) -> Made:
    """Demonstrations and questions about them, half and half."""
    data = await lab.collect(await short_tasks(lab, sizes), sizes.demonstrations, seed)
    sources = {"demonstrations": (data, 1.0), "knowledge": (await knowledge(lab, data), 1.0)}
    return await lab.sft(lab.base, sources, sft_config(sizes, seed))


def answering(policy: Callable[..., Any]) -> Arm:
    """What a policy answers."""

    async def arm(lab: Lab, seed: int, sizes: Sizes) -> Outcome:
        return {"answers": await answers(lab, await policy(lab, seed, sizes), await asked(lab, sizes))}

    return arm


def share(kind: str | None = None) -> Column:
    """Right answers, of one sub-category where one is named."""
    return Column(lambda outcome: {a["id"]: float(a["right"]) for a in outcome["answers"] if kind in (None, a["kind"])})


TABLE = table.Table(
    name="owl/table8",
    title="GUI knowledge",
    source="GUI-Owl-1.5, table 8",
    says=(
        "The paper reports the best overall accuracy after knowledge is injected by QA and world modelling, without an "
        "ablation; here the injection is what `demonstrations and knowledge − demonstrations` shows."
    ),
    equal="optimisation steps and turns a step of the two fine-tuned arms",
    arms={
        "base": answering(base),
        "demonstrations": answering(started),
        "demonstrations and knowledge": answering(with_knowledge),
    },
    columns={"overall": share(), **{kind: share(kind) for kind in CATEGORIES}},
    differences=[("demonstrations and knowledge", "demonstrations"), ("demonstrations", "base")],
    paper={
        "GUI-Owl-1.5-32B-Instruct": {
            "overall": 75.45, "interface state": 77.06, "widget function": 92.65, "action effect": 70.69,
            "goal interpretation": 88.67,
        },
        "GUI-Owl-1.5-32B-Thinking": {"overall": 73.36},
    },
)  # fmt: skip
Config, main = table.Config, TABLE.main
