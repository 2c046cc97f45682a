"""metrics.jsonl survives kills and resumes; wandb gets the same numbers without noise or network."""

import json
import struct
import time

import numpy as np
import pytest
from wandb.proto import wandb_internal_pb2

from gui_rl.data.schema import Episode
from gui_rl.errors import UserError
from gui_rl.report.frames import from_history, pool_rows
from gui_rl.report.metrics import RunLog, read_metrics


def lines(run_dir):
    return [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]


def test_one_record_a_line(tmp_path):
    with RunLog(tmp_path, wandb_mode="disabled") as log:
        log.log("sft", 1, {"loss": np.float32(0.5), "eval/web/success": 1})
        assert len(lines(tmp_path)) == 1  # flushed before close
        log.log("rl", 3, {"loss": float("nan")}, phase="mobile")
    first, second = lines(tmp_path)
    assert first["stage"] == "sft" and first["step"] == 1 and first["phase"] is None
    assert first["metrics"] == {"loss": 0.5, "eval/web/success": 1.0}
    assert second["phase"] == "mobile" and second["metrics"] == {"loss": None}
    assert 0 <= first["time"] <= second["time"]
    assert read_metrics(tmp_path) == [first, second]


@pytest.mark.parametrize(("stage", "phase"), [("a/b", None), ("", None), ("rl", "phone")])
def test_names_that_would_mix_up_axes_are_refused(tmp_path, stage, phase):
    with RunLog(tmp_path, wandb_mode="disabled") as log, pytest.raises(ValueError):
        log.log(stage, 1, {"loss": 1.0}, phase=phase)


def test_rewind_drops_only_later_steps_of_that_stage(tmp_path):
    with RunLog(tmp_path, wandb_mode="disabled") as log:
        for step in range(5):
            log.log("sft", step, {"loss": step})
        for step in range(1, 8):
            log.log("rl", step, {"loss": step})
    with RunLog(tmp_path, wandb_mode="disabled") as log:
        assert log.rewind("rl", 4) == 3
        log.log("rl", 5, {"loss": 50})
        assert log.rewind("rl", 5) == 0
    records = [(r["stage"], r["step"], r["metrics"]["loss"]) for r in lines(tmp_path)]
    assert records == [("sft", s, s) for s in range(5)] + [("rl", s, s) for s in range(1, 5)] + [("rl", 5, 50)]


def test_pools_are_logged_by_group_and_rewound_with_their_steps(tmp_path):
    outcomes = {"a": ["success", "fail", "env_crash"], "b": ["step_limit", "format_fail"]}
    episodes = [
        Episode(f"{task}{copy}", "virtual", task, 7, "web", "", (1, 1), (), outcome)
        for task, found in outcomes.items()
        for copy, outcome in enumerate(found)
    ]
    with RunLog(tmp_path, wandb_mode="disabled") as log:
        for step in (1, 2):
            log.log("rl", step, {})
            log.log_pools("rl", step, episodes)
        assert log.rewind("rl", 1) == 1
    pools = pool_rows(tmp_path)
    assert [(p["step"], p["task"], p["outcomes"]) for p in pools] == [(1, "a", [1, 0]), (1, "b", [0, 0])]


def test_a_line_torn_by_a_kill_is_dropped(tmp_path):
    with RunLog(tmp_path, wandb_mode="disabled") as log:
        log.log("sft", 1, {"loss": 1.0})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"stage": "sft", "step": 2, "ti')
    assert [r["step"] for r in read_metrics(tmp_path)] == [1]
    with RunLog(tmp_path, wandb_mode="disabled") as log:
        log.log("sft", 2, {"loss": 2.0})
    assert [r["step"] for r in lines(tmp_path)] == [1, 2]


def test_time_goes_on_after_a_resume(tmp_path):
    record = {"stage": "sft", "step": 1, "time": 500.0, "phase": None, "metrics": {"loss": 1.0}}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(record) + "\n")
    with RunLog(tmp_path, wandb_mode="disabled") as log:
        log.log("sft", 2, {"loss": 1.0})
    assert lines(tmp_path)[-1]["time"] >= 500.0


@pytest.mark.parametrize("line", ["not json", "[1]", '{"stage": "sft"}'])
def test_a_broken_record_is_named(tmp_path, line):
    (tmp_path / "metrics.jsonl").write_text(line + "\n")
    with pytest.raises(UserError, match=r"metrics\.jsonl, line 1"):
        RunLog(tmp_path, wandb_mode="disabled")


def test_wandb_is_silent_offline_and_has_an_axis_for_each_stage(tmp_path, monkeypatch, capfd):
    monkeypatch.delenv("WANDB_MODE", raising=False)
    with RunLog(tmp_path) as log:
        log.log("sft", 10, {"loss": 2.0})
        log.log("rl", 1, {"loss": 0.5}, phase="web")
    shown = capfd.readouterr()
    assert shown.out == "" and shown.err == ""
    [file] = (tmp_path / "wandb").glob("offline-run-*/*.wandb")
    records = wandb_records(file)
    axes = {r.metric.glob_name: r.metric.step_metric for r in records if r.HasField("metric") and r.metric.glob_name}
    assert axes == {"sft/*": "sft/step", "rl/*": "rl/step"}
    history = [
        {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
        for record in records
        if record.HasField("history")
    ]
    wanted = [{"sft/step": 10, "sft/loss": 2.0}, {"rl/step": 1, "rl/loss": 0.5, "rl/phase": "web"}]
    assert [{key: row.get(key) for key in want} for row, want in zip(history, wanted, strict=True)] == wanted
    same = ("stage", "step", "phase", "metrics")  # what wandb keeps is what the file holds
    records = [
        [{key: record[key] for key in same} for record in part] for part in (from_history(history), lines(tmp_path))
    ]
    assert records[0] == records[1]


def test_a_resume_goes_on_with_the_same_wandb_run(tmp_path):
    RunLog(tmp_path, wandb_mode="disabled").close()
    first = (tmp_path / "wandb_id.txt").read_text()
    RunLog(tmp_path, wandb_mode="disabled").close()
    assert first and (tmp_path / "wandb_id.txt").read_text() == first


def wandb_records(file):
    """The records of a small .wandb file: a 7-byte header, then (crc, length, kind, data) in one block.

    wandb's own process writes the file and is done when the last record, the exit, is there.
    """
    for _ in range(200):
        records = parse_wandb(file.read_bytes())
        if records and records[-1].HasField("exit"):
            return records
        time.sleep(0.1)
    pytest.fail(f"{file} has no exit record after 20 s")


def parse_wandb(data):
    at, records = 7, []
    assert len(data) < 32768  # one block: no record is split
    while at + 7 <= len(data):
        _, length, _ = struct.unpack("<IHB", data[at : at + 7])
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data[at + 7 : at + 7 + length])
        records.append(record)
        at += 7 + length
    return records


def test_the_environment_chooses_the_mode_where_nothing_else_was_asked(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    RunLog(tmp_path / "a").close()
    assert not list((tmp_path / "a").glob("wandb/offline-run-*"))
    monkeypatch.setenv("WANDB_MODE", "loud")
    with pytest.raises(UserError, match="loud"):
        RunLog(tmp_path / "b")
