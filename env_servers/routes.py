"""The HTTP face of the sessions: FastAPI routes under /v1, problem JSON for every error, OpenAPI at /docs.

In: a `ServerConfig` with the server's token. Out: a FastAPI app that owns what draws its screens and one session store
while it runs.

Two kinds of bearer token: the server's (suites, creating sessions) and each session's own (all the rest). /livez,
/readyz, /metrics and /docs are open.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
from collections.abc import AsyncIterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException

from .browser import PAGE_TIMEOUT_S
from .errors import UserError
from .facades import androidworld, mcp, openenv, osworld
from .leases import Refusal, Session
from .limits import BodyLimit
from .logs import Level, say
from .metrics import Metrics
from .protocol.messages import (
    VERSION,
    CreateSessions,
    EpisodeReply,
    EvaluateReply,
    Heartbeat,
    Lease,
    Message,
    Observation,
    Outcome,
    Problem,
    Ready,
    ScriptReply,
    StepReply,
    StepRequest,
    TaskInfo,
)
from .screens import Source
from .sessions import SessionStore, every_screen
from .suites import SUITES, tasks


@dataclass(frozen=True)
class ServerConfig:
    """How an environment server runs.

    Attributes:
      host: address to bind; the default is reachable from this machine only.
      port: 0 takes a free one; the first line of output says which.
      token: bearer token for creating sessions; from GUI_RL_ENV_TOKEN, else made up and printed.
      open: no token is needed to create sessions; only where nobody but this machine can reach the server.
      max_sessions: more are refused with 429; the workers share them.
      workers: processes with a Chromium each, behind one port; two cores are kept busy by two.
      page_timeout_s: a page that does not reply for so long is lost, and its episode an env_crash.
      drain_s: how long running episodes may take to end after SIGTERM; Ctrl-C ends at once.
      log_level: of the JSON lines on standard error; "debug" has one for every step.
      while_stdin_open: end when standard input closes, that is, when the process that started this one is gone.
      suite: worlds of other programs, each as `KIND=URL[,URL...][?OPTION=VALUE]`, one slot a URL (see adapters).
      worker: number of this process among the workers; the process in front of them sets it.
    """

    host: str = "127.0.0.1"
    port: int = 8770
    token: str = ""
    open: bool = False
    max_sessions: int = 64
    workers: int = 1
    page_timeout_s: float = PAGE_TIMEOUT_S
    drain_s: float = 30.0
    log_level: Level = "info"
    while_stdin_open: bool = False
    suite: tuple[str, ...] = ()
    worker: int = 0


CLOSE_S = 3.0  # for the sessions to give their screens back, once the server ends


class ProblemResponse(JSONResponse):
    """A response of the media type of RFC 9457."""

    media_type = "application/problem+json"


def problem(
    status: int, code: str, detail: str, outcome: Outcome | None = None, headers: dict[str, str] | None = None
) -> ProblemResponse:
    """An error as RFC 9457 problem JSON."""
    body = Problem(title=HTTPStatus(status).phrase, status=status, code=code, detail=detail, outcome=outcome)
    return ProblemResponse(body.model_dump(exclude_none=True), status, headers)


def _json(message: Message) -> Response:
    """A message as it is, without being validated a second time."""
    return Response(message.model_dump_json(), media_type="application/json")


_bearer = HTTPBearer(auto_error=False)
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


def check_owner(config: ServerConfig, token: str | None) -> None:
    """Whether `token` is the server's; raises Refusal if it is not."""
    if not config.open and (token is None or not hmac.compare_digest(token.encode(), config.token.encode())):
        raise Refusal(401, "unauthorized", "send the server's token as `Authorization: Bearer TOKEN`")


async def _owner(request: Request, given: Credentials) -> None:
    check_owner(request.app.state.config, given.credentials if given else None)


def _store(request: Request) -> SessionStore:
    return request.app.state.store


async def _session(session_id: str, request: Request, given: Credentials) -> Session:
    return _store(request).get(session_id, given.credentials if given else "")


Store = Annotated[SessionStore, Depends(_store)]
Held = Annotated[Session, Depends(_session)]
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {
        "description": HTTPStatus(code).phrase,
        "content": {"application/problem+json": {"schema": Problem.model_json_schema()}},
    }
    for code in (400, 401, 403, 404, 409, 410, 422, 429, 500, 503)
}

general = APIRouter(tags=["server"])
suites = APIRouter(prefix="/v1/suites", tags=["suites"], dependencies=[Depends(_owner)], responses=_PROBLEMS)
sessions = APIRouter(prefix="/v1/sessions", tags=["sessions"], responses=_PROBLEMS)


@general.get("/livez")
async def livez() -> dict[str, str]:
    """The process answers."""
    return {"status": "alive"}


@general.get("/readyz", responses={503: _PROBLEMS[503]})
async def readyz(store: Store) -> Ready:
    """The browser runs (a dead one is started again) and sessions may be created."""
    if store.draining:
        raise Refusal(503, "draining", "this server is shutting down")
    try:
        await store.screens.start()
    except Exception as error:
        raise Refusal(503, "not_ready", f"the browser does not start: {error}") from error
    return Ready(generation=store.generation, sessions=store.held, limit=store.max_sessions)


