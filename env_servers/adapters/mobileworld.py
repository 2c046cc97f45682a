"""MobileWorld (arXiv 2512.19432) over its HTTP server: one server is one device, one slot.

In: `mobileworld=http://HOST:6800[?device=emulator-5554&steps=N]`. Out: a suite of the server's tasks; they have no
parameters, so that every seed is the same episode.

An episode: /init, /task/init, /task/goal; /step (a JSONAction that also has drag and ask_user) and /screenshot; at
`terminate` the status, then /task/eval once (a GET with a body, as the server has it); /task/tear_down.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from ..suites.suite import Task, WorldKind, split_of
from .androidworld import AndroidScreen, phone_task
from .world import Judged, Location, Wire, World, full_score, steps_of

DEVICE = "emulator-5554"


class MobileScreen(AndroidScreen):
    """One device."""

    mobile_world = True

    def __init__(self, kind: WorldKind, wire: Wire, device: str) -> None:
        super().__init__(kind, wire)
        self.device = device

    async def set_up(self, task: Mapping[str, Any]) -> None:
        """Begin the task on the device."""
        self.task = {**task, "req_device": self.device}
        await self.wire.ask("POST", "/task/init", self.task)
        self.instruction = str(await self.wire.ask("GET", "/task/goal", **task))

    async def screenshot(self) -> bytes:
        """PNG."""
        shown = await self.wire.ask("GET", "/screenshot", device=self.device, return_b64=True)
        return base64.b64decode(shown["b64_png"])

    async def act(self, action: dict[str, Any]) -> None:
        """Carry out a JSONAction."""
        await self.wire.ask("POST", "/step", {"device": self.device, "action": action})

    async def ask_score(self) -> float:
        """The task's own check of the device."""
        return (await self.wire.ask("GET", "/task/eval", self.task))["score"]

    async def tear_down(self) -> None:
        """Undo what the task has set up."""
        task, self.task = self.task, None
        if task is not None:
            await self.wire.ask("POST", "/task/tear_down", task)


class MobileWorld(World):
    """The suite."""

    def instantiate(self, task: Task, seed: int) -> Judged:
        """See `World.instantiate`."""
        split_of(seed)
        initial = {"task_name": task.id.removeprefix(f"{self.location.kind}/")}
        return Judged(task, seed, self.kind, "", initial, (full_score,), ())

    async def open(self, wire: Wire) -> MobileScreen:
        """See `World.open`."""
        device = self.location.option("device", DEVICE)
        await wire.ask("POST", "/init", {"device": device})
        return MobileScreen(self.kind, wire, device)


async def connect(location: Location) -> MobileWorld:
    """Ask every server for its device and the first for its tasks."""
    location.only("device", "steps")
    steps = steps_of(location)
    sizes = []
    for url in location.urls:
        async with Wire(url) as wire:
            await wire.ask("GET", "/health")
            sizes.append(
                (await wire.ask("POST", "/init", {"device": location.option("device", DEVICE)}))["viewport_size"]
            )
    async with Wire(location.urls[0]) as wire:
        listed = await wire.ask("GET", "/task/list")
        goals = {one["name"]: str(await wire.ask("GET", "/task/goal", task_name=one["name"])) for one in listed}
    kind = WorldKind("android", *sizes[0], location.kind)
    made = (phone_task(location.kind, o["name"], goals[o["name"]], steps, tuple(o.get("tags", ()))) for o in listed)
    return MobileWorld(location, {task.id: task for task in made}, kind)
