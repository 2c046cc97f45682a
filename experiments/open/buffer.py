"""The buffer alone: MRPO's oversample-and-swap against GRPO without it, at equally many episodes a step.

GRPO spends the episodes that MRPO oversamples on more tasks, or on larger groups. The paper has no such ablation.
"""

from __future__ import annotations

from experiments import table
from experiments.parts import FAMILIES, informative, number, success, tuned

TABLE = table.Table(
    name="open/buffer",
    title="the swap buffer alone",
    source="GUI-Owl-1.5, section 2.4.3 (no ablation there)",
    says=(
        "The paper introduces the buffer against collapsed groups and does not measure it: it helps at equal cost "
        "where `MRPO − GRPO` is above 0, against both ways of spending the same episodes. `informative` is the share "
        "of groups that had both outcomes."
    ),
    equal="optimisation steps, and episodes a step (environment steps are listed)",
    arms={
        "MRPO (n, k = 2)": tuned(),
        "GRPO, more tasks": tuned(lambda s: {"oversample": 1, "tasks": s.rl_tasks * s.oversample}),
        "GRPO, larger groups": tuned(lambda s: {"oversample": 1, "group": s.group * s.oversample}),
    },
    columns={
        "success": success(), **FAMILIES, "informative": informative(), "environment steps": number("turns"),
    },
    differences=[("MRPO (n, k = 2)", "GRPO, more tasks"), ("MRPO (n, k = 2)", "GRPO, larger groups")],
)  # fmt: skip
Config, main = table.Config, TABLE.main
