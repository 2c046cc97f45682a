"""OSWorld's own client, from a virtual environment of its own, drives our LibreOffice behind the guest's wire."""

import asyncio
import base64
import io
import json
import subprocess
import zipfile
from xml.etree import ElementTree

import httpx
import pytest
from PIL import Image

from env_servers.adapters import Worlds, register
from env_servers.adapters.world import TOKEN_VARIABLE
from env_servers.desktop.room import find_python
from env_servers.errors import UserError
from env_servers.facades.osworld import HOME
from env_servers.protocol.messages import CreateSessions, StepRequest
from env_servers.screens import Screens
from env_servers.server import ServerConfig, running_server
from env_servers.sessions import SessionStore
from env_servers.suites import SUITES, instantiate
from env_servers.suites.suite import WorldKind

PROGRAM = """
import base64, json, sys
from desktop_env.controllers.python import PythonController
guest = PythonController(*sys.argv[1:])
guest.retry_times, guest.retry_interval = 1, 0
for line in sys.stdin:
    verb, arguments = json.loads(line)
    found = getattr(guest, verb)(*arguments)
    print(json.dumps(base64.b64encode(found).decode() if isinstance(found, bytes) else found), flush=True)
"""
BOOK = f"{HOME}/Desktop/book.ods"

try:
    find_python()
    MISSING = ""
except UserError as error:
    MISSING = str(error)
pytestmark = [pytest.mark.desktop, pytest.mark.skipif(bool(MISSING), reason=MISSING)]


@pytest.fixture(scope="module")
def server():
    with running_server(ServerConfig(port=0, max_sessions=1)) as server:
        yield server


@pytest.fixture
def guest(http):
    """A fresh guest with a workbook open."""
    assert http.post("/osworld/reset").status_code == 200
    instance = instantiate("libreoffice", "calc/units", 0)
    files = {"file_data": ("book.ods", base64.b64decode(instance.initial["data"]))}
    for name in (BOOK, f"{HOME}/other.ods"):
        assert http.post("/osworld/setup/upload", data={"file_path": name}, files=files).text == "File Uploaded"
    opened = http.post("/osworld/setup/launch", json={"command": ["libreoffice", "--calc", BOOK]})
    assert opened.status_code == 200, opened.text
    yield http
    http.post("/osworld/reset")


@pytest.fixture
def client(osworld_python, server, guest):
    port = server.url.rpartition(":")[2]
    command = [osworld_python, "-c", PROGRAM, f"osworld:{server.token}@127.0.0.1", f"{port}/osworld"]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, text=True, **pipes) as process:

        def call(verb, *arguments):
            process.stdin.write(json.dumps([verb, arguments]) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            assert line, process.stderr.read()
            return json.loads(line)

        yield call
        process.stdin.close()


def place_of(tree, name):
    """The middle of an element of the accessibility tree."""

    space = "{https://accessibility.ubuntu.example.org/ns/component}"
    (found,) = [one for one in ElementTree.fromstring(tree).iter("element") if one.get("name") == name]
    (x, y), (width, height) = (json.loads(f"[{found.get(space + k)[1:-1]}]") for k in ("screencoord", "size"))
    return x + width // 2, y + height // 2


def holds(data, word):
    """Whether a spreadsheet's file has a word in it."""
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(data))) as parts:
        return f">{word}<" in parts.read("content.xml").decode()


def test_the_client_sees_clicks_types_saves_and_fetches(client, guest):

    def shown():
        return Image.open(io.BytesIO(base64.b64decode(client("get_screenshot")))).convert("RGB")

    before = shown()
    assert before.size == (1920, 1080)
    assert client("get_vm_screen_size") == {"width": 1920, "height": 1080}
    x, y = place_of(client("get_accessibility_tree"), "B2")
    script = f"pyautogui.click({x}, {y}); pyautogui.typewrite('Hello'); pyautogui.press('enter')"
    assert client("execute_python_command", script)["returncode"] == 0
    assert shown().tobytes() != before.tobytes()
    assert not holds(client("get_file", BOOK), "Hello")  # not saved yet
    saving = "pyautogui.keyDown('ctrl'); pyautogui.press('s'); pyautogui.keyUp('ctrl')"
    assert client("execute_python_command", saving)["status"] == "success"
    client("get_screenshot")
    assert holds(client("get_file", BOOK), "Hello")
    assert zipfile.is_zipfile(io.BytesIO(base64.b64decode(client("get_file", f"{HOME}/other.ods"))))
    client("execute_python_command", f"pyautogui.moveTo({x}, {y})")
    assert guest.get("/osworld/cursor_position").json() == [x, y]


