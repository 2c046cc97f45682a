"""Our phone behind AndroidWorld's wire, driven by our own AndroidWorld adapter: real Chromium at the other end."""

import asyncio
import io

import httpx
import numpy as np
import pytest
from PIL import Image

from env_servers.adapters import Worlds, register
from env_servers.adapters.world import TOKEN_VARIABLE
from env_servers.protocol.messages import CreateSessions, StepRequest
from env_servers.screens import Screens
from env_servers.server import ServerConfig, running_server
from env_servers.sessions import SessionStore
from env_servers.suites import SUITES, tasks
from env_servers.suites.suite import WorldKind

SEED = 4


def pixels(png):
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))


@pytest.fixture(scope="module")
def server(chromium):
    with running_server(ServerConfig(port=0, max_sessions=3)) as server:
        yield server


async def follow(http, task):
    """Play the script of our own session on the adapter's; returns the adapter's verdict."""
    store = SessionStore(Screens({WorldKind: Worlds()}))
    (lease,) = http.post("/v1/sessions", json={"task": task, "seed": SEED, "script": True}).json()
    path, own = f"/v1/sessions/{lease['session']}", {"Authorization": f"Bearer {lease['token']}"}
    first = http.post(f"{path}/reset", headers=own).json()
    (made,) = await store.create(CreateSessions(suite="androidworld", task=f"androidworld/{task}", seed=SEED))
    session = store.get(made.session, made.token)
    seen = await store.reset(session)
    assert seen.instruction == first["instruction"]
    for number in range(30):
        shown = http.get(f"{path}/screenshot", headers=own).content
        assert np.array_equal(pixels(shown), pixels(seen.png)), f"step {number}"
        action = http.post(f"{path}/script", headers=own).json()["action"]
        body = {"episode": 1, "step": number, "action": action}
        ours = http.post(f"{path}/step", json=body, headers=own).json()
        reply = await store.step(session, StepRequest(**body))
        assert (reply.error, reply.terminated) == (None, ours["terminated"])
        seen = reply.observation
        if reply.terminated:
            break
    verdict = await store.evaluate(session)
    await store.close(session)
    http.delete(path, headers=own)
    return verdict


def test_our_adapter_plays_our_phone_through_androidworld_s_wire(server, http, monkeypatch):
    monkeypatch.setenv(TOKEN_VARIABLE, server.token)
    world = register(f"androidworld={server.url}/androidworld")
    try:
        phone = [task for task in tasks("virtual").values() if task.device == "mobile"]
        assert set(world.tasks()) == {f"androidworld/{task.id}" for task in phone}
        verdict = asyncio.run(follow(http, phone[0].id))
        assert (verdict.outcome, verdict.score) == ("success", 1)
    finally:
        del SUITES["androidworld"]


def test_a_score_is_zero_for_what_was_not_done_and_ends_the_episode(http):
    task = {"task_type": next(t.id for t in tasks("virtual").values() if t.device == "mobile"), "task_idx": 1}
    at = "/androidworld"
    assert http.get(f"{at}/task/score", params=task).json()["code"] == "no_episode"
    assert http.post(f"{at}/task/initialize", params=task).status_code == 200
    back = http.post(f"{at}/execute_action", json={"action_type": "double_tap", "x": 1, "y": 1})
    assert (back.status_code, back.json()["code"]) == (422, "invalid_request")
    assert http.post(f"{at}/execute_action", json={"action_type": "click", "index": 0}).status_code == 200
    assert http.get(f"{at}/task/score", params=task).json() == http.get(f"{at}/task/score", params=task).json()
    assert http.get(f"{at}/task/score", params=task).json() == {"score": 0}
    assert http.post(f"{at}/execute_action", json={"action_type": "wait"}).json()["code"] == "episode_over"
    assert http.get(f"{at}/task/score", params={**task, "task_idx": 2}).json()["code"] == "wrong_episode"
    assert http.post(f"{at}/task/tear_down", params=task).status_code == 200
    screen = http.get(f"{at}/screenshot", params={"wait_to_stabilize": True}).json()["pixels"]
    assert not np.any(screen)


def test_the_phone_wants_the_server_s_token(server):
    assert httpx.get(f"{server.url}/androidworld/health", trust_env=False).status_code == 401
