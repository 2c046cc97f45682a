"""Records and summaries of evaluations, on episodes whose figures are known by counting."""

import dataclasses

import pytest

from env_servers.protocol.messages import TaskInfo
from gui_rl.data.schema import Episode, Turn
from gui_rl.evaluate.metrics import wilson_interval
from gui_rl.evaluate.records import Record, Summary, cells, way_to_fail

TASK = TaskInfo(
    id="shop/add+set", device="web", instruction_template="", tags=[], tool_beneficial=1, feasible=True, max_steps=9
)


def gui(action, **arguments):
    return {"name": "browser_use", "arguments": {"action": action, **arguments}}


def episode(outcome, *actions, progress=0, total=2, seed=1, copy=0, errors=()):
    calls = [*actions, *([None] * len(errors))]
    kinds = [*([None] * len(actions)), *errors]
    turns = [
        Turn(k, b"", action=call, parse_error=kind) for k, (call, kind) in enumerate(zip(calls, kinds, strict=True))
    ]
    return Episode(
        f"e{seed}.{copy}.{outcome}",
        "virtual",
        TASK.id,
        seed,
        "web",
        "",
        (1, 1),
        turns,
        outcome,
        progress=progress,
        total=total,
    )


def record(*arguments, copy=0, **options):
    return Record.of(episode(*arguments, copy=copy, **options), TASK, "policy", copy)


def test_every_way_to_fail():
    done, over = gui("terminate", status="success"), gui("terminate", status="failure")
    assert way_to_fail(episode("success", done, progress=2)) == ""
    assert way_to_fail(episode("env_crash")) == ""
    assert way_to_fail(episode("fail", over)) == "gave_up"
    assert way_to_fail(episode("fail", done, progress=1)) == "claimed"
    assert way_to_fail(episode("fail", done, progress=2)) == "spoiled"
    assert way_to_fail(episode("fail", done, progress=2), feasible=False) == "claimed"
    assert way_to_fail(episode("fail", gui("click", coordinate=[1, 2]))) == "page_ended"
    assert way_to_fail(episode("step_limit", gui("click", coordinate=[1, 2]))) == "step_limit"


def test_a_record_counts_steps_tools_and_errors():
    one = record(
        "format_fail", {"name": "shop.checkout", "arguments": {}}, gui("wait", time=1), errors=("bad_json", "bad_json")
    )
    assert (one.steps, one.tool_calls, one.parse_errors) == (4, 1, {"bad_json": 2})
    assert (one.app, one.length, one.device, one.failure) == ("shop", 2, "web", "format_fail")


def test_faults_are_in_no_denominator():
    done = gui("terminate", status="success")
    one = Summary.of(
        [record("success", done, progress=2), record("fail", done, seed=2, progress=1), record("env_crash", seed=3)]
    )
    assert (one.episodes, one.faults, one.success, one.progress) == (2, 1, 0.5, 0.75)
    assert (one.low, one.high) == wilson_interval(1, 2)
    assert one.failures == {"claimed": 1}
    with pytest.raises(ValueError, match="all 1 episodes"):
        Summary.of([record("env_crash")])


def test_repetitions_average_and_pass_at_k():
    done = gui("terminate", status="success")
    outcomes = {1: ["success", "fail", "fail"], 2: ["fail"] * 3, 3: ["success"] * 3, 4: ["fail", "success", "success"]}
    records = [record(o, done, seed=s, copy=k) for s, many in outcomes.items() for k, o in enumerate(many)]
    one = Summary.of(records)
    assert one.success == pytest.approx(6 / 12) and one.pass_at_k == 3 / 4
    independent = wilson_interval(6, 12)
    assert one.high - one.low > independent.high - independent.low  # four tasks say less than twelve would


def test_cells_split_by_device_app_and_length():
    done = gui("terminate", status="success")
    first = record("success", done)
    other = dataclasses.replace(record("fail", done, seed=2), device="mobile", app="orders", length=1)
    lost = dataclasses.replace(record("env_crash", seed=3), app="gone")
    found = cells([first, other, lost])
    assert found["all"]["all"].episodes == 2 and found["all"]["all"].faults == 1
    assert {value: one.success for value, one in found["device"].items()} == {"web": 1.0, "mobile": 0.0}
    assert set(found["app"]) == {"shop", "orders"} and set(found["length"]) == {"1", "2"}