def test_what_is_refused_does_nothing_and_says_why(client, guest):
    reply = client("execute_python_command", "pyautogui.typewrite('x'); import os; os.system('id')")
    assert reply["status"] == "error" and reply["returncode"] == 1 and "not supported" in reply["message"]
    assert client("get_file", "/etc/passwd") is None and client("get_file", f"{HOME}/../../etc/passwd") is None
    assert "not supported" in client("run_python_script", "print(1)")["error"]
    for path in ("/etc/passwd", "../openbox.xml", f"{HOME}/Desktop/..", f"{HOME}/Desktop", ""):
        assert guest.post("/osworld/file", data={"file_path": path}).status_code == 403
    assert guest.post("/osworld/file", data={"file_path": f"{HOME}/no.ods"}).status_code == 404
    assert guest.post("/osworld/setup/launch", json={"command": "xterm -e id"}).status_code == 501
    assert guest.post("/osworld/setup/change_wallpaper", json={"path": BOOK}).status_code == 501


def test_no_token_no_guest(server):
    for auth in (None, ("osworld", "wrong")):
        assert httpx.get(f"{server.url}/osworld/screenshot", auth=auth, trust_env=False).status_code == 401


PEOPLE = f"{HOME}/people.csv"
SAVE = "import pyautogui; pyautogui.hotkey('ctrl', 's')"
CALC = {
    "id": "age",
    "instruction": "Set Ada's age to 37.",
    "related_apps": ["libreoffice_calc"],
    "config": [
        {"type": "upload_file", "parameters": {"files": [{"local_path": "people.csv", "path": PEOPLE}]}},
        {"type": "open", "parameters": {"path": PEOPLE}},
    ],
    "evaluator": {
        "postconfig": [
            {"type": "activate_window", "parameters": {"window_name": "people.csv", "strict": False}},
            {"type": "execute", "parameters": {"command": ["python", "-c", SAVE]}},
            {"type": "sleep", "parameters": {"seconds": 1}},
        ],
        "func": "check_csv",
        "result": {"type": "vm_file", "path": PEOPLE, "dest": "people.csv"},
        "expected": {"type": "rule", "rules": {"expect": [{"name": "Ada", "age": "37"}], "unexpect": [{"age": "36"}]}},
    },
}  # fmt: skip


async def play(*typed):
    """Play the task by keyboard alone through our adapter; the verdict."""
    store = SessionStore(Screens({WorldKind: Worlds()}))
    (task,) = SUITES["osworld"].tasks()
    (lease,) = await store.create(CreateSessions(suite="osworld", task=task, seed=0))
    session = store.get(lease.session, lease.token)
    await store.reset(session)
    calls = [*typed, {"action": "terminate", "status": "success"}]
    for number, arguments in enumerate(calls):
        action = {"name": "computer_use", "arguments": arguments}
        assert (await store.step(session, StepRequest(episode=1, step=number, action=action))).error is None
    verdict = await store.evaluate(session)
    await store.close(session)
    return verdict


def test_our_adapter_plays_a_calc_task_of_osworld_s_form(server, tmp_path, monkeypatch):
    monkeypatch.setenv(TOKEN_VARIABLE, server.token)
    (tmp_path / "people.csv").write_text("name,age\nAda,36\nAlan,41\n")
    (tmp_path / "age.json").write_text(json.dumps(CALC))
    register(f"osworld={server.url}/osworld?tasks={tmp_path}&reset=/reset")
    try:
        to_cell = [{"action": "key", "keys": [key]} for key in ("right", "down")]
        right = asyncio.run(play(*to_cell, {"action": "type", "text": "37\n"}))
        assert (right.outcome, right.score) == ("success", 1), right.detail
        wrong = asyncio.run(play(*to_cell, {"action": "type", "text": "38\n"}))
        assert (wrong.outcome, wrong.score) == ("fail", 0), wrong.detail
    finally:
        del SUITES["osworld"]
