"""The client of environment servers: sessions over HTTP from the least loaded of them, and faults kept apart.

In: the URLs of servers and their token. Out: observations, replies and verdicts of `env_servers.protocol.messages`.

- A group of sessions goes to the server with the most room that is not in quarantine (`env_fleet`); when all are full
  or lost, the first that is free again is waited for, up to a deadline.
- A step is re-sent after a broken connection: the server recognises (episode, step) and never clicks twice (R31).
- What goes wrong in the environment is an `EnvFault` with its outcome; it is never a reward (R24, R33). A server that
  is lost or started anew in the middle of an episode is one as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
import urllib.parse
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import aiohttp
from pydantic import TypeAdapter

from env_servers.protocol.messages import (
    Composite,
    CreateSessions,
    Disturbance,
    EpisodeReply,
    EvaluateReply,
    Heartbeat,
    Lease,
    Message,
    Observation,
    Outcome,
    Response,
    Sampled,
    ScriptReply,
    StepReply,
    StepRequest,
    TaskInfo,
)
from gui_rl.errors import UserError
from gui_rl.rollout.env_fleet import LOST, ClosedError, EnvFault, RefusedError, Server

__all__ = ["EnvClient", "EnvFault", "RefusedError", "Session"]

_LEASES = TypeAdapter(list[Lease])
_TASKS = TypeAdapter(list[TaskInfo])
DNS = "dns+"  # before a URL: its host name stands for every address that it resolves to
RESOLVE_EVERY_S = 10.0


class EnvClient:
    """A connection pool to environment servers; use it as `async with EnvClient(url, token) as client`.

    url: of one server, or of several that hold the same suites and take the same token; `dns+http://NAME:PORT` is a
    server at every address of the name, looked up again and again (Kubernetes' headless service). timeout_s: of one
    request.
    full_deadline_s: how long to wait for a place when every server is full or has been lost.
    """

    def __init__(
        self, url: str | Iterable[str], token: str = "", timeout_s: float = 90.0, full_deadline_s: float = 300.0
    ) -> None:
        urls = [url] if isinstance(url, str) else list(dict.fromkeys(url))
        if not urls:
            raise UserError("no environment server is named: give the URL of one at least")
        self.full_deadline_s = full_deadline_s
        self.url = ", ".join(one.rstrip("/") for one in urls)
        self._new = lambda one: Server(one, token, self._connected, timeout_s)
        self._fixed = [self._new(one) for one in urls if not one.startswith(DNS)]
        self._names = [urllib.parse.urlsplit(one.removeprefix(DNS)) for one in urls if one.startswith(DNS)]
        self._resolved_at, self.servers = float("-inf"), list(self._fixed)
        self._http: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> EnvClient:
        self._connected()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections; sessions stay with the server until they are closed or expire."""
        await asyncio.gather(*(server.close() for server in self.servers))
        if self._http is not None:
            await self._http.close()

    def _connected(self) -> aiohttp.ClientSession:
        if self._http is None:  # made where an event loop runs
            connector = aiohttp.TCPConnector(limit=0)  # a session at most has one request on its way
            self._http = aiohttp.ClientSession(
                connector=connector, timeout=aiohttp.ClientTimeout(total=None), cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._http

    async def _resolve(self) -> None:
        """Know the servers behind names: new addresses are added; gone ones get no sessions, those they have go on."""
        if not self._names or time.monotonic() < self._resolved_at + RESOLVE_EVERY_S:
            return
        urls = []
        for name in self._names:
            port = name.port or {"https": 443}.get(name.scheme, 80)
            try:
                found = await asyncio.get_running_loop().getaddrinfo(name.hostname, port, type=socket.SOCK_STREAM)
            except OSError as error:
                if self.servers:
                    return  # those known are served on
                raise UserError(
                    f"the name {name.hostname!r} of the environment servers has no address: {error}"
                ) from None
            hosts = [f"[{address[0]}]" if kind is socket.AF_INET6 else address[0] for kind, *_, address in found]
            urls += [f"{name.scheme}://{host}:{port}" for host in hosts]
        known = {server.url: server for server in self.servers}
        self.servers = self._fixed + [known.get(one) or self._new(one) for one in dict.fromkeys(urls)]
        self._resolved_at = time.monotonic()

    async def tasks(self, suite: str = "virtual") -> list[TaskInfo]:
        """All tasks of a suite. Raises UserError for an unknown suite or unreachable servers."""
        lost: Exception | None = None
        await self._resolve()
        for server in self.servers:
            try:
                return _TASKS.validate_json(await server.ask("GET", f"/v1/suites/{suite}/tasks", resend=server.served))
            except LOST as error:
                lost = error
        raise self._unreachable(lost) from lost

    async def create(
        self,
        suite: str,
        task: str,
        seed: int,
        count: int = 1,
        tools: bool | Iterable[str] = False,
        *,
        distractors: int = 0,
        composites: Iterable[Composite] = (),
        script: bool = False,
        disturb: Iterable[Disturbance] = (),
        marks: bool = False,
        ttl_s: float = 3600,
        idle_s: float = 300,
        deadline: float | None = None,
    ) -> list[Session]:
        """`count` sessions on one task and seed, in one call (R38).

        tools: True offers all tools of the app, names offer those. distractors: tools of other apps beside them.
        composites: tools made of the app's own.
        script: scripted moves may be asked for. disturb: what gets in the way. marks: number the elements on the
        screenshots. deadline: `time.monotonic()` at which the rollout ends; no request of these sessions is waited for
        much longer.
        Raises UserError for an unreachable server, a wrong token, an unknown task, servers that stay full or lost;
        EnvFault("reset_failed") where there is no place before the deadline.
        """
        request = CreateSessions(
            suite=suite,
            task=task,
            seed=seed,
            count=count,
            tools=tools if isinstance(tools, bool) else list(tools),
            distractors=distractors,
            composites=list(composites),
            script=script,
            disturb=list(disturb),
            marks=marks,
            ttl_s=ttl_s,
            idle_s=idle_s,
        )
        last = time.monotonic() + self.full_deadline_s
        while True:
            placed = await self._place(request, deadline)
            if isinstance(placed, list):
                return placed
            reason, pause = placed
            if deadline is not None and time.monotonic() + pause > min(deadline, last):
                raise EnvFault("reset_failed", f"no place before the deadline of the rollout: {reason}") from reason
            if time.monotonic() + pause > last:
                raise self._no_place(reason) from reason
            await asyncio.sleep(pause)

    async def _place(self, request: CreateSessions, deadline: float | None) -> list[Session] | tuple[Exception, float]:
        """Sessions of the least loaded server that gives them; or why there are none, and when to ask again (s)."""
        await self._resolve()
        if len(self.servers) > 1:
            await asyncio.gather(*(server.probe() for server in self.servers if not server.quarantined_s))
        usable = sorted((server for server in self.servers if not server.quarantined_s), key=lambda s: s.load)
        pauses = []
        for server in usable:
            server.placing += request.count  # others place theirs while this one is on its way
            try:
                made = await server.ask("POST", "/v1/sessions", body=request, deadline=deadline)
                server.served = True
                server.sessions += request.count
                return [Session(server, lease, deadline) for lease in _LEASES.validate_json(made)]
            except Exception as error:
                if isinstance(error, RefusedError) and error.full:
                    pauses.append(error.retry_after_s)
                elif isinstance(error, LOST) or (isinstance(error, RefusedError) and error.not_serving):
                    server.quarantine()
                else:
                    raise
                server.trouble = error
            finally:
                server.placing -= request.count
        reason = next((server.trouble for server in reversed(usable or self.servers) if server.trouble), None)
        if not (pauses or any(server.served for server in self.servers)):  # none ever was: a mistake in the set-up
            raise (reason if isinstance(reason, RefusedError) else self._unreachable(reason)) from reason
        waits = [server.quarantined_s for server in self.servers if server.quarantined_s]
        return reason, min([*pauses, *waits], default=0.1)

    def _no_place(self, reason: Exception | None) -> UserError:
        if isinstance(reason, RefusedError) and reason.full:
            return UserError(
                f"{self.url} stayed full for {self.full_deadline_s:.0f} s ({reason.problem.detail}): "
                "ask for fewer sessions at once, or start it with a larger --max-sessions"
            )
        return UserError(
            f"{self.url} gave no session for {self.full_deadline_s:.0f} s ({reason}): see the server's output"
        )

    def _unreachable(self, error: Exception | None) -> UserError:
        if isinstance(error, aiohttp.ClientConnectorError):
            return UserError(f"no environment server answers at {self.url}: start one with `gui-rl env serve`")
        return UserError(f"{self.url} broke off ({error or type(error).__name__}): see the server's output")

    @contextlib.asynccontextmanager
    async def group(
        self, suite: str, task: str, seed: int, count: int = 1, tools: bool | Iterable[str] = False, **options: Any
    ) -> AsyncIterator[list[Session]]:
        """`create`, and close every session at the end of the block, come what may."""
        sessions = await self.create(suite, task, seed, count, tools, **options)
        try:
            yield sessions
        finally:
            await asyncio.gather(*(session.close() for session in sessions))


class Session:
    """One lease on an environment, and where its episode is. Not for two tasks at a time.

    Attributes:
      lease: what holds for the whole session (device, instruction, tools, max_steps, ...).
      episode, step: the next step's key; set by `reset`.
    """

    def __init__(self, server: Server, lease: Lease, deadline: float | None = None) -> None:
        self.lease = lease
        self.episode = 0
        self.step_index = 0
        self._server, self._deadline, self._closed = server, deadline, False

    @property
    def device(self) -> str:
        """Device family."""
        return self.lease.device

    @property
    def instruction(self) -> str:
        """What the policy is asked to do."""
        return self.lease.instruction

    @property
    def tools(self) -> list[dict[str, Any]]:
        """Signatures of the tools on offer."""
        return self.lease.tools

    async def _ask(
        self, method: str, verb: str, body: Message | None = None, *, resend: bool = False, lost: Outcome = "env_crash"
    ) -> bytes:
        path = f"/v1/sessions/{self.lease.session}" + (f"/{verb}" if verb else "")
        server = self._server
        try:
            return await server.ask(method, path, self.lease.token, body, resend=resend, deadline=self._deadline)
        except LOST as error:
            server.quarantine()
            raise EnvFault(lost, f"{server.url} was lost: {error or type(error).__name__}") from error
        except EnvFault:
            server.failed()
            raise
        except RefusedError as error:
            if error.problem.code == "unknown_session":
                raise EnvFault(lost, f"{server.url}: {error.problem.detail}") from error
            if error.not_serving:
                server.quarantine()
                raise EnvFault(lost, f"{server.url}: {error.problem.detail}") from error
            raise

    async def reset(self) -> Observation:
        """Begin a new episode. Raises EnvFault("reset_failed")."""
        observation = Observation.model_validate_json(await self._ask("POST", "reset", lost="reset_failed"))
        self.episode, self.step_index = observation.episode, 0
        return observation

    async def step(
        self,
        action: Mapping[str, Any] | None,
        *,
        parse_error: str | None = None,
        text: str | None = None,
        token_ids: Iterable[int] = (),
        sampled: Sampled | None = None,
    ) -> StepReply:
        """One step: `action` is {"name", "arguments"}, or None with the `parse_error` of a response without a call.

        text, token_ids, sampled: the response as sampled, kept by the server with the episode. Raises
        EnvFault("env_crash" or "grader_error").
        """
        request = StepRequest(
            episode=self.episode,
            step=self.step_index,
            action=dict(action) if action is not None else None,
            parse_error=parse_error,
            response=None if text is None else Response(text=text, token_ids=list(token_ids), sampled=sampled),
        )
        reply = StepReply.model_validate_json(await self._ask("POST", "step", request, resend=True))
        self.step_index += 1
        return reply

    async def evaluate(self) -> EvaluateReply:
        """The verdict on the episode; asking again gives the same. Its outcome may itself be a fault (score None)."""
        verdict = EvaluateReply.model_validate_json(
            await self._ask("POST", "evaluate", resend=True, lost="grader_error")
        )
        if verdict.score is not None:
            self._server.ended_well()
        return verdict

    async def script(self) -> ScriptReply:
        """The task's scripted next move (sessions made with script=True)."""
        return ScriptReply.model_validate_json(await self._ask("POST", "script", resend=True))

    async def record(self, screenshots: bool = False) -> EpisodeReply:
        """The episode as the server keeps it, with the responses' token ids, and with what was seen if asked for."""
        verb = "episode?screenshots=true" if screenshots else "episode"
        return EpisodeReply.model_validate_json(await self._ask("GET", verb, resend=True))

    async def heartbeat(self) -> Heartbeat:
        """Keep the session while nothing else is asked of it."""
        return Heartbeat.model_validate_json(await self._ask("POST", "heartbeat", resend=True))

    async def close(self) -> None:
        """End the session; one that is gone already is none the worse for it."""
        if not self._closed:
            self._closed = True
            self._server.sessions = max(self._server.sessions - 1, 0)
        with contextlib.suppress(EnvFault, ClosedError):
            await self._ask("DELETE", "", resend=True)
