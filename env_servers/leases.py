"""Leases: who may use a session, for how long, and how many fit (R30, R38).

In: requests for sessions, tokens, the clock. Out: sessions, or a `Refusal` with a stable code. A session ends when it
is closed, when its owner has been silent for `idle_s`, or at its hard limit `ttl_s`; what it holds is given back then.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .episode import Episode
from .errors import UserError
from .logs import say
from .metrics import Metrics
from .protocol.actions import ARGUMENTS
from .protocol.messages import CreateSessions, Heartbeat, Lease, Observation, Outcome, StepReply, StepRequest
from .screens import Screen, Source
from .suites import SUITES, instantiate, tasks
from .suites.composite import spec_of
from .suites.distractors import with_distractors
from .suites.disturb import disturbed
from .suites.suite import SWITCH, TaskInstance, switch_tool

RETRY_AFTER_S = 1
REAP_EVERY_S = 1.0
LINGER_S = 2.0  # a draining server waits this long for more requests about an episode that is over
_NAME = re.compile(r"\d+-([0-9a-f]{16})-[0-9a-f]{16}")  # worker, generation, number


class Refusal(Exception):
    """A request that gets a problem for a reply; `code` is stable, `outcome` is set for faults of the environment."""

    def __init__(
        self, status: int, code: str, detail: str, outcome: Outcome | None = None, retry_after: int | None = None
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.status, self.code, self.detail, self.outcome, self.retry_after = status, code, detail, outcome, retry_after

    @classmethod
    def fault(cls, outcome: Outcome, detail: str) -> Refusal:
        """An environment fault: its outcome is its code."""
        return cls(500, outcome, detail, outcome)


def lost_session(session_id: str, why: str) -> Refusal:
    """The refusal for a session that went with its process."""
    return Refusal(410, "lost_session", f"session {session_id} is lost: {why}", "env_crash")


@dataclass
class Sent:
    """A step that has come in: what it asked, and its reply once there is one."""

    request: StepRequest
    reply: asyncio.Task[StepReply]

    def same_as(self, request: StepRequest) -> bool:
        """Whether a request repeats this one."""
        return (self.request.action, self.request.parse_error) == (request.action, request.parse_error)


@dataclass
class Session:
    """One lease. `lock` is held while its screens are in use. device: the one in front; `screen` is its screen."""

    id: str
    token: str
    request: CreateSessions
    instance: TaskInstance
    tools: list[dict[str, Any]]
    born: float
    seen: float
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    screens: dict[str, Screen] = field(default_factory=dict)
    device: str = ""
    episode: Episode | None = None
    sent: dict[int, Sent] = field(default_factory=dict)
    first: Observation | None = None
    last: Observation | None = None

    def __post_init__(self) -> None:
        self.device = self.device or self.instance.task.device

    @property
    def screen(self) -> Screen | None:
        """The screen of the device that is in hand."""
        return self.screens.get(self.device)


class Leases:
    """The sessions of a server. `screens` draws them; `clock` gives seconds and is for tests to turn.

    A session's id is WORKER-GENERATION-NUMBER: it says which worker process holds it, and which run of it did.
    """

    def __init__(
        self,
        screens: Source,
        max_sessions: int = 64,
        metrics: Metrics | None = None,
        clock: Callable[[], float] = time.monotonic,
        worker: int = 0,
    ) -> None:
        self.screens, self.max_sessions, self.clock, self.worker = screens, max_sessions, clock, worker
        self.metrics = metrics or Metrics()
        self.metrics.capacity.set(max_sessions)
        self.generation = secrets.token_hex(8)
        self.draining = False
        self._sessions: dict[str, Session] = {}

    async def create(self, request: CreateSessions) -> list[Lease]:
        """`count` sessions or none. Refusals: unknown_suite, unknown_task, unknown_tool, invalid_request,
        too_many_sessions, full (429), draining (503)."""
        if self.draining:
            raise Refusal(503, "draining", "this server is shutting down", retry_after=RETRY_AFTER_S)
        if request.suite not in SUITES:
            raise Refusal(404, "unknown_suite", f"there is no suite {request.suite!r}; see GET /v1/suites")
        if request.task not in tasks(request.suite):
            raise Refusal(
                404, "unknown_task", f"suite {request.suite!r} has no task {request.task!r}; see GET /v1/suites/…/tasks"
            )
        try:
            instance = disturbed(instantiate(request.suite, request.task, request.seed), request.disturb)
            composed = [spec_of(composite, instance.tools).schema() for composite in request.composites]
            switch = [switch_tool(instance.task.devices).schema()] if len(instance.task.devices) > 1 else []
            offered = [*switch, *self._offered(instance, request.tools), *composed]
            if len({composite.name for composite in request.composites}) < len(composed):
                raise UserError("two composites have the same name")
            offered = with_distractors(instance, offered, request.distractors)
        except (ValueError, UserError) as error:
            raise Refusal(422, "invalid_request", str(error)) from error
        if request.marks and not any("label" in ARGUMENTS[device] for device in instance.task.devices):
            detail = f"marks are of no use on {instance.task.device}: its actions take no label; leave them out"
            raise Refusal(422, "invalid_request", detail)
        if request.count > self.max_sessions:
            raise Refusal(422, "too_many_sessions", f"this server holds at most {self.max_sessions} sessions")
        slots = getattr(SUITES[request.suite], "slots", self.max_sessions)
        if request.count > slots:
            raise Refusal(422, "too_many_sessions", f"the world {request.suite!r} has {slots} slots: name more URLs")
        if len(self._sessions) + request.count > self.max_sessions:
            await self.reap()
        taken = sum(session.request.suite == request.suite for session in self._sessions.values())
        if taken + request.count > slots:
            self.metrics.refused.inc()
            detail = f"{request.count} sessions do not fit: {taken} of {slots} slots of {request.suite!r} are taken"
            raise Refusal(429, "full", detail, retry_after=RETRY_AFTER_S)
        if len(self._sessions) + request.count > self.max_sessions:
            self.metrics.refused.inc()
            free = self.max_sessions - len(self._sessions)
            detail = f"{request.count} sessions do not fit: {free} of {self.max_sessions} are free"
            raise Refusal(429, "full", detail, retry_after=RETRY_AFTER_S)
        now = self.clock()
        made = [
            Session(self._name(), secrets.token_urlsafe(24), request, instance, offered, now, now)
            for _ in range(request.count)
        ]
        self._sessions.update({session.id: session for session in made})
        self.metrics.created.inc(len(made))
        self.metrics.sessions.set(len(self._sessions))
        named = {"suite": request.suite, "task": request.task, "seed": request.seed}
        say("info", "sessions", sessions=[session.id for session in made], **named)
        return [self._lease(session) for session in made]

    def _name(self) -> str:
        return f"{self.worker}-{self.generation}-{secrets.token_hex(8)}"

    @staticmethod
    def _offered(instance: TaskInstance, wanted: bool | list[str]) -> list[dict[str, Any]]:
        known = {spec.name: spec.schema() for spec in instance.tools}
        names = (list(known) if wanted else []) if isinstance(wanted, bool) else [n for n in wanted if n != SWITCH]
        for name in names:
            if name not in known:
                listed = ", ".join(known) or "none"
                raise Refusal(422, "unknown_tool", f"task {instance.task.id!r} has no tool {name!r}, but: {listed}")
        return [known[name] for name in names]

    def _lease(self, session: Session) -> Lease:
        instance, task = session.instance, session.instance.task
        return Lease(
            session=session.id,
            token=session.token,
            generation=self.generation,
            suite=session.request.suite,
            task=task.id,
            seed=session.request.seed,
            device=task.device,
            devices=list(task.devices),
            instruction=instance.instruction or task.instruction_template,
            css_width=instance.page.width,
            css_height=instance.page.height,
            max_steps=task.max_steps,
            total=len(instance.checkpoints),
            tools=session.tools,
        )

    def get(self, session_id: str, token: str) -> Session:
        """The session, its silence ended. Refusals: unknown_session (404; an expired one too), lost_session (410: of
        a run of the server that is over), unauthorized (401)."""
        session = self._sessions.get(session_id)
        if session is None:
            if (named := _NAME.fullmatch(session_id)) and named[1] != self.generation:
                raise lost_session(session_id, f"the server was started anew (generation {self.generation})")
            raise Refusal(404, "unknown_session", f"there is no session {session_id}: never made, closed or expired")
        if not hmac.compare_digest(session.token.encode(), token.encode()):
            raise Refusal(401, "unauthorized", f"this is not the token of session {session_id}")
        session.seen = self.clock()
        return session

    def heartbeat(self, session: Session) -> Heartbeat:
        """Says how long a session has to live."""
        left = session.born + session.request.ttl_s - self.clock()
        return Heartbeat(generation=self.generation, expires_in_s=max(left, 0.0))

    async def close(self, session: Session) -> None:
        """End a session and give its screen back; an in-flight step is waited for."""
        self._sessions.pop(session.id, None)
        self.metrics.sessions.set(len(self._sessions))
        async with session.lock:
            await self._release(session)

    async def close_all(self) -> None:
        """End every session; no new ones from here on."""
        self.draining = True
        await asyncio.gather(*(self.close(session) for session in list(self._sessions.values())))

    @property
    def held(self) -> int:
        """Sessions on lease."""
        return len(self._sessions)

    def _busy(self, session: Session) -> bool:
        """Whether an episode runs or its owner may still have something to ask about it."""
        episode = session.episode
        if session.lock.locked() or (episode and episode.verdict is None and episode.fault is None):
            return True
        return episode is not None and self.clock() - session.seen < LINGER_S

    async def drain(self, grace_s: float, every_s: float = 0.05) -> int:
        """No new sessions or episodes; running ones have `grace_s` to end. Returns how many had not ended by then."""
        self.draining = True
        say("info", "draining", sessions=self.held, grace_s=grace_s)
        last = self.clock() + grace_s
        while (busy := sum(map(self._busy, self._sessions.values()))) and self.clock() < last:
            await asyncio.sleep(every_s)
        say("info", "drained", cut_off=busy)
        return busy

    async def reap(self) -> int:
        """End the sessions whose time is up; returns how many."""
        now, ended = self.clock(), []
        for session in self._sessions.values():
            old = now - session.born >= session.request.ttl_s
            silent = now - session.seen >= session.request.idle_s and not session.lock.locked()
            if old or silent:
                self.metrics.expired.labels("ttl" if old else "idle").inc()
                say("info", "expired", session=session.id, reason="ttl" if old else "idle")
                ended.append(session)
        await asyncio.gather(*(self.close(session) for session in ended))
        return len(ended)

    async def reap_forever(self, every_s: float = REAP_EVERY_S) -> None:
        """The reaper: runs until it is cancelled."""
        while True:
            await asyncio.sleep(every_s)
            try:
                await self.reap()
            except Exception as error:
                say("error", "the reaper could not end every session; it goes on", error=error)

    async def _release(self, session: Session) -> None:
        screens, session.screens = session.screens, {}
        for screen in screens.values():
            await self.screens.release(screen)

    def _live(self, session: Session) -> None:
        """A request that waited for the lock may find its session closed: a screen leased now would never come back."""
        if session.id not in self._sessions:
            raise Refusal(404, "unknown_session", f"session {session.id} was closed or has expired")
