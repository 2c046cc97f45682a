"""Trajectories told in roles: what Manager, Reflector and Notetaker should have said (GUI-Owl-1.5, section 2.3.3).

In: a trajectory, an annotator, and, for the exact one, the world's word about it. Out: the trajectory whose turns hold
the calls of the roles (`data.samples.by_role` makes an episode of each role) and the Worker's prompts, with ids that
are made once, in the same words as `rollout.roles` has at run time.
"""

from __future__ import annotations

import dataclasses
import functools

from gui_rl.data.samples import with_ids
from gui_rl.data.schema import Episode, RoleCall, Turn
from gui_rl.flywheel.annotator import Annotator, Exact, Question, RubbishError
from gui_rl.flywheel.thoughts import verdict
from gui_rl.flywheel.witness import Witnessed
from gui_rl.prompt.context import HistoryTurn
from gui_rl.prompt.images import shared
from gui_rl.prompt.render import encode_response, render
from gui_rl.rollout.agents import Prompts
from gui_rl.rollout.roles import FAILURE, SUCCESS, RoleState, action_of, items, role_prompt, told, update


@dataclasses.dataclass(frozen=True)
class RoleFacts:
    """What an exact annotator goes by: the world's word, and the turn at which a role is asked."""

    witnessed: Witnessed
    turn: int


async def with_roles(
    annotator: Annotator, episode: Episode, prompts: Prompts, witnessed: Witnessed | None = None
) -> Episode:
    """The episode with the calls of the roles, and the Worker's prompts. `made_by["roles"]` says who spoke for them.

    Raises AnnotatorError where a role gets no usable answer, ValueError for a prompt over the limit.
    """
    tokenizer, context = prompts.tokenizer, prompts.context
    if context.thinking:
        raise ValueError("the roles speak without thoughts: name a form whose context is not thinking")
    plain = [dataclasses.replace(turn, prompt_ids=(), response_ids=(), behaviour_logp=()) for turn in episode.turns]
    plain = [dataclasses.replace(turn, image_grids=(), image_turns=(), policy_version=-1) for turn in plain]
    encoded = with_ids(dataclasses.replace(episode, turns=tuple(plain)), tokenizer, context)
    screens = [
        shared(turn.screenshot, name=f"{episode.id} turn {turn.index}", max_pixels=context.max_pixels)
        for turn in episode.turns
    ]

    async def say(turn: int, role: str, text: str, seen: tuple[int, ...]) -> RoleCall:
        facts = None if witnessed is None else RoleFacts(witnessed, turn)
        pictures = tuple(episode.turns[index].screenshot for index in seen)
        answer = (await annotator.ask(Question(role, text, images=pictures, facts=facts))).text.strip()
        prompt = role_prompt(prompts, text, [screens[index] for index in seen])
        grids, ids = tuple(image.grid for image in prompt.images), encode_response(tokenizer, answer)
        return RoleCall(role, tuple(prompt.ids), grids, seen, tuple(ids), (), answer)

    turns: list[Turn] = []
    history: list[HistoryTurn] = []
    state = RoleState()
    for turn in encoded.turns:
        action = action_of(history[-1]) if history else ""
        speak = functools.partial(say, turn.index)
        state, calls = await update(speak, episode.instruction, turn.index, action, state)
        if failed := next((call for call in calls if call.failure), None):
            where = f"{episode.id} turn {turn.index}"
            raise RubbishError(f"{annotator.name} as {failed.role} of {where}: {failed.failure}: {failed.text[:80]!r}")
        prompt = render(
            tokenizer, context, episode.device_of(turn), episode.tools, told(episode.instruction, state), history,
            screens[turn.index], sample_id=f"{episode.id} turn {turn.index}",
        )  # fmt: skip
        turns.append(dataclasses.replace(turn, prompt_ids=tuple(prompt.ids), calls=calls))
        history.append(
            HistoryTurn(screens[turn.index], turn.text, turn.response_ids, turn.conclusion or "", turn.tool_result)
        )
    return dataclasses.replace(episode, turns=tuple(turns), made_by={**episode.made_by, "roles": annotator.name})


# --- what is true by construction ------------------------------------------------------------------------------------
def _manage(facts: RoleFacts) -> str:
    known = facts.witnessed.seen[facts.turn].known
    return items([text for text, met in zip(known.subtasks, known.met, strict=True) if not met])


def _reflect(facts: RoleFacts) -> str:
    success, why = verdict(facts.witnessed, facts.turn - 1)
    return f"{SUCCESS} It is done." if success else f"{FAILURE} {why}"


EXACT = Exact(
    {
        "manager": _manage,
        "reflector": _reflect,
        "notetaker": lambda facts: items(facts.witnessed.memory(facts.turn)),
    }
)
