"""OpenEnv's own client, from a virtual environment of its own, plays our worlds over its WebSocket."""

import base64
import io
import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from PIL import Image

from env_servers.browser import png_size
from env_servers.orphans import browsers_of
from env_servers.server import ServerConfig, running_server

ROOT = Path(__file__).resolve().parents[2]
VERSION = "0.10.0"
# What the client alone imports; the package's own list (a web interface, several model clients) is ten times as large.
NEEDED = ["websockets==17.4", "fastmcp==3.4.11", "fastapi==0.165.0", "requests==2.34.2"]
PROGRAM = """
import json, sys
from openenv.core import GenericEnvClient
url, token = sys.argv[1:]
clients = {}
for line in sys.stdin:
    name, verb, arguments = json.loads(line)
    if name not in clients:
        clients[name] = GenericEnvClient(base_url=url, headers={"Authorization": f"Bearer {token}"}).sync()
    try:
        if verb == "reset":
            result = vars(clients[name].reset(**arguments))
        elif verb == "step":
            result = vars(clients[name].step(arguments))
        elif verb == "state":
            result = clients[name].state()
        else:
            result = clients.pop(name).close()
    except (RuntimeError, ConnectionError) as error:
        result = {"raised": str(error)}
    print(json.dumps(result), flush=True)
"""


@pytest.fixture(scope="session")
def openenv(side_python):
    """The Python of a virtual environment with OpenEnv's client."""
    return side_python("openenv", VERSION, NEEDED)


@pytest.fixture(scope="module")
def server(chromium):
    with running_server(ServerConfig(port=0, max_sessions=2)) as server:
        yield server


