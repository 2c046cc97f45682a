"""A stage is made once; one that was stopped goes on; what it was made from names it."""

import asyncio
import json

import pytest

from experiments.lab import Lab
from gui_rl.errors import UserError
from gui_rl.learn import checkpoint
from gui_rl.learn.sft import SFTConfig
from gui_rl.report.metrics import read_metrics

pytestmark = pytest.mark.smoke
SMALL = SFTConfig(steps=5, turns=12, warmup=2, checkpoint_every=2)


@pytest.fixture(scope="module")
def run(chromium, tmp_path_factory):
    """What happened in one lab: demonstrations, an SFT that was stopped after two steps and asked for again."""
    root, seen = tmp_path_factory.mktemp("lab"), {}

    def made(n: int):
        async def make(folder):
            seen["calls"] = [*seen.get("calls", []), n]
            return {"n": n}

        return make

    async def play() -> None:
        async with Lab(root) as lab:
            with pytest.raises(UserError, match="in use"):
                async with Lab(root):
                    pass
            tasks = await lab.tasks("virtual", 1)
            seen["data"] = await lab.collect(tasks, 3)
            first = asyncio.create_task(lab.sft(lab.base, {"demonstrations": (seen["data"], 1.0)}, SMALL))
            while not any(folder for folder in root.glob("sft-*") if checkpoint.steps(folder / "checkpoints")):
                await asyncio.sleep(0.01)
                if first.done():
                    break
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            (folder,) = root.glob("sft-*")
            seen["stopped"] = not (folder / "done.json").exists()
            seen["held"] = checkpoint.steps(folder / "checkpoints")[-1]
            seen["sft"] = await lab.sft(lab.base, {"demonstrations": (seen["data"], 1.0)}, SMALL)
            times = {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}
            again = await lab.sft(lab.base, {"demonstrations": (await lab.collect(tasks, 3), 1.0)}, SMALL)
            seen["again"] = again
            seen["untouched"] = times == {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}
            seen["records"] = (await lab.evaluate(seen["sft"], tasks, 2)).records
            seen["random"] = (await lab.evaluate("random", tasks, 2)).records
            seen["kinds"] = [await lab.stage("own", {"n": n}, {"data": seen["data"]}, made(n)) for n in (1, 2, 1)]

    asyncio.run(play())
    return seen


def test_a_stage_is_made_once(run):
    assert run["again"] == run["sft"] and run["untouched"]
    first, second, third = run["kinds"]
    assert first == third != second and run["calls"] == [1, 2]
    assert (first.numbers, second.numbers) == ({"n": 1}, {"n": 2})


def test_one_that_was_stopped_goes_on(run):
    assert run["stopped"] and run["held"] < SMALL.steps
    steps = [record["step"] for record in read_metrics(run["sft"].folder)]
    assert steps == [1, 2, 3, 4, 5]
    assert run["sft"].numbers["steps"] == 5 and not (run["sft"].folder / "checkpoints").exists()


def test_a_stage_says_what_it_was_made_from(run):
    settings = json.loads((run["sft"].folder / "settings.json").read_text())
    assert settings["inputs"]["data demonstrations"] == run["data"].digest
    assert settings["settings"]["config"]["steps"] == 5 and "commit" in settings["revision"]


def test_demonstrations_and_evaluations_share_no_seed(run):
    from env_servers.suites.suite import split_of

    assert {split_of(run["data"].data[n].seed) for n in range(len(run["data"].data))} == {"train"}
    assert {split_of(record.seed) for record in run["records"]} == {"evaluation"}


def test_every_policy_is_asked_the_same(run):
    pairs = [[(r.task, r.seed) for r in sorted(run[who], key=lambda r: r.id)] for who in ("records", "random")]
    assert pairs[0] == pairs[1] and len(pairs[0]) == 6
