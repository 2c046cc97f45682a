"""Unified chain of thought: what a policy should have thought at every step of a trajectory (GUI-Owl-1.5, 2.3.2).

In: a trajectory, an annotator, and, for the exact one, the world's word about it (`witness`). Out: the same trajectory,
whose responses open with a thought and whose ids are made once, in the thinking form of the prompts. For step i:
1. *observe*: the screen, what of it bears on the query, and what of that a later step needs: it goes into the memory;
2. *reflect*: the last action, the screens before and after it and the query -> whether it did what it was meant to do,
   why not and what to do about it, and the progress of the task;
3. *think*: all of that, the action and the tools on offer -> the thought that leads to the action, and its conclusion.
Where the context keeps no earlier turn whole, the conclusion also says what was noted, else the memory would be lost.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from env_servers.protocol.actions import Call
from gui_rl.data.samples import with_ids
from gui_rl.data.schema import Episode, Turn
from gui_rl.flywheel.annotator import Annotator, Exact, Question, ask_json
from gui_rl.flywheel.knowledge import outcome_change
from gui_rl.flywheel.witness import Witnessed
from gui_rl.prompt.response import OPEN, THINK_END, response_text
from gui_rl.rollout.agents import Prompts

NOTE = "Note: "
OBSERVE = (
    "The task of a GUI agent: {query}\nThe picture is its screen. Its memory: {memory}\nThe actions of its later "
    "steps:\n{later}\nDescribe the screen in a sentence or two, then what of it bears on the task, then what of that "
    "has to be remembered because a later step needs it and its screen will not show it (values as they stand; often "
    'nothing). Answer with JSON: {{"observation": "...", "relevant": "...", "remember": ["..."]}}'
)
REFLECT = (
    "The task of a GUI agent: {query}\nThe first picture is the screen before its last action, the second the screen "
    "after it. The action: {action}\nDid it do what it was meant to do? If not, say why and how to put it right. Then "
    'say what of the task is done and what is left. Answer with JSON: {{"expected": true or false, '
    '"reflection": "...", "progress": "..."}}'
)
THINK = (
    "The task of a GUI agent: {query}\nObservation: {observation}\nRelevant: {relevant}\nMemory: {memory}\n"
    "Last action: {reflection}\nProgress: {progress}\nTools on offer: {tools}\nThe action that it takes now: {action}\n"
    "Write the thought that leads from these to the action (first person, no more than is needed; why a tool or why "
    "none, where tools are on offer), and one short sentence that says the action. "
    'Answer with JSON: {{"thought": "...", "conclusion": "..."}}'
)


@dataclasses.dataclass(frozen=True)
class Step:
    """What is known when the thought of a step is written.

    Attributes:
      index: of the step.
      observation, relevant: of its screen.
      added: what of this screen goes into the memory. memory: all of it, `added` included.
      expected: whether the last action did what it was meant to do; None at the first step.
      reflection, progress: sentences; may be empty.
    """

    index: int
    observation: str = ""
    relevant: str = ""
    added: tuple[str, ...] = ()
    memory: tuple[str, ...] = ()
    expected: bool | None = None
    reflection: str = ""
    progress: str = ""


@dataclasses.dataclass(frozen=True)
class Facts:
    """What an exact annotator goes by: the world's word, and the step so far."""

    witnessed: Witnessed
    step: Step


async def with_thoughts(
    annotator: Annotator, episode: Episode, prompts: Prompts, witnessed: Witnessed | None = None
) -> Episode:
    """The episode with thoughts and conclusions, and the ids of the thinking form of `prompts`.

    A response without a valid call stays as it was, and no sample. `made_by["thought"]` says who thought.
    Raises AnnotatorError (RubbishError) where a step gets no usable answer, ValueError for a prompt over the limit.
    """
    context = dataclasses.replace(prompts.context, thinking=True)
    turns: list[Turn] = []
    step = Step(-1)
    for turn in episode.turns:
        step = await _step(annotator, episode, turn, step, witnessed)
        if turn.action is None:
            turns.append(dataclasses.replace(turn, use=False, prompt_ids=(), response_ids=(), **_UNMADE))
            continue
        thought, conclusion = await _thought(annotator, episode, turn, step, witnessed)
        if step.added and not context.history_turns:
            conclusion = " ".join([conclusion, *(NOTE + note for note in step.added)])
        call = Call(turn.action["name"], dict(turn.action["arguments"]))
        text = response_text(conclusion, call, thought)
        made = {"thought": thought, "conclusion": conclusion, "text": text, "prompt_ids": (), "response_ids": ()}
        turns.append(dataclasses.replace(turn, **made, **_UNMADE))
    made_by = {**episode.made_by, "thought": annotator.name}
    thinking = dataclasses.replace(episode, turns=tuple(turns), made_by=made_by)
    return with_ids(thinking, prompts.tokenizer, context)


