"""What all adapters share: where a world is, its slots, the exchange over HTTP, and the verdict that a world gives.

In: a `Location`. Out: a `World`, which is a suite and the source of its screens. A screen's state is
{"score": None until the end, then the world's own number; "fault": why grading failed, where it did; "done": whether
the world has ended the episode itself}. The score is asked for once, at `terminate`, ahead of any tear-down.
"""

from __future__ import annotations

import io
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

import aiohttp
import numpy as np
from PIL import Image

from ..errors import UserError
from ..screens import ScreenError, ScreenLost, View
from ..suites.suite import State, Task, TaskInstance, WorldKind

TIMEOUT_S = 180.0  # of one exchange: an emulator may take a minute to set a task up
TOKEN_VARIABLE = "GUI_RL_WORLD_TOKEN"
STEPS = 30  # of an episode, unless `steps` is given: no wire tells its world's own budget


@dataclass(frozen=True)
class Location:
    """Where a world is: its kind, the URL of each slot, the options of its kind."""

    kind: str
    urls: tuple[str, ...]
    options: Mapping[str, list[str]]

    @classmethod
    def parse(cls, text: str) -> Location:
        """From KIND=URL[,URL...][?OPTION=VALUE&...]; raises UserError for anything else."""
        kind, equals, rest = text.partition("=")
        places, _, query = rest.partition("?")
        urls = tuple(url.rstrip("/") for url in places.split(","))
        if not equals or not all(url.startswith(("http://", "https://")) for url in urls):
            raise UserError(f"--suite {text}: write KIND=http://HOST:PORT, as androidworld=http://localhost:5000")
        if len(set(urls)) < len(urls):
            raise UserError(f"--suite {text}: a URL is one slot, and one stands there twice")
        return cls(kind, urls, parse_qs(query, keep_blank_values=True))

    def only(self, *names: str) -> None:
        """Raise UserError if there are options of other names."""
        if strange := sorted(set(self.options) - set(names)):
            raise UserError(f"--suite {self.kind}: no option {strange[0]!r}; it takes: {', '.join(names) or 'none'}")

    def option(self, name: str, default: str) -> str:
        """The last value given to an option."""
        return self.options.get(name, [default])[-1]


def steps_of(location: Location) -> int:
    """The option `steps`; raises UserError unless it is a whole number above 0."""
    text = location.option("steps", str(STEPS))
    if not (text.isascii() and text.isdigit() and int(text)):
        raise UserError(f"--suite {location.kind}: steps={text} is no number of steps")
    return int(text)


def picture(pixels: Any) -> bytes:
    """PNG of nested lists [height][width][3] of 0..255; raises ScreenError for anything else."""
    try:
        found = np.asarray(pixels, dtype=np.uint8)
        if found.ndim != 3 or found.shape[2] != 3 or not found.size:
            raise ValueError(f"its shape is {found.shape}")
    except (ValueError, TypeError, OverflowError) as error:
        raise ScreenError(f"the screenshot is no picture: {error}") from error
    out = io.BytesIO()
    Image.fromarray(found).save(out, "PNG", compress_level=1)
    return out.getvalue()


