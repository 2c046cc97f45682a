"""Sessions: episodes on leased screens, with idempotent steps (R31, R33, R36).

In: requests of the protocol, already parsed, and a source of screens. Out: replies, or a `Refusal` with a stable code.

A session holds a screen from `reset` until its episode is over. A step is carried out once: its reply is kept under
(episode, step), also while it is still being worked out, and a re-sent request gets that one. A fault of the
environment ends the episode with an outcome of its own and never with a score.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import time
from typing import Any

from .adapters import Worlds
from .browser import PAGE_TIMEOUT_S, Browser
from .desktop.room import Desktops
from .episode import Episode
from .errors import UserError
from .inputs import UNTOUCHING
from .leases import Leases, Refusal, Sent, Session
from .logs import say
from .protocol.actions import ARGUMENTS, FUNCTIONS, Call, validate_call
from .protocol.messages import (
    Action,
    EpisodeReply,
    EvaluateReply,
    Known,
    Mark,
    Named,
    Observation,
    ScriptReply,
    StepRecord,
    StepReply,
    StepRequest,
)
from .screens import ScreenError, ScreenLost, Screens, Unsupported, View
from .suites.composite import carry_out
from .suites.suite import SWITCH, DesktopKind, PageKind, WorldKind
from .suites.virtual.gestures import elements_of


def every_screen(timeout_s: float = PAGE_TIMEOUT_S) -> Screens:
    """All that this package can show: pages in one Chromium, desktops, and the worlds of other programs."""
    return Screens(
        {PageKind: Browser(timeout_s=timeout_s), DesktopKind: Desktops(timeout_s=timeout_s), WorldKind: Worlds()}
    )


def state_hash(state: dict[str, Any]) -> str:
    """SHA-256 of a state's canonical JSON (sorted keys, no spaces), in hex."""
    return hashlib.sha256(json.dumps(state, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


class SessionStore(Leases):
    """The leases of a server and what their owners do with them."""

    async def reset(self, session: Session) -> Observation:
        """Begin a new episode; the old one is forgotten. Refusal: reset_failed."""
        async with session.lock:
            with self.metrics.reset_seconds.time():
                self._live(session)
                if self.draining:
                    raise Refusal.fault("reset_failed", "this server is shutting down: take a session elsewhere")
                episode = Episode(session.episode.number + 1 if session.episode else 1, session.instance)
                session.episode, session.sent, session.last = episode, {}, None
                session.device = session.instance.task.device
                view = await self._first_view(session, episode)
                episode.observe(view.state, 0)
                session.first = session.last = self._observation(session, view, 0, [])
            self.metrics.resets.inc()
            await self._settle(session)
            return session.last

    async def _first_view(self, session: Session, episode: Episode) -> View:
        """Load the initial state. A screen that turns out to be dead is replaced once: nothing has been done yet."""
        pages, initial = session.instance.pages, session.instance.initial
        for last_try in (False, True):
            try:
                for device, page in pages.items():
                    if device not in session.screens:
                        session.screens[device] = await self.screens.lease(page)
                    await session.screens[device].load(initial if len(pages) == 1 else initial["devices"][device])
                return await self._view(session)
            except (ScreenLost, ScreenError, UserError) as error:
                await self._release(session)
                if last_try or not isinstance(error, ScreenLost):
                    episode.fail("reset_failed", str(error))
                    say("warning", "reset_failed", error=error, session=session.id, episode=episode.number)
                    raise Refusal.fault("reset_failed", str(error)) from error
        raise AssertionError("unreachable")

    @staticmethod
    async def _view(session: Session) -> View:
        """What the device in front shows; the state is that of all devices."""
        marks = session.request.marks and "label" in ARGUMENTS[session.device]
        view = await session.screen.view(marks)
        if len(session.screens) == 1:
            return view
        known = session.episode.last_state.get("devices", {})
        states = {d: known[d] if d in known else await screen.state() for d, screen in session.screens.items()}
        state = {"device": session.device, "devices": {**states, session.device: view.state}}
        return dataclasses.replace(view, state=state)

    async def step(self, session: Session, request: StepRequest) -> StepReply:
        """Carry out one step, once. Refusals: no_episode, wrong_episode, wrong_step, step_conflict, episode_over (409),
        and the environment's faults."""
        episode = self._current(session, request.episode)
        sent = session.sent.get(request.step)
        if sent is not None:
            if not sent.same_as(request):
                detail = f"step {request.step} of episode {episode.number} was sent before with another action"
                raise Refusal(409, "step_conflict", detail)
            self.metrics.repeats.inc()
            return await asyncio.shield(sent.reply)
        self._running(episode)
        if request.step != len(episode.steps):
            raise Refusal(409, "wrong_step", f"the next step is {len(episode.steps)}, not {request.step}")
        sent = Sent(request, asyncio.create_task(self._carry_out(session, episode, request)))
        sent.reply.add_done_callback(
            lambda reply: reply.cancelled() or reply.exception()
        )  # seen, even if the sender has gone away
        session.sent[request.step] = sent
        return await asyncio.shield(sent.reply)

    async def _carry_out(self, session: Session, episode: Episode, request: StepRequest) -> StepReply:
        async with session.lock:
            self._live(session)
            if session.episode is not episode:
                raise Refusal(409, "wrong_episode", f"episode {episode.number} is over: the session was reset")
            self._running(episode)
            started, device = time.perf_counter(), session.device
            with self.metrics.step_seconds.time(), self.metrics.in_flight.track_inprogress():
                try:
                    error, result = await self._act(session, request)
                    judged = isinstance(session.instance.pages[device], WorldKind)
                    touched = error is None and (judged or not _touches_nothing(request.action, device))
                    view = await self._view(session) if touched else None
                except Exception as lost:  # whatever it was: nobody knows what the screen shows now
                    raise await self._crash(session, lost) from lost
            session.last = self._observation(session, view, request.step + 1, [result] if result else [])
            held = episode.observe(view.state if view else episode.last_state, request.step + 1)
            kept = _in_unicode(request)
            episode.end_of_step(
                StepRecord(
                    step=request.step,
                    device=device,
                    action=kept.action,
                    parse_error=kept.parse_error,
                    error=error,
                    tool_result=result,
                    response=kept.response,
                    state_hash=session.last.state_hash,
                    held=held,
                )
            )
            self.metrics.steps.labels(device).inc()
            say(
                "debug",
                "step",
                session=session.id,
                episode=episode.number,
                step=request.step,
                action=None if error else _action_name(request.action),
                ms=round(1000 * (time.perf_counter() - started), 2),
                outcome=error or request.parse_error or episode.status,
            )
            await self._settle(session)
            return StepReply(
                observation=session.last,
                terminated=episode.status == "terminated",
                truncated=episode.status == "truncated",
                tool_result=result,
                error=error,
            )

    async def _act(self, session: Session, request: StepRequest) -> tuple[str | None, dict[str, Any] | None]:
        """(why the call was not carried out, the result of a tool)."""
        if request.action is None:
            return None, None
        call, device = Call(request.action.name, request.action.arguments), session.device
        if failure := validate_call(call, device, session.tools):
            return failure, None
        if call.name == SWITCH:
            session.device = call.arguments["to"]
            return None, {"success": True, "result": {"device": session.device}, "error_message": None}
        if call.name != FUNCTIONS[device]:
            for composite in session.request.composites:
                if composite.name == call.name:
                    return None, await carry_out(composite, call.arguments, session.screen.tool)
            if call.name not in {spec.name for spec in session.instance.tools}:
                return None, failed(f"{call.name} does not apply here: its app is not open")
            return None, await session.screen.tool(call.name, call.arguments)
        try:
            await session.screen.perform(device, call.arguments)
        except Unsupported:
            return "unsupported", None
        return None, None

    async def evaluate(self, session: Session) -> EvaluateReply:
        """The verdict on the present episode, found once. Refusal: no_episode."""
        async with session.lock:
            episode = self._any(session)
            fresh = episode.verdict is None
            verdict = episode.evaluate()
            if fresh:
                self.metrics.outcomes.labels(session.request.suite, verdict.outcome).inc()
                named = {"session": session.id, "episode": episode.number, "task": session.request.task}
                say("info", "verdict", **named, steps=verdict.steps, outcome=verdict.outcome)
            await self._release(session)
            return verdict

    async def script(self, session: Session) -> ScriptReply:
        """The task's scripted next move. Refusals: script_disabled, no_episode, episode_over, script_failed, faults."""
        if not session.request.script:
            raise Refusal(403, "script_disabled", "create the session with script=true to ask for scripted moves")
        async with session.lock:
            episode = self._any(session)
            self._running(episode)
            try:
                elements = elements_of(await session.screen.elements())
            except (ScreenLost, ScreenError) as lost:
                raise await self._crash(session, lost) from lost
            names = [tool["function"]["name"] for tool in session.tools]
            try:
                move = session.instance.move(episode.last_state, elements, episode.met, names)
            except ValueError as error:
                raise Refusal(500, "script_failed", f"{session.instance.task.id}: {error}") from error
            shown = [Named(name=element.name, box=element.box) for element in elements]
            said, known = session.instance.known(episode.last_state), None
            if said is not None:
                holds = [bool(checkpoint(episode.last_state)) for checkpoint in session.instance.checkpoints]
                known = Known(**said, met=episode.met, holds=holds)
            return ScriptReply(
                action=Action(**move.call), conclusion=move.conclusion, box=move.box, elements=shown, known=known
            )

    def record(self, session: Session, screenshots: bool = False) -> EpisodeReply:
        """The present episode with all that was sent to it, and what was seen if asked for. Refusal: no_episode."""
        episode = self._any(session)
        replies = [session.sent[step.step].reply for step in episode.steps]
        seen = [session.first, *(r.result().observation for r in replies if r.done() and not r.exception())]
        return EpisodeReply(
            session=session.id,
            episode=episode.number,
            suite=session.request.suite,
            task=episode.instance.task.id,
            seed=session.request.seed,
            instruction=episode.instruction,
            status=episode.status,
            steps=list(episode.steps),
            device=episode.instance.task.device,
            first_hash=session.first.state_hash if session.first else "",
            tools=session.tools,
            screenshots=[observation.screenshot for observation in seen if observation] if screenshots else [],
        )

    def screenshot(self, session: Session) -> bytes:
        """PNG of the last observation. Refusal: no_episode."""
        if session.last is None:
            raise Refusal(409, "no_episode", "there is no observation yet: reset the session first")
        return session.last.png

    @staticmethod
    def _any(session: Session) -> Episode:
        if session.episode is None:
            raise Refusal(409, "no_episode", "reset the session first")
        return session.episode

    def _current(self, session: Session, number: int) -> Episode:
        episode = self._any(session)
        if episode.number != number:
            raise Refusal(409, "wrong_episode", f"the session is in episode {episode.number}, not {number}")
        return episode

    @staticmethod
    def _running(episode: Episode) -> None:
        if episode.fault is not None:
            raise Refusal.fault(*episode.fault)
        if episode.status != "running":
            raise Refusal(409, "episode_over", f"episode {episode.number} is {episode.status}: reset or evaluate it")

    async def _crash(self, session: Session, error: Exception) -> Refusal:
        """End the episode as env_crash: its screen is not used again."""
        known = isinstance(error, ScreenLost | ScreenError)
        named = {"session": session.id, "episode": session.episode.number, "step": len(session.episode.steps)}
        say("warning" if known else "error", "env_crash", error=error, **named)
        session.episode.fail("env_crash", str(error) or repr(error))
        session.screen.usable = False
        await self._release(session)
        return Refusal.fault("env_crash", session.episode.fault[1])

    async def _settle(self, session: Session) -> None:
        """After a reset or a step: an episode that is over gives its screen back; a grader's fault is said at once."""
        episode = session.episode
        if episode.status != "running":
            await self._release(session)
        if episode.fault is not None and episode.fault[0] == "grader_error":
            raise Refusal.fault(*episode.fault)

    @staticmethod
    def _observation(session: Session, view: View | None, step: int, results: list[dict[str, Any]]) -> Observation:
        """What the policy sees before `step`; view None: the same screen as before."""
        if view is None:
            return session.last.model_copy(update={"step": step, "tool_results": results})
        page = session.instance.pages[session.device]
        return Observation(
            episode=session.episode.number,
            step=step,
            device=session.device,
            instruction=session.episode.instruction,
            screenshot=view.png_base64,
            width=view.width,
            height=view.height,
            css_width=page.width,
            css_height=page.height,
            device_pixel_ratio=view.width / page.width,
            tool_results=results,
            state_hash=state_hash(view.state),
            marks=[Mark(label=k, **element) for k, element in enumerate(view.marks, start=1)],
        )


def _in_unicode(request: StepRequest) -> StepRequest:
    """A request as it can be sent back: lone surrogates, which JSON lets in and UTF-8 has no form for, become "?"."""
    try:
        request.model_dump_json()
    except ValueError:
        text = json.dumps(request.model_dump(), ensure_ascii=False).encode("utf-8", "replace")
        return StepRequest.model_validate_json(text)
    return request


def failed(reason: str) -> dict[str, Any]:
    """The result of a tool call that came to nothing."""
    return {"success": False, "result": None, "error_message": reason}


def _touches_nothing(action: Action | None, device: str) -> bool:
    return action is None or (action.name == FUNCTIONS[device] and action.arguments["action"] in UNTOUCHING)


def _action_name(action: Action | None) -> str | None:
    """What an action is called in the logs: never what it types."""
    if action is None:
        return None
    kind = action.arguments.get("action")
    return f"{action.name}.{kind}"[:80] if isinstance(kind, str) else action.name[:80]
