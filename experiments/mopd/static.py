"""What a policy still can that nobody trained it for again (UI-MOPD, table 3).

In: policies. Out: numbers.
- *Steps*: agreement of its greedy action with the script's on stored steps of tasks (as AndroidControl: the state is
  given, nothing is played).
- *Skills*: the base's own training, on screens that it was never trained on: naming what is at a place, and the leading
  digit of the place of what is named (as grounding sets).
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np

from experiments import base
from experiments.lab import Lab, Made, Tasks
from gui_rl.data.pipeline import TurnSource
from gui_rl.flywheel.grounding import QueryWriter
from gui_rl.flywheel.screens import ScreenFile, kinds, write_screens
from gui_rl.prompt.context import TINY_CONTEXT
from gui_rl.rollout.groups import Ticket
from gui_rl.rollout.sampler import SamplingParams
from gui_rl.rollout.stored import SUITE, make_play_stored

HELD_OUT = 20
"""Which demonstrations no training sees: those of this seed (`Lab.collect`)."""
QUERIES = 5
"""Asked about a screen."""


async def steps(lab: Lab, policy: Made, tasks: Tasks, episodes: int) -> dict[str, float]:
    """Agreement (`rollout.stored.agreement`) on every step of held-out scripted episodes, by name of the state."""
    data = await lab.collect(tasks, episodes, HELD_OUT)

    async def make(folder: Path) -> dict[str, Any]:
        agent, turns = await lab.agent(policy), TurnSource(data.data)
        records = [turns[number] for number in range(len(turns))]
        states = {f"{record.episode.device} {record.episode.id} {record.turn.index}": record for record in records}
        play = make_play_stored(states, agent.sampler, lab.tokenizer, 1, SamplingParams(0.0))
        pools = await asyncio.gather(*(play(Ticket(SUITE, name, 0), 0) for name in states))
        return {name: pool.episodes[0].score for name, pool in zip(states, pools, strict=True)}

    return (await lab.stage("steps", {}, {"policy": policy, "data": data}, make)).numbers


async def skills(lab: Lab, policy: Made, screens: int) -> dict[str, float]:
    """Accuracy by kind of screen and of token: `app_name`, `app_digit1`, `grid_name`, ...; see `base.make_measure`.

    screens: of each kind; at most `base.HELD_OUT`, the first ones, which the base was not trained on.
    """

    async def draw(folder: Path) -> dict[str, Any]:
        for kind in kinds():
            path = folder / f"{kind}.array_record"
            await asyncio.to_thread(write_screens, path, [(kind, number) for number in range(screens)])
        return {"kinds": len(kinds())}

    drawn = await lab.stage("screens", {"screens": min(screens, base.HELD_OUT)}, {}, draw)

    async def make(folder: Path) -> dict[str, Any]:
        writer = QueryWriter(lab.tokenizer, TINY_CONTEXT)
        files = {kind: ScreenFile(drawn.folder / f"{kind}.array_record") for kind in kinds()}
        feed = base.Feed(files, writer, lab.cfg, base.Config())
        rng, held_out = np.random.default_rng(0), {}
        for group, name in zip(feed.groups, ("grid", "free", "app"), strict=True):
            chosen = [files[kind][number] for kind in group for number in range(screens)]
            held_out[name] = [feed.build(chosen[at : at + 8], rng, 0, QUERIES)[0] for at in range(0, len(chosen), 8)]
        return base.make_measure(lab.cfg, writer)(lab.params(policy), held_out)

    return (await lab.stage("skills", {"screens": screens}, {"policy": policy, "screens": drawn}, make)).numbers
