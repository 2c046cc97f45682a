"""Tools and interleaved trajectories by an annotator, where no tool can be executed (ToolCUA, section 2.2, appendix E).

In: solved GUI trajectories of any origin, and an annotator that sees them. Out: the same `Plan`s as in executable
worlds, and episodes made of the recorded screens. Nothing here was replayed: the annotator's word stands for the world,
and every record says so.
1. The annotator writes the tools that explain the trajectory; each is checked and repaired (`tools.repaired`).
2. Step by step it says which tool call leads from the present recorded state to a later one, or that none does.
3. Next-state grounding: shown both screens, it is asked whether the call explains the change. Where not, the recorded
   GUI step stays.
4. Merging and interleaving are those of `plans`; a tool step shows the screen from which it was called.
"""

from __future__ import annotations

import dataclasses
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from env_servers.protocol.actions import Call, validate_call
from env_servers.suites.composite import spec_of
from env_servers.suites.suite import ToolSpec
from gui_rl.data.schema import Episode, Turn
from gui_rl.errors import UserError
from gui_rl.flywheel.annotator import Annotator, AnnotatorError, Question, RubbishError, ask_json
from gui_rl.flywheel.plans import Part, Plan, Span, ToolStep, ends, interleaved, merged
from gui_rl.flywheel.tools import CATEGORIES, GRANULARITIES, LibraryTool, repaired
from gui_rl.prompt.render import response_text

TOOLS = (
    "A GUI agent solved this task: {goal}\nIts steps, a picture of the screen before each:\n{steps}\n"
    "Write the tools that an application could offer and that explain the changes seen between these screens; all of "
    "them together must be enough for the whole task. Mix tools for one small step with tools for several. A name "
    "begins with {app}_, or with general_ where it belongs to no application. category: one of {categories}. "
    "granularity: one of {granularities}. parameters: a JSON schema. Every tool returns success, result, error_message."
    '\nAnswer with JSON: {{"tools": [{{"name": "...", "description": "...", "parameters": {{"type": "object", '
    '"properties": {{}}, "required": []}}, "category": "...", "granularity": "...", "returns": {{...}}}}]}}'
)
STEP = (
    "Do this task by tools alone: {goal}\nThe tools: {tools}\nCalled so far: {calls}\nThe picture is the present "
    "screen. A recorded run went on from here by these steps:\n{steps}\nWhich one call does the first of them, or the "
    "first few? It must lead to a screen of this run. until: the number of the last step it stands for. tool: null "
    'where none of the tools does. Answer with JSON: {{"tool": "..." or null, "arguments": {{}}, "until": number, '
    '"text": "what it does, in a sentence", "result": what the tool returns or null}}'
)
GROUND = (
    "The first picture is the screen before, the second the screen after the call {call} ({text}). Does the call "
    'explain the change, all of it that matters? Answer with JSON: {{"grounded": true or false}}'
)


async def written_tools(annotator: Annotator, episode: Episode, app: str) -> tuple[list[LibraryTool], Counter[str]]:
    """(the tools that explain a trajectory, counts: `repaired`, `past_repair`, `twice`).

    Raises RubbishError where no tool is left, AnnotatorError where there is no answer.
    """
    text = TOOLS.format(
        goal=episode.instruction, steps=_numbered(episode.turns), app=app, categories=", ".join(CATEGORIES),
        granularities=", ".join(GRANULARITIES),
    )  # fmt: skip
    counts: Counter[str] = Counter()

    def read(value: Any) -> list[LibraryTool]:
        if not isinstance(value["tools"], list):
            raise ValueError("need a list of tools")
        counts.clear()
        found: dict[str, LibraryTool] = {}
        for document in value["tools"]:
            try:
                tool, touched = repaired(document, app)
            except UserError:
                counts["past_repair"] += 1
                continue
            counts["repaired"] += bool(touched)
            counts["twice"] += tool.name in found
            found.setdefault(tool.name, dataclasses.replace(tool, made_by=annotator.name))
        if not found:
            raise ValueError("no tool among them has a name, a description and parameters")
        return list(found.values())

    screens = tuple(turn.screenshot for turn in episode.turns)
    return await ask_json(annotator, Question("tools", text, images=screens, facts=episode), read), +counts


