"""OpenEnv's wire format over our sessions: a WebSocket at /openenv/ws, one episode after the other on it.

In: OpenEnv's messages `reset`, `step`, `state`, `close`, as JSON text, from any OpenEnv client with the base URL
`http://HOST:PORT/openenv` and the header `Authorization: Bearer TOKEN` (the server's token). Out: the messages
`observation`, `state` and `error`.

reset: `data` are the fields of `CreateSessions` without `count` (task, seed, suite, tools, ...); what is left out stays
as it was in the connection's last reset. `episode_id` is given back by `state`. Every reset leases a session of its own
and ends the one before; the connection keeps it alive and ends it.
step: `data` is a call `{"name", "arguments"}`, or `{"parse_error"}` for a response without one, and optionally
`response`; OpenEnv's own field `metadata` is taken and not used.
observation: our `Observation` and `tool_result`, `error`, `terminated`, `truncated`. `reward` is null until the episode
is over (`done`); then it is the score and `metadata` the verdict. An environment's fault is an `error` with our `code`
and `outcome`, never a reward (R33).

OpenEnv's plain HTTP calls to reset and step make an environment for a single request; they are not offered.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
from typing import Any

from fastapi import APIRouter, WebSocket
from pydantic import ValidationError
from starlette.responses import JSONResponse
from starlette.websockets import WebSocketDisconnect

from ..leases import Refusal, Session
from ..protocol.messages import CreateSessions, Message, Observation, Problem, StepReply, StepRequest
from ..sessions import SessionStore
from . import bearer

TOUCH_S = 5.0  # how often a silent connection keeps its session
_CODES = {"full": "CAPACITY_REACHED", "invalid_request": "VALIDATION_ERROR"}


class Episode(Message):
    """What `state` says; episode_id is the client's own name for it, else the session's."""

    episode_id: str
    step_count: int
    session: str
    generation: str
    suite: str
    task: str
    seed: int
    max_steps: int
    status: str


def router() -> APIRouter:
    """The WebSocket, and the three calls by which OpenEnv's tools get to know a server."""
    made = APIRouter(prefix="/openenv", tags=["openenv"])

    @made.get("/health")
    async def health() -> dict[str, str]:
        """OpenEnv's health check."""
        return {"status": "healthy"}

    @made.get("/metadata")
    async def metadata() -> dict[str, str]:
        """OpenEnv's description of an environment."""
        return {"name": "gui_rl", "description": "phones, desktops and browsers with exact verdicts", "version": "1"}

    @made.get("/schema")
    async def schema() -> dict[str, Any]:
        """JSON schemas of actions, observations and state."""
        parts = {"action": StepRequest, "observation": StepReply, "reset_observation": Observation, "state": Episode}
        return {name: model.model_json_schema() for name, model in parts.items()}

    made.add_api_websocket_route("/ws", _connected)
    return made


async def _connected(websocket: WebSocket) -> None:
    config, store = websocket.app.state.config, websocket.app.state.store
    if not (config.open or hmac.compare_digest(bearer(websocket).encode(), config.token.encode())):
        why = "send the server's token as `Authorization: Bearer TOKEN`"
        problem = Problem(title="Unauthorized", status=401, code="unauthorized", detail=why)
        body = problem.model_dump(exclude_none=True)
        await websocket.send_denial_response(JSONResponse(body, 401, media_type="application/problem+json"))
        return
    await websocket.accept()
    player = _Player(store)
    try:
        while (text := await _next_text(websocket, player)) is not None:
            reply = await player.answer(text)
            if reply is None:
                break
            await websocket.send_text(json.dumps(reply))
    except WebSocketDisconnect:
        pass
    finally:
        await asyncio.shield(player.close())
        with contextlib.suppress(RuntimeError, WebSocketDisconnect):
            await websocket.close()


async def _next_text(websocket: WebSocket, player: _Player) -> str | None:
    """The next message; while there is none the session is kept. None for a binary one, which OpenEnv does not have."""
    incoming = asyncio.ensure_future(websocket.receive())
    try:
        while not (await asyncio.wait([incoming], timeout=TOUCH_S))[0]:
            player.touch()
        message = incoming.result()
    finally:
        incoming.cancel()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1000))
    return message.get("text")


