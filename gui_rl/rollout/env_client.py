"""The client of environment servers: sessions over HTTP, with retries where a retry is safe, and faults kept apart.

In: a server's URL and token. Out: observations, step replies and verdicts of `env_servers.protocol.messages`.

- A step is re-sent after a broken connection: the server recognises (episode, step) and never clicks twice (R31).
  Requests that change nothing are re-sent too. Nothing else is.
- What goes wrong in the environment is an `EnvFault` with its outcome; it is never a reward (R24, R33). A server that
  is lost in the middle of an episode is one as well.
- A full server (429) is waited for as it asks, up to a deadline.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, TypeVar

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
    Problem,
    Response,
    ScriptReply,
    StepReply,
    StepRequest,
    TaskInfo,
)
from gui_rl.errors import UserError

Reply = TypeVar("Reply")
_LEASES = TypeAdapter(list[Lease])
_TASKS = TypeAdapter(list[TaskInfo])
_RESENDS = 4
_FIRST_PAUSE_S = 0.1
_LOST = (aiohttp.ClientError, TimeoutError)
"""What a request raises when no reply came."""


class EnvFault(Exception):
    """The environment failed, not the policy: `outcome` is env_crash, reset_failed or grader_error."""

    def __init__(self, outcome: Outcome, detail: str) -> None:
        super().__init__(f"{outcome}: {detail}")
        self.outcome, self.detail = outcome, detail


class RefusedError(Exception):
    """The server refused a request that this program should not have sent; `problem.code` says why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.code}: {problem.detail}")
        self.problem = problem


class EnvClient:
    """A connection pool to one environment server; use it as `async with EnvClient(url, token) as client`.

    timeout_s: of one request. full_deadline_s: how long to wait for room on a full server.
    """

    def __init__(self, url: str, token: str = "", timeout_s: float = 90.0, full_deadline_s: float = 300.0) -> None:
        self.url, self.full_deadline_s = url.rstrip("/"), full_deadline_s
        self._token = token
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._http: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> EnvClient:
        self._connected()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections; sessions stay with the server until they are closed or expire."""
        if self._http is not None:
            await self._http.close()

    def _connected(self) -> aiohttp.ClientSession:
        if self._http is None:  # made where an event loop runs
            connector = aiohttp.TCPConnector(limit=0)  # a session at most has one request on its way
            self._http = aiohttp.ClientSession(
                connector=connector, timeout=self._timeout, cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._http

    async def tasks(self, suite: str = "virtual") -> list[TaskInfo]:
        """All tasks of a suite. Raises UserError for an unknown suite or an unreachable server."""
        return _TASKS.validate_json(await self._first_ask("GET", f"/v1/suites/{suite}/tasks"))

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
    ) -> list[Session]:
        """`count` sessions on one task and seed, in one call (R38).

        tools: True offers all tools of the app, names offer those. distractors: tools of other apps beside them.
        composites: tools made of the app's own.
        script: scripted moves may be asked for. disturb: what gets in the way. marks: number the elements on the
        screenshots.
        Raises UserError for an unreachable server, a wrong token, an unknown task, a server that stays full.
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
        leases = _LEASES.validate_json(await self._first_ask("POST", "/v1/sessions", request))
        return [Session(self, lease) for lease in leases]

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

    async def _first_ask(self, method: str, path: str, body: Message | None = None) -> bytes:
        """A request outside of any session: where no server answers, that is for the user to put right."""
        try:
            return await self._ask(method, path, self._token, body)
        except aiohttp.ClientConnectorError as error:
            raise UserError(
                f"no environment server answers at {self.url}: start one with `gui-rl env serve`"
            ) from error
        except _LOST as error:
            raise UserError(
                f"{self.url} broke off ({error or type(error).__name__}): see the server's output"
            ) from error

    async def _ask(
        self, method: str, path: str, token: str, body: Message | None = None, *, resend: bool = False
    ) -> bytes:
        """The reply's body. resend: sending it twice is the same as once.

        Raises UserError, EnvFault, RefusedError, and one of `_LOST` when there is no connection.
        """
        deadline = time.monotonic() + self.full_deadline_s
        attempt = 0
        while True:
            try:
                async with self._connected().request(
                    method,
                    self.url + path,
                    data=body.model_dump_json() if body else None,
                    headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
                ) as reply:
                    content = await reply.read()
            except _LOST:
                attempt += 1
                if not resend or attempt > _RESENDS:
                    raise
                await asyncio.sleep(_FIRST_PAUSE_S * 2 ** (attempt - 1))
                continue
            if reply.status < 400:
                return content
            problem = _problem(reply, content)
            if problem.code == "full":
                pause = float(reply.headers.get("Retry-After", 1))
                if time.monotonic() + pause > deadline:
                    raise UserError(
                        f"{self.url} stayed full for {self.full_deadline_s:.0f} s ({problem.detail}): "
                        "ask for fewer sessions at once, or start it with a larger --max-sessions"
                    )
                await asyncio.sleep(pause)
                continue
            raise _error(problem, self.url)


