"""AndroidWorld's HTTP wire over our sessions: the phone tasks of the suite `virtual` as one emulator, at /androidworld.

In: the calls of AndroidWorld's server (/reset, /screenshot, /execute_action, /suite/..., /task/..., /health) with the
header `Authorization: Bearer TOKEN` (the server's token). Out: its replies; what goes wrong is a problem as everywhere.

`task_type` is a task's id, `task_idx` the seed. As with an emulator there is one screen: a task that begins ends
the one before, and the server has one process (`--workers 1`). `score` ends an episode that still runs as a success
declared, since AndroidWorld's wire need not say it; a fault of the environment is an error and never a score (R33).
`input_text` presses no Enter here. With no task the screen is dark.
"""

from __future__ import annotations

import asyncio
import hmac
import io
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Body, Depends, Request
from PIL import Image

from ..adapters.json_action import from_json_action
from ..leases import Refusal, Session
from ..protocol.messages import Action, CreateSessions, StepReply, StepRequest
from ..screens import Unsupported
from ..sessions import SessionStore
from ..suites import SUITES
from . import bearer

SUITE, SEEDS = "virtual", 100  # seeds from 0 on that a task can be had with
LIVES_S = 86_400.0


class Phone:
    """The one screen, and the task on it."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.session: Session | None = None

    async def begin(self, store: SessionStore, task: str, seed: int) -> None:
        """End the task before and begin this one."""
        await self.end(store)
        wanted = CreateSessions(suite=SUITE, task=task, seed=seed, ttl_s=LIVES_S, idle_s=LIVES_S)
        (lease,) = await store.create(wanted)
        self.session = store.get(lease.session, lease.token)
        await store.reset(self.session)

    async def end(self, store: SessionStore) -> None:
        """Give the session back."""
        session, self.session = self.session, None
        if session is not None:
            await store.close(session)

    def held(self, task: str | None = None, seed: int | None = None) -> Session:
        """The session; Refusal where there is none, or one of another task."""
        if self.session is None:
            raise Refusal(409, "no_episode", "initialize a task first")
        request = self.session.request
        if task is not None and (request.task, request.seed) != (task, seed):
            raise Refusal(409, "wrong_episode", f"the task on the screen is {request.task} {request.seed}")
        return self.session

    async def act(self, store: SessionStore, arguments: dict[str, Any]) -> StepReply:
        """One step; Refusal where it is not carried out."""
        session = self.held()
        place = {"episode": session.episode.number, "step": len(session.episode.steps)}
        action = Action(name="mobile_use", arguments=arguments)
        reply = await store.step(session, StepRequest(**place, action=action))
        if reply.error:
            raise Refusal(422, "invalid_request", f"{arguments['action']} was not carried out: {reply.error}")
        return reply


def _phone_task(name: str) -> Any:
    task = SUITES[SUITE].tasks().get(name)
    if task is None or task.device != "mobile":
        raise Refusal(404, "unknown_task", f"there is no task {name!r}; see /suite/task_list")
    return task


def _names() -> list[str]:
    return [task.id for task in SUITES[SUITE].tasks().values() if task.device == "mobile"]


async def _owner(request: Request) -> None:
    config = request.app.state.config
    if not (config.open or hmac.compare_digest(bearer(request).encode(), config.token.encode())):
        raise Refusal(401, "unauthorized", "send the server's token as `Authorization: Bearer TOKEN`")


async def _store(request: Request) -> SessionStore:
    return request.app.state.store


Store = Annotated[SessionStore, Depends(_store)]


def router() -> APIRouter:
    """The calls, over a phone of their own."""
    made, phone = APIRouter(prefix="/androidworld", tags=["androidworld"], dependencies=[Depends(_owner)]), Phone()

    @made.get("/health")
    async def health() -> dict[str, str]:
        """The phone is there."""
        return {"status": "success"}

    @made.post("/reset")
    async def reset(go_home: bool, store: Store) -> dict[str, str]:
        """The dark screen; a task that was on it ends."""
        async with phone.lock:
            await phone.end(store)
        return {"status": "success", "message": f"Environment reset with go_home={go_home}."}

    @made.get("/screenshot")
    async def screenshot(wait_to_stabilize: bool, store: Store) -> dict[str, Any]:
        """The pixels; they are always those of a settled screen."""
        async with phone.lock:
            if phone.session is None:
                page = SUITES[SUITE].instantiate(_phone_task(_names()[0]), 0).page
                return {"pixels": np.zeros((page.height, page.width, 3), np.uint8).tolist()}
            with Image.open(io.BytesIO(store.screenshot(phone.session))) as shown:
                return {"pixels": np.asarray(shown.convert("RGB")).tolist()}

    @made.post("/execute_action")
    async def execute_action(action: Annotated[dict[str, Any], Body()], store: Store) -> dict[str, str]:
        """Carry out a JSONAction."""
        async with phone.lock:
            session = phone.held()
            boxes = [e["box"] for e in await session.screen.elements()] if "index" in action and session.screen else []
            page = session.instance.page
            try:
                calls = from_json_action(action, page.width, page.height, boxes)
            except (ValueError, TypeError, OverflowError, Unsupported) as error:
                raise Refusal(422, "invalid_request", str(error)) from error
            for call in calls:
                await phone.act(store, call)
        return {"status": "success", "message": f"Action {action['action_type']} executed."}

    @made.get("/suite/task_list")
    async def task_list(max_index: int) -> dict[str, list[str]]:
        """Ids of the tasks, all of them for a number that is negative or too large."""
        names = _names()
        return {"task_list": names[:max_index] if 0 <= max_index <= len(names) else names}

    @made.get("/suite/task_length")
    async def task_length(task_type: str) -> dict[str, int]:
        """How many seeds."""
        _phone_task(task_type)
        return {"length": SEEDS}

    @made.get("/task/template")
    async def template(task_type: str, task_idx: int) -> dict[str, str]:
        """The sentence with its gaps."""
        return {"template": _phone_task(task_type).instruction_template}

    @made.get("/task/goal")
    async def goal(task_type: str, task_idx: int) -> dict[str, str]:
        """The sentence."""
        return {"goal": SUITES[SUITE].instantiate(_phone_task(task_type), _seed(task_idx)).instruction}

    @made.post("/task/initialize")
    async def initialize(task_type: str, task_idx: int, store: Store) -> dict[str, str]:
        """Put a task on the screen."""
        _phone_task(task_type)
        async with phone.lock:
            await phone.begin(store, task_type, _seed(task_idx))
        return {"status": "success", "message": f"Task {task_type} {task_idx} initialized."}

    @made.get("/task/score")
    async def score(task_type: str, task_idx: int, store: Store) -> dict[str, float]:
        """The verdict, which stays as it is once it was asked for."""
        async with phone.lock:
            session = phone.held(task_type, task_idx)
            if session.episode.status == "running":
                await phone.act(store, {"action": "terminate", "status": "success"})
            verdict = await store.evaluate(session)
        if verdict.score is None:
            raise Refusal.fault(verdict.outcome, verdict.detail or verdict.outcome)
        return {"score": verdict.score}

    @made.post("/task/tear_down")
    async def tear_down(task_type: str, task_idx: int, store: Store) -> dict[str, str]:
        """Take the task off the screen."""
        async with phone.lock:
            phone.held(task_type, task_idx)
            await phone.end(store)
        return {"status": "success", "message": f"Task {task_type} {task_idx} torn down."}

    return made


def _seed(number: int) -> int:
    if not 0 <= number < SEEDS:
        raise Refusal(422, "invalid_request", f"task_idx {number} is not within 0 to {SEEDS - 1}")
    return number
