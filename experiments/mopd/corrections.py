"""What teachers would have changed on the states that a student visits (UI-MOPD, section 4.5 and figure 4).

In: a student, teachers, tasks. Out: for every visited state and every teacher, whether the two disagree, and
who is right.
1. The student plays groups of episodes; at each turn the task's script is asked what it would do there (the target).
2. Every teacher answers the same prompts, greedily.
3. An action is right where it does what the target does: the same action, inside the target's box. A disagreement is
   *useful* where the teacher is right and the student is not, and *harmful* the other way round; two actions that are
   both right agree, whatever their coordinates.
States from which the script gives up count for nothing: they have no target.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from env_servers.suites.suite import SEEDS
from experiments.lab import Lab, Made, Tasks, listed
from gui_rl.prompt.parse import parse_response
from gui_rl.prompt.render import Prompt, decode_response
from gui_rl.rollout.agents import Agent, Reply, View
from gui_rl.rollout.episode import Spec, play_all
from gui_rl.rollout.sampler import SamplingParams
from gui_rl.rollout.stored import agreement

FILE = "states.jsonl"


@dataclasses.dataclass(frozen=True)
class Visited:
    """A state: the prompt there, the student's action (None: no valid call), the target with its box on the grid."""

    episode: str
    device: str
    tools: Sequence[Mapping[str, Any]]
    prompt: Prompt
    action: Mapping[str, Any] | None
    target: Mapping[str, Any]
    box: Sequence[float] | None


class Watched:
    """The student, beside whom the script says what it would do."""

    def __init__(self, student: Agent):
        self.student, self.source, self.prompts, self.visited = student, student.source, student.prompts, []

    async def act(self, view: View) -> Reply:
        """The student's response."""
        move = await view.session.script()
        reply = await self.student.act(view)
        target = {"name": move.action.name, "arguments": dict(move.action.arguments)}
        if target["arguments"].get("status") != "failure":
            lease = view.session.lease
            sides = (lease.css_width, lease.css_height) * 2
            box = None if move.box is None else [1000 * v / side for v, side in zip(move.box, sides, strict=True)]
            action = called(reply.text, view.device, view.tools)
            self.visited.append(Visited(view.episode, view.device, view.tools, reply.prompt, action, target, box))
        return reply


def called(text: str, device: str, tools: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The action of a response; None where it holds no valid call."""
    call = parse_response(text, device, tools).call
    return None if call is None else {"name": call.name, "arguments": dict(call.arguments)}


def verdict(student: Any, teacher: Any, target: Mapping[str, Any], box: Sequence[float] | None) -> dict[str, bool]:
    """Whether two actions disagree, and whether that is a useful or a harmful correction: a pure function."""
    right = [action is not None and agreement(action, target, box) == 1.0 for action in (student, teacher)]
    useful, harmful = right[1] and not right[0], right[0] and not right[1]
    return {
        "disagree": useful or harmful or (not any(right) and student != teacher),
        "useful": useful,
        "harmful": harmful,
    }


async def corrections(
    lab: Lab, student: Made, teachers: Mapping[str, Made], tasks: Tasks, groups: int, size: int
) -> list[dict[str, Any]]:
    """A document a state: device, task, seed, the mean success of its group, and the verdict on every teacher.

    Args:
      student, teachers: policies.
      tasks: what is played, on evaluation seeds.
      groups, size: groups a family, and episodes of a group.
    """

    async def make(folder: Path) -> dict[str, Any]:
        watched = Watched(await lab.agent(student))
        specs = [
            Spec(*pairs[number % len(pairs)], SEEDS["evaluation"][number], copy, "corrections")
            for pairs in tasks.values()
            for number in range(groups)
            for copy in range(size)
        ]
        played = await play_all(lab.client, watched, specs, script=True, parallel=lab.parallel, deadline_s=600.0)
        scored = {episode.id: episode for episode in played if episode.scored}
        won: dict[str, list[bool]] = {}
        for episode in scored.values():
            won.setdefault(episode.group, []).append(episode.success)
        states = [state for state in watched.visited if state.episode in scored]
        documents: list[dict[str, Any]] = []
        for state in states:
            episode = scored[state.episode]
            mean = sum(won[episode.group]) / len(won[episode.group])
            documents.append({"device": state.device, "task": episode.task, "seed": episode.seed, "mean": mean})
        for name, teacher in teachers.items():
            sampler = (await lab.agent(teacher)).sampler
            done = await sampler.sample([s.prompt for s in states], SamplingParams(0.0), list(range(len(states))))
            for state, document, answer in zip(states, documents, done, strict=True):
                text = decode_response(lab.tokenizer, answer.token_ids)
                action = called(text, state.device, state.tools)
                document[name] = verdict(state.action, action, state.target, state.box)
        (folder / FILE).write_text("".join(json.dumps(document) + "\n" for document in documents))
        return {"states": len(documents), "episodes": len(scored)}

    inputs = {"student": student, **{f"teacher {name}": made for name, made in teachers.items()}}
    settings = {"tasks": listed(tasks), "groups": groups, "size": size}
    made = await lab.stage("corrections", settings, inputs, make)
    return [json.loads(line) for line in (made.folder / FILE).read_text().splitlines()]


def rates(states: Sequence[Mapping[str, Any]], teacher: str) -> dict[str, float]:
    """Shares of the disagreements with a teacher that are useful, and that are harmful (0 where there are none).

    states: of `corrections`; teacher: a name, or "routed" for the one of each state's platform.
    """
    found = [state[state["device"] if teacher == "routed" else teacher] for state in states]
    count = sum(each["disagree"] for each in found)
    return {kind: sum(each[kind] for each in found) / count if count else 0.0 for kind in ("useful", "harmful")}
