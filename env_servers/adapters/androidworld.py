"""AndroidWorld (Rawles et al. 2024, arXiv 2405.14573) over its HTTP server: one server is one emulator, one slot.

In: `androidworld=http://HOST:5000[?steps=N]`. Out: a suite of the server's tasks; a seed picks one of the parameter
sets that the server has made of a task (seed modulo their number).

An episode: /reset, /task/initialize, /task/goal; /execute_action and /screenshot; at `terminate` the status, then
/task/score once; /task/tear_down at the end, whatever that was. `input_text` there ends with the Enter key, `wait`
lasts a second: the wire has no other form.
"""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Mapping
from typing import Any

from PIL import Image

from ..screens import View
from ..suites.suite import Task, WorldKind, split_of
from .json_action import to_json_action
from .world import Judged, Location, Wire, World, WorldScreen, full_score, picture, steps_of


class AndroidScreen(WorldScreen):
    """One emulator. Its state adds "screen" (SHA-256 of the last picture) and "instruction"."""

    mobile_world = False

    def __init__(self, kind: WorldKind, wire: Wire) -> None:
        super().__init__(kind, wire)
        self.size = (kind.width, kind.height)
        self.task: Mapping[str, Any] | None = None
        self.instruction = self.digest = ""

    async def state(self) -> dict[str, Any]:
        """See the class."""
        return {**await super().state(), "instruction": self.instruction, "screen": self.digest}

    async def load(self, state: Mapping[str, Any]) -> None:
        """Set the task up; an episode before it is torn down first."""
        await self.tear_down()
        self.score, self.fault = None, ""
        await self.set_up(state)

    async def set_up(self, task: Mapping[str, Any]) -> None:
        """Begin the task on the emulator."""
        await self.wire.ask("POST", "/reset", go_home=True)
        self.task = task
        await self.wire.ask("POST", "/task/initialize", **task)
        self.instruction = str((await self.wire.ask("GET", "/task/goal", **task))["goal"])

    async def view(self, marks: bool = False) -> View:
        """The screen once it stands still; an emulator draws no marks."""
        png = await self.screenshot()
        with Image.open(io.BytesIO(png)) as shown:
            self.size = shown.size
        self.digest = hashlib.sha256(png).hexdigest()
        return View(base64.b64encode(png).decode(), *self.size, await self.state())

    async def screenshot(self) -> bytes:
        """PNG."""
        return picture((await self.wire.ask("GET", "/screenshot", wait_to_stabilize=True))["pixels"])

    async def perform(self, device: str, arguments: Mapping[str, Any]) -> None:
        """See `WorldScreen.perform`."""
        await self.act(to_json_action(arguments, *self.size, self.mobile_world))
        if arguments["action"] == "terminate":
            await self.judge()

    async def act(self, action: dict[str, Any]) -> None:
        """Carry out a JSONAction."""
        await self.wire.ask("POST", "/execute_action", action)

    async def ask_score(self) -> float:
        """The task's own check of the emulator."""
        return (await self.wire.ask("GET", "/task/score", **self.task))["score"]

    async def tear_down(self) -> None:
        """Undo what the task has set up."""
        task, self.task = self.task, None
        if task is not None:
            await self.wire.ask("POST", "/task/tear_down", **task)

    async def close(self) -> None:
        """See `WorldScreen.close`."""
        await self.tear_down()


class AndroidWorld(World):
    """The suite. lengths: how many parameter sets the server has of each task."""

    def __init__(self, location: Location, known: Mapping[str, Task], kind: WorldKind, lengths: Mapping[str, int]):
        super().__init__(location, known, kind)
        self.lengths = lengths

    def instantiate(self, task: Task, seed: int) -> Judged:
        """See `World.instantiate`."""
        split_of(seed)
        name = task.id.removeprefix(f"{self.location.kind}/")
        initial = {"task_type": name, "task_idx": seed % self.lengths[name]}
        return Judged(task, seed, self.kind, "", initial, (full_score,), ())

    async def open(self, wire: Wire) -> AndroidScreen:
        """See `World.open`."""
        await wire.ask("GET", "/health")
        return AndroidScreen(self.kind, wire)


def phone_task(world: str, name: str, template: str, steps: int, tags: tuple[str, ...] = ()) -> Task:
    """A task of an Android world."""
    return Task(f"{world}/{name}", "mobile", template, (world, *tags), -1, True, steps, scripted=False)


async def connect(location: Location) -> AndroidWorld:
    """Ask the servers for their health and the first for its tasks."""
    location.only("steps")
    steps = steps_of(location)
    for url in location.urls:
        async with Wire(url) as wire:
            await wire.ask("GET", "/health")
    async with Wire(location.urls[0]) as wire:
        names = (await wire.ask("GET", "/suite/task_list", max_index=-1))["task_list"]
        lengths = {n: (await wire.ask("GET", "/suite/task_length", task_type=n))["length"] for n in names}
        told = {n: (await wire.ask("GET", "/task/template", task_type=n, task_idx=0))["template"] for n in names}
        png = picture((await wire.ask("GET", "/screenshot", wait_to_stabilize=False))["pixels"])
    with Image.open(io.BytesIO(png)) as shown:
        kind = WorldKind("android", *shown.size, location.kind)
    tasks = {task.id: task for task in (phone_task(location.kind, n, told[n], steps) for n in names if lengths[n])}
    return AndroidWorld(location, tasks, kind, lengths)
