"""OSWorld's task files as a suite, against a guest server that replays the documented shapes."""

import asyncio
import io
import json
import threading

import pytest
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from PIL import Image
from worlds import play_world

from env_servers.adapters import register
from env_servers.adapters.osworld import to_pyautogui
from env_servers.adapters.pyautogui_script import parse
from env_servers.errors import UserError
from env_servers.screens import Unsupported
from env_servers.suites import SUITES

W, H = 200, 100
FILE = "/srv/list.txt"
EVALUATOR = {
    "postconfig": [{"type": "command", "parameters": {"command": ["sync"]}}],
    "func": ["check_list", "exact_match"],
    "result": [
        {"type": "vm_file", "path": FILE, "dest": "list.txt"},
        {"type": "vm_command_line", "command": "uname", "shell": True},
    ],
    "expected": [
        {"type": "rule", "rules": {"expect": ["^milk"], "unexpect": ["egg"]}},
        {"type": "rule", "rules": {"expected": "Linux\n"}},
    ],
}
CONFIG = [
    {"type": "upload_file", "parameters": {"files": [{"local_path": "list.txt", "path": FILE}]}},
    {"type": "open", "parameters": {"path": FILE}},
    {"type": "sleep", "parameters": {"seconds": 0}},
]
TASK = {"id": "milk", "instruction": "Write milk.", "related_apps": ["gedit"], "config": CONFIG, "evaluator": EVALUATOR}
FILES = {
    "os/milk.json": TASK,
    "os/never.json": {"id": "never", "instruction": "Fly.", "config": [], "evaluator": {"func": "infeasible"}},
    "os/cloud.json": {**TASK, "id": "cloud", "config": [{"type": "download", "parameters": {"files": []}}]},
    "os/gimp.json": {**TASK, "id": "gimp", "evaluator": {"func": "compare_gimp", "result": {"type": "vm_file"}}},
}


def guest(log):
    """A guest whose one program appends what is typed to the file that is open."""
    app, files = FastAPI(), {}

    @app.get("/platform")
    async def platform():
        return Response("Linux")

    @app.post("/screen_size")
    async def screen_size():
        return {"width": W, "height": H}

    @app.get("/screenshot")
    async def screenshot():
        out = io.BytesIO()
        Image.new("RGB", (W, H), "navy").save(out, "PNG")
        return Response(out.getvalue(), media_type="image/png")

    @app.post("/setup/upload")
    async def upload(request: Request):
        form = await request.form()
        files[form["file_path"]] = await form["file_data"].read()
        log.append(("upload", form["file_path"]))
        return Response("File Uploaded")

    @app.post("/setup/{step}")
    async def setup(step: str, request: Request):
        log.append((step, await request.json()))
        return {"status": "success", "output": "", "error": "", "returncode": 0}

    @app.post("/execute")
    async def execute(request: Request):
        command = (await request.json())["command"]
        log.append(("run", command))
        if command == "uname":
            return {"status": "success", "output": "Linux\n", "error": "", "returncode": 0}
        for action, more in parse(command[2]):
            if action == "type":
                files[FILE] += more["text"].encode()
            if more.get("keys") == ["nokey"]:
                return {"status": "success", "output": "", "error": "no such key", "returncode": 1}
        return {"status": "success", "output": "", "error": "", "returncode": 0}

    @app.post("/file")
    async def file(request: Request):
        path = (await request.form())["file_path"]
        return Response(files[path]) if path in files else JSONResponse({"error": "File not found"}, 404)

    return app


@pytest.fixture
def log():
    return []


@pytest.fixture
def tasks(tmp_path):
    (tmp_path / "os").mkdir()
    (tmp_path / "os/list.txt").write_text("bread\n")
    for name, task in FILES.items():
        (tmp_path / name).write_text(json.dumps(task))
    return tmp_path


@pytest.fixture
def url(log):
    server = uvicorn.Server(uvicorn.Config(guest(log), port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


@pytest.fixture
def world(url, tasks):
    yield register(f"osworld={url}?tasks={tasks}&steps=5")
    del SUITES["osworld"]


def gui(action, **arguments):
    return {"name": "computer_use", "arguments": {"action": action, **arguments}}


def play(task, *actions):
    return play_world("osworld", task, 0, actions)


def test_only_tasks_that_can_be_graded_are_listed(world):
    assert set(world.tasks()) == {"osworld/os-milk", "osworld/os-never"}
    assert not world.tasks()["osworld/os-never"].feasible and world.tasks()["osworld/os-milk"].feasible


def test_a_task_is_set_up_played_and_graded(world, log):
    done = gui("terminate", status="success")
    seen, errors, verdict = asyncio.run(play("osworld/os-milk", gui("type", text="milk\n"), done))
    assert (seen[0].width, seen[0].height, seen[0].instruction, errors) == (W, H, "Write milk.", [None, None])
    assert (verdict.outcome, verdict.score) == ("success", 1)
    assert [name for name, _ in log] == ["upload", "open_file", "run", "execute", "run"]


@pytest.mark.parametrize("typed", ["egg\nmilk\n", "bread"])
def test_what_is_wrong_scores_zero(world, typed):
    done = gui("terminate", status="success")
    _, _, verdict = asyncio.run(play("osworld/os-milk", gui("type", text=typed), done))
    assert (verdict.outcome, verdict.score) == ("fail", 0)


@pytest.mark.parametrize(("status", "outcome"), [("failure", "success"), ("success", "fail")])
def test_what_cannot_be_done_is_solved_by_saying_so(world, status, outcome):
    _, _, verdict = asyncio.run(play("osworld/os-never", gui("terminate", status=status)))
    assert verdict.outcome == outcome


def test_a_call_that_the_guest_does_not_carry_out_is_unsupported(world):
    _, errors, _ = asyncio.run(play("osworld/os-milk", gui("key", keys=["nokey"]), gui("answer", text="x")))
    assert errors[0] == "unsupported"


def test_a_folder_without_tasks_is_an_error(url, tmp_path):
    for query in ("", f"?tasks={tmp_path}", "?tasks=/no/such/folder"):
        with pytest.raises(UserError, match="name a folder"):
            register(f"osworld={url}{query}")
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(UserError, match=r"a\.json: not a task"):
        register(f"osworld={url}?tasks={tmp_path}")


ACTIONS = [
    (gui("left_click", coordinate=[500, 500]), ("left_click", {"x": 100, "y": 50})),
    (gui("triple_click", coordinate=[0, 0]), ("triple_click", {"x": 0, "y": 0})),
    (gui("mouse_move", coordinate=[500, 500]), ("mouse_move", {"x": 100, "y": 50})),
    (gui("left_click_drag", coordinate=[500, 500]), ("left_click_drag", {"x": 100, "y": 50})),
    (gui("key", keys=["Control", "page_down"]), ("key", {"keys": ["ctrl", "pagedown"]})),
    (gui("type", text='it\'s\n"x"'), ("type", {"text": 'it\'s\n"x"'})),
    (gui("scroll", pixels=-80), ("scroll", {"pixels": -80, "at": False})),
    (gui("hscroll", pixels=80, coordinate=[500, 0]), ("hscroll", {"pixels": 80, "at": True, "x": 100, "y": 0})),
]


@pytest.mark.parametrize(("call", "act"), ACTIONS)
def test_an_action_reads_back_as_it_was_written(call, act):
    assert parse(to_pyautogui(call["arguments"], W, H)) == [act]
    with pytest.raises(Unsupported):
        to_pyautogui({"action": "answer", "text": "x"}, W, H)
