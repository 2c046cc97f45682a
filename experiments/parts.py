"""What several tables share: where they start from, settings by size, and columns.

In: a lab, a seed, sizes. Out: stages and columns.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any

from env_servers.suites import SUITES
from experiments import table
from experiments.bench import Made, Tasks, write_json
from experiments.lab import Lab
from experiments.table import Arm, Column, Outcome, Sizes
from gui_rl.evaluate.records import Record
from gui_rl.learn import online, sft
from gui_rl.report.manifest import as_json, write_manifest

MEMORY = "memory" if "memory" in SUITES else "virtual"


def sft_config(sizes: Sizes, seed: int, **changes: Any) -> sft.SFTConfig:
    """SFT of a size."""
    steps = changes.pop("steps", sizes.sft_steps)
    settings: dict[str, Any] = {"turns": sizes.turns, "warmup": min(20, steps - 1), "checkpoint_every": 50}
    return sft.SFTConfig(steps=steps, seed=seed, **(settings | changes))


def rl_config(sizes: Sizes, seed: int, **changes: Any) -> online.MRPOConfig:
    """Synchronous MRPO of a size; whole pools, one update a step, so that arms differ in what is changed alone."""
    settings: dict[str, Any] = {
        "steps": sizes.rl_steps, "group": sizes.group, "oversample": sizes.oversample, "tasks": sizes.rl_tasks,
        "max_lag": 0, "seed": seed, "warmup": min(2, sizes.rl_steps - 1),
    }  # fmt: skip
    return online.MRPOConfig(**(settings | changes))


async def short_tasks(lab: Lab, sizes: Sizes) -> Tasks:
    """Tasks of the suite `virtual` of at most `sizes.longest` subtasks."""
    return await lab.tasks("virtual", sizes.longest)


async def memory_tasks(lab: Lab) -> Tasks:
    """Tasks that need a value which is out of sight by then: one use of one value each."""
    return await lab.tasks(MEMORY, 1)


async def started(lab: Lab, seed: int, sizes: Sizes) -> Made:
    """Where RL starts from: the base, fine-tuned on scripted demonstrations; the same for every table."""
    return await demonstrated(lab, seed, sizes, await short_tasks(lab, sizes))


async def measured(lab: Lab, policy: Made, tasks: Tasks, sizes: Sizes, **options: Any) -> list[Record]:
    """Records of a policy on evaluation seeds."""
    return (await lab.evaluate(policy, tasks, sizes.evaluation, **options)).records


async def demonstrated(
    lab: Lab, seed: int, sizes: Sizes, tasks: Tasks, *, more: tuple[int, int] = (1, 1), **options: Any
) -> Made:
    """The base, fine-tuned on demonstrations of these tasks.

    more: so many times the demonstrations and the steps; longer tasks need them. options: of `Lab.collect`.
    """
    data = await lab.collect(tasks, more[0] * sizes.demonstrations, seed, **options)
    config = sft_config(sizes, seed, steps=more[1] * sizes.sft_steps)
    return await lab.sft(lab.base, {"demonstrations": (data, 1.0)}, config)


# --- columns
def by_pair(
    records: str = "records",
    value: Callable[[Record], float] = lambda record: record.success,
    where: Callable[[Record], bool] = lambda record: True,
) -> Callable[[Outcome], dict[Hashable, float]]:
    """Mean of a value of the scored records over each (suite, task, seed)."""

    def of(outcome: Outcome) -> dict[Hashable, float]:
        found: dict[Hashable, list[float]] = {}
        for record in outcome[records]:
            if record.scored and where(record):
                found.setdefault((record.suite, record.task, record.seed), []).append(float(value(record)))
        return {key: sum(values) / len(values) for key, values in found.items()}

    return of


def success(device: str | None = None, records: str = "records") -> Column:
    """Success rate, of one device family where one is named."""
    return Column(by_pair(records, where=lambda record: device in (None, record.device)))


def steps(records: str = "records") -> Column:
    """Average completion steps (ACS)."""
    return Column(by_pair(records, lambda record: record.steps), percent=False)


def number(name: str, percent: bool = False) -> Column:
    """A number that the arm returned by that name."""
    return Column(lambda outcome: float(outcome[name]), percent)


FAMILIES = {"mobile": success("mobile"), "desktop": success("desktop"), "web": success("web")}


# --- one arm, one training seed
@dataclasses.dataclass(frozen=True)
class Single:
    """One run of one policy, as the points of a sweep are.

    Attributes:
      name: of the run's folder below `runs`.
      lab: of the folder below `runs` with the stages, which all such runs and the tables share.
      seed: training seed.
      smoke: the whole path with next to nothing.
    """

    name: str
    lab: str = "lab"
    seed: int = 0
    smoke: bool = False


def run_single(config: Single, arm: Arm, columns: Mapping[str, Column]) -> Path:
    """Runs an arm; returns the path of its result.json, which has the mean of each column."""
    shared = table.Config(smoke=config.smoke, name=config.lab)

    async def run() -> Outcome:
        async with Lab(shared.root) as lab:
            return await arm(lab, config.seed, table.SIZES["smoke" if config.smoke else "tiny"])

    folder = Path("runs") / config.name
    folder.mkdir(parents=True, exist_ok=True)
    write_manifest(folder, as_json(config), {"seed": config.seed})
    outcome, result = asyncio.run(run()), {}
    for name, column in columns.items():
        values = column.of(outcome)
        result[name] = sum(values.values()) / len(values) if isinstance(values, Mapping) else values
    write_json(folder / "result.json", result)
    print(f"{folder / 'result.json'}: {result}")
    return folder / "result.json"


# --- online RL with settings changed
MRPO_OURS = {
    "group, oversample, tasks": "n, k and the batch are not stated",
    "muon_rate, adam_rate, warmup": "no learning rate is stated; these are gui-tiny's",
    "steps, stage_steps": "neither is stated; figure 8b changes from mobile to desktop at step 10",
}
"""Fields of `MRPOConfig` that the paper does not state."""


def tuned(
    changes: Callable[[Sizes], dict[str, Any]] = lambda sizes: {},
    numbers: Callable[[Sizes], dict[str, float]] = lambda sizes: {},
) -> Arm:
    """MRPO from the common start on the short tasks, with some settings changed; and numbers that go with them."""

    async def arm(lab: Lab, seed: int, sizes: Sizes) -> Outcome:
        tasks, start = await short_tasks(lab, sizes), await started(lab, seed, sizes)
        policy = await lab.mrpo(start, tasks, rl_config(sizes, seed, **changes(sizes)))
        found = policy.numbers
        diverse = found["groups_kept"] + found["groups_swapped"]
        return {
            "records": await measured(lab, policy, tasks, sizes), "turns": found["turns"],
            "informative": diverse / max(diverse + found["groups_empty"], 1), **numbers(sizes),
        }  # fmt: skip

    return arm


def informative() -> Column:
    """Share of the groups that had both outcomes."""
    return number("informative", percent=True)