_UNMADE: dict[str, Any] = {"image_grids": (), "image_turns": (), "behaviour_logp": (), "policy_version": -1}


async def _step(annotator: Annotator, episode: Episode, turn: Turn, last: Step, witnessed: Witnessed | None) -> Step:
    step = Step(turn.index, memory=last.memory, progress=last.progress)

    def facts() -> Facts | None:
        return None if witnessed is None else Facts(witnessed, step)

    later = "\n".join(f"- {other.conclusion or '?'}" for other in episode.turns[turn.index :])
    text = OBSERVE.format(query=episode.instruction, memory=_listed(step.memory), later=later)
    seen = await ask_json(annotator, Question("observe", text, images=(turn.screenshot,), facts=facts()), _observed)
    added = tuple(dict.fromkeys(note for note in seen["remember"] if note not in step.memory))
    step = dataclasses.replace(
        step, observation=seen["observation"], relevant=seen["relevant"], added=added, memory=(*step.memory, *added)
    )
    if turn.index:
        before = episode.turns[turn.index - 1]
        text = REFLECT.format(query=episode.instruction, action=said(before))
        pictures = (before.screenshot, turn.screenshot)
        found = await ask_json(annotator, Question("reflect", text, images=pictures, facts=facts()), _reflected)
        step = dataclasses.replace(step, **found)
    return step


async def _thought(
    annotator: Annotator, episode: Episode, turn: Turn, step: Step, witnessed: Witnessed | None
) -> tuple[str, str]:
    offered = ", ".join(
        f"{tool['function']['name']} ({tool['function'].get('description', '')})" for tool in episode.tools
    )
    text = THINK.format(
        query=episode.instruction, observation=step.observation or "none", relevant=step.relevant or "nothing",
        memory=_listed(step.memory), reflection=step.reflection or "none", progress=step.progress or "just begun",
        tools=offered or "none", action=said(turn),
    )  # fmt: skip
    facts = None if witnessed is None else Facts(witnessed, step)
    return await ask_json(annotator, Question("think", text, images=(turn.screenshot,), facts=facts), _thinking)


def said(turn: Turn) -> str:
    """A step's action in words and as its call."""
    call = "no valid call" if turn.action is None else json.dumps(dict(turn.action), ensure_ascii=False)
    return f"{turn.conclusion} {call}" if turn.conclusion else call


def _listed(memory: Sequence[str]) -> str:
    return "; ".join(memory) or "empty"


def _texts(value: Any, *names: str) -> dict[str, str]:
    found = {name: value[name] for name in names}
    if not all(isinstance(text, str) for text in found.values()):
        raise ValueError(f"{', '.join(names)} are texts")
    if any(tag in text for text in found.values() for tag in (OPEN, THINK_END)):
        raise ValueError("no tags inside a text")
    return {name: text.strip() for name, text in found.items()}


def _observed(value: Any) -> dict[str, Any]:
    notes = value["remember"]
    if not isinstance(notes, list) or not all(isinstance(n, str) and n.strip() and "\n" not in n for n in notes):
        raise ValueError("remember is a list of lines")
    _texts(dict(enumerate(notes)), *range(len(notes)))  # type: ignore[arg-type]
    return {**_texts(value, "observation", "relevant"), "remember": [note.strip() for note in notes]}


def _reflected(value: Any) -> dict[str, Any]:
    if not isinstance(value["expected"], bool):
        raise ValueError("expected is true or false")
    return {**_texts(value, "reflection", "progress"), "expected": value["expected"]}


