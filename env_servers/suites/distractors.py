"""Distractors: tools of other apps that a session offers beside its own (a policy has to see that they do not apply).

In: an instance and a number. Out: signatures from every suite's apps, picked and placed by the seed. What becomes of a
call is the session's business: a tool that the instance does not have fails and touches nothing.
"""

from __future__ import annotations

import random
from typing import Any

from env_servers.errors import UserError

from . import apps, libreoffice, virtual
from .suite import TaskInstance


def foreign_tools(instance: TaskInstance) -> list[dict[str, Any]]:
    """Signatures of the tools of every suite's apps that are not the instance's own, in a fixed order.

    Raises UserError where the apps' front-end packages were not fetched: with fewer apps the pick would be another one.
    """
    own = {spec.name for spec in instance.tools}
    pages = [spec for app in (*virtual.registry.values(), *apps.registry().values()) for spec in app.tools]
    every = [*pages, *(spec for specs in libreoffice.SPECS.values() for spec in specs)]
    return [spec.schema() for spec in every if spec.name not in own]


def with_distractors(instance: TaskInstance, offered: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """`offered` and `count` tools of other apps, mixed; the same instance and count give the same list.

    Raises UserError where there are fewer than `count`.
    """
    if not count:
        return offered
    others = foreign_tools(instance)
    if count > len(others):
        raise UserError(f"{count} distractors are asked for, but the other apps have only {len(others)} tools")
    rng = random.Random(f"distractors:{instance.task.id}:{instance.seed}:{count}")
    mixed = [*offered, *rng.sample(others, count)]
    rng.shuffle(mixed)
    return mixed
