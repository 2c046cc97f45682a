"""Several roles, one policy: Manager, Worker, Reflector and Notetaker (GUI-Owl-1.5, section 2.3.3).

In: a view of the episode, and what the roles said before. Out: the Worker's response, with what the others were asked
and said beside it. The state before step t is X_t = (I, S_t, SS_t, F_{t-1}, N_t): instruction, screen, ordered list of
subgoals, latest feedback, notes.

    SS_0 = f_M(I, K)                      the Manager plans; K is knowledge that was looked up, where there is some
    a_t ~ pi_W(. | I, S_t, SS_t, F_{t-1}, N_t)
    F_t = (j_t, phi_t) = f_R(S_t, a_t, S_{t+1})        j_t is SUCCESS or FAILURE
    N_{t+1} = u_C(N_t, S_{t+1}) where j_t is SUCCESS, else N_t
    SS_{t+1} = u_M(SS_t, F_t, S_{t+1})

The Worker's prompt is that of every agent, its instruction followed by SS, F and N. What the others say is plain text:
subgoals and notes one a line (`None` for none), feedback as its verdict and a sentence. A text that is no such thing
changes nothing (a missing verdict is a FAILURE), is kept with what is wrong with it, and is no training sample.
"""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar
from weakref import WeakKeyDictionary

from gui_rl.data.schema import RoleCall
from gui_rl.prompt.context import HistoryTurn
from gui_rl.prompt.images import ImageInput
from gui_rl.prompt.render import Prompt, decode_response, render_messages
from gui_rl.prompt.response import CLOSE, OPEN, find_call
from gui_rl.rollout.agents import PolicyAgent, Prompts, Reply, View
from gui_rl.rollout.env_client import Session
from gui_rl.rollout.sampler import Sampler, SamplingParams

T = TypeVar("T")
Say = Callable[[str, str, tuple[int, ...]], Awaitable[RoleCall]]
"""(role, text, turns whose screenshots it looks at) -> the call."""

NONE, SUCCESS, FAILURE = "None", "SUCCESS", "FAILURE"
PLAN = "You plan. Instruction: {instruction}{knowledge}\nWrite the subgoals in order, one a line."
REPLAN = (
    "You plan. Instruction: {instruction}\nSubgoals:\n{subgoals}\nFeedback: {feedback}\n"
    "Write the subgoals that are left, one a line, or None."
)
REFLECT = "You check. The screen before and after: {action}\nWrite SUCCESS or FAILURE, and why."
TAKE_NOTES = (
    "You take notes. Instruction: {instruction}\nNotes:\n{notes}\nWrite the notes to keep, one a line, or None."
)
SUBGOALS, FEEDBACK, NOTES = "\nSubgoals: ", "\nFeedback: ", "\nNotes: "


@dataclasses.dataclass(frozen=True)
class RoleState:
    """SS_t, F_{t-1} = (success, feedback) and N_t; `feedback` is None before the first action."""

    subgoals: tuple[str, ...] = ()
    success: bool = True
    feedback: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """F as the Reflector writes it."""
        return f"{SUCCESS if self.success else FAILURE} {self.feedback or ''}".strip()


async def update(
    say: Say, instruction: str, turn: int, action: str, state: RoleState, knowledge: str = ""
) -> tuple[RoleState, tuple[RoleCall, ...]]:
    """X_t from X_{t-1}, and the calls that made it; whoever answers, a policy, a model or the world.

    turn: t. action: a_{t-1}, "" at the first turn. knowledge: K.
    """
    calls: list[RoleCall] = []

    async def ask(role: str, text: str, seen: tuple[int, ...], read: Callable[[str], T], otherwise: T) -> T:
        call = await say(role, text, seen)
        try:
            value = read(call.text)
        except ValueError as error:
            call, value = dataclasses.replace(call, failure=call.failure or str(error)), otherwise
        calls.append(call)
        return value

    if not turn:
        text = PLAN.format(instruction=instruction, knowledge=knowledge and f"\nKnown: {knowledge}")
        return RoleState(await ask("manager", text, (0,), read_items, ())), tuple(calls)
    seen = (turn - 1, turn)
    success, why = await ask("reflector", REFLECT.format(action=action), seen, read_feedback, (False, ""))
    state = dataclasses.replace(state, success=success, feedback=why)
    if success:
        text = TAKE_NOTES.format(instruction=instruction, notes=items(state.notes))
        notes = await ask("notetaker", text, (turn,), read_items, state.notes)
        state = dataclasses.replace(state, notes=notes)
    text = REPLAN.format(instruction=instruction, subgoals=items(state.subgoals), feedback=state.verdict)
    subgoals = await ask("manager", text, (turn,), read_items, state.subgoals)
    return dataclasses.replace(state, subgoals=subgoals), tuple(calls)


