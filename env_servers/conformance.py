"""Does a server speak our protocol? Named checks of everything in it, against any server that is reachable over HTTP.

In: a URL and the server's token. Out: a `Verdict` for every check. `gui-rl env check URL` prints them, one a line.

The checks use public requests alone. They take sessions, all of them for a moment (`full`): run them on a server that
nobody else uses at that time.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
from pydantic import TypeAdapter, ValidationError

from .browser import png_size
from .errors import UserError
from .protocol.actions import FUNCTIONS
from .protocol.messages import EvaluateReply, Lease, Observation, StepReply

_LEASES = TypeAdapter(list[Lease])


class Broken(Exception):
    """The server does not do what the protocol says."""


@dataclass(frozen=True)
class Verdict:
    """What a check found; `says` is one line. ok None: it could not be tried on this server."""

    name: str
    ok: bool | None
    says: str

    def __str__(self) -> str:
        return f"{'skip' if self.ok is None else 'ok' if self.ok else 'FAIL':4}  {self.name:14} {self.says}"


class NotTried(Exception):
    """The server has nothing to try this check on."""


Check = Callable[["Wire"], Awaitable[str]]
CHECKS: dict[str, Check] = {}


def check(name: str) -> Callable[[Check], Check]:
    """Adds a check. It returns what it saw, or raises `Broken`, or `NotTried`."""

    def add(made: Check) -> Check:
        CHECKS[name] = made
        return made

    return add


def expect(holds: object, says: str) -> None:
    """Raises Broken with `says` unless it holds."""
    if not holds:
        raise Broken(says)


@dataclass(frozen=True)
class Reply:
    """Status, headers (names in lower case) and body."""

    status: int
    headers: dict[str, str]
    body: bytes
    what: str

    def json(self) -> Any:
        """The body as JSON; raises Broken where it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            raise Broken(f"{self.what} answers something that is not JSON") from None

    def good(self, model: Any = None) -> Any:
        """The JSON of a reply with status 2xx, as `model` if one is given."""
        expect(
            200 <= self.status < 300, f"{self.what} answers {self.status}: {self.body[:160].decode(errors='replace')}"
        )
        if model is None:
            return self.json()
        try:
            adapter = model if isinstance(model, TypeAdapter) else TypeAdapter(model)
            return adapter.validate_json(self.body)
        except ValidationError as error:
            first = error.errors()[0]
            raise Broken(f"{self.what}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None

    def refused(self, status: int, code: str) -> dict[str, Any]:
        """The problem, which must have this status and code."""
        found = self.json().get("code") if self.status >= 400 and self.body[:1] == b"{" else None
        expect(
            (self.status, found) == (status, code), f"{self.what} answers {self.status} {found}, not {status} {code}"
        )
        return self.json()


class Held:
    """A session and where it stands."""

    def __init__(self, wire: Wire, lease: Lease) -> None:
        self.wire, self.lease, self.episode, self.at = wire, lease, 0, 0

    async def ask(self, method: str, what: str = "", body: Any = None, token: str | None = None) -> Reply:
        """A request about this session, with its own token unless another is given."""
        token = self.lease.token if token is None else token
        return await self.wire.ask(method, f"/v1/sessions/{self.lease.session}{what and '/' + what}", body, token)

    async def reset(self) -> Observation:
        """Begins an episode."""
        observation = (await self.ask("POST", "reset")).good(Observation)
        self.episode, self.at = observation.episode, 0
        return observation

    def request(self, action: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
        """The body of a step."""
        return {"episode": self.episode, "step": self.at, "action": action, **more}

    async def step(self, action: dict[str, Any] | None, **more: Any) -> StepReply:
        """Takes a step; raises Broken unless it is answered as it should be."""
        reply = (await self.ask("POST", "step", self.request(action, **more))).good(StepReply)
        self.at += 1
        return reply

    def gui(self, action: str, **arguments: Any) -> dict[str, Any]:
        """A call of the device family's own function."""
        return {"name": FUNCTIONS[self.lease.device], "arguments": {"action": action, **arguments}}

    async def evaluate(self) -> EvaluateReply:
        """The verdict."""
        return (await self.ask("POST", "evaluate")).good(EvaluateReply)


class Wire:
    """Requests to one server; `sessions` are ended after each check."""

    def __init__(self, http: aiohttp.ClientSession, token: str, suite: str, task: str, seed: int) -> None:
        self.http, self.token, self.suite, self.task, self.seed = http, token, suite, task, seed
        self.sessions: list[Held] = []

    async def ask(self, method: str, path: str, body: Any = None, token: str = "") -> Reply:
        """Any request, with any token."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        if data is not None:
            headers["Content-Type"] = "application/json"
        what = f"{method} {path}"
        try:
            async with self.http.request(method, path, data=data, headers=headers, allow_redirects=False) as reply:
                return Reply(reply.status, {k.lower(): v for k, v in reply.headers.items()}, await reply.read(), what)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Broken(f"{what} gets no answer: {error!r}") from error

    async def owner(self, method: str, path: str, body: Any = None) -> Reply:
        """A request with the server's token."""
        return await self.ask(method, path, body, self.token)

    def wanted(self, **more: Any) -> dict[str, Any]:
        """The body that asks for a session."""
        return {"suite": self.suite, "task": self.task, "seed": self.seed, **more}

    async def create(self, **more: Any) -> list[Held]:
        """Leases sessions; they are given back at the end."""
        leases = (await self.owner("POST", "/v1/sessions", self.wanted(**more))).good(_LEASES)
        made = [Held(self, lease) for lease in leases]
        self.sessions += made
        return made

    async def one(self, **more: Any) -> Held:
        """Leases one session."""
        made = await self.create(**more)
        expect(len(made) == 1, f"a request for one session gets {len(made)}")
        return made[0]

    async def end(self) -> None:
        """End the sessions that the check has left."""
        held, self.sessions = self.sessions, []
        for some in (held[k : k + 16] for k in range(0, len(held), 16)):
            await asyncio.gather(*(one.ask("DELETE") for one in some), return_exceptions=True)


@dataclass(frozen=True)
class ConformanceConfig:
    """token: the server's, else from GUI_RL_ENV_TOKEN. suite, task, seed: what is played; the suite's first feasible
    task if none is named."""

    token: str = ""
    suite: str = "virtual"
    task: str = ""
    seed: int = 0


def run(url: str, config: ConformanceConfig) -> bool:
    """Runs all checks, prints a line for each and the count; whether none failed."""
    token = config.token or os.environ.get("GUI_RL_ENV_TOKEN", "")
    verdicts = asyncio.run(run_checks(url, token, config.suite, config.task, config.seed))
    passed, failed, skipped = (sum(verdict.ok is kind for verdict in verdicts) for kind in (True, False, None))
    print(*verdicts, sep="\n")
    print(f"{passed} checks passed, {failed} failed, {skipped} could not be tried")
    return not failed


def picture(observation: Observation) -> bytes:
    """PNG of an observation."""
    return base64.b64decode(observation.screenshot)


def sized(observation: Observation) -> None:
    """The screenshot has the size that is said of it."""
    try:
        size = png_size(observation.screenshot)
    except ValueError:
        raise Broken("the screenshot is no PNG") from None
    expect(size == (observation.width, observation.height), f"a PNG of {size} is said to have another size")


async def run_checks(url: str, token: str, suite: str = "virtual", task: str = "", seed: int = 0) -> list[Verdict]:
    """All checks, one after the other, on `task` (the suite's first feasible one if none is named).

    Raises UserError where nobody answers, or the token or the task is not the server's.
    """
    from . import conformance_checks, conformance_devices  # noqa: F401  they add themselves to CHECKS

    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(
        url.rstrip("/"), timeout=timeout, cookie_jar=aiohttp.DummyCookieJar(), connector=aiohttp.TCPConnector(limit=32)
    ) as http:
        wire = Wire(http, token, suite, task, seed)
        try:
            listed = await wire.owner("GET", f"/v1/suites/{suite}/tasks")
        except Broken as error:
            raise UserError(f"{url}: {error}") from error
        if listed.status == 401:
            raise UserError(f"{url} does not take this token; give the server's with --token or GUI_RL_ENV_TOKEN")
        if listed.status != 200:
            raise UserError(f"{url}: {listed.what} answers {listed.status}; name a suite that it has with --suite")
        known = [one for one in listed.json() if one.get("feasible", True)]
        if task and task not in [one["id"] for one in known]:
            raise UserError(f"{url} has no feasible task {task!r} in suite {suite!r}")
        wire.task = task or known[0]["id"]
        verdicts = []
        for name, made in CHECKS.items():
            try:
                verdicts.append(Verdict(name, True, await made(wire)))
            except NotTried as why:
                verdicts.append(Verdict(name, None, str(why)))
            except Broken as why:
                verdicts.append(Verdict(name, False, str(why)))
            except Exception as error:  # a reply that no check foresaw
                verdicts.append(Verdict(name, False, f"{type(error).__name__}: {error}"))
            await wire.end()
        return verdicts
