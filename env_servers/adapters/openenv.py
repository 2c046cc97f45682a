"""Any OpenEnv environment that shows a picture, as a suite (OpenEnv, meta-pytorch/OpenEnv): one connection is one slot.

In: `openenv=http://HOST:8000[?task=NAME&field=task&device=web&actions=gui_rl&steps=N]`. `task` may be given several
times: each is a task, told to `reset` in that field; without one the environment chooses by the seed alone. `actions`
says what a step is sent as: `gui_rl`, {"name", "arguments"} as at our own `/openenv`; `browsergym`, an action string.
Out: a suite of these tasks for one device family.

The wire is JSON over a WebSocket at /ws: reset, step, close; observation, error. Of an observation are read the picture
(`screenshot`: PNG in base64, or nested lists [height][width][3]) and the instruction (`instruction` or `goal`). The
score is the sum of the episode's rewards; 1 is success.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import json
from collections.abc import Mapping
from typing import Any

import aiohttp
from PIL import Image, UnidentifiedImageError

from ..errors import UserError
from ..protocol.actions import FUNCTIONS
from ..screens import ScreenError, ScreenLost, View
from ..suites.suite import SEEDS, Task, WorldKind, split_of
from .browsergym import to_string
from .world import TIMEOUT_S, Judged, Location, Wire, World, WorldScreen, full_score, picture, steps_of

INSTRUCTIONS = ("instruction", "goal")
CODECS = ("gui_rl", "browsergym")
LARGEST = 64 * 2**20  # bytes of a message: a screenshot as nested lists is large


def shown(observation: Mapping[str, Any]) -> bytes:
    """PNG of an observation. Raises ScreenError where it has no picture."""
    found = observation.get("screenshot")
    if not isinstance(found, str):
        if found is None:
            raise ScreenError(f"the observation has no screenshot, but: {', '.join(sorted(observation)) or 'nothing'}")
        return picture(found)
    try:
        png = base64.b64decode(found, validate=True)
        with Image.open(io.BytesIO(png)) as image:
            image.verify()
    except (binascii.Error, UnidentifiedImageError, OSError, SyntaxError) as error:
        raise ScreenError(f"the screenshot is no picture: {error}") from error
    return png


class OpenEnvScreen(WorldScreen):
    """One connection. Its state adds "screen" (SHA-256 of the last picture), "instruction" and "done"."""

    def __init__(self, kind: WorldKind, wire: Wire, actions: str) -> None:
        super().__init__(kind, wire)
        self.actions = actions
        self.observation: Mapping[str, Any] = {}
        self.instruction, self.digest, self.done, self.rewards = "", "", False, 0.0

    async def state(self) -> dict[str, Any]:
        """See the class."""
        told = {"instruction": self.instruction, "screen": self.digest, "done": self.done}
        return {**await super().state(), **told}

    async def ask(self, kind: str, data: Mapping[str, Any]) -> None:
        """Send `reset` or `step`; keeps what comes back. Raises ScreenError where it is refused, else ScreenLost."""
        reply = await self.wire.message({"type": kind, "data": dict(data)})
        told = reply.get("data")
        if reply.get("type") != "observation" or not isinstance(told, dict):
            told = told if isinstance(told, dict) else {}
            why = f"{kind}: {told.get('message') or json.dumps(reply)[:200]}"
            if told.get("outcome"):  # an environment's own fault, as our server tells it
                raise ScreenLost(why)
            raise ScreenError(why)
        self.observation = told.get("observation") or {}
        self.rewards += float(told.get("reward") or 0.0)
        self.done = bool(told.get("done"))

    async def load(self, state: Mapping[str, Any]) -> None:
        """Reset the environment; what its last episode was is forgotten."""
        self.score, self.fault, self.rewards = None, "", 0.0
        await self.ask("reset", state)
        self.instruction = next((str(self.observation[n]) for n in INSTRUCTIONS if self.observation.get(n)), "")

    async def view(self, marks: bool = False) -> View:
        """The last observation; an environment draws no marks."""
        png = shown(self.observation)
        with Image.open(io.BytesIO(png)) as image:
            size = image.size
        self.digest = hashlib.sha256(png).hexdigest()
        return View(base64.b64encode(png).decode(), *size, await self.state())

    async def perform(self, device: str, arguments: Mapping[str, Any]) -> None:
        """See `WorldScreen.perform`. An end that the codec has no word for is not told: the rewards so far count."""
        ends = arguments["action"] == "terminate"
        if self.actions == "gui_rl":
            await self.ask("step", {"name": FUNCTIONS[device], "arguments": dict(arguments)})
        elif not (ends and arguments["status"] == "success"):
            await self.ask("step", {"action_str": to_string(arguments, self.kind.width, self.kind.height)})
        if ends or self.done:
            await self.judge()

    async def ask_score(self) -> float:
        """The sum of the rewards."""
        return self.rewards

    async def close(self) -> None:
        """See `WorldScreen.close`."""
        await self.wire.tell({"type": "close"})


class Socket(Wire):
    """The WebSocket of an environment, opened with the first message."""

    _socket: aiohttp.ClientWebSocketResponse | None = None

    async def message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """The reply to a message. Raises ScreenLost where none comes, ScreenError where it is no JSON object."""
        await self.tell(message)
        try:
            reply = json.loads(await self._socket.receive_str(timeout=TIMEOUT_S))
        except (TimeoutError, TypeError, aiohttp.ClientError) as error:  # TypeError: the connection was closed
            raise ScreenLost(
                f"{self.url}/ws: no answer to {message['type']} ({error or 'it took too long'})"
            ) from error
        except ValueError as error:
            raise ScreenError(f"{self.url}/ws: the reply is not JSON") from error
        if not isinstance(reply, dict):
            raise ScreenError(f"{self.url}/ws: the reply is no JSON object")
        return reply

    async def tell(self, message: Mapping[str, Any]) -> None:
        """Send a message. Raises ScreenLost."""
        try:
            if self._socket is None:
                self._socket = await self.http.ws_connect(f"{self.url}/ws", max_msg_size=LARGEST)
            await self._socket.send_str(json.dumps(message))
        except (aiohttp.ClientError, ConnectionError) as error:
            raise ScreenLost(f"{self.url}/ws: {error}") from error

    async def close(self) -> None:
        """End the connection."""
        if self._socket is not None:
            await self._socket.close()
        await super().close()


class OpenEnv(World):
    """The suite. resets: what a task's `reset` is told beside the seed."""

    wire = Socket

    def __init__(
        self, location: Location, known: Mapping[str, Task], kind: WorldKind, resets: Mapping[str, Any], actions: str
    ) -> None:
        super().__init__(location, known, kind)
        self.resets, self.actions = resets, actions

    def instantiate(self, task: Task, seed: int) -> Judged:
        """See `World.instantiate`."""
        split_of(seed)
        return Judged(task, seed, self.kind, "", {**self.resets[task.id], "seed": seed}, (full_score,), ())

    async def open(self, wire: Socket) -> OpenEnvScreen:
        """See `World.open`."""
        return OpenEnvScreen(self.kind, wire, self.actions)


