"""The policies of ToolCUA's tables, as stages that the tables share (2605.12481, sections 2.2 to 2.4).

In: a lab, a training seed, sizes. Out: policies by stage, for tasks of the virtual worlds of at most two sub-tasks:
1. *base*: fine-tuned on scripted GUI demonstrations of all three families; no tool was ever on offer.
2. *interleaved data*: the demonstrations of two families with sub-tasks done by tools instead (D_all), and its steps at
   which GUI and tools meet (D_critical). One family is held out: no stage below sees it.
3. *warm-up*: the base, fine-tuned on D_all beside the GUI demonstrations.
4. *RFT*: the warm-up after single-turn RL on D_critical.
5. *ToolCUA*: RFT after online RL with tools on offer and the path reward.
The GUI arm has the same amounts of fine-tuning and of online RL, and no tools.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from experiments.bench import form
from experiments.lab import Lab, Made, Tasks
from experiments.parts import by_pair, measured, rl_config, sft_config
from experiments.table import Arm, Column, Outcome, Sizes
from gui_rl.data.schema import Episode
from gui_rl.evaluate.records import Record
from gui_rl.flywheel.interleave import InterleaveConfig, interleave
from gui_rl.flywheel.interleave import Made as Carried
from gui_rl.flywheel.plans import choose, critical, ends
from gui_rl.learn.toolcua import ACCURACY, PathConfig, SwitchConfig
from gui_rl.rollout.agents import Prompts

TRAINED = ("mobile", "desktop")
HELD_OUT = "web"
LONGEST = 12
"""S_max at tiny scale: hardly a task takes longer; the paper's is 30."""
PATH = PathConfig(max_steps=LONGEST)
ONLY_ACCURACY = dataclasses.replace(ACCURACY, max_steps=LONGEST)


