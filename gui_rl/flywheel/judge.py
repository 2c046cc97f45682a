"""A judge in place of predicates: sub-task by sub-task, step by step (UI-MOPD, appendix B, trajectory cleaning).

In: a trajectory, an annotator, and the sub-tasks, which are asked for first where nobody knows them. Out: which of them
hold after which step; an imported trajectory is kept where all of them are done.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from gui_rl.data.schema import Episode
from gui_rl.flywheel.annotator import Annotator, Question, ask_json

SUBTASKS = (
    "Split this instruction to a GUI agent into its sub-tasks, in the order in which they are to be done.\n"
    'Instruction: {instruction}\nAnswer with JSON: {{"subtasks": ["...", "..."]}}'
)
JUDGE = (
    "A GUI agent works on sub-tasks in this order:\n{subtasks}\nThe first picture is the screen before its action, the "
    "second the screen after it. The action: {action}\nTo which sub-task does the action belong, and is that sub-task "
    'done after it? Answer with JSON: {{"subtask": number or null, "done": true or false}}'
)


async def subtasks_of(annotator: Annotator, instruction: str, facts: Any = None) -> list[str]:
    """The sub-tasks of an instruction. Raises AnnotatorError where there is no answer."""

    def read(value: Any) -> list[str]:
        found = value["subtasks"]
        if not isinstance(found, list) or not found or not all(isinstance(t, str) and t.strip() for t in found):
            raise ValueError("need a list of sentences")
        return found

    return await ask_json(annotator, Question("subtasks", SUBTASKS.format(instruction=instruction), facts=facts), read)


async def judged(
    annotator: Annotator, episode: Episode, subtasks: Sequence[str], held: Sequence = ()
) -> list[list[bool]]:
    """Which sub-tasks are done after each step: rows are steps, columns sub-tasks.

    The last step is judged by the final screenshot, or by its own where none was kept.
    held: what the world knows about it, for an exact annotator. Raises AnnotatorError where a step has no verdict.
    """
    numbered = "\n".join(f"{number}. {text}" for number, text in enumerate(subtasks, start=1))

    def read(value: Any) -> int | None:
        which, done = value["subtask"], value["done"]
        known = which is None or (isinstance(which, int) and 1 <= which <= len(subtasks))
        if not isinstance(done, bool) or isinstance(which, bool) or not known:
            raise ValueError(f"need a sub-task from 1 to {len(subtasks)} or null, and done as true or false")
        return which - 1 if done and which is not None else None

    rows = []
    screens = [turn.screenshot for turn in episode.turns]
    screens.append(episode.final_screenshot or screens[-1])
    for turn in episode.turns:
        text = JUDGE.format(subtasks=numbered, action=turn.conclusion or turn.text[:200])
        facts = held[turn.index] if held else None
        pictures = (turn.screenshot, screens[turn.index + 1])
        done = await ask_json(annotator, Question("judge", text, images=pictures, facts=facts), read)
        rows.append([number == done for number in range(len(subtasks))])
    return rows


async def verified(annotator: Annotator, episode: Episode) -> Episode | None:
    """The episode with the judge's name where every sub-task of its instruction was done, else None.

    Raises AnnotatorError where a step has no verdict.
    """
    rows = await judged(annotator, episode, await subtasks_of(annotator, episode.instruction))
    if not all(map(any, zip(*rows, strict=True))):
        return None
    return dataclasses.replace(episode, made_by={**episode.made_by, "completed": annotator.name})