async def written_plan(
    annotator: Annotator, episode: Episode, tools: Sequence[LibraryTool]
) -> tuple[Plan | None, Counter[str]]:
    """(the trajectory with grounded tool steps, None without any; counts: `grounded`, `ungrounded`, `rubbish`).

    Raises AnnotatorError where there is no answer.
    """
    signatures = [_signature(tool) for tool in tools]
    last = len(episode.turns) - (1 if ends(episode.turns[-1]) else 0)
    screens = [*(turn.screenshot for turn in episode.turns), episode.final_screenshot or episode.turns[-1].screenshot]
    parts: list[Part] = []
    counts: Counter[str] = Counter()
    at = 0
    while at < last:

        def read(value: Any, at: int = at) -> ToolStep | None:
            if value["tool"] is None:
                return None
            call, until = Call(value["tool"], value["arguments"]), value["until"]
            if failure := validate_call(call, episode.device_of(episode.turns[at]), signatures):
                raise ValueError(f"the call is no call of these tools: {failure}")
            if not isinstance(until, int) or not at + 1 <= until <= last:
                raise ValueError(f"until must be a step from {at + 1} to {last}")
            if call.name not in {tool.name for tool in tools} or not isinstance(value["text"], str):
                raise ValueError("need a tool and a sentence")
            sentence = " ".join(value["text"].split())
            plain = {"name": call.name, "arguments": call.arguments}
            return ToolStep((plain,), (sentence,), (len(parts),), at, until, (value.get("result"),))

        said = [json.dumps(part.call) for part in parts if isinstance(part, ToolStep)]
        text = STEP.format(
            goal=episode.instruction, tools=json.dumps([tool["function"] for tool in signatures]),
            calls=", ".join(said) or "none", steps=_numbered(episode.turns[at:last]),
        )  # fmt: skip
        question = Question("tool_step", text, images=(screens[at],), facts=(episode, at))
        try:
            step = await ask_json(annotator, question, read)
        except RubbishError:
            counts["rubbish"] += 1
            step = None
        if step is not None:
            seen = (screens[at], screens[step.end])
            text = GROUND.format(call=json.dumps(step.call), text=step.texts[0])
            try:
                good = await ask_json(
                    annotator, Question("ground", text, images=seen, facts=(episode, step)), _grounded
                )
            except RubbishError:
                good = False
            counts["grounded" if good else "ungrounded"] += 1
            step = step if good else None
        parts.append(Span(at, at + 1, len(parts)) if step is None else step)
        at = parts[-1].end
    parts.append(Span(last, len(episode.turns), -1))
    plan = Plan(tuple(parts), tuple(tool.name for tool in tools))
    return (plan if plan.steps else None), counts


def _grounded(value: Any) -> bool:
    if not isinstance(value["grounded"], bool):
        raise ValueError("need true or false")
    return value["grounded"]


def as_recorded(episode: Episode, plan: Plan, tools: Sequence[LibraryTool], name: str, annotator: str) -> Episode:
    """The episode of a plan, made of recorded screens; without ids (`data.samples.with_ids` makes them).

    A tool step shows the screen that it was called from, and returns what the annotator foretold.
    """
    turns: list[Turn] = []
    for part in plan.parts:
        if isinstance(part, Span):
            turns += [_bare(turn) for turn in episode.turns[part.start : part.end]]
            continue
        result = part.results[0] if len(part.results) == 1 else list(part.results)
        returned = {"success": True, "result": result, "error_message": None}
        turns.append(
            Turn(
                0, episode.turns[part.start].screenshot, text=response_text(part.conclusion, Call(**part.call)),
                conclusion=part.conclusion, action=part.call, tool_result=json.dumps(returned),
                state_hash=episode.turns[part.start].state_hash,
            )
        )  # fmt: skip
    known = {tool.name: ToolSpec(tool.name, tool.description, dict(tool.parameters)) for tool in tools}
    offer = [known[tool].schema() for tool in plan.tools]
    offer += [spec_of(composite, list(known.values())).schema() for composite in plan.composites]
    return dataclasses.replace(
        episode, id=name, turns=tuple(dataclasses.replace(turn, index=k) for k, turn in enumerate(turns)),
        tools=tuple(offer), checkpoints=(), made_by={**episode.made_by, "tools": annotator, "plan": "not replayed"},
    )  # fmt: skip


async def synthesise(
    annotator: Annotator, episode: Episode, app: str, variants: int = 3, levels: int = 2, seed: int = 0
) -> tuple[list[Episode], list[LibraryTool], Counter[str]]:
    """(tool-only, coarser and interleaved episodes of one trajectory; its tools; counts).

    A question without an answer is counted (`no_answer`) and gives nothing.
    """
    try:
        tools, counts = await written_tools(annotator, episode, app)
        plan, steps = await written_plan(annotator, episode, tools)
    except AnnotatorError:
        return [], [], Counter(no_answer=1)
    counts += steps
    if plan is None:
        return [], tools, counts + Counter(no_tool=1)
    plans = [plan]
    while len(plans) <= levels and (coarser := merged(plans[-1])) is not None:
        plans.append(coarser)
    rng, seen, bases = random.Random(f"synthesise:{seed}:{episode.id}"), {p.key for p in plans}, list(plans)
    for _ in range(variants):
        variant = interleaved(rng.choice(bases), rng)
        if variant is not None and variant.key not in seen:
            seen.add(variant.key)
            plans.append(variant)
    made = [as_recorded(episode, p, tools, f"{episode.id}~{k}", annotator.name) for k, p in enumerate(plans)]
    return made, tools, counts + Counter(made=len(made))


def _numbered(turns: Sequence[Turn]) -> str:
    """The steps with their numbers from 1, as the whole trajectory counts them."""
    return "\n".join(
        f"{turn.index + 1}. {turn.conclusion or turn.text[:200]} {json.dumps(turn.action)}" for turn in turns
    )


def _signature(tool: LibraryTool) -> Mapping[str, Any]:
    return ToolSpec(tool.name, tool.description, dict(tool.parameters)).schema()


def _bare(turn: Turn) -> Turn:
    """The turn without ids: its prompt shows other tools and another history."""
    return dataclasses.replace(turn, prompt_ids=(), image_grids=(), image_turns=(), response_ids=(), behaviour_logp=())
