"""ToolCUA, figure 5: where the gains are, by application. The virtual worlds have one a family."""

from __future__ import annotations

from experiments import table
from experiments.parts import by_pair
from experiments.table import Column
from experiments.toolcua.policies import HELD_OUT, POLICIES, TRAINED, arm
from experiments.toolcua.published import C_3

APPS = ("orders", "files", "shop")


def of_app(app: str, benefit: int) -> Column:
    """Success in an app, where tools help or do not."""
    return Column(by_pair(where=lambda record: record.app == app and record.tool_beneficial == benefit))


TABLE = table.Table(
    name="toolcua/figure5",
    title="Success by application and by benefit of tools",
    source="ToolCUA (2605.12481), figure 5",
    says=(
        "The paper: gains are largest where tools take the place of many GUI steps. Ours: ToolCUA minus the base, by "
        "column; `shop` is held out."
    ),
    equal="tasks and seeds",
    arms={name: arm(POLICIES[name], (*TRAINED, HELD_OUT)) for name in ("base", "RFT", "ToolCUA")},
    columns={
        f"{app}, tools {'help' if benefit > 0 else 'do not help'}": of_app(app, benefit)
        for app in APPS
        for benefit in (1, -1)
    },
    differences=(("ToolCUA", "base"), ("ToolCUA", "RFT")),
    paper={
        "base": {"vs_code": 77.8, "chrome": 57.1, "calc": 19.6, "multi_apps": 9.8},
        "RFT": {"calc": 23.9, "thunderbird": 64.3, "os": 47.4, "multi_apps": 18.5},
        "ToolCUA": {
            "vs_code": 94.4, "chrome": 85.7, "calc": 34.8, "thunderbird": 85.7, "os": 68.4, "multi_apps": 23.9,
        },
    },
    published=C_3,
)  # fmt: skip
Config, main = table.Config, TABLE.main