def _one_of(location: Location, name: str, allowed: tuple[str, ...]) -> str:
    value = location.option(name, allowed[0])
    if value not in allowed:
        raise UserError(f"--suite {location.kind}: {name}={value} is none of {', '.join(allowed)}")
    return value


async def connect(location: Location) -> OpenEnv:
    """Reset every environment once: to know that it answers, and how large its screen is."""
    location.only("task", "field", "device", "actions", "steps")
    device, actions = (
        _one_of(location, "device", ("web", *sorted(set(FUNCTIONS) - {"web"}))),
        _one_of(location, "actions", CODECS),
    )
    if actions == "browsergym" and device != "web":
        raise UserError(f"--suite {location.kind}: BrowserGym's actions are of the device web, not {device}")
    steps, field = steps_of(location), location.option("field", "task")
    names = location.options.get("task", [])
    resets = {f"{location.kind}/{name.replace('/', '-')}": {field: name} for name in names}
    resets = resets or {f"{location.kind}/episode": {}}
    for url in location.urls:
        async with Socket(url) as wire:
            screen = OpenEnvScreen(WorldKind("openenv", 0, 0, location.kind), wire, actions)
            await screen.load({**next(iter(resets.values())), "seed": SEEDS["train"][0]})
            first = await screen.view()
            await screen.close()
    kind = WorldKind("openenv", first.width, first.height, location.kind)
    known = {
        name: Task(
            name,
            device,
            screen.instruction if len(resets) == 1 else "",
            (location.kind,),
            -1,
            True,
            steps,
            scripted=False,
        )
        for name in resets
    }
    return OpenEnv(location, known, kind, resets, actions)
