"""Demonstrations by people (GUI-Owl-1.5, section 2.2.2): a page that shows a session's screen and takes the hand.

In: a task (or what remains of one, from the queue of `collect`) and an environment server. Out: an `Episode` of source
`human`, in the same form as any other, once the person has said how the task ended.

The page is served on the loopback address and opens with a token; a request without it, or one that was sent to another
host name (a page elsewhere that rebinds its name to this address), is refused. What the person does becomes a call of
the device's function: a press, a drag, the wheel, text, keys, buttons. What the screen could not carry out is not kept.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiohttp import web

from env_servers.protocol.actions import FUNCTIONS, Call, validate_call
from env_servers.protocol.messages import Observation
from gui_rl.data.schema import Episode, Turn
from gui_rl.flywheel.collect import Begun, Item
from gui_rl.prompt.response import response_text
from gui_rl.rollout.env_client import EnvClient, EnvFault

PAGE = Path(__file__).parent / "assets" / "record.html"
WIDEST, TALLEST = 900, 760
BUTTONS = {
    "mobile": {name: {"action": "system_button", "button": name} for name in ("Back", "Home", "Enter")},
    "desktop": {},
    "web": {"Go back": {"action": "go_back"}},
}
"""Extra buttons of the page, by family."""
SAID = {"mobile": "Tap", "desktop": "Click", "web": "Click"}


class Recorder:
    """One item being played by a person; `done` is set to its episode, or to the fault that ended it."""

    def __init__(self, item: Item, session: Begun):
        self.item, self.session = item, session
        self.done: asyncio.Future[Episode] = asyncio.get_running_loop().create_future()
        self._turns: list[Turn] = []
        self._seen: Observation | None = None
        self._said = ""
        self._lock = asyncio.Lock()

    async def begin(self) -> None:
        """Resets the session. Raises EnvFault."""
        self._seen = await self.session.reset()

    def state(self) -> dict[str, Any]:
        """What the page shows."""
        seen = self._seen
        zoom = min(WIDEST / seen.css_width, TALLEST / seen.css_height)
        return {
            "device": seen.device,
            "instruction": seen.instruction,
            "screenshot": seen.screenshot,
            "width": seen.css_width,
            "height": seen.css_height,
            "zoom": max(1, int(zoom)) if zoom >= 1 else zoom,
            "steps": [turn.conclusion for turn in self._turns],
            "buttons": BUTTONS[seen.device],
            "said": self._said,
            "over": self.done.done(),
        }

    async def act(self, actions: list[dict[str, Any]], sentence: str) -> dict[str, Any]:
        """Carries actions out, one step each. Raises ValueError for one that the device does not have."""
        async with self._lock:
            if self.done.done():
                raise ValueError("the demonstration is over")
            device = self._seen.device
            calls = [Call(FUNCTIONS[device], dict(action)) for action in actions]
            for call in calls:
                if failure := validate_call(call, device):
                    raise ValueError(f"{json.dumps(call.arguments)} is no action of {device}: {failure}")
            try:
                for call in calls:
                    if await self._step(call, sentence):
                        break
            except EnvFault as fault:
                self._said = f"the environment failed ({fault}); nothing is kept of this demonstration"
                self.done.set_exception(fault)
            return self.state()

    async def _step(self, call: Call, sentence: str) -> bool:
        before, said = self._seen, " ".join(sentence.split()) or describe(call, self._seen.device)
        text = response_text(said, call)
        reply = await self.session.step(call.to_json(), text=text)
        self._seen, self._said = reply.observation, ""
        if reply.error:
            self._said = f"that could not be done here ({reply.error}); it is not kept"
        else:
            turn = Turn(len(self._turns), before.png, text=text, conclusion=said, action=call.to_json())
            self._turns.append(turn)
        if reply.terminated or reply.truncated:
            await self._finish()
            return True
        return False

    async def _finish(self) -> None:
        verdict, item, seen = await self.session.evaluate(), self.item, self._seen
        self._said = {"success": "done, and stored"}.get(verdict.outcome, f"over: {verdict.outcome}; not stored")
        self.done.set_result(
            Episode(
                id=f"human:{item.task.suite}:{item.task.task}:{item.task.seed}:{secrets.token_hex(4)}",
                suite=item.task.suite,
                task=item.task.task,
                seed=item.task.seed,
                device=seen.device,
                instruction=seen.instruction,
                screen_size=(seen.width, seen.height),
                turns=tuple(self._turns),
                outcome=verdict.outcome,
                score=verdict.score or 0.0,
                progress=verdict.progress,
                total=verdict.total,
                checkpoints=tuple(verdict.checkpoints),
                source="human",
                final_screenshot=seen.png,
                made_by={"instruction": item.task.made_by, "checkpoints": "exact"},
            )  # fmt: skip
        )


def describe(call: Call, device: str) -> str:
    """A sentence for an action that the person said nothing about."""
    given = call.arguments
    action, at = given["action"], given.get("coordinate")
    match action:
        case "click" | "left_click":
            return f"{SAID[device]} at [{at[0]}, {at[1]}]."
        case "swipe":
            return f"Swipe from [{at[0]}, {at[1]}] to [{given['coordinate2'][0]}, {given['coordinate2'][1]}]."
        case "left_click_drag":
            return f"Drag to [{at[0]}, {at[1]}]."
        case "type" | "answer":
            return f"{action.capitalize()} {' '.join(given['text'].split())}."
        case "key":
            return f"Press {' '.join(given['keys'])}."
        case "system_button":
            return f"Press {given['button'].lower()}."
        case "terminate":
            return "The task is done." if given["status"] == "success" else "The task can not be done."
    words = action.replace("_", " ").capitalize()
    return f"{words} at [{at[0]}, {at[1]}]." if at else f"{words}."


def create_app(recorder: Recorder, token: str) -> web.Application:
    """The page and its two calls; all need the token, and a Host that is this machine's own."""

    @web.middleware
    async def guard(request: web.Request, handler: Callable) -> web.StreamResponse:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ") or request.query.get("token", "")
        if request.host.rpartition(":")[0] not in ("127.0.0.1", "localhost", "[::1]"):
            return web.json_response({"error": f"this page is not served under the name {request.host}"}, status=403)
        if not hmac.compare_digest(given.encode(), token.encode()):
            return web.json_response(
                {"error": "open the page by the address that was printed, token included"}, status=401
            )
        return await handler(request)

    async def page(_: web.Request) -> web.Response:
        return web.Response(text=PAGE.read_text(encoding="utf-8"), content_type="text/html")

    async def state(_: web.Request) -> web.Response:
        return web.json_response(recorder.state())

    async def act(request: web.Request) -> web.Response:
        try:
            body = await request.json()
            actions, sentence = body["actions"], body.get("sentence", "")
            if not isinstance(actions, list) or not actions or not isinstance(sentence, str):
                raise ValueError("need {actions: [...], sentence: text}")
            return web.json_response(await recorder.act(actions, sentence))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return web.json_response({"error": str(error)}, status=400)

    app = web.Application(middlewares=[guard])
    app.router.add_get("/", page)
    app.router.add_get("/state", state)
    app.router.add_post("/act", act)
    return app


async def record(
    client: EnvClient, item: Item, port: int = 0, say: Callable[[str], None] = print, linger_s: float = 1.0
) -> Episode:
    """Serves the page until the person has ended the task; returns the episode. Raises EnvFault.

    say: gets the page's address. linger_s: how long the page stays after the end, to show it.
    """
    (session,) = await client.create(item.task.suite, item.task.task, item.task.seed, idle_s=3600)
    recorder, token = Recorder(item, Begun(session, item)), secrets.token_urlsafe(24)
    runner = web.AppRunner(create_app(recorder, token), access_log=None)
    try:
        await recorder.begin()
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        say(f"http://127.0.0.1:{runner.addresses[0][1]}/?token={token}")
        episode = await recorder.done
        await asyncio.sleep(linger_s)
        return episode
    finally:
        await session.close()
        await runner.cleanup()
