"""Tables 3 to 7: grounding, text and icon, with Zoom-In as a second call on a cut of the screen.

The set is the one that is shipped (`gui_rl.evaluate.grounding.OWN`): pages of the synthesis, cut small, with questions
by text, function and position, and some about what is not there. The sets of the paper are read by the same code
(`gui-rl eval grounding`); they are not shipped, and no screen of theirs is legible at gui-tiny's size.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from PIL import Image

from experiments import table
from experiments.bench import ROOM, Made, form
from experiments.grounding import grounding_data
from experiments.lab import Lab
from experiments.parts import sft_config
from experiments.table import Arm, Column, Outcome, Sizes
from gui_rl.data.samples import BatchShape
from gui_rl.evaluate.grounding import OWN, ask, read_items, score, zoomed

PIXELS = 416 * 256
"""The shipped pages are shown as they are."""
ZOOM = 0.5
SHAPE = BatchShape(rows=24, row_length=384, row_patches=448, micro_batches=1)
"""A page a row."""


async def pointed(lab: Lab, policy: Made, zoom: float) -> list[dict[str, Any]]:
    """What a policy answers (greedily) to every item of the shipped set."""

    async def make(folder: Path) -> dict[str, Any]:
        agent = await lab.agent(policy, 0.0, context=form(room=ROOM))
        _, items = read_items(OWN)
        records = []
        with lab.progress.stage("grounding", len(items), "item") as stage:
            for item in items:
                image = Image.open(item.image).convert("RGB")
                if zoom:
                    answer = await zoomed(agent, item, image, PIXELS, zoom)
                else:
                    answer = await ask(agent, item, image, PIXELS)
                records.append(score(item, answer, image.size))
                stage.advance()
        (folder / "answers.json").write_text(json.dumps(records))
        return {"items": len(records), "right": sum(record["right"] for record in records)}

    made = await lab.stage("pointed", {"zoom": zoom, "set": OWN.name}, {"policy": policy}, make)
    return json.loads((made.folder / "answers.json").read_text())


def pointing(trained: bool, zoom: float = 0.0) -> Arm:
    """The base, or the base trained on synthesised pages; asked once, or twice with Zoom-In."""

    async def arm(lab: Lab, seed: int, sizes: Sizes) -> Outcome:
        policy = lab.base
        if trained:
            data = await grounding_data(lab, sizes.screens, seed)
            config = sft_config(sizes, seed, turns=min(sizes.turns, SHAPE.rows), shape=SHAPE)
            policy = await lab.sft(lab.base, {"grounding": (data, 1.0)}, config)
        return {"answers": await pointed(lab, policy, zoom)}

    return arm


def hits(what: str) -> Column:
    """Right answers among `pointing` (what is there), `refusal`, `text` or `icon`; `chance` of a uniform point."""

    def of(outcome: Outcome) -> dict[str, float]:
        here = {"pointing": lambda r: not r["refusal"], "refusal": lambda r: r["refusal"]}
        chosen = here.get(what, lambda r: r["kind"] == what and not r["refusal"])
        if what == "chance":
            return {r["id"]: r["chance"] for r in outcome["answers"] if not r["refusal"]}
        return {r["id"]: float(r["right"]) for r in outcome["answers"] if chosen(r)}

    return Column(of)


TABLE = table.Table(
    name="owl/grounding",
    title="grounding with and without Zoom-In",
    source="GUI-Owl-1.5, tables 3 to 7",
    says=(
        "Zoom-In adds 7.4 points on ScreenSpot-Pro, most of them on icons: it helps here where `trained, Zoom-In − "
        "trained` is above 0. The base has never seen such pages."
    ),
    equal="the questions; optimisation steps of the trained arms. Zoom-In takes two calls",
    arms={
        "base": pointing(False), "base, Zoom-In": pointing(False, ZOOM), "trained": pointing(True),
        "trained, Zoom-In": pointing(True, ZOOM),
    },
    columns={what: hits(what) for what in ("pointing", "text", "icon", "refusal", "chance")},
    differences=[("trained, Zoom-In", "trained"), ("trained", "base")],
    paper={
        "32B-Instruct": {
            "ScreenSpot-Pro": 72.9, "OSWorld-G": 66.8, "ScreenSpot-V2": 95.3, "MMBench-GUI-L2": 86.84,
        },
        "32B-Instruct, Zoom-In": {"ScreenSpot-Pro": 80.3},
        "32B-Thinking": {"ScreenSpot-Pro": 57.0, "OSWorld-G": 57.6, "ScreenSpot-V2": 93.2},
    },
)  # fmt: skip
Config, main = table.Config, TABLE.main
