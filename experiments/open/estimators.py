"""Estimators of the divergence from the teachers, and where they enter.

UI-MOPD's text minimises the reverse KL; its recipe, k3 in the loss at 0.01, has the forward KL's gradient.
"""

from __future__ import annotations

import dataclasses

from experiments import table
from experiments.mopd.policies import BALANCE, EXACT, PLATFORM_COLUMNS, REFERENCES, STRATEGIES, STUDENT, Strategy, arm
from gui_rl.learn.losses import Estimator
from gui_rl.learn.teachers import PAPER


def estimated(estimator: Estimator) -> Strategy:
    """UI-MOPD with this estimator in the loss, at coefficient 1."""
    return lambda stages: stages.taught(dataclasses.replace(EXACT, estimator=estimator))


ARMS = {
    STUDENT: REFERENCES[STUDENT],
    "exact reverse KL": STRATEGIES["UI-MOPD"],
    "k2 in the loss (reverse)": estimated("k2"),
    "k3 in the loss (forward)": estimated("k3"),
    "as published: k3 in the loss at 0.01": lambda stages: stages.taught(
        dataclasses.replace(PAPER, threshold=EXACT.threshold)
    ),
    "mixed RL": STRATEGIES["mixed RL"],
}
TABLE = table.Table(
    name="open/estimators",
    title="Exact and sampled divergences from the teachers",
    source="UI-MOPD (2607.04425), section 3.2, which has one",
    says=(
        "Exact and sampled estimates of the same divergence should end alike, the exact one with less noise; the "
        "forward KL covers where the reverse KL seeks modes; `as published` is so light that it may be plain RL."
    ),
    equal="episodes and updates of stage 2",
    arms={name: arm(strategy) for name, strategy in ARMS.items()},
    columns=PLATFORM_COLUMNS | BALANCE,
    differences=tuple(("exact reverse KL", name) for name in ARMS if name != "exact reverse KL"),
)
Config, main = table.Config, TABLE.main
