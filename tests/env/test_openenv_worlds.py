"""OpenEnv environments as suites: our own behind its wire, and one that replays the shapes of BrowserGym's."""

import asyncio
import base64
import threading

import pytest
import uvicorn
from fastapi import FastAPI, WebSocket
from worlds import play_world

from env_servers.adapters import Worlds, register
from env_servers.errors import UserError
from env_servers.leases import Refusal
from env_servers.protocol.messages import CreateSessions, StepRequest
from env_servers.screens import Screens
from env_servers.server import ServerConfig, running_server
from env_servers.sessions import SessionStore
from env_servers.suites import SUITES
from env_servers.suites.suite import WorldKind
from gui_rl.rollout.env_client import EnvClient

W, H, SEED = 40, 60, 4


@pytest.fixture(scope="module")
def server(chromium):
    with running_server(ServerConfig(port=0, max_sessions=3)) as server:
        yield server


@pytest.fixture(autouse=True)
def forgotten():
    yield
    SUITES.pop("openenv", None)


def gui(action, **arguments):
    return {"name": "browser_use", "arguments": {"action": action, **arguments}}


def play(task, *actions):
    return play_world("openenv", task, SEED, actions)


async def scripted(server, task):
    """The script's calls on our own wire, and what was seen."""
    async with EnvClient(server.url, server.token) as client:
        (session,) = await client.create("virtual", task, SEED, script=True)
        seen, calls = [await session.reset()], []
        while not calls or calls[-1]["arguments"]["action"] != "terminate":
            calls.append((await session.script()).action.model_dump())
            seen.append((await session.step(calls[-1])).observation)
        await session.close()
    return calls, seen


def test_our_own_server_is_a_suite_of_another(server, monkeypatch):
    """What the script does on our wire does the same behind OpenEnv's, pixel by pixel."""
    monkeypatch.setenv("GUI_RL_WORLD_TOKEN", server.token)
    register(f"openenv={server.url}/openenv?task=shop/add&task=shop/set&steps=20")
    assert set(SUITES["openenv"].tasks()) == {"openenv/shop-add", "openenv/shop-set"}
    calls, ours = asyncio.run(scripted(server, "shop/add"))
    seen, errors, verdict = asyncio.run(play("openenv/shop-add", *calls))
    assert (verdict.outcome, verdict.score) == ("success", 1) and set(errors) == {None}
    assert seen[0].instruction == ours[0].instruction and len(seen) == len(ours)
    assert [base64.b64encode(one.png).decode() for one in ours] == [one.screenshot for one in seen]
    _, _, verdict = asyncio.run(play("openenv/shop-add", gui("terminate", status="success")))
    assert (verdict.outcome, verdict.score) == ("fail", 0)


@pytest.fixture
def gym():
    """(its URL, what it was told): a click in the middle is rewarded and ends the episode."""
    app, told, lost = FastAPI(), [], []

    @app.websocket("/ws")
    async def connected(socket: WebSocket):
        await socket.accept()
        while (message := await socket.receive_json())["type"] != "close":
            told.append(message["data"])
            if lost:
                return await socket.close()
            won = message["data"].get("action_str") == "mouse_click(20, 30)"
            screen = None if message["data"].get("task_name") == "blind" else [[[9, 9, 9]] * W] * H
            observation = {"text": "", "goal": "Click the middle", "screenshot": screen, "error": ""}
            data = {"observation": observation, "reward": 1.0 if won else 0.0, "done": won}
            await socket.send_json({"type": "observation", "data": data})
        await socket.close()

    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}", told, lost
    server.should_exit = True
    thread.join()


def test_browsergym_is_spoken_to_in_its_own_words(gym):
    url, told, _ = gym
    register(f"openenv={url}?actions=browsergym&field=task_name&task=click-test")
    calls = [gui("scroll", direction="down"), gui("click", coordinate=[500, 500])]
    seen, errors, verdict = asyncio.run(play("openenv/click-test", *calls))
    assert (verdict.outcome, verdict.score, errors) == ("success", 1, [None, None])
    assert (seen[0].width, seen[0].height, seen[0].instruction) == (W, H, "Click the middle")
    assert told[1:] == [
        {"task_name": "click-test", "seed": SEED},
        {"action_str": "scroll(0, 200)"},
        {"action_str": "mouse_click(20, 30)"},
    ]
    _, errors, verdict = asyncio.run(play("openenv/click-test", gui("terminate", status="success")))
    assert (verdict.outcome, verdict.score, errors) == ("fail", 0, [None])
    assert told[-1] == {"task_name": "click-test", "seed": SEED}  # there is no word for an end that claims success


def test_a_connection_that_breaks_is_a_fault_and_never_a_score(gym):
    url, _, lost = gym
    register(f"openenv={url}?actions=browsergym")

    async def broken():
        store = SessionStore(Screens({WorldKind: Worlds()}))
        (lease,) = await store.create(CreateSessions(suite="openenv", task="openenv/episode", seed=SEED))
        session = store.get(lease.session, lease.token)
        await store.reset(session)
        lost.append(True)
        with pytest.raises(Refusal, match="no answer to step"):
            await store.step(session, StepRequest(episode=1, step=0, action=gui("wait", time=1)))
        verdict = await store.evaluate(session)
        await store.close(session)
        return verdict

    verdict = asyncio.run(broken())
    assert (verdict.outcome, verdict.score) == ("env_crash", None)


def test_what_cannot_be_a_suite_is_said(gym, server, monkeypatch):
    url, _, _ = gym
    for located, says in (
        (f"{url}?actions=browsergym&field=task_name&task=blind", "no screenshot, but: error, goal, screenshot, text"),
        (f"{url}?actions=morse", "actions=morse is none of gui_rl, browsergym"),
        (f"{url}?device=watch", "device=watch"),
        (f"{url}?actions=browsergym&device=mobile", "not mobile"),
        (f"{server.url}/openenv?task=shop/add", "does not answer.*401"),
        ("http://127.0.0.1:1", "does not answer"),
    ):
        with pytest.raises(UserError, match=says):
            register(f"openenv={located}")
    monkeypatch.setenv("GUI_RL_WORLD_TOKEN", server.token)
    with pytest.raises(UserError, match="does not answer.*shop/nothing"):
        register(f"openenv={server.url}/openenv?task=shop/nothing")
