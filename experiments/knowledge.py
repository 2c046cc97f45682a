"""GUI knowledge from virtual worlds: questions in eight sub-categories with exact answers, to learn and to be asked.

In: a dataset of scripted trajectories. Out: a dataset of one-turn episodes, whose task is the sub-category; and what a
policy answers to it. The sub-categories are those of the GUI Knowledge Benchmark (GUI-Owl-1.5, table 8):

    interface state      a fact about the screen
    widget function      which element serves the next sub-task
    layout semantics     what is at a place
    action effect        a fact that a step changes, asked before it is taken
    action type          the kind of the next step
    action parameter     where the next step points, what it types or chooses
    goal interpretation  what of the task is done
    task planning        the next sub-task

The questions are open; an answer is right if its text is the world's (a point: if it lies in the element's box).
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from env_servers.protocol.actions import GRID
from env_servers.suites import instantiate
from experiments.bench import Made, form
from experiments.lab import Lab
from gui_rl.data.pipeline import TurnSource
from gui_rl.data.schema import Episode
from gui_rl.flywheel.annotator import AnnotatorError
from gui_rl.flywheel.knowledge import DONE, ELEMENT, EXACT, NEXT, Pair, pair_episode, world_pairs
from gui_rl.flywheel.witness import Seen, Witnessed, witness
from gui_rl.learn.toolcua import stored_prompt
from gui_rl.prompt.render import decode_response
from gui_rl.rollout.agents import Prompts
from gui_rl.rollout.sampler import SamplingParams

CATEGORIES = (
    "interface state", "widget function", "layout semantics", "action effect", "action type", "action parameter",
    "goal interpretation", "task planning",
)  # fmt: skip
WORLD = "world"
"""The kind of world-modelling pairs: the screen and the action -> all that changes (`flywheel.knowledge`)."""
AT_A_TIME = 8


Box = tuple[float, float, float, float]


@dataclasses.dataclass(frozen=True)
class Asked:
    """A question; `box`, on the grid, where the answer is a point."""

    pair: Pair
    box: Box | None = None


def questions(witnessed: Witnessed) -> Iterator[Asked]:
    """The questions about every step of a trajectory, one a sub-category where there is one."""
    episode = witnessed.episode
    page = instantiate(episode.suite, episode.task, episode.seed).page
    said: list[str] = []
    for turn, seen in zip(episode.turns, witnessed.seen, strict=False):
        known, move = seen.known, seen.move
        steps = f"{episode.instruction} {' '.join(said)}".strip()
        named = [element for element in move.elements if element.name]
        target = next((e.name for e in named if move.box is not None and tuple(e.box) == tuple(move.box)), None)
        given = dict(move.action.arguments)
        typed = next((str(given[name]) for name in ("text", "option") if given.get(name)), None)
        done = [text for text, met in zip(known.subtasks, known.met, strict=True) if met]
        left = [text for text, met in zip(known.subtasks, known.met, strict=True) if not met]
        asked: list[tuple[str, str, str, Box | None]] = [
            ("action type", f"{steps} What is the next action?", str(given.get("action", move.action.name)), None),
            ("goal interpretation", f"{steps} {DONE}", " ".join(done) or "nothing", None),
            ("task planning", f"{steps} {NEXT}", left[0] if left else "nothing", None),
        ]
        if known.facts:
            ask, answer = known.facts[turn.index % len(known.facts)]
            asked.append(("interface state", ask, answer, None))
        if named:
            element = named[turn.index % len(named)]
            box = _on_grid(element.box, page.width, page.height)
            asked.append(("layout semantics", f"What is at {_middle(box)}?", element.name, None))
        if target is not None:
            asked.append(("widget function", f"{steps} {ELEMENT}", target, None))
        if typed is not None:
            asked.append(("action parameter", f"{steps} What is to be written next?", typed, None))
        elif move.box is not None:
            box = _on_grid(move.box, page.width, page.height)
            asked.append(("action parameter", f"{steps} Where is it to be pressed next?", _middle(box), box))
        if (ask_new := _changed(seen, witnessed.after(turn.index), turn.index)) is not None:
            asked.append(("action effect", f"{move.conclusion} {ask_new[0]}", ask_new[1], None))
        where = f"{episode.id} turn {turn.index}"
        for kind, question, answer, box in asked:
            yield Asked(Pair(kind, question, answer, "exact", where, episode.device, turn.screenshot), box)
        said.append(turn.conclusion or "")


def _changed(seen: Seen, after: Seen | None, number: int) -> tuple[str, str] | None:
    """A fact of this screen that the step changes, and what it is then."""
    told = dict(seen.known.facts)
    changed = [] if after is None else [(ask, new) for ask, new in after.known.facts if told.get(ask, new) != new]
    return changed[number % len(changed)] if changed else None


def _on_grid(box: Box, width: float, height: float) -> Box:
    return tuple(GRID * value / side for value, side in zip(box, (width, height, width, height), strict=True))


def _middle(box: Box) -> str:
    return f"[{round((box[0] + box[2]) / 2)}, {round((box[1] + box[3]) / 2)}]"


async def knowledge(lab: Lab, data: Made, kinds: Collection[str] = CATEGORIES, most: int | None = None) -> Made:
    """A dataset of the questions about another one's trajectories.

    kinds: sub-categories, and `WORLD`. most: questions of each kind and family, at most; the first ones.
    """

    async def make(folder: Path) -> dict[str, Any]:
        prompts, gate = Prompts(lab.tokenizer, form()), asyncio.Semaphore(AT_A_TIME)
        counts: Counter[str] = Counter()
        source = data.data

        async def one(episode: Episode) -> list[Asked]:
            try:
                async with gate:
                    witnessed = await witness(lab.client, episode)
            except AnnotatorError:
                counts["not the same again"] += 1
                return []
            found = [asked for asked in questions(witnessed) if asked.pair.kind in kinds]
            if WORLD in kinds:
                found += map(Asked, await world_pairs(EXACT, episode, counts, witnessed))
            return found

        episodes: list[Episode] = []
        for found in await asyncio.gather(*(one(source[number]) for number in range(len(source)))):
            for asked in found:
                kept = f"kept {asked.pair.device} {asked.pair.kind}"
                if most is not None and counts[kept] >= most:
                    continue
                try:
                    episode = pair_episode(asked.pair, len(episodes), prompts)
                except ValueError:
                    counts["too long"] += 1
                    continue
                counts[kept] += 1
                turn = dataclasses.replace(episode.turns[0], target_box=asked.box)
                episodes.append(dataclasses.replace(episode, turns=(turn,)))
        lab.write_data(folder, episodes, form())
        return dict(counts)

    return await lab.stage("knowledge", {"kinds": sorted(kinds), "most": most}, {"data": data}, make)


async def answers(lab: Lab, policy: Made, data: Made) -> list[dict[str, Any]]:
    """What a policy answers (greedily) to the questions of a dataset: {id, kind, device, right, said} each."""

    async def make(folder: Path) -> dict[str, Any]:
        agent, turns = await lab.agent(policy, 0.0), TurnSource(data.data)
        records = [turns[number] for number in range(len(turns))]
        prompts = [stored_prompt(record, lab.tokenizer.image_id) for record in records]
        found = []
        with lab.progress.stage("questions", len(prompts), "question") as stage:
            for first in range(0, len(prompts), 64):
                part = prompts[first : first + 64]
                found += await agent.sampler.sample(part, SamplingParams(0.0), [0] * len(part))
                stage.advance(len(part))
        lines = []
        for record, done in zip(records, found, strict=True):
            said, turn = decode_response(lab.tokenizer, done.token_ids), record.turn
            line = {"id": record.episode.id, "kind": record.episode.task, "device": record.episode.device}
            lines.append(line | {"right": right(said, turn.text, turn.target_box), "said": said})
        (folder / "answers.json").write_text(json.dumps(lines))
        return {"questions": len(lines), "right": sum(line["right"] for line in lines)}

    made = await lab.stage("answers", {}, {"policy": policy, "data": data}, make)
    return json.loads((made.folder / "answers.json").read_text())


def right(said: str, answer: str, box: Box | None) -> bool:
    """Whether what was said is the answer: the same text, or a point inside the box."""
    if box is None:
        return said.strip().casefold() == answer.strip().casefold()
    point = re.fullmatch(r"\s*\[(\d+), ?(\d+)\]\s*", said)
    return point is not None and box[0] <= int(point[1]) <= box[2] and box[1] <= int(point[2]) <= box[3]
