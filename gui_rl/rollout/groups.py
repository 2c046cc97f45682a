"""Pools of trajectories that compete with one another, and the rounds in which they are played.

In: tickets (a task and a seed). Out: `Pool`s of k*n scored episodes. Faults of the environment are played again
(`play_group`); what stays faulty is left out of the pool and counted, never scored (R24).
A round is the tickets of one optimisation step. Rounds are begun in their order and share the places to play in: while
the last episodes of one round are still running, those of the next one take the places that are free.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from gui_rl.data.schema import Episode
from gui_rl.rollout.agents import Agent
from gui_rl.rollout.env_client import EnvClient
from gui_rl.rollout.episode import Places, Spec, Transport, play_group


class Ticket(NamedTuple):
    """A task and a seed to be played; `tries`: how often it was played before and did not become a group."""

    suite: str
    task: str
    seed: int
    tries: int = 0

    @property
    def key(self) -> str:
        """The group key."""
        return f"{self.suite}/{self.task}/{self.seed}"


@dataclasses.dataclass(frozen=True)
class Pool:
    """The scored episodes of one group key, and how many others were lost: to the environment, or never begun."""

    key: str
    episodes: tuple[Episode, ...]
    faults: int

    @property
    def outcomes(self) -> list[bool]:
        """Raw successes, in the order of the episodes."""
        return [episode.success for episode in self.episodes]


async def play_pool(
    client: EnvClient,
    agent: Agent,
    ticket: Ticket,
    size: int,
    places: Places,
    *,
    first: int | None = None,
    run: str = "",
    deadline_s: float = 300.0,
    transport: Transport | None = None,
    lease: Mapping[str, Any] | None = None,
    tick: Callable[[Episode], None] = lambda episode: None,
) -> Pool:
    """Plays `size` episodes of a ticket. The deadline counts from when the first of them has its place (R28).

    An episode that had no turn before the deadline says nothing about the policy: it is lost, not failed.

    first: play so many, and the others (with a deadline of their own) only where those do not show both outcomes.
    lease: see `play_group`.
    """
    specs = [Spec(ticket.suite, ticket.task, ticket.seed, copy, run) for copy in range(size)]
    parts = [part for part in (specs[:first], specs[first:] if first is not None else []) if part]
    scored: list[Episode] = []
    played = 0
    for part in parts:
        if len(scored) == first and len({episode.success for episode in scored}) == 2:
            break
        episodes = await play_group(
            client, agent, part, places, deadline_s=deadline_s, transport=transport, lease=lease, tick=tick
        )  # fmt: skip
        scored += [episode for episode in episodes if episode.scored and episode.turns]
        played += len(part)
    return Pool(ticket.key, tuple(scored), played - len(scored))


class Rounds:
    """Rounds that are being played, by number.

    play: plays one ticket of the round of that number.
    """

    def __init__(self, play: Callable[[Ticket, int], Awaitable[Pool]]):
        self._play = play
        self._pools: dict[int, list[asyncio.Task[Pool]]] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._pools

    def begin(self, number: int, tickets: Sequence[Ticket]) -> None:
        """Begins a round, or adds tickets to one; it is played in the background."""
        pools = [asyncio.ensure_future(self._play(ticket, number)) for ticket in tickets]
        self._pools.setdefault(number, []).extend(pools)

    async def take(self, number: int) -> list[Pool]:
        """The round's pools in the order of its tickets, when all are complete; the round is over."""
        pools = await asyncio.gather(*self._pools[number])
        del self._pools[number]
        return pools

    async def stop(self) -> None:
        """Ends what is still being played."""
        running = [pool for pools in self._pools.values() for pool in pools]
        self._pools.clear()
        for pool in running:
            pool.cancel()
        await asyncio.gather(*running, return_exceptions=True)
