"""Manager, Worker, Reflector and Notetaker against one agent; all four roles are the same policy.

Both learn from demonstrations of the same tasks and seeds, for equally many steps: one from the trajectories, one from
what each role should have said in them (exact, from the world's state).
"""

from __future__ import annotations

from experiments import table
from experiments.bench import ROOM
from experiments.lab import Lab
from experiments.parts import FAMILIES, by_pair, demonstrated, measured, short_tasks, steps, success
from experiments.table import Arm, Column, Outcome, Sizes

MORE = (1, 2)
"""Times the usual demonstrations and steps of SFT: in roles, three of four turns are no action."""


def acting(roles: bool) -> Arm:
    """SFT and evaluation by itself, or in roles."""

    async def arm(lab: Lab, seed: int, sizes: Sizes) -> Outcome:
        tasks, longer = await short_tasks(lab, sizes), await lab.tasks("virtual", 2)
        policy = await demonstrated(lab, seed, sizes, tasks, more=MORE, roles=roles, room=ROOM)
        options = {"roles": True} if roles else {}
        return {
            "records": await measured(lab, policy, tasks, sizes, **options),
            "longer": await measured(lab, policy, longer, sizes, **options),
        }

    return arm


TABLE = table.Table(
    name="open/multi_agent",
    title="four roles against one agent",
    source="GUI-Owl-1.5, section 2.3.3 (no ablation there)",
    says="The paper has both and compares them nowhere: roles help where `roles − one agent` is above 0.",
    equal="demonstrations (tasks and seeds), optimisation steps, turns a step; a step in roles takes four answers",
    arms={"one agent": acting(False), "roles": acting(True)},
    columns={
        "success": success(), **FAMILIES, "up to two sub-tasks": success(records="longer"), "steps": steps(),
        "no valid call": Column(by_pair(value=lambda record: sum(record.parse_errors.values()) > 0)),
    },
    differences=[("roles", "one agent")],
)  # fmt: skip
Config, main = table.Config, TABLE.main
