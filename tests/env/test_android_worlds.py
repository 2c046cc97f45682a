"""AndroidWorld and MobileWorld as suites: the codec, and episodes against servers that replay the documented shapes."""

import asyncio
import base64
import io
import threading
from typing import Annotated

import pytest
import uvicorn
from fastapi import Body, FastAPI, HTTPException
from PIL import Image
from worlds import play_world

from env_servers.adapters import Worlds, register
from env_servers.adapters.json_action import ACTION_TYPES, from_json_action, to_json_action
from env_servers.errors import UserError
from env_servers.leases import Refusal
from env_servers.protocol.actions import ACTIONS, Call, validate_call
from env_servers.protocol.messages import CreateSessions
from env_servers.screens import Screens, Unsupported
from env_servers.sessions import SessionStore
from env_servers.suites import SUITES
from env_servers.suites.suite import WorldKind

W, H = 40, 60
Json = Annotated[dict, Body()]


class Device:
    """What both servers have behind them: the task is done once the middle of the screen was tapped."""

    def __init__(self):
        self.log, self.taps, self.broken = [], [], False

    def act(self, action):
        self.log.append(action["action_type"])
        if action["action_type"] == "click":
            self.taps.append((action["x"], action["y"]))

    def score(self):
        self.log.append("score")
        if self.broken:
            raise HTTPException(500, "adb is gone")
        return float((20, 30) in self.taps)


def android_world(device):
    app = FastAPI()

    @app.get("/health")
    async def health():
        return {"status": "success"}

    @app.post("/reset")
    async def reset(go_home: bool):
        device.log.append("reset")
        device.taps = []
        return {"status": "success", "message": ""}

    @app.get("/screenshot")
    async def screenshot(wait_to_stabilize: bool):
        shade = 10 * len(device.taps)
        return {"pixels": [[[shade, 0, 255]] * W] * H}

    @app.post("/execute_action")
    async def execute(action: Json):
        device.act(action)
        return {"status": "success", "message": ""}

    @app.get("/suite/task_list")
    async def task_list(max_index: int):
        return {"task_list": ["TapMiddle", "Other"]}

    @app.get("/suite/task_length")
    async def task_length(task_type: str):
        return {"length": 2}

    @app.get("/task/template")
    async def template(task_type: str, task_idx: int):
        return {"template": "Tap {where}."}

    @app.get("/task/goal")
    async def goal(task_type: str, task_idx: int):
        return {"goal": f"Tap the middle ({task_idx})."}

    @app.post("/task/initialize")
    async def initialize(task_type: str, task_idx: int):
        device.log.append(f"initialize {task_type} {task_idx}")
        return {"status": "success", "message": ""}

    @app.get("/task/score")
    async def score(task_type: str, task_idx: int):
        return {"score": device.score()}

    @app.post("/task/tear_down")
    async def tear_down(task_type: str, task_idx: int):
        device.log.append("tear_down")
        return {"status": "success", "message": ""}

    return app


def mobile_world(device):
    app = FastAPI()
    out = io.BytesIO()
    Image.new("RGB", (W, H), "navy").save(out, "PNG")

    @app.get("/health")
    def health():
        return {"ok": True, "devices": [], "device_status": {}}

    @app.post("/init")
    def init(device: Annotated[str, Body(embed=True)]):
        return {"device": device, "viewport_size": [W, H]}

    @app.get("/screenshot")
    def screenshot(device: str, return_b64: bool = False):
        return {"device": device, "path": "/x.png", "b64_png": base64.b64encode(out.getvalue()).decode()}

    @app.post("/step")
    def step(body: Json):
        assert body["device"] == "emulator-5554"
        device.act(body["action"])
        return {"device": body["device"], "action": body["action"], "result": "OK"}

    @app.get("/task/list")
    def tasks():
        return [{"name": "TapMiddle", "tags": ["lang-en"], "apps": ["Clock"]}]

    @app.get("/task/goal")
    def goal(task_name: str):
        return "Tap the middle (1)."

    @app.post("/task/init")
    def begin(body: Json):
        device.log.append(f"initialize {body['task_name']} 1")
        device.taps = []
        return "OK"

    @app.get("/task/eval")
    def evaluate(body: Json):
        return {"score": device.score(), "reason": "looked"}

    @app.post("/task/tear_down")
    def tear_down(body: Json):
        device.log.append("tear_down")
        return "OK"

    return app


