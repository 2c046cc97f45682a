"""One port before several server processes, each with its own Chromium.

In: requests of the protocol. Out: the replies of the worker that holds the session, whose number is the first part of
the session's id: nothing else has to be remembered here, and any HTTP load balancer may stand before it. New sessions
go to the workers with the fewest, a group (R38) is spread over them, all or none.

A worker that dies takes its sessions with it: their requests get `lost_session` with the outcome env_crash, never a
score; the others do not notice. /readyz, /metrics and /v1/suites speak for all workers.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import json
import secrets
import signal
import socket
from collections.abc import Sequence
from http import HTTPStatus

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from pydantic import BaseModel
from yarl import URL

from .children import Worker
from .errors import UserError
from .leases import RETRY_AFTER_S, Refusal, lost_session
from .limits import MOST_BYTES
from .logs import say
from .protocol.messages import Problem, Ready
from .routes import ServerConfig, check_owner

PROBE_S = 5.0  # a worker that does not say how full it is within this time gets no sessions
_HOP = {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding",
        "upgrade", "host", "content-length"}  # fmt: skip


def shares(free: Sequence[tuple[int, int]], count: int) -> list[int] | None:
    """How many of `count` new sessions go to each worker, given (held, limit) of each: one after the other to the one
    that has the fewest. None if they do not all fit."""
    held, given = [taken for taken, _ in free], [0] * len(free)
    for _ in range(count):
        open_ = [k for k, (_, limit) in enumerate(free) if held[k] < limit]
        if not open_:
            return None
        least = min(open_, key=held.__getitem__)
        held[least] += 1
        given[least] += 1
    return given


class Front:
    """The workers and the requests to them."""

    def __init__(self, config: ServerConfig, http: aiohttp.ClientSession) -> None:
        self.config, self.http, self.draining = config, http, False
        self.generation = secrets.token_hex(8)
        each, more = divmod(config.max_sessions, config.workers)
        own = dataclasses.replace(config, host="127.0.0.1", port=0, workers=1, while_stdin_open=True)
        self.workers = [
            Worker(dataclasses.replace(own, worker=k, max_sessions=each + (k < more)), http)
            for k in range(config.workers)
        ]
        self._placing, self._turn = asyncio.Lock(), itertools.count()

    def app(self) -> web.Application:
        """The web application."""
        app = web.Application(client_max_size=MOST_BYTES, middlewares=[_problems])
        app.router.add_get("/livez", self.livez)
        app.router.add_get("/readyz", self.readyz)
        app.router.add_get("/metrics", self.metrics)
        app.router.add_post("/v1/sessions", self.create)
        app.router.add_route("*", "/v1/sessions/{session}{rest:(/.*)?}", self.of_session)
        app.router.add_route("*", "/{rest:.*}", self.any_worker)
        return app

    # --- what speaks for all -----------------------------------------------------------------------------------------
    async def livez(self, _: web.Request) -> web.Response:
        """This process lives."""
        return web.json_response({"status": "alive"})

    async def readyz(self, _: web.Request) -> web.Response:
        """Whether any worker takes sessions, and how full all of them are."""
        if self.draining:
            raise Refusal(503, "draining", "this server is shutting down", retry_after=RETRY_AFTER_S)
        ready = [state for _, state in await self._states()]
        if not ready:
            raise Refusal(503, "not_ready", "no worker is ready", retry_after=RETRY_AFTER_S)
        held, limit = (sum(getattr(state, name) for state in ready) for name in ("sessions", "limit"))
        return _reply(Ready(generation=self.generation, sessions=held, limit=limit, workers=len(ready)))

    async def metrics(self, _: web.Request) -> web.Response:
        """The workers' metrics, each with its label, and the front's own."""
        up = [worker for worker in self.workers if worker.url]
        texts = await asyncio.gather(*(self._metrics_of(worker) for worker in up))
        registry = CollectorRegistry()
        registry.register(_Merged({str(worker.index): text for worker, text in zip(up, texts, strict=True) if text}))
        common = {"namespace": "gui_rl_env", "registry": registry}
        Gauge("workers", "workers that serve", **common).set(len(up))
        restarts = Counter("worker_restarts", "workers started again", ["worker"], **common)
        for worker in self.workers:
            restarts.labels(str(worker.index)).inc(worker.restarts)
        return web.Response(
            body=generate_latest(registry), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )

    async def _metrics_of(self, worker: Worker) -> str | None:
        with contextlib.suppress(aiohttp.ClientError, TimeoutError):
            async with self.http.get(f"{worker.url}/metrics", timeout=aiohttp.ClientTimeout(PROBE_S)) as reply:
                return await reply.text()
        return None

    async def _states(self) -> list[tuple[Worker, Ready]]:
        """The workers that take sessions, with how many they hold."""

        async def state(worker: Worker) -> tuple[Worker, Ready] | None:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                async with self.http.get(f"{worker.url}/readyz", timeout=aiohttp.ClientTimeout(PROBE_S)) as reply:
                    if reply.status == 200:
                        return worker, Ready.model_validate_json(await reply.read())
            return None

        found = await asyncio.gather(*(state(worker) for worker in self.workers if worker.url))
        return [pair for pair in found if pair]

    # --- sessions ----------------------------------------------------------------------------------------------------
    async def create(self, request: web.Request) -> web.StreamResponse:
        """A group, spread over the workers."""
        check_owner(self.config, _bearer(request))
        if self.draining:
            raise Refusal(503, "draining", "this server is shutting down", retry_after=RETRY_AFTER_S)
        count, body = _count(await request.read())
        if count is None:  # a worker says what is wrong with it
            return await self.any_worker(request)
        limit = self.config.max_sessions
        if count > limit:
            raise Refusal(422, "too_many_sessions", f"this server holds at most {limit} sessions")
        async with self._placing:
            states = await self._states()
            if not states:
                raise Refusal(503, "not_ready", "no worker is ready", retry_after=RETRY_AFTER_S)
            given = shares([(state.sessions, state.limit) for _, state in states], count)
            if given is None:
                free = sum(state.limit - state.sessions for _, state in states)
                detail = f"{count} sessions do not fit: {free} of {limit} are free"
                raise Refusal(429, "full", detail, retry_after=RETRY_AFTER_S)
            parts = await asyncio.gather(
                *(
                    self._create_on(request, worker, {**body, "count": number})
                    for (worker, _), number in zip(states, given, strict=True)
                    if number
                )
            )
        leases = [lease for made, _ in parts for lease in made]
        failed = next((reply for _, reply in parts if reply is not None), None)
        if failed is None:
            return web.json_response(leases, status=201)
        await asyncio.gather(*(self._close(lease) for lease in leases))
        return failed

    async def _create_on(
        self, request: web.Request, worker: Worker, body: dict[str, object]
    ) -> tuple[list[dict[str, str]], web.Response | None]:
        """(leases, None), or (none, the worker's refusal)."""
        try:
            reply = await self._forward(request, worker, json.dumps(body).encode())
        except aiohttp.ClientError:
            return [], _problem(Refusal(503, "not_ready", f"worker {worker.index} ended", retry_after=RETRY_AFTER_S))
        return (json.loads(reply.body), None) if reply.status == HTTPStatus.CREATED else ([], reply)

    async def _close(self, lease: dict[str, str]) -> None:
        worker = self._holder(lease["session"])
        with contextlib.suppress(aiohttp.ClientError, TimeoutError):
            headers = {"Authorization": f"Bearer {lease['token']}"}
            await self.http.delete(f"{worker.url}/v1/sessions/{lease['session']}", headers=headers)

    def _holder(self, session: str) -> Worker:
        index = session.split("-", 1)[0]
        if not (index.isascii() and index.isdigit() and int(index[:9]) < len(self.workers)):
            raise Refusal(404, "unknown_session", f"there is no session {session}: never made, closed or expired")
        return self.workers[int(index[:9])]

    async def of_session(self, request: web.Request) -> web.StreamResponse:
        """A request about a session: its worker's reply, or `lost_session` when the worker is gone."""
        session = request.match_info["session"]
        worker = self._holder(session)
        if worker.url is not None:
            with contextlib.suppress(aiohttp.ClientError):
                return await self._forward(request, worker, await request.read())
        raise lost_session(session, f"worker {worker.index} has ended and is started anew")

    async def any_worker(self, request: web.Request) -> web.StreamResponse:
        """A request that every worker answers alike: each in turn."""
        up = [worker for worker in self.workers if worker.url]
        for _ in range(len(up)):
            with contextlib.suppress(aiohttp.ClientConnectorError):
                return await self._forward(request, up[next(self._turn) % len(up)], await request.read())
        raise Refusal(503, "not_ready", "no worker is ready", retry_after=RETRY_AFTER_S)

    # --- the wire ----------------------------------------------------------------------------------------------------
    async def _forward(self, request: web.Request, worker: Worker, body: bytes) -> web.StreamResponse:
        """The worker's reply, whole; an event stream is passed on as it comes, a WebSocket both ways. Raises
        aiohttp.ClientError when the worker is gone."""
        address = URL(worker.url + request.raw_path, encoded=True)
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _HOP]
        if request.headers.get("Upgrade", "").lower() == "websocket":
            return await self._bridge(request, address)
        async with self.http.request(
            request.method, address, data=body or None, headers=headers, allow_redirects=False
        ) as reply:
            kept = [(name, value) for name, value in reply.headers.items() if name.lower() not in _HOP]
            if reply.content_type != "text/event-stream":
                return web.Response(status=reply.status, body=await reply.read(), headers=_multi(kept))
            stream = web.StreamResponse(status=reply.status, headers=_multi(kept))
            await stream.prepare(request)
            async for chunk in reply.content.iter_any():
                await stream.write(chunk)
            await stream.write_eof()
            return stream

    async def _bridge(self, request: web.Request, address: URL) -> web.WebSocketResponse:
        wanted = [part.strip() for part in request.headers.get("Sec-WebSocket-Protocol", "").split(",") if part.strip()]
        given = {"Authorization": token} if (token := request.headers.get("Authorization")) else {}
        async with self.http.ws_connect(address, headers=given, protocols=wanted, max_msg_size=0) as inner:
            outer = web.WebSocketResponse(protocols=[inner.protocol] if inner.protocol else (), max_msg_size=0)
            await outer.prepare(request)
            pumps = [asyncio.create_task(_pump(*ends)) for ends in ((inner, outer), (outer, inner))]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.gather(inner.close(), outer.close(code=inner.close_code or 1000))
            await asyncio.gather(*pumps, return_exceptions=True)
            return outer