def _thinking(value: Any) -> tuple[str, str]:
    found = _texts(value, "thought", "conclusion")
    if not all(found.values()) or "\n" in found["conclusion"]:
        raise ValueError("need a thought, and a conclusion of one line")
    return found["thought"], found["conclusion"]


# --- what is true by construction ------------------------------------------------------------------------------------
def exact(brief: bool) -> Exact:
    """Thoughts from the world's state. brief: in few words, of gui-tiny's vocabulary as far as the notes allow."""
    return Exact({"observe": _see, "reflect": lambda facts: _judge(facts, brief), "think": lambda f: _think(f, brief)})


def verdict(witnessed: Witnessed, step: int) -> tuple[bool, str]:
    """(j, phi): whether an action did what it was meant to do, and why not.

    It did not where it was no call, where its tool failed, where nothing changed (unless the task's own script does the
    same there: it may have to wait or to press a button down), or where it changed what the task does not speak of.
    """
    turn, before, after = witnessed.episode.turns[step], witnessed.seen[step], witnessed.seen[step + 1]
    if turn.action is None:
        return False, "That was not an action."
    result = json.loads(turn.tool_result) if turn.tool_result else {}
    if isinstance(result, Mapping) and result.get("success") is False:
        return False, f"The tool did not do it: {result.get('error_message')}"
    kind = dict(turn.action["arguments"]).get("action")
    own = dict(turn.action) == before.move.action.model_dump()
    if before.state_hash == after.state_hash and not own and not turn.tool_result and kind not in ("wait", "answer"):
        return False, "It did nothing."
    if strayed := sorted(set(after.known.strayed) - set(before.known.strayed)):
        return False, f"That was not it: {', '.join(strayed)}."
    return True, ""


def progress(witnessed: Witnessed, step: int, brief: bool) -> str:
    """What of the task is done before a step, and what is next."""
    known = witnessed.seen[step].known
    done = [text for text, met in zip(known.subtasks, known.met, strict=True) if met]
    left = [text for text, met in zip(known.subtasks, known.met, strict=True) if not met]
    told = [] if brief or not done else [f"Done: {' '.join(done)}"]
    return " ".join([*told, f"Next: {left[0]}" if left else "All is done."])


def _see(facts: Facts) -> dict[str, Any]:
    witnessed, index = facts.witnessed, facts.step.index
    known = witnessed.seen[index].known
    notes = witnessed.noted[index]
    return {
        "observation": " ".join(f"{ask} {answer}." for ask, answer in known.facts),
        "relevant": " ".join(notes),
        "remember": list(notes),
    }


def _judge(facts: Facts, brief: bool) -> dict[str, Any]:
    witnessed, index = facts.witnessed, facts.step.index
    expected, why = verdict(witnessed, index - 1)
    moved = outcome_change(witnessed.seen[index - 1], witnessed.seen[index])
    reflection = why if not expected else "" if brief else f"The last action did what it was to do. {moved}".strip()
    return {"expected": expected, "reflection": reflection, "progress": progress(witnessed, index, brief)}


def _think(facts: Facts, brief: bool) -> dict[str, Any]:
    witnessed, step = facts.witnessed, facts.step
    turn = witnessed.episode.turns[step.index]
    action = turn.action or {}
    offered = {tool["function"]["name"]: tool["function"].get("description", "") for tool in witnessed.episode.tools}
    parts = [] if brief or not step.observation else [f"I see: {step.observation}"]
    parts += [step.reflection] if step.reflection else []
    parts += [NOTE + note for note in step.memory]
    parts.append(step.progress or progress(witnessed, step.index, brief))
    if dict(action.get("arguments", {})) == {"action": "terminate", "status": "failure"}:
        parts.append("It can not be done.")
    if action.get("name") in offered:
        parts.append("Use the tool." if brief else f"The tool {action['name']} does this: {offered[action['name']]}")
    elif offered and not brief:
        parts.append(f"I do it on the screen and not by one of the tools ({', '.join(offered)}).")
    return {"thought": " ".join(parts), "conclusion": turn.conclusion or "Go on."}