@pytest.fixture(params=["androidworld", "mobileworld"])
def world(request):
    """(suite, its device), registered; the server is a real one on loopback."""
    device = Device()
    app = {"androidworld": android_world, "mobileworld": mobile_world}[request.param](device)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
    port = server.servers[0].sockets[0].getsockname()[1]
    register(f"{request.param}=http://127.0.0.1:{port}?steps=4")
    yield request.param, device
    del SUITES[request.param]
    server.should_exit = True
    thread.join()


def gui(action, **arguments):
    return {"name": "mobile_use", "arguments": {"action": action, **arguments}}


def play(suite, *actions):
    return play_world(suite, f"{suite}/TapMiddle", 3, actions)


def test_an_episode_is_graded_once_and_then_torn_down(world):
    suite, device = world
    actions = [gui("click", coordinate=[500, 500]), gui("terminate", status="success")]
    seen, errors, verdict = asyncio.run(play(suite, *actions))
    assert (seen[0].width, seen[0].height, seen[0].instruction) == (W, H, "Tap the middle (1).")
    assert errors == [None, None] and (verdict.outcome, verdict.score, verdict.progress) == ("success", 1, 1)
    reset = ["reset"] if suite == "androidworld" else []
    assert device.log == [*reset, "initialize TapMiddle 1", "click", "status", "score", "tear_down"]
    assert device.taps == [(20, 30)]


@pytest.mark.parametrize(
    ("actions", "outcome"),
    [
        ([gui("click", coordinate=[100, 100]), gui("terminate", status="success")], "fail"),
        ([gui("click", coordinate=[500, 500]), gui("terminate", status="failure")], "fail"),
        ([gui("click", coordinate=[500, 500])] * 4, "step_limit"),
        ([gui("click", coordinate=[500, 500])], "policy_timeout"),
    ],
)
def test_what_is_no_success(world, actions, outcome):
    suite, device = world
    _, _, verdict = asyncio.run(play(suite, *actions))
    assert (verdict.outcome, verdict.score) == (outcome, 0)
    assert device.log[-1] == "tear_down" and device.log.count("score") == (outcome == "fail")


def test_a_world_that_does_not_grade_is_no_verdict(world):
    suite, device = world
    device.broken = True
    _, _, verdict = asyncio.run(play(suite, gui("terminate", status="success")))
    assert (verdict.outcome, verdict.score) == ("grader_error", None) and "adb is gone" in verdict.detail
    assert device.log[-1] == "tear_down"


def test_what_the_wire_lacks_is_unsupported_and_counts(world):
    suite, device = world
    _, errors, _ = asyncio.run(play(suite, gui("system_button", button="Menu"), gui("terminate", status="success")))
    assert errors == ["unsupported", None] and "unknown" not in device.log


def test_a_second_session_is_refused_until_the_first_ends(world):
    suite, _ = world

    async def two():
        store = SessionStore(Screens({WorldKind: Worlds()}))
        asked = CreateSessions(suite=suite, task=f"{suite}/TapMiddle", seed=0)
        (lease,) = await store.create(asked)
        session = store.get(lease.session, lease.token)
        await store.reset(session)
        with pytest.raises(Refusal) as refused:
            await store.create(asked)
        assert (refused.value.status, refused.value.code, refused.value.retry_after) == (429, "full", 1)
        with pytest.raises(Refusal) as refused:
            await store.create(asked.model_copy(update={"count": 2}))
        assert refused.value.code == "too_many_sessions"
        await store.close(session)
        (again,) = await store.create(asked)
        await store.reset(store.get(again.session, again.token))
        await store.close_all()

    asyncio.run(two())