def told(instruction: str, state: RoleState) -> str:
    """The instruction as the Worker reads it: I, SS, F, N."""
    parts = [instruction, SUBGOALS, " ".join(state.subgoals) or NONE]
    parts += [] if state.feedback is None else [FEEDBACK, state.verdict]
    return "".join([*parts, NOTES, " ".join(state.notes)] if state.notes else parts)


def role_prompt(prompts: Prompts, text: str, screens: Sequence[ImageInput]) -> Prompt:
    """What a role is asked, as token ids. Raises ValueError where they are over the context's limit."""
    content = [*({"type": "image", "image": screen} for screen in screens), {"type": "text", "text": text}]
    prompt = render_messages(prompts.tokenizer, [{"role": "user", "content": content}])
    limit = prompts.context.max_prompt_tokens
    if limit is not None and len(prompt.ids) > limit:
        raise ValueError(f"a role is asked in {len(prompt.ids)} ids, over the limit of {limit}: {text[:120]!r}")
    return prompt


def items(found: Sequence[str]) -> str:
    """Subgoals or notes as a role writes them."""
    return "\n".join(found) or NONE


def read_items(text: str) -> tuple[str, ...]:
    """Subgoals or notes of an answer; () for None. Raises ValueError for an empty one, or one that makes a call."""
    found = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not found or OPEN in text:
        raise ValueError("it lists nothing" if not found else "a call where lines were asked for")
    return () if found == (NONE,) else found


def read_feedback(text: str) -> tuple[bool, str]:
    """(j, phi) of a Reflector's answer. Raises ValueError where it gives no verdict."""
    verdict, _, why = text.strip().partition(" ")
    if verdict not in (SUCCESS, FAILURE):
        raise ValueError(f"it begins with neither {SUCCESS} nor {FAILURE}")
    return verdict == SUCCESS, why.strip()


def action_of(past: HistoryTurn) -> str:
    """a_t of an earlier turn: its sentence, and the call as it was made."""
    start = find_call(past.response_text)
    call = "no call" if start is None else past.response_text[start:].replace(OPEN, "").replace(CLOSE, "").strip()
    return f"{past.conclusion} {call}".strip()


class RolesAgent:
    """Plays episodes in four roles that share one policy; draws depend on the episode's id, the turn and the role.

    knowledge: K for an instruction. The Worker ends the episode; where no subgoal is left it is told so. Where a role's
    prompt is over the context's limit, it is not asked; of what the Worker is told, the oldest notes, the last subgoals
    and the feedback are left out until it fits.
    """

    source = "policy"

    def __init__(
        self,
        sampler: Sampler,
        prompts: Prompts,
        params: SamplingParams = SamplingParams(),  # noqa: B008 - frozen
        knowledge: Callable[[str], str] = lambda instruction: "",
    ):
        self.prompts, self._sampler, self._params, self._knowledge = prompts, sampler, params, knowledge
        self._worker = PolicyAgent(sampler, prompts, params)
        self._states: WeakKeyDictionary[Session, RoleState] = WeakKeyDictionary()  # of the episodes that are played

    async def act(self, view: View) -> Reply:
        """The Worker's response after the others have spoken. Raises ValueError if its prompt is over the limit."""
        started, turn = time.monotonic(), len(view.history)
        screens = [*(past.screenshot for past in view.history), view.screenshot]

        async def say(role: str, text: str, seen: tuple[int, ...]) -> RoleCall:
            try:
                prompt = role_prompt(self.prompts, text, [screens[index] for index in seen])
            except ValueError as error:
                return RoleCall(role, (), (), (), (), (), "", failure=str(error))
            key = int.from_bytes(hashlib.sha256(f"{view.episode}/{turn}/{role}".encode()).digest()[:4], "big")
            (done,) = await self._sampler.sample([prompt], self._params, [key])
            answer = decode_response(self.prompts.tokenizer, done.token_ids)
            grids = tuple(image.grid for image in prompt.images)
            return RoleCall(role, tuple(prompt.ids), grids, seen, tuple(done.token_ids), tuple(done.logprobs), answer)

        action = action_of(view.history[-1]) if turn else ""
        known = "" if turn else self._knowledge(view.instruction)
        before = self._states[view.session] if turn else RoleState()
        state, calls = await update(say, view.instruction, turn, action, before, known)
        self._states[view.session] = state
        reply = await self._worker.act(self._told(view, state))
        return dataclasses.replace(reply, calls=calls, seconds=time.monotonic() - started)

    def _told(self, view: View, state: RoleState) -> View:
        """The Worker's view: as much of the state as its prompt has room for."""
        while True:
            seen = dataclasses.replace(view, instruction=told(view.instruction, state))
            try:
                self.prompts.of(seen)
                return seen
            except ValueError:
                if state.notes:
                    state = dataclasses.replace(state, notes=state.notes[1:])
                elif state.subgoals:
                    state = dataclasses.replace(state, subgoals=state.subgoals[:-1])
                elif state.feedback:
                    state = dataclasses.replace(state, feedback="")
                else:
                    raise
