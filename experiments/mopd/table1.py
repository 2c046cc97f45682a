"""UI-MOPD, table 1: ways to make one policy for two platforms.

The table is an image in our copy of the paper: its rows here are those that the text states.
"""

from experiments import table
from experiments.mopd.policies import BALANCE, PLATFORM_COLUMNS, REFERENCES, STRATEGIES, STUDENT, arm
from experiments.mopd.published import TABLE_6

TABLE = table.Table(
    name="mopd/table1",
    title="One policy for two platforms: integration strategies",
    source="UI-MOPD (2607.04425), table 1",
    says=(
        "The paper: UI-MOPD has the best harmonic mean of both platforms, and the largest of the smaller gains "
        "(MinGain), among the strategies. Ours: the differences of UI-MOPD and every strategy, in H-mean and MinGain."
    ),
    equal=(
        "episodes and updates of stage 2 (sequential RL: half on each platform; single-platform OPD: all on one); "
        "mixed SFT, averaging and TIES take the demonstrations, or the teachers, alone"
    ),
    arms={name: arm(strategy) for name, strategy in {**REFERENCES, **STRATEGIES}.items()},
    columns=PLATFORM_COLUMNS | BALANCE,
    differences=tuple(("UI-MOPD", name) for name in (STUDENT, *STRATEGIES) if name != "UI-MOPD"),
    paper={
        "Qwen3-VL-8B-Thinking": {"OSWorld": 33.9, "MobileWorld": 7.7},
        "desktop-only SFT": {"OSWorld": 35.8, "MobileWorld": 0},
        "mobile-only SFT": {"OSWorld": 35.8, "MobileWorld": 12.8},
        "mixed RL": {"OSWorld": 35.9, "MobileWorld": 9.4},
        "unified teacher": {"OSWorld": 35.9, "MobileWorld": 8.7},
        "UI-MOPD": {"OSWorld": 38.2, "MobileWorld": 12.0, "H-mean": 18.3, "MinGain": 4.3},
        "GELab-Zero-4B": {"OSWorld": 31.9, "MobileWorld": 10.9},
        "GUI-Owl-7B": {"OSWorld": 34.9, "MobileWorld": 4.5},
        "Qwen3-VL-235B-A22B-Thinking": {"H-mean": 18.3},
    },
    published=TABLE_6,
)
Config, main = table.Config, TABLE.main
