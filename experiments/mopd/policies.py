"""The policies of UI-MOPD's tables, as stages that the tables share (2607.04425, sections 3.2 to 4.3).

In: a lab, a training seed, sizes. Out: policies by strategy. At tiny scale two platforms of the virtual worlds stand
for OSWorld and MobileWorld, and one small policy for all sizes:
- the *student* is the base, fine-tuned on a few demonstrations of all three families: what stage 2 starts from;
- a *teacher* is the student, fine-tuned on many demonstrations of its own platform and then trained there online
  (stage 1; the paper's teachers are 32B and fine-tuned alone);
- stage 2 of every strategy plays the same number of episodes on both platforms.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from experiments.estimate import Combined
from experiments.lab import Lab, Made, Tasks
from experiments.parts import measured, rl_config, sft_config, success
from experiments.table import Arm, Outcome, Sizes
from gui_rl.evaluate.metrics import h_mean, min_gain
from gui_rl.learn.teachers import Teaching

PLATFORMS = ("desktop", "mobile")
STUDENT = "student before stage 2"
OWN = 1
"""Teachers' demonstrations are of other environment seeds than the student's."""
EXACT = Teaching()
"""The true reverse KL, exact over the vocabulary, with the adaptive mask at a mean reward of 0.5."""


@dataclasses.dataclass(frozen=True)
class Stages:
    """The stages of one training seed."""

    lab: Lab
    seed: int
    sizes: Sizes

    async def tasks(self, *platforms: str) -> Tasks:
        """The tasks of these platforms."""
        found = await self.lab.tasks("virtual", self.sizes.longest)
        return {platform: found[platform] for platform in platforms or PLATFORMS}

    async def demonstrations(self, *platforms: str) -> Made:
        """What teachers are made of; the same episodes of a platform, whichever others come with it."""
        return await self.lab.collect(await self.tasks(*platforms), 2 * self.sizes.demonstrations, 2 * self.seed + OWN)

    async def student(self) -> Made:
        """What every strategy starts from."""
        few, steps = max(self.sizes.demonstrations // 3, 1), max(self.sizes.sft_steps // 2, 1)
        data = await self.lab.collect(await self.tasks("mobile", "desktop", "web"), few, 2 * self.seed)
        config = sft_config(self.sizes, self.seed, steps=steps)
        return await self.lab.sft(self.lab.base, {"demonstrations": (data, 1.0)}, config)

    async def tuned(self, *platforms: str) -> Made:
        """The student, fine-tuned on the teachers' demonstrations of these platforms."""
        data = {name: (await self.demonstrations(name), 1.0) for name in platforms}
        return await self.lab.sft(await self.student(), data, sft_config(self.sizes, self.seed))

    async def teacher(self, *platforms: str) -> Made:
        """Stage 1: `tuned`, and then trained on its platforms."""
        return await self.online(await self.tuned(*platforms), platforms)

    async def online(
        self,
        start: Made,
        platforms: Sequence[str] = PLATFORMS,
        share: float = 1.0,
        teachers: Mapping[str, Made] | None = None,
        stored: Made | None = None,
        **changes: Any,
    ) -> Made:
        """Online RL on these platforms, a step on all of them at once.

        share: of the steps of stage 2. stored: a dataset to answer single steps of, in place of episodes.
        """
        steps = max(round(share * self.sizes.rl_steps / 2), 1)
        config = rl_config(
            self.sizes, self.seed, steps=steps, warmup=min(2, steps - 1), oversample=1, phases="mix", **changes
        )
        return await self.lab.mrpo(start, await self.tasks(*platforms), config, teachers=teachers, stored=stored)

    async def specialists(self) -> dict[str, Made]:
        """The teachers by platform."""
        return {name: await self.teacher(name) for name in PLATFORMS}

    async def taught(
        self,
        teaching: Teaching = EXACT,
        teachers: Mapping[str, Made] | None = None,
        platforms: Sequence[str] = PLATFORMS,
    ) -> Made:
        """Stage 2: the student trained online, with teachers (the specialists where none are given)."""
        teachers = await self.specialists() if teachers is None else teachers
        return await self.online(await self.student(), platforms, teachers=teachers, teaching=teaching)


Strategy = Callable[[Stages], Awaitable[Made]]


async def _sequential(stages: Stages, *order: str) -> Made:
    policy = await stages.student()
    for platform in order:
        policy = await stages.online(policy, (platform,), 1 / len(order))
    return policy


async def _mixed(stages: Stages) -> Made:
    return await stages.online(await stages.student())


async def _merged(stages: Stages, how: str, **options: Any) -> Made:
    return await stages.lab.merged(how, await stages.student(), list((await stages.specialists()).values()), **options)


async def _unified(stages: Stages) -> Made:
    teachers = {"both": await stages.teacher(*PLATFORMS)}
    return await stages.taught(dataclasses.replace(EXACT, routing="unified"), teachers)


async def _one_teacher(stages: Stages, platform: str) -> Made:
    return await stages.taught(EXACT, {platform: await stages.teacher(platform)}, (platform,))


async def _weaker_teachers(stages: Stages) -> Made:
    return await stages.taught(EXACT, {name: await stages.tuned(name) for name in PLATFORMS})


REFERENCES: dict[str, Strategy] = {
    STUDENT: lambda stages: stages.student(),
    "desktop-only SFT": lambda stages: stages.tuned("desktop"),
    "mobile-only SFT": lambda stages: stages.tuned("mobile"),
    "desktop teacher": lambda stages: stages.teacher("desktop"),
    "mobile teacher": lambda stages: stages.teacher("mobile"),
}
STRATEGIES: dict[str, Strategy] = {
    "mixed SFT": lambda stages: stages.tuned(*PLATFORMS),
    "sequential RL, desktop first": lambda stages: _sequential(stages, "desktop", "mobile"),
    "sequential RL, mobile first": lambda stages: _sequential(stages, "mobile", "desktop"),
    "mixed RL": _mixed,
    "weight averaging": lambda stages: _merged(stages, "average"),
    "TIES": lambda stages: _merged(stages, "ties", density=0.2),
    "unified teacher": _unified,
    "desktop-only OPD": lambda stages: _one_teacher(stages, "desktop"),
    "mobile-only OPD": lambda stages: _one_teacher(stages, "mobile"),
    "UI-MOPD": lambda stages: stages.taught(),
}
ABLATIONS: dict[str, Strategy] = {
    "random routing": lambda stages: stages.taught(dataclasses.replace(EXACT, routing="random")),
    "weaker teachers (SFT alone)": _weaker_teachers,
    "without the mask": lambda stages: stages.taught(dataclasses.replace(EXACT, threshold=None)),
}


def arm(strategy: Strategy) -> Arm:
    """Success of a strategy's policy on both platforms."""

    async def run(lab: Lab, seed: int, sizes: Sizes) -> Outcome:
        stages = Stages(lab, seed, sizes)
        return {"records": await measured(lab, await strategy(stages), await stages.tasks(), sizes)}

    return run


PLATFORM_COLUMNS = {name: success(name) for name in PLATFORMS}
BALANCE = {
    "H-mean": Combined(h_mean, PLATFORMS),
    "MinGain": Combined(min_gain, (*PLATFORMS, *((STUDENT, name) for name in PLATFORMS))),
}
"""How balanced a policy is, beside the student that its table has an arm for."""
