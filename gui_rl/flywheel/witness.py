"""What the world knows of every step of a trajectory: its actions are played again in a session of its own.

In: a stored episode of a suite with scripts. Out: `Witnessed`: what held before each of its steps, what the task's own
script would have done there, and what the screen showed that a later step needed. Exact annotations come from it.
"""

from __future__ import annotations

import dataclasses
import io
import re

import numpy as np
from PIL import Image

from env_servers.protocol.messages import Known, ScriptReply
from gui_rl.data.schema import Episode, Turn
from gui_rl.flywheel.annotator import AnnotatorError
from gui_rl.rollout.env_client import EnvClient, EnvFault

SAME = 2.0
"""Mean difference of two pictures' values (of 255) up to which they show the same state."""


@dataclasses.dataclass(frozen=True)
class Seen:
    """The world before a step: what is known, what the script would do, and the hash of the state."""

    known: Known
    move: ScriptReply
    state_hash: str


@dataclasses.dataclass(frozen=True)
class Witnessed:
    """An episode and its world. `seen[t]` is the world before step t; the last is that after the last step, where the
    episode did not end with it. `noted[t]`: what the screen of step t showed that a later step needs."""

    episode: Episode
    seen: tuple[Seen, ...]
    noted: tuple[tuple[str, ...], ...]

    def after(self, step: int) -> Seen | None:
        """The world after a step; None where it ended the episode."""
        return self.seen[step + 1] if step + 1 < len(self.seen) else None

    def memory(self, step: int) -> list[str]:
        """Everything noted up to the screen of `step`, that screen's notes included."""
        return list(dict.fromkeys(note for notes in self.noted[: step + 1] for note in notes))


async def witness(client: EnvClient, episode: Episode) -> Witnessed:
    """Plays the episode's actions again.

    Raises AnnotatorError where the suite says nothing about its states, the environment fails, or the screens are not
    those of the episode (one that was begun in the middle of its task, or recorded in another world).
    """
    seen: list[Seen] = []
    try:
        (session,) = await client.create(
            episode.suite, episode.task, episode.seed, tools=bool(episode.tools), script=True
        )
        try:
            observation, ended = await session.reset(), False
            for turn in episode.turns:
                if ended or not _same(observation.png, turn.screenshot):
                    raise AnnotatorError(f"{episode.id} turn {turn.index}: played again, it shows another screen")
                seen.append(_seen(episode, await session.script(), observation.state_hash))
                action = None if turn.action is None else dict(turn.action)
                reply = await session.step(action, parse_error=turn.parse_error, text=turn.text)
                observation, ended = reply.observation, reply.terminated or reply.truncated
            if not ended:
                seen.append(_seen(episode, await session.script(), observation.state_hash))
        finally:
            await session.close()
    except EnvFault as fault:
        raise AnnotatorError(f"{episode.id}: it could not be played again ({fault})") from fault
    return Witnessed(episode, tuple(seen), noted(episode, [one.known for one in seen]))


def noted(episode: Episode, known: list[Known]) -> tuple[tuple[str, ...], ...]:
    """What each step's screen shows that a later step needs: what the world says itself, and every fact with a value
    that is typed or answered later, that the instruction does not tell and that the screen of that later step does not
    show. Of several screens with the value the last counts. What the world says itself is not noted twice."""
    notes = [list(one.notes) for one in known[: len(episode.turns)]]
    for step, turn in enumerate(episode.turns):
        value = _typed(turn)
        if not value or _holds(episode.instruction, value) or any(_holds(a, value) for _, a in known[step].facts):
            continue
        if any(_holds(note, value) for earlier in notes[:step] for note in earlier):
            continue
        for earlier in reversed(range(step)):
            facts = sorted(known[earlier].facts, key=lambda fact: fact[1] != value)
            found = next((f"{ask} {answer}" for ask, answer in facts if _holds(answer, value)), None)
            if found is not None:
                notes[earlier].append(_sentence(found))
                break
    return tuple(tuple(dict.fromkeys(one)) for one in notes)


def _typed(turn: Turn) -> str:
    """The text that a step types, chooses or answers."""
    given = {} if turn.action is None else turn.action["arguments"]
    return str(next((given[name] for name in ("text", "option") if given.get(name)), "")).strip()


def _holds(text: str, value: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text) is not None


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _seen(episode: Episode, move: ScriptReply, state_hash: str) -> Seen:
    if move.known is None:
        raise AnnotatorError(f"{episode.id}: the suite {episode.suite} says nothing about its states: use an endpoint")
    return Seen(move.known, move, state_hash)


def _same(one: bytes, other: bytes) -> bool:
    if one == other:
        return True
    first, second = (np.asarray(Image.open(io.BytesIO(png)).convert("RGB"), np.int16) for png in (one, other))
    return first.shape == second.shape and float(np.abs(first - second).mean()) <= SAME