class Session:
    """One lease on an environment, and where its episode is. Not for two tasks at a time.

    Attributes:
      lease: what holds for the whole session (device, instruction, tools, max_steps, ...).
      episode, step: the next step's key; set by `reset`.
    """

    def __init__(self, client: EnvClient, lease: Lease) -> None:
        self.lease = lease
        self.episode = 0
        self.step_index = 0
        self._client = client

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
        try:
            return await self._client._ask(method, path, self.lease.token, body, resend=resend)
        except _LOST as error:
            raise EnvFault(lost, f"{self._client.url} was lost: {error or type(error).__name__}") from error
        except RefusedError as error:
            if error.problem.code == "unknown_session":
                raise EnvFault(lost, f"{error.problem.detail}; or the server was restarted") from error
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
    ) -> StepReply:
        """One step: `action` is {"name", "arguments"}, or None with the `parse_error` of a response without a call.

        text, token_ids: the response as sampled, kept by the server with the episode. Raises EnvFault("env_crash" or
        "grader_error").
        """
        request = StepRequest(
            episode=self.episode,
            step=self.step_index,
            action=dict(action) if action is not None else None,
            parse_error=parse_error,
            response=None if text is None else Response(text=text, token_ids=list(token_ids)),
        )
        reply = StepReply.model_validate_json(await self._ask("POST", "step", request, resend=True))
        self.step_index += 1
        return reply

    async def evaluate(self) -> EvaluateReply:
        """The verdict on the episode; asking again gives the same. Its outcome may itself be a fault (score None)."""
        return EvaluateReply.model_validate_json(await self._ask("POST", "evaluate", resend=True, lost="grader_error"))

    async def script(self) -> ScriptReply:
        """The task's scripted next move (sessions made with script=True)."""
        return ScriptReply.model_validate_json(await self._ask("POST", "script", resend=True))

    async def record(self) -> EpisodeReply:
        """The episode as the server keeps it, with the responses' token ids."""
        return EpisodeReply.model_validate_json(await self._ask("GET", "episode", resend=True))

    async def heartbeat(self) -> Heartbeat:
        """Keep the session while nothing else is asked of it."""
        return Heartbeat.model_validate_json(await self._ask("POST", "heartbeat", resend=True))

    async def close(self) -> None:
        """End the session; one that is gone already is none the worse for it."""
        with contextlib.suppress(EnvFault):
            await self._ask("DELETE", "", resend=True)


def _problem(reply: aiohttp.ClientResponse, content: bytes) -> Problem:
    try:
        return Problem.model_validate_json(content)
    except ValueError:
        text = content[:200].decode(errors="replace").replace("\n", " ")
        return Problem(title=reply.reason or "", status=reply.status, code="http_error", detail=text or "no detail")


def _error(problem: Problem, url: str) -> Exception:
    if problem.outcome is not None:
        return EnvFault(problem.outcome, problem.detail)
    if problem.code == "unauthorized":
        return UserError(f"{url} does not accept this token: pass the one that the server was started with")
    if problem.code in ("unknown_suite", "unknown_task", "unknown_tool", "too_many_sessions", "invalid_request"):
        return UserError(f"{url} refuses: {problem.detail}")
    return RefusedError(problem)
