"""One environment server of several, as a client sees it: its requests, how full it is, and whether it can be trusted.

In: a URL. Out: replies, or what went wrong as an exception of its kind.

- A request that changes nothing, or that the server recognises when it comes again (R31), is re-sent after a broken
  connection. Nothing else is.
- While requests are on their way the server is asked every `PING_EVERY_S` whether it lives. One that does not answer is
  lost, and so are they: a cut network is noticed in seconds, a slow page is waited for.
- A server that is lost, or whose sessions fail several times in a row, is in quarantine: no sessions are asked of it
  for a time that doubles until one of its episodes ends well.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

import aiohttp

from env_servers.protocol.messages import Message, Outcome, Problem
from gui_rl.errors import UserError

RESENDS = 4
RESEND_FOR_S = 20.0  # after the first sending
FIRST_PAUSE_S = 0.1
PING_EVERY_S, PING_S = 2.0, 5.0
PROBE_EVERY_S = 2.0  # how old the knowledge of a server's load may be
STRIKES = 3  # faults in a row that put a server in quarantine
QUARANTINE_S = (1.0, 60.0)  # the first, and the longest
SLACK_S = 10.0  # a request that began before its deadline may end this much later
LOST = (aiohttp.ClientError, TimeoutError)
"""What a request raises when no reply came."""
_NOT_SERVING = ("draining", "not_ready", "http_error")
_FOR_THE_USER = ("unknown_suite", "unknown_task", "unknown_tool", "too_many_sessions", "invalid_request")


class EnvFault(Exception):
    """The environment failed, not the policy: `outcome` is env_crash, reset_failed or grader_error."""

    def __init__(self, outcome: Outcome, detail: str) -> None:
        super().__init__(f"{outcome}: {detail}")
        self.outcome, self.detail = outcome, detail


class ClosedError(RuntimeError):
    """The client was closed before: there is no connection to wait for."""


class RefusedError(Exception):
    """The server refused a request; `problem.code` says why."""

    def __init__(self, problem: Problem, retry_after_s: float = 1.0) -> None:
        super().__init__(f"{problem.code}: {problem.detail}")
        self.problem, self.retry_after_s = problem, retry_after_s

    @property
    def full(self) -> bool:
        """There is no room now."""
        return self.problem.code == "full"

    @property
    def not_serving(self) -> bool:
        """The server (or what stands before it) takes no sessions at present."""
        return self.problem.status >= 500 and self.problem.code in _NOT_SERVING


class Server:
    """One server. `connected` gives the connection pool; timeout_s: of one request.

    Attributes:
      served: whether it has ever given a session.
      sessions, limit: how many it holds and how many fit, as last heard, with those made and closed here since.
      placing: sessions that it is being asked for.
      trouble: why it last gave no session.
    """

    def __init__(self, url: str, token: str, connected: Callable[[], aiohttp.ClientSession], timeout_s: float) -> None:
        self.url, self.served, self.sessions, self.placing, self.limit = url.rstrip("/"), False, 0, 0, 1
        self.trouble: Exception | None = None
        self._token, self._connected, self._timeout_s = token, connected, timeout_s
        self._strikes, self._back_off, self._free_at, self._probed_at = 0, QUARANTINE_S[0], 0.0, float("-inf")
        self._in_flight: set[asyncio.Timeout] = set()
        self._watch: asyncio.Task[None] | None = None
        self._closed = False

    # --- requests ----------------------------------------------------------------------------------------------------
    async def ask(
        self,
        method: str,
        path: str,
        token: str | None = None,
        body: Message | None = None,
        *,
        resend: bool = False,
        deadline: float | None = None,
    ) -> bytes:
        """The reply's body. token: of a session, else the server's. resend: sending it twice is the same as once.
        deadline: `time.monotonic()` by which the reply is needed (with `SLACK_S` more).

        Raises UserError, EnvFault, RefusedError, and one of `LOST` when there is no connection.
        """
        began, attempt = time.monotonic(), 0
        if self._closed:
            raise ClosedError("the client is closed")
        while True:
            try:
                return await self._send(method, path, self._token if token is None else token, body, deadline)
            except LOST:
                attempt += 1
                now = time.monotonic()
                late = now - began > RESEND_FOR_S or (deadline is not None and now > deadline)
                if not resend or attempt > RESENDS or late:
                    raise
                await asyncio.sleep(FIRST_PAUSE_S * 2 ** (attempt - 1))

    async def _send(self, method: str, path: str, token: str, body: Message | None, deadline: float | None) -> bytes:
        left = self._timeout_s
        if deadline is not None:
            left = min(left, max(deadline + SLACK_S - time.monotonic(), 1.0))
        async with asyncio.timeout(left) as limit:
            self._in_flight.add(limit)
            if self._watch is None or self._watch.done():
                self._watch = asyncio.create_task(self._watching())
            try:
                async with self._connected().request(
                    method,
                    self.url + path,
                    data=body.model_dump_json() if body else None,
                    headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
                ) as reply:
                    content = await reply.read()
            finally:
                self._in_flight.discard(limit)
        if reply.status < 400:
            return content
        raise self._error(_problem(reply, content), float(reply.headers.get("Retry-After", 1)))

    async def _watching(self) -> None:
        """While requests are on their way: a server that twice does not answer is lost, and they are given up."""
        missed = 0
        await asyncio.sleep(PING_EVERY_S)
        while self._in_flight:
            missed = 0 if await self._answers() else missed + 1
            if missed == 2:
                now = asyncio.get_running_loop().time()
                for limit in list(self._in_flight):
                    if not limit.expired():
                        limit.reschedule(now)
                self.quarantine()
                return
            await asyncio.sleep(PING_EVERY_S)

    async def _answers(self) -> bool:
        with contextlib.suppress(*LOST):
            async with asyncio.timeout(PING_S), self._connected().get(f"{self.url}/livez"):
                return True
        return False

    def _error(self, problem: Problem, retry_after_s: float) -> Exception:
        if problem.outcome is not None:
            return EnvFault(problem.outcome, f"{self.url}: {problem.detail}")
        if problem.code == "unauthorized":
            return UserError(f"{self.url} does not accept this token: pass the one that the server was started with")
        if problem.code in _FOR_THE_USER:
            return UserError(f"{self.url} refuses: {problem.detail}")
        return RefusedError(problem, retry_after_s)

    async def close(self) -> None:
        """Stop watching; nothing is asked from now on."""
        self._closed = True
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)

    # --- trust -------------------------------------------------------------------------------------------------------
    @property
    def load(self) -> float:
        """Share of its places that are taken."""
        return (self.sessions + self.placing) / max(self.limit, 1)

    @property
    def quarantined_s(self) -> float:
        """How long it still gets no sessions; 0 when it may."""
        return max(self._free_at - time.monotonic(), 0.0)

    def quarantine(self) -> None:
        """No sessions for a while, twice as long as the last time; one that is in quarantine stays as it is."""
        if not self.quarantined_s:
            self._free_at = time.monotonic() + self._back_off
            self._back_off = min(2 * self._back_off, QUARANTINE_S[1])
            self._strikes, self._probed_at = 0, float("-inf")

    def failed(self) -> None:
        """One of its sessions met a fault."""
        self._strikes += 1
        if self._strikes >= STRIKES:
            self.quarantine()

    def ended_well(self) -> None:
        """One of its episodes has got a verdict on the policy."""
        self._strikes, self._back_off = 0, QUARANTINE_S[0]

    async def probe(self) -> None:
        """Learn how full it is, if that was long ago; one that does not serve goes into quarantine."""
        if time.monotonic() - self._probed_at < PROBE_EVERY_S:
            return
        self._probed_at = time.monotonic()
        try:
            async with asyncio.timeout(PING_S), self._connected().get(f"{self.url}/readyz") as reply:
                if reply.status != 200:
                    raise RefusedError(_problem(reply, await reply.read()))
                said = await reply.json(content_type=None)
        except (*LOST, ValueError, RefusedError) as error:
            self.trouble = error
            self.quarantine()
            return
        if isinstance(said, dict) and {"sessions", "limit"} <= said.keys():  # another's server may not say
            self.sessions, self.limit = int(said["sessions"]), int(said["limit"])


def _problem(reply: aiohttp.ClientResponse, content: bytes) -> Problem:
    try:
        return Problem.model_validate_json(content)
    except ValueError:
        text = content[:200].decode(errors="replace").replace("\n", " ")
        return Problem(title=reply.reason or "", status=reply.status, code="http_error", detail=text or "no detail")