async def _pump(source: aiohttp.ClientWebSocketResponse, sink: aiohttp.ClientWebSocketResponse) -> None:
    async for message in source:
        if message.type is aiohttp.WSMsgType.TEXT:
            await sink.send_str(message.data)
        elif message.type is aiohttp.WSMsgType.BINARY:
            await sink.send_bytes(message.data)


def _multi(headers: list[tuple[str, str]]) -> CIMultiDict[str]:
    return CIMultiDict(headers)


def _bearer(request: web.Request) -> str | None:
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else None


def _count(content: bytes) -> tuple[int | None, dict[str, object]]:
    """How many sessions a request asks for, and the request; None where it is not one."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        return None, {}
    count = body.get("count", 1) if isinstance(body, dict) else None
    return (count, body) if type(count) is int and count >= 1 else (None, {})


def _reply(message: BaseModel, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    kind = "application/problem+json" if isinstance(message, Problem) else "application/json"
    text = message.model_dump_json(exclude_none=True)
    return web.Response(text=text, status=status, content_type=kind, headers=headers)


def _problem(refusal: Refusal) -> web.Response:
    body = Problem(
        title=HTTPStatus(refusal.status).phrase,
        status=refusal.status,
        code=refusal.code,
        detail=refusal.detail,
        outcome=refusal.outcome,
    )
    headers = {"Retry-After": str(refusal.retry_after)} if refusal.retry_after is not None else None
    return _reply(body, refusal.status, headers)


@web.middleware
async def _problems(request: web.Request, handler: object) -> web.StreamResponse:
    """Every error leaves as a problem."""
    try:
        return await handler(request)
    except Refusal as refusal:
        return _problem(refusal)
    except web.HTTPException as error:
        detail = f"{request.method} {request.path}: {error.reason}"
        return _problem(Refusal(error.status, "http_error", detail))
    except ConnectionError:
        raise  # the client has gone
    except Exception as error:
        say("error", "internal_error", error=error, method=request.method)
        return _problem(Refusal(500, "internal_error", type(error).__name__))


class _Merged:
    """The metrics of all workers, each sample with a label that names its worker."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts

    def collect(self) -> list[Metric]:
        merged: dict[str, Metric] = {}
        for worker, text in self.texts.items():
            for family in text_string_to_metric_families(text):
                whole = merged.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                for sample in family.samples:
                    whole.add_sample(sample.name, {**sample.labels, "worker": worker}, sample.value)
        return list(merged.values())