class Player:
    """A process with OpenEnv's client in it, one JSON line for each call."""

    def __init__(self, python, server, token=None):
        command = [python, "-c", PROGRAM, f"{server.url}/openenv", token or server.token]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def call(self, verb, arguments=None, client="first"):
        self.process.stdin.write(json.dumps([client, verb, arguments or {}]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait(30)
        for pipe in (self.process.stdout, self.process.stderr):
            pipe.close()


@pytest.fixture(scope="module")
def process(openenv, server):
    process = Player(openenv, server)
    yield process
    process.close()


@pytest.fixture
def player(process):
    """A connection of its own."""
    yield process
    process.call("close")


def gui(action, **arguments):
    return {"name": "browser_use", "arguments": {"action": action, **arguments}}


def sessions(http):
    lines = http.get("/metrics").text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("gui_rl_env_sessions "))


def test_an_episode_is_the_one_of_our_own_protocol(player, http):
    first = player.call("reset", {"task": "shop/checkout", "seed": 4, "tools": True, "episode_id": "mine"})
    assert (first["reward"], first["done"]) == (None, False)
    shown = first["observation"]
    assert png_size(shown["screenshot"]) == (shown["width"], shown["height"])
    assert Image.open(io.BytesIO(base64.b64decode(shown["screenshot"]))).format == "PNG"

    (lease,) = http.post("/v1/sessions", json={"task": "shop/checkout", "seed": 4, "tools": True}).json()
    path, headers = f"/v1/sessions/{lease['session']}", {"Authorization": f"Bearer {lease['token']}"}
    ours = http.post(f"{path}/reset", headers=headers).json()
    assert {key: shown[key] for key in ours} == ours
    assert first["metadata"]["tools"] == lease["tools"]

    for number, action in enumerate([{"name": "shop.checkout", "arguments": {}}, gui("wait", time=0)]):
        result = player.call("step", action)
        body = {"episode": 1, "step": number, "action": action}
        reply = http.post(f"{path}/step", json=body, headers=headers).json()
        assert {key: result["observation"][key] for key in reply["observation"]} == reply["observation"]
        assert result["observation"]["tool_result"] == reply["tool_result"]
        assert (result["reward"], result["done"]) == (None, False)
    state = player.call("state")
    assert (state["episode_id"], state["step_count"], state["task"], state["status"]) == (
        "mine",
        2,
        "shop/checkout",
        "running",
    )
    assert state["session"] != lease["session"] and state["generation"] == lease["generation"]
    last = player.call("step", gui("terminate", status="success") | {"metadata": {}})
    assert (last["reward"], last["done"], last["metadata"]["outcome"]) == (1, True, "success")
    assert last["observation"]["terminated"] is True
    http.delete(path, headers=headers)


def test_reset_begins_anew_and_keeps_what_is_not_said(player):
    first = player.call("reset", {"task": "shop/checkout", "seed": 4})["observation"]
    player.call("step", gui("click", coordinate=[500, 500]))
    end = player.call("step", gui("terminate", status="success"))
    assert (end["reward"], end["done"], end["metadata"]["outcome"]) == (0, True, "fail")
    again = player.call("reset")["observation"]
    assert again == first
    other = player.call("reset", {"seed": 5})["observation"]
    assert other["state_hash"] != first["state_hash"]
    state = player.call("state")
    assert (state["seed"], state["step_count"], state["episode_id"]) == (5, 0, state["session"])


def test_all_steps_used_is_done_with_the_verdict(player):
    steps = player.call("reset", {"task": "shop/checkout", "seed": 4})["metadata"]["max_steps"]
    for number in range(1, steps + 1):
        result = player.call("step", {"parse_error": "no_call", "response": {"text": "hm", "token_ids": [1, 2]}})
        assert result["done"] == (number == steps)
    assert (result["reward"], result["metadata"]["outcome"], result["observation"]["truncated"]) == (
        0,
        "format_fail",
        True,
    )


@pytest.mark.parametrize(
    ("verb", "arguments", "says"),
    [
        ("step", gui("wait", time=0), "no_episode"),
        ("state", {}, "no_episode"),
        ("reset", {}, "VALIDATION_ERROR"),
        ("reset", {"task": "shop/nothing", "seed": 1}, "unknown_task"),
        ("reset", {"task": "shop/set", "seed": 1, "colour": "red"}, "colour"),
        ("reset", {"task": "shop/set", "seed": 1, "count": 2}, "count"),
    ],
)
def test_what_is_wrong_is_said(player, verb, arguments, says):
    assert says in player.call(verb, arguments)["raised"]


def test_a_malformed_step_does_not_count(player):
    player.call("reset", {"task": "shop/checkout", "seed": 4})
    for wrong in ({}, {"name": "browser_use"}, {"x": 1}, gui("wait", time=0) | {"parse_error": "no_call"}):
        assert "VALIDATION_ERROR" in player.call("step", wrong)["raised"]
    assert player.call("state")["step_count"] == 0
    assert player.call("step", gui("fly"))["observation"]["error"] == "unknown_action"


def test_sessions_end_with_their_connection_and_a_full_server_says_so(openenv, server, http, player):
    task = {"task": "shop/checkout", "seed": 4}
    second = Player(openenv, server)
    for one in (player, second):
        one.call("reset", task)
    assert sessions(http) == 2
    assert "CAPACITY_REACHED" in player.call("reset", task, "third")["raised"]
    second.process.kill()
    second.close()
    for _ in range(200):
        reply = player.call("reset", task, "third")
        if "raised" not in reply:
            break
    assert reply["observation"]["step"] == 0
    player.call("close", client="third")
    player.call("close")
    assert sessions(http) == 0


def test_a_killed_browser_is_an_error_and_never_a_reward(player, server):
    player.call("reset", {"task": "shop/checkout", "seed": 4})
    (browser,) = browsers_of(server.pid)
    os.kill(browser, signal.SIGKILL)
    assert "env_crash" in player.call("step", gui("click", coordinate=[1, 1]))["raised"]
    assert player.call("reset")["observation"]["step"] == 0


def test_the_door_is_closed_without_the_server_s_token(openenv, server):
    intruder = Player(openenv, server, token="wrong")
    assert "401" in intruder.call("reset", {"task": "shop/checkout", "seed": 4})["raised"]
    intruder.close()


def test_the_readme_s_class_for_trl_earns_its_reward(openenv, server):
    """Played as TRL's trainer plays it: reset with the data set's columns, tools by name, then the reward function."""
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    play = """
shops = [Shop(), Shop()]
assert all(shop.reset(task="shop/checkout", seed=4, prompt="x") for shop in shops)
assert "'success': True" in shops[0].checkout()
for shop in shops:
    assert shop.finish("success") == "Success"
print(reward(shops))
"""
    environment = {**os.environ, "GUI_RL_ENV_URL": server.url, "GUI_RL_ENV_TOKEN": server.token}
    done = subprocess.run([openenv, "-c", program + play], capture_output=True, text=True, env=environment)
    assert done.stdout == "[1.0, 0.0]\n", done.stderr


def test_what_openenv_s_tools_ask_for(http):
    assert http.get("/openenv/health").json() == {"status": "healthy"}
    assert set(http.get("/openenv/metadata").json()) == {"name", "description", "version"}
    schemas = http.get("/openenv/schema").json()
    assert {"action", "observation", "state"} <= set(schemas) and all("properties" in s for s in schemas.values())