class Wire:
    """JSON over HTTP with one server of a world."""

    def __init__(self, url: str) -> None:
        self.url = url
        token = os.environ.get(TOKEN_VARIABLE, "")
        self.http = aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
        )

    async def __aenter__(self) -> Wire:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def ask(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """The reply's JSON. Raises ScreenLost where nobody answers, ScreenError where the world refuses."""
        words = {name: str(value).lower() if isinstance(value, bool) else value for name, value in query.items()}
        named = f"{method} {self.url}{path}"
        try:
            async with self.http.request(method, self.url + path, params=words, json=body) as reply:
                if reply.status >= 400:
                    raise ScreenError(f"{named}: {reply.status}, {(await reply.text())[:300]}")
                return await reply.json(content_type=None)
        except TimeoutError:
            raise ScreenLost(f"{named}: no answer within {TIMEOUT_S:g} s") from None
        except aiohttp.ClientError as error:
            raise ScreenLost(f"{named}: {error}") from error
        except ValueError as error:
            raise ScreenError(f"{named}: the reply is not JSON") from error

    async def fetch(self, method: str, path: str, body: Any = None, form: Any = None) -> tuple[int, bytes]:
        """Status and bytes of a reply that need not be JSON, whatever the status. Raises ScreenLost."""
        try:
            async with self.http.request(method, self.url + path, json=body, data=form) as reply:
                return reply.status, await reply.read()
        except (TimeoutError, aiohttp.ClientError) as error:
            raise ScreenLost(f"{method} {self.url}{path}: {error or 'no answer'}") from error

    async def close(self) -> None:
        """End the connection."""
        await self.http.close()


class WorldScreen(ABC):
    """One slot's screen while a session has it: `screens.Screen`, and `close`. score, fault: of the episode's end."""

    def __init__(self, kind: WorldKind, wire: Wire) -> None:
        self.kind, self.wire, self.usable = kind, wire, True
        self.score: float | None = None
        self.fault = ""

    async def state(self) -> dict[str, Any]:
        """See the module."""
        return {"score": self.score, **({"fault": self.fault} if self.fault else {})}

    async def elements(self) -> list[dict[str, Any]]:
        """A foreign world names nothing."""
        return []

    async def tool(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """A foreign world has no tools unless its adapter says so."""
        return {"success": False, "result": None, "error_message": f"this world has no tool {name}"}

    async def judge(self) -> None:
        """Ask the world for its score, once an episode; a refusal is kept as the grader's fault."""
        if self.score is None and not self.fault:
            try:
                self.score = float(await self.ask_score())
            except (ScreenError, ScreenLost, TypeError, ValueError, KeyError) as error:
                self.fault = f"the world did not grade: {error}"

    @abstractmethod
    async def load(self, state: Mapping[str, Any]) -> None:
        """Begin an episode from an instance's `initial`."""

    @abstractmethod
    async def view(self, marks: bool = False) -> View:
        """State and pixels."""

    @abstractmethod
    async def perform(self, device: str, arguments: Mapping[str, Any]) -> None:
        """Carry out a valid GUI call; `terminate` ends with `judge`. Raises Unsupported for what the wire lacks."""

    @abstractmethod
    async def ask_score(self) -> float:
        """The world's own score of the episode."""

    @abstractmethod
    async def close(self) -> None:
        """Tear the episode down and end the connection."""


@dataclass(frozen=True)
class Judged(TaskInstance):
    """An instance whose verdict is its world's; its one checkpoint is a score of 1."""

    def ended(self, state: State) -> bool:
        """The world has ended the episode."""
        return bool(state.get("done"))

    def succeeded(self, state: State, declared: str | None, complete: bool) -> bool:
        """The world's score, and an end as R4 wants it; raises ValueError where the world did not grade."""
        if "fault" in state:
            raise ValueError(state["fault"])
        return complete and declared in (None, "success" if self.task.feasible else "failure")


def full_score(state: State) -> bool:
    """The checkpoint of `Judged`."""
    return state["score"] is not None and state["score"] >= 1


class World(ABC):
    """A suite whose screens are elsewhere: one slot a URL. known: its tasks; kind: of its screens."""

    wire: type[Wire] = Wire

    def __init__(self, location: Location, known: Mapping[str, Task], kind: WorldKind) -> None:
        self.location, self._known, self.kind = location, dict(known), kind
        self._free = list(location.urls)

    @property
    def slots(self) -> int:
        """How many sessions it holds."""
        return len(self.location.urls)

    def tasks(self) -> Mapping[str, Task]:
        """All tasks by their id."""
        return self._known

    @abstractmethod
    def instantiate(self, task: Task, seed: int) -> TaskInstance:
        """The instance that belongs to `seed`; ValueError for a seed of no split."""

    @abstractmethod
    async def open(self, wire: Wire) -> WorldScreen:
        """The screen of one slot; raises ScreenLost."""

    async def lease(self, kind: WorldKind) -> WorldScreen:
        """A free slot's screen; raises ScreenLost where the world does not answer."""
        if not self._free:
            raise ScreenError(f"all {self.slots} slots of {self.location.kind!r} are taken")
        url = self._free.pop(0)
        wire = self.wire(url)
        try:
            return await self.open(wire)
        except BaseException:
            self._free.append(url)
            await wire.close()
            raise

    async def release(self, screen: WorldScreen) -> None:
        """Tear down, and free the slot, whatever the world says to that."""
        try:
            await screen.close()
        except (ScreenLost, ScreenError):
            screen.usable = False
        finally:
            await screen.wire.close()
            self._free.append(screen.wire.url)