def _error(code: str, text: str, **more: Any) -> dict[str, Any]:
    return {"type": "error", "data": {"message": text, "code": code, **more}}


class _Player:
    """What one connection plays."""

    def __init__(self, store: SessionStore) -> None:
        self.store = store
        self.asked: dict[str, Any] = {}
        self.episode_id: str | None = None
        self.session: Session | None = None

    def touch(self) -> None:
        """The owner is there."""
        if self.session is not None:
            self.session.seen = self.store.clock()

    async def close(self) -> None:
        """End the session."""
        session, self.session = self.session, None
        if session is not None:
            await self.store.close(session)

    async def answer(self, text: str) -> dict[str, Any] | None:
        """The reply to one message, None to `close`."""
        try:
            message = json.loads(text)
            kind, data = message["type"], message.get("data") or {}
        except (ValueError, RecursionError):
            return _error("INVALID_JSON", "a message is a JSON object")
        except (KeyError, TypeError, AttributeError):
            return _error("VALIDATION_ERROR", 'a message has a "type" and, for reset and step, "data"')
        if not isinstance(data, dict):
            return _error("VALIDATION_ERROR", '"data" is an object')
        try:
            match kind:
                case "reset":
                    return await self._reset(dict(data))
                case "step":
                    return await self._step(dict(data))
                case "state":
                    return {"type": "state", "data": self._state().model_dump()}
                case "close":
                    return None
            return _error("UNKNOWN_TYPE", f"unknown message type: {str(kind)[:40]}")
        except ValidationError as error:
            where = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            return _error("VALIDATION_ERROR", where)
        except Refusal as refusal:
            more = {"problem": refusal.code, "outcome": refusal.outcome, "retry_after": refusal.retry_after}
            code = _CODES.get(refusal.code, "EXECUTION_ERROR")
            return _error(code, f"{refusal.code}: {refusal.detail}", **{k: v for k, v in more.items() if v is not None})

    async def _reset(self, data: dict[str, Any]) -> dict[str, Any]:
        episode_id = data.pop("episode_id", None)
        wanted = CreateSessions.model_validate({**self.asked, **data})
        if wanted.count != 1:
            raise Refusal(422, "invalid_request", "a connection plays one session: open another one, leave out count")
        await self.close()
        (lease,) = await self.store.create(wanted)
        self.session = self.store.get(lease.session, lease.token)
        self.asked = wanted.model_dump(exclude_unset=True)
        self.episode_id = str(episode_id) if episode_id is not None else lease.session
        observation = await self.store.reset(self.session)
        lease_says = lease.model_dump(include={"task", "seed", "max_steps", "tools", "generation"})
        return _observed(observation.model_dump(), None, False, lease_says)

    def _held(self) -> Session:
        if self.session is None:
            raise Refusal(409, "no_episode", "reset first")
        return self.store.get(self.session.id, self.session.token)

    async def _step(self, data: dict[str, Any]) -> dict[str, Any]:
        session = self._held()
        data.pop("metadata", None)
        call = {key: data.pop(key) for key in ("name", "arguments") if key in data}
        place = {"episode": session.episode.number, "step": len(session.episode.steps)}
        request = StepRequest.model_validate({**place, **data, "action": call or None})
        reply = await self.store.step(session, request)
        shown = reply.observation.model_dump() | reply.model_dump(exclude={"observation"})
        if not (reply.terminated or reply.truncated):
            return _observed(shown, None, False)
        verdict = await self.store.evaluate(session)
        if verdict.score is None:
            raise Refusal.fault(verdict.outcome, verdict.detail or verdict.outcome)
        return _observed(shown, verdict.score, True, verdict.model_dump())

    def _state(self) -> Episode:
        session = self._held()
        return Episode(
            episode_id=self.episode_id,
            step_count=len(session.episode.steps),
            session=session.id,
            generation=self.store.generation,
            suite=session.request.suite,
            task=session.instance.task.id,
            seed=session.request.seed,
            max_steps=session.instance.task.max_steps,
            status=session.episode.status,
        )


def _observed(
    observation: dict[str, Any], reward: float | None, done: bool, metadata: dict[str, Any] | None = None
) -> dict[str, Any]:
    said = {"metadata": metadata} if metadata else {}
    return {"type": "observation", "data": {"observation": observation, "reward": reward, "done": done, **said}}
