"""Gradient interference layer by layer: cosines between the device families' gradients at the SFT policy.

A row is a layer of gui-tiny. `within` is the cosine of two halves of one family's groups: what noise leaves of 1. Where
`across` is as large as `within`, the families ask for the same step; below 0 they undo each other's.
"""

from __future__ import annotations

from experiments import table
from experiments.bench import BASE
from experiments.gradients import cosines
from experiments.lab import Lab
from experiments.parts import number, short_tasks, started
from experiments.table import Arm, Outcome, Sizes
from gui_rl.evaluate.diagnostics import layers
from gui_rl.model import hf
from gui_rl.model.params import abstract_params

PAIRS = ("mobile-desktop", "mobile-web", "desktop-web")
COLUMNS = ("across", "within", *PAIRS)


def of_layer(layer: str) -> Arm:
    """The cosines of one layer; all rows come from one stage."""

    async def row(lab: Lab, seed: int, sizes: Sizes) -> Outcome:
        tasks = await short_tasks(lab, sizes)
        found = (await cosines(lab, await started(lab, seed, sizes), tasks, sizes, seed)).numbers
        return {column: found[f"{layer} {column}"] for column in COLUMNS}

    return row


TABLE = table.Table(
    name="open/interference",
    title="gradient interference by layer",
    source="GUI-Owl-1.5, section 2.4.3 (claimed there, not measured)",
    says=(
        "The paper says that the families' gradients conflict. It is so in a layer where `across` is below 0; where it "
        "is merely below `within`, they differ and do not conflict."
    ),
    equal="groups a family",
    arms={layer: of_layer(layer) for layer in layers(abstract_params(hf.read_config(BASE)))},
    columns={column: number(column) for column in COLUMNS},
)
Config, main = table.Config, TABLE.main
