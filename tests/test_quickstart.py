"""The whole chain at its smallest, through the command; stopped by Ctrl-C in SFT, by SIGKILL in RL, and resumed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SMALL = (
    "--demonstrations 4 --evaluation 4 --probes 2 --probe 1 --longest 1 --sft.steps 6 --sft.turns 12 --sft.warmup 2 "
    "--sft.checkpoint-every 2 "
    "--rl.steps 4 --rl.tasks 2 --rl.group 2 --rl.stage-steps 1 --rl.checkpoint-every 1"
).split()


def start(folder, *more):
    return subprocess.Popen(
        [sys.executable, "-m", "gui_rl.cli", "run", "quickstart", *SMALL, *more],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "WANDB_MODE": "disabled"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job would ignore it
    )


def stop_once(folder, stage, step, process, how):
    """Sends a signal as soon as a checkpoint of `step` of `stage` is complete; (exit code, output)."""
    until = time.monotonic() + 300
    while time.monotonic() < until and process.poll() is None:
        if any(int(p.name) >= step for p in (folder / "checkpoints" / stage).glob("[0-9]*") if p.name.isdigit()):
            process.send_signal(how)
            out, _ = process.communicate(timeout=120)
            return process.returncode, out
        time.sleep(0.02)
    pytest.fail(f"no checkpoint {step} of {stage}: {process.communicate()[0][-2000:]}")


@pytest.fixture(scope="module")
def run(chromium, tmp_path_factory):
    folder = tmp_path_factory.mktemp("quickstart")
    run = folder / "runs" / "quickstart"
    code, out = stop_once(run, "sft", 2, start(folder), signal.SIGINT)
    assert code == 130 and "--resume" in out.splitlines()[-1] and "Traceback" not in out
    code, _ = stop_once(run, "rl", 1, start(folder, "--resume"), signal.SIGKILL)
    assert code == -signal.SIGKILL
    last = start(folder, "--resume")
    out, _ = last.communicate(timeout=400)
    assert last.returncode == 0, out[-3000:]
    assert "MRPO  script" in out and "minutes" in out.splitlines()[-2]
    return run


def test_the_result_has_every_stage_of_every_family(run):
    result = json.loads((run / "result.json").read_text())
    assert result["minutes"] > 0 and 0 < result["peak_memory_gb"] < 24
    assert sum(result["groups"].values()) == pytest.approx(1.0)
    assert set(result["families"]) == {"mobile", "desktop", "web"}
    for scores in result["families"].values():
        for policy in ("random", "script", "sft", "rl"):
            score = scores[policy]
            assert score["episodes"] == 4 and 0 <= score["low"] <= score["success"] <= score["high"] <= 1
        assert scores["script"]["success"] == 1.0
        assert {"success", "low", "high"} <= set(scores["rl"]["greedy"])


def test_every_step_is_logged_once_although_the_run_was_stopped_twice(run):
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    steps = {stage: [r["step"] for r in records if r["stage"] == stage] for stage in ("sft", "rl")}
    assert sorted(set(steps["sft"])) == [1, 2, 3, 4, 5, 6] and sorted(set(steps["rl"])) == [0, 1, 2, 3, 4]
    losses = [r for r in records if r["stage"] == "sft" and "loss" in r["metrics"]]
    assert [r["step"] for r in losses] == [1, 2, 3, 4, 5, 6]
    rollouts = [r for r in records if r["stage"] == "rl" and "rollout/success" in r["metrics"]]
    assert [r["step"] for r in rollouts] == [1, 2, 3, 4]
    assert [r["phase"] for r in rollouts] == ["mobile", "desktop", "web", "mobile"]
    assert all(r["metrics"]["tito_mismatch_rate"] == 0 for r in rollouts)


def test_the_learning_curves_have_points_between_start_and_end(run):
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for stage, steps in (("sft", {3, 6}), ("rl", {0, 2, 4})):
        for family in ("mobile", "desktop", "web"):
            name = f"eval/{family}/success"
            assert {r["step"] for r in records if r["stage"] == stage and name in r["metrics"]} == steps


def test_the_ratio_of_trainer_and_sampler_is_one(run):
    """One optimisation step a batch: the policy that is trained is the one that sampled (R15)."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    ratios = [r["metrics"] for r in records if r["stage"] == "rl" and r["metrics"].get("weight_pg")]
    for metrics in ratios:
        assert metrics["ratio_min"] == pytest.approx(1, abs=2e-2) and metrics["ratio_max"] == pytest.approx(1, abs=2e-2)
        assert metrics["agreement_1pct"] > 0.99


def test_the_report_and_trajectories_are_there(run):
    page = (run / "report.html").read_text()
    assert "MRPO" in page or "RL" in page
    assert list((run / "trajectories").glob("*.json"))
    assert json.loads((run / "config.json").read_text())["rl"]["steps"] == 4


def test_training_and_evaluation_never_share_a_seed(run):
    from env_servers.suites.virtual.app import SEEDS, split_of
    from gui_rl.data.store import EpisodeSource

    stages = json.loads((run / "stages.json").read_text())
    source = EpisodeSource(run.parents[1] / stages["collect"]["path"])
    assert {split_of(source[index].seed) for index in range(len(source))} == {"train"}
    shown = [json.loads(path.read_text()) for path in (run / "trajectories").glob("*.json")]
    assert {split_of(episode["seed"]) for episode in shown} == {"evaluation"}
    assert not set(SEEDS["train"]) & set(SEEDS["evaluation"])