@pytest.mark.parametrize(
    ("located", "says"),
    [
        ("androidworld", "write KIND="),
        ("androidworld=localhost:5000", "write KIND="),
        ("symbian=http://127.0.0.1:1", "no adapter"),
        ("androidworld=http://127.0.0.1:1", "does not answer"),
        ("androidworld=http://127.0.0.1:1?colour=red", "colour"),
        ("androidworld=http://127.0.0.1:1?steps=few", "steps=few"),
        ("androidworld=http://127.0.0.1:1,http://127.0.0.1:1", "twice"),
    ],
)
def test_a_location_that_is_wrong_is_said(located, says):
    with pytest.raises(UserError, match=says):
        register(located)


EXAMPLES = {
    "click": {"coordinate": [500, 250]},
    "long_press": {"coordinate": [500, 250]},
    "swipe": {"coordinate": [500, 500], "coordinate2": [500, 0]},
    "type": {"text": "a'b\n"},
    "system_button": {"button": "Home"},
    "open": {"text": "Clock"},
    "wait": {"time": 1},
    "answer": {"text": "7"},
    "terminate": {"status": "failure"},
}


@pytest.mark.parametrize("name", [spec.name for spec in ACTIONS["mobile"]])
def test_every_action_goes_there_and_back_or_is_refused(name):
    if name not in EXAMPLES:
        with pytest.raises(Unsupported):
            to_json_action({"action": name, "text": "F5"}, 1000, 1000)
        return
    ours = {"action": name, **EXAMPLES[name]}
    assert validate_call(Call("mobile_use", ours), "mobile") is None
    assert from_json_action(to_json_action(ours, 1000, 1000), 1000, 1000) == [ours]


@pytest.mark.parametrize("kind", ACTION_TYPES)
def test_every_json_action_becomes_valid_calls_or_is_refused(kind):
    more = {"text": "x", "app_name": "Clock", "goal_status": "complete", "direction": "left"}
    more |= {"x": 3, "y": 4} if kind not in ("scroll", "swipe") else {}
    if kind in ("double_tap", "unknown"):
        with pytest.raises(Unsupported):
            from_json_action({"action_type": kind, **more}, W, H)
        return
    calls = from_json_action({"action_type": kind, **more}, W, H)
    assert calls and all(validate_call(Call("mobile_use", call), "mobile") is None for call in calls)


def test_swipes_move_the_finger_as_androidworld_does():
    ends = {}
    for kind in ("scroll", "swipe"):
        for direction in ("up", "down", "left", "right"):
            (call,) = from_json_action({"action_type": kind, "direction": direction}, W, H)
            ends[kind, direction] = call["coordinate2"]
    assert ends["scroll", "down"] == ends["swipe", "up"] == [500, 0]
    assert ends["scroll", "left"] == ends["swipe", "left"] == [1000, 500]
    drag = {"action": "swipe", "coordinate": [100, 100], "coordinate2": [300, 290]}
    with pytest.raises(Unsupported):
        to_json_action(drag, W, H)
    assert to_json_action(drag, 1000, 1000, mobile_world=True)["end_y"] == 290


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"action_type": "fly"},
        {"action_type": "click"},
        {"action_type": "click", "index": 5},
        {"action_type": "click", "index": 0, "x": 1, "y": 2},
        {"action_type": "click", "x": 99, "y": 2},
        {"action_type": "input_text"},
        {"action_type": "scroll", "direction": "inwards"},
        {"action_type": "status", "goal_status": "maybe"},
        {"action_type": "wait", "speed": 2},
    ],
)
def test_what_is_no_json_action_is_said(wrong):
    with pytest.raises(ValueError):
        from_json_action(wrong, W, H, boxes=[(0, 0, 10, 10)])


def test_an_index_is_the_middle_of_its_element():
    (call,) = from_json_action({"action_type": "click", "index": 0}, W, H, boxes=[(10, 20, 30, 40)])
    assert call == {"action": "click", "coordinate": [500, 500]}