@dataclasses.dataclass(frozen=True)
class Stages:
    """The stages of one training seed."""

    lab: Lab
    seed: int
    sizes: Sizes

    async def tasks(self, *families: str) -> Tasks:
        """The tasks of these families (of those trained on where none is named), alternately such that tools help with
        and such that they do not, the longer ones first; where there are fewer of one kind they come again."""
        infos = await self.lab.infos("virtual")
        found = await self.lab.tasks("virtual", self.sizes.longest + 1)
        out = {}
        for family in families or TRAINED:
            pairs = sorted(found[family], key=lambda pair: -pair[1].count("+"))
            kinds = [[pair for pair in pairs if infos[pair[1]].tool_beneficial == benefit] for benefit in (1, -1)]
            most = max(map(len, kinds))
            out[family] = [kind[number % len(kind)] for number in range(most) for kind in kinds]
        return out

    async def demonstrations(self, *families: str) -> Made:
        """Scripted GUI episodes."""
        return await self.lab.collect(await self.tasks(*families), self.sizes.demonstrations, self.seed)

    async def base(self) -> Made:
        """A policy that acts by GUI alone."""
        return await self._tuned(self.lab.base, {"gui": (await self.demonstrations(*TRAINED, HELD_OUT), 1.0)})

    async def _tuned(self, start: Made, sources: dict[str, tuple[Made, float]]) -> Made:
        config = sft_config(self.sizes, self.seed, steps=max(self.sizes.sft_steps // 2, 1))
        return await self.lab.sft(start, sources, config)

    # --- data
    async def interleaved(self) -> Made:
        """D_all: what of the demonstrations can be done by tools, in several mixtures; each reached its goal."""
        source, seed = await self.demonstrations(), self.seed

        async def make(folder: Path) -> dict[str, Any]:
            episodes, made = source.data, []
            chosen, _ = choose((episodes[n] for n in range(len(episodes))), least=2, seed=seed)
            prompts = Prompts(self.lab.tokenizer, form(tools=True))

            def keep(carried: Carried) -> None:
                made.append(carried.episode)

            with self.lab.progress.stage("interleave", len(chosen), "episode") as stage:
                sources, config = (episodes[n] for n in chosen), InterleaveConfig(levels=0, seed=seed)
                counts = await interleave(self.lab.client, prompts, sources, keep, config, stage.advance)
            made.sort(key=lambda episode: episode.id)
            self.lab.write_data(folder, made, form(tools=True))
            return dict(counts)

        return await self.lab.stage("interleaved", {"seed": seed, "levels": 0}, {"source": source}, make)

    async def switching(self) -> Made:
        """D_critical."""
        return await self._marked("critical", critical)

    async def elsewhere(self) -> Made:
        """As many steps as D_critical has, of the same trajectories, drawn at random."""
        draw = random.Random(f"elsewhere:{self.seed}")

        def drawn(episode: Episode) -> Episode | None:
            found = critical(episode)
            if found is None:
                return None
            free = [turn.index for turn in episode.turns if not ends(turn)]
            kept = draw.sample(free, min(sum(turn.use for turn in found.turns), len(free)))
            turns = [dataclasses.replace(turn, use=turn.index in kept) for turn in episode.turns]
            return dataclasses.replace(episode, turns=tuple(turns))

        return await self._marked(f"random {self.seed}", drawn)

    async def _marked(self, which: str, mark: Callable[[Episode], Episode | None]) -> Made:
        whole = await self.interleaved()

        async def make(folder: Path) -> dict[str, Any]:
            marked = [mark(whole.data[number]) for number in range(len(whole.data))]
            found = [episode for episode in marked if episode is not None]
            self.lab.write_data(folder, found, form(tools=True))
            return {"episodes": len(found), "steps": sum(turn.use for episode in found for turn in episode.turns)}

        return await self.lab.stage("steps", {"which": which}, {"all": whole}, make)

    # --- policies
    async def warm(self) -> Made:
        """Stage 1."""
        sources = {"interleaved": (await self.interleaved(), 1.0), "gui": (await self.demonstrations(), 1.0)}
        return await self._tuned(await self.base(), sources)

    async def single_turn(self, data: Made) -> Made:
        """Stage 2 on these steps."""
        steps = max(self.sizes.rl_steps // 3, 1)
        config = SwitchConfig(steps=steps, group=self.sizes.group, batch=4 * self.sizes.rl_tasks, seed=self.seed)
        return await self.lab.switches(await self.warm(), data, config)

    async def rft(self) -> Made:
        """Stages 1 and 2."""
        return await self.single_turn(await self.switching())

    async def online(self, start: Made, path: PathConfig | None = PATH) -> Made:
        """Stage 3; without a path reward: online RL of the GUI arm, for success, without tools."""
        steps = max(self.sizes.rl_steps // 2, 1)
        shaped = {} if path is None else {"reward": "path", "path": path}
        config = rl_config(
            self.sizes, self.seed, steps=steps, warmup=min(2, steps - 1), oversample=1, phases="mix", **shaped
        )
        return await self.lab.mrpo(start, await self.tasks(), config, tools=path is not None)

    async def toolcua(self) -> Made:
        """All stages."""
        return await self.online(await self.rft())

    async def gui_tuned(self) -> Made:
        """The base, fine-tuned further on the GUI demonstrations of the families that are trained on."""
        return await self._tuned(await self.base(), {"gui": (await self.demonstrations(), 1.0)})

    async def gui_only(self) -> Made:
        """The GUI arm: `gui_tuned` after online RL without tools."""
        return await self.online(await self.gui_tuned(), None)


Policy = Callable[[Stages], Awaitable[Made]]

POLICIES: dict[str, Policy] = {
    "base": Stages.base,
    "GUI SFT": Stages.gui_tuned,
    "GUI SFT + RL": Stages.gui_only,
    "warm-up SFT": Stages.warm,
    "RFT": Stages.rft,
    "ToolCUA": Stages.toolcua,
}


async def without_interleaved(stages: Stages) -> Made:
    """Online RL with tools and the path reward, from the base."""
    return await stages.online(await stages.base())


async def without_path_reward(stages: Stages) -> Made:
    """Online RL from RFT for accuracy and format alone."""
    return await stages.online(await stages.rft(), ONLY_ACCURACY)


def arm(policy: Policy, families: Sequence[str] = (), *, tools: bool = True, gui: bool = False) -> Arm:
    """`records` of a policy with tools on offer or without; gui: and `gui`, those without tools."""

    async def run(lab: Lab, seed: int, sizes: Sizes) -> Outcome:
        stages = Stages(lab, seed, sizes)
        made, tasks = await policy(stages), await stages.tasks(*families)
        found = {"records": await measured(lab, made, tasks, sizes, tools=tools)}
        return found | ({"gui": await measured(lab, made, tasks, sizes, tools=False)} if gui else {})

    return run


# --- columns
def appropriate(record: Record) -> bool:
    """What TIR counts: a success that used tools exactly where they help."""
    return record.success and (record.tool_calls > 0) == (record.tool_beneficial > 0)


def of_benefit(benefit: int) -> Column:
    """Success on the tasks where tools help (+1), or do not (-1)."""
    return Column(by_pair(where=lambda record: record.tool_beneficial == benefit))


TIR = Column(by_pair(value=appropriate))
CALLS = Column(by_pair(value=lambda record: record.tool_calls), percent=False)
