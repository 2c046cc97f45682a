"""The check of `conformance` for tasks that are done on several devices."""

from __future__ import annotations

from pydantic import TypeAdapter

from .conformance import NotTried, Wire, check, expect, picture, sized
from .protocol.actions import FUNCTIONS
from .protocol.messages import EpisodeReply, TaskInfo
from .suites.suite import SWITCH


@check("devices")
async def devices(wire: Wire) -> str:
    """Where a task has several devices, one is in front: the observation names it, and a step brings another there."""
    suites = (await wire.owner("GET", "/v1/suites")).good(list[str])
    found = None
    for suite in sorted(suites, key=lambda name: name != wire.suite):
        listed = (await wire.owner("GET", f"/v1/suites/{suite}/tasks")).good(TypeAdapter(list[TaskInfo]))
        found = found or next(((suite, task) for task in listed if len(task.devices) > 1), None)
    if found is None:
        raise NotTried("the server has no task of several devices")
    suite, task = found
    held = await wire.one(suite=suite, task=task.id)
    expect(held.lease.devices == task.devices, "the lease names other devices than the task")
    first, second = task.devices[:2]
    here = await held.reset()
    expect((task.device, here.device) == (first, first), "the episode does not begin on the first device")

    def switch(to: str) -> dict[str, object]:
        return {"name": SWITCH, "arguments": {"to": to}}

    there = await held.step(switch(second))
    shown = there.observation
    expect(shown.device == second, f"after a switch to {second} the observation names {shown.device}")
    expect(bool(there.tool_result and there.tool_result["success"]), "a switch has no result")
    sized(shown)
    wrong = await held.step({"name": FUNCTIONS[first], "arguments": {"action": "wait", "time": 0}})
    expect(wrong.error == "unknown_tool", f"{first}'s function is answered by {wrong.error} while {second} is in front")
    refused = await held.step(switch("nowhere"))
    expect(
        refused.error == "bad_argument" and refused.observation.device == second, "a switch to nowhere does something"
    )
    back = (await held.step(switch(first))).observation
    expect(back.device == first and picture(back) == picture(here), "the first device is not as it was left")
    again = await held.reset()
    expect(again.device == first and picture(again) == picture(here), "a reset does not begin on the first device")
    kept = await wire.one(suite=suite, task=task.id)
    await kept.reset()
    await kept.step(switch(second))
    steps = (await kept.ask("GET", "episode")).good(EpisodeReply).steps
    expect([step.device for step in steps] == [first], "a step's record does not name the device that it acted on")
    return f"{suite} {task.id}: {' and '.join(task.devices)}, left and found again"