@general.get("/metrics", responses={200: {"content": {"text/plain": {}}}}, response_class=Response)
async def metrics(store: Store) -> Response:
    """Counters in Prometheus' text format."""
    store.metrics.launches.set(store.screens.launches)
    return Response(store.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


@suites.get("")
async def list_suites() -> list[str]:
    """Names of the task suites."""
    return sorted(SUITES)


@suites.get("/{suite}/tasks")
async def list_tasks(suite: str) -> list[TaskInfo]:
    """All tasks of a suite."""
    if suite not in SUITES:
        raise Refusal(404, "unknown_suite", f"there is no suite {suite!r}; see GET /v1/suites")
    return [
        TaskInfo(
            id=task.id,
            device=task.device,
            devices=list(task.devices),
            instruction_template=task.instruction_template,
            tags=list(task.tags),
            tool_beneficial=task.tool_beneficial,
            feasible=task.feasible,
            max_steps=task.max_steps,
        )
        for task in tasks(suite).values()
    ]


@sessions.post("", status_code=201, dependencies=[Depends(_owner)])
async def create(body: CreateSessions, store: Store) -> list[Lease]:
    """`count` sessions on one task and seed, all or none."""
    return await store.create(body)


@sessions.post("/{session_id}/reset", response_model=Observation)
async def reset(session: Held, store: Store) -> Response:
    """Begin a new episode."""
    return _json(await store.reset(session))


@sessions.post("/{session_id}/step", response_model=StepReply)
async def step(body: StepRequest, session: Held, store: Store) -> Response:
    """Carry out one step; re-sent with the same (episode, step) it returns the stored reply."""
    return _json(await store.step(session, body))


@sessions.get("/{session_id}/screenshot", responses={200: {"content": {"image/png": {}}}}, response_class=Response)
async def screenshot(session: Held, store: Store) -> Response:
    """The last observation as PNG."""
    return Response(store.screenshot(session), media_type="image/png")


@sessions.post("/{session_id}/evaluate")
async def evaluate(session: Held, store: Store) -> EvaluateReply:
    """The verdict on the present episode; it ends an episode that still runs, and never changes."""
    return await store.evaluate(session)


@sessions.get("/{session_id}/episode")
async def episode(session: Held, store: Store, screenshots: bool = False) -> EpisodeReply:
    """The present episode with the actions and responses that were sent; with what was seen, too, if asked for."""
    return store.record(session, screenshots)


@sessions.post("/{session_id}/script")
async def script(session: Held, store: Store) -> ScriptReply:
    """The task's scripted next move from the present state."""
    return await store.script(session)


@sessions.post("/{session_id}/heartbeat")
async def heartbeat(session: Held, store: Store) -> Heartbeat:
    """Keep an idle session."""
    return store.heartbeat(session)


@sessions.delete("/{session_id}", status_code=204)
async def close(session: Held, store: Store) -> None:
    """End a session."""
    await store.close(session)


def create_app(config: ServerConfig, screens: Source | None = None) -> FastAPI:
    """The app; `screens` defaults to a browser and desktops of its own.

    Raises ValueError for a closed server without a token.
    """
    if not (config.open or config.token):
        raise ValueError("a server that is not open needs a token")
    metrics = Metrics()
    store = SessionStore(
        screens or every_screen(config.page_timeout_s), config.max_sessions, metrics, worker=config.worker
    )

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            await store.screens.start()
        except UserError as error:
            app.state.why_not = error
            raise
        reaper = asyncio.create_task(store.reap_forever())
        try:
            yield
        finally:
            reaper.cancel()
            with contextlib.suppress(TimeoutError):  # a page that hangs ends with the browser
                await asyncio.wait_for(store.close_all(), CLOSE_S)
            await store.screens.stop()

    app = FastAPI(title="gui_rl environment server", version=VERSION, lifespan=lifespan, redoc_url=None)
    app.state.config, app.state.store, app.state.why_not = config, store, None
    app.add_middleware(BodyLimit)
    for router in (general, suites, sessions, mcp.router(), openenv.router()):
        app.include_router(router)
    app.include_router(androidworld.router(), responses=_PROBLEMS)
    app.include_router(osworld.router())
    _say_errors(app)
    return app


def _say_errors(app: FastAPI) -> None:
    """Every error leaves as a problem."""

    @app.exception_handler(Refusal)
    async def refusal(_: Request, error: Refusal) -> ProblemResponse:
        headers = {"Retry-After": str(error.retry_after)} if error.retry_after is not None else None
        return problem(error.status, error.code, error.detail, error.outcome, headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> ProblemResponse:
        places = ("{}: {}".format(".".join(map(str, e["loc"])), e["msg"]) for e in error.errors())
        return problem(422, "invalid_request", "; ".join(places))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> ProblemResponse:
        code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http_error")
        detail = f"{request.method} {request.url.path}: {error.detail}"
        return problem(error.status_code, code, detail, headers=dict(error.headers or {}))

    @app.exception_handler(Exception)
    async def unforeseen(request: Request, error: Exception) -> ProblemResponse:
        say("error", "internal_error", error=error, method=request.method, route=str(request.scope.get("route", "")))
        return problem(500, "internal_error", f"{type(error).__name__}: {error}")