async def serve_front(config: ServerConfig, bound: socket.socket, lines: list[str]) -> None:
    """Serve on `bound` with `config.workers` processes until SIGTERM (drain) or SIGINT (at once); prints `lines` once
    all workers serve. Raises UserError if one does not start."""
    if config.workers > config.max_sessions:
        raise UserError(f"--workers {config.workers} is more than --max-sessions {config.max_sessions}: give each one")
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=30)  # shorter than the workers': never a closing one
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=PROBE_S)
    options = {"cookie_jar": aiohttp.DummyCookieJar(), "auto_decompress": False}
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, **options) as http:
        front, stop = Front(config, http), asyncio.Event()
        runner = web.AppRunner(front.app(), access_log=None, handle_signals=False, shutdown_timeout=PROBE_S)
        keepers: list[asyncio.Task[None]] = []
        loop = asyncio.get_running_loop()

        def drain() -> None:
            say("info", "draining", grace_s=config.drain_s)
            front.draining = True
            for worker in front.workers:
                worker.drain()

        loop.add_signal_handler(signal.SIGTERM, lambda: stop.set() if front.draining else drain())
        loop.add_signal_handler(signal.SIGINT, stop.set)
        try:
            started = await asyncio.gather(*(worker.start() for worker in front.workers), return_exceptions=True)
            for failure in filter(None, started):
                raise failure
            keepers = [asyncio.create_task(worker.keep()) for worker in front.workers]
            await runner.setup()
            await web.SockSite(runner, bound).start()
            print(*lines, sep="\n", flush=True)
            ended = asyncio.gather(*keepers)
            await asyncio.wait([ended, asyncio.create_task(stop.wait())], return_when=asyncio.FIRST_COMPLETED)
        finally:
            front.draining = True
            await asyncio.gather(*(worker.end() for worker in front.workers))
            for keeper in keepers:
                keeper.cancel()
            await asyncio.gather(*keepers, return_exceptions=True)
            await runner.cleanup()
