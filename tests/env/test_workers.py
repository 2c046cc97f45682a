"""Several worker processes behind one port: sessions stick to theirs, a dead one is replaced, all drain together."""

import asyncio
import os
import signal
import time

import httpx
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from env_servers.front import shares
from env_servers.orphans import browsers_of
from env_servers.server import ServerConfig, running_server
from gui_rl.rollout.env_client import EnvClient, EnvFault

TASK = ("virtual", "shop/set", 3)


@pytest.fixture(scope="module")
def server(chromium):
    with running_server(ServerConfig(port=0, max_sessions=7, workers=2)) as server:
        yield server


@pytest.fixture(scope="module")
def http(server):
    headers = {"Authorization": f"Bearer {server.token}"}
    with httpx.Client(base_url=server.url, timeout=60, trust_env=False, headers=headers) as http:
        yield http


def workers(server):
    """Process ids of the workers, by their number."""
    found = {}
    for child in psutil.Process(server.pid).children():
        words = child.cmdline()
        if "env_servers.server" in words:
            found[int(words[words.index("--worker") + 1]) if "--worker" in words else 0] = child.pid
    return found


def samples(http):
    families = text_string_to_metric_families(http.get("/metrics").text)
    return {(s.name, *sorted(s.labels.values())): s.value for family in families for s in family.samples}


async def play(session):
    await session.reset()
    while True:
        move = await session.script()
        reply = await session.step(move.action.model_dump())
        if reply.terminated or reply.truncated:
            return await session.evaluate()


@pytest.mark.parametrize(
    ("free", "count", "wanted"),
    [
        ([(0, 4), (0, 4)], 4, [2, 2]),
        ([(3, 4), (0, 4)], 3, [0, 3]),
        ([(4, 4), (1, 2)], 1, [0, 1]),
        ([(4, 4), (1, 2)], 2, None),
        ([], 1, None),
    ],
)
def test_new_sessions_go_where_there_are_fewest(free, count, wanted):
    assert shares(free, count) == wanted


def test_one_server_to_the_eye(server, http):
    assert {"sessions", "limit", "workers"} <= http.get("/readyz").json().keys()
    assert http.get("/readyz").json()["limit"] == 7 and len(workers(server)) == 2
    assert "virtual" in http.get("/v1/suites").json()
    assert http.get("/openapi.json").json()["info"]["title"] == "gui_rl environment server"
    assert http.get("/nowhere").json()["code"] == "not_found"
    assert http.get("/v1/suites", headers={"Authorization": "Bearer wrong"}).status_code == 401
    create = {"task": "shop/set", "seed": 3}
    assert http.post("/v1/sessions", json=create, headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert http.post("/v1/sessions", json={**create, "count": 8}).json()["code"] == "too_many_sessions"
    assert http.post("/v1/sessions", json={**create, "colour": 1}).json()["code"] == "invalid_request"
    assert http.post("/v1/sessions", content=b"{").json()["code"] == "invalid_request"
    for name in ("9-0-0", "nothing", "-1", "0-0-0"):
        assert http.post(f"/v1/sessions/{name}/reset").json()["code"] == "unknown_session"


def test_a_group_is_spread_and_plays_and_all_is_counted(server, http):
    async def body():
        async with EnvClient(server.url, server.token) as client, client.group(*TASK, count=6, script=True) as sessions:
            assert sorted(session.lease.session[:2] for session in sessions) == ["0-"] * 3 + ["1-"] * 3
            assert http.get("/readyz").json()["sessions"] == 6
            refused = http.post("/v1/sessions", json={"task": "shop/set", "seed": 3, "count": 2})
            assert (refused.status_code, refused.json()["code"], refused.headers["retry-after"]) == (429, "full", "1")
            verdicts = await asyncio.gather(*map(play, sessions))
            assert {verdict.outcome for verdict in verdicts} == {"success"}
        counted = samples(http)
        assert counted[("gui_rl_env_workers",)] == 2
        each = [counted[("gui_rl_env_episodes_total", worker, "success", "virtual")] for worker in "01"]
        assert each == [3, 3]

    asyncio.run(body())


def test_a_dead_worker_is_replaced_and_the_others_do_not_notice(server, http):
    async def body():
        async with EnvClient(server.url, server.token) as client, client.group(*TASK, count=4, script=True) as sessions:
            await asyncio.gather(*(session.reset() for session in sessions))
            before = workers(server)
            os.kill(before[1], signal.SIGKILL)
            for session in sessions:
                move = {"name": "browser_use", "arguments": {"action": "wait", "time": 0}}
                if session.lease.session.startswith("0-"):
                    assert (await session.step(move)).observation.step == 1
                else:
                    for _ in range(2):
                        with pytest.raises(EnvFault) as fault:
                            await session.step(move)
                        assert fault.value.outcome == "env_crash"
        deadline = time.monotonic() + 60
        while http.get("/readyz").json().get("workers") != 2:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)
        after = workers(server)
        assert after[0] == before[0] and after[1] != before[1]
        lost = next(session for session in sessions if session.lease.session.startswith("1-"))
        problem = http.post(f"/v1/sessions/{lost.lease.session}/evaluate").json()
        assert (problem["status"], problem["code"], problem["outcome"]) == (410, "lost_session", "env_crash")
        assert samples(http)[("gui_rl_env_worker_restarts_total", "1")] == 1
        async with EnvClient(server.url, server.token) as client, client.group(*TASK, count=4, script=True) as sessions:
            verdicts = await asyncio.gather(*map(play, sessions))
            assert {verdict.outcome for verdict in verdicts} == {"success"}

    asyncio.run(body())


def test_all_drain_together_and_nothing_is_left(chromium):
    """The last test of the file's server would end it for the others: this one has its own."""

    async def body(server, pids):
        async with EnvClient(server.url, server.token) as client:
            (session,) = await client.create(*TASK, script=True)
            await session.reset()
            os.kill(server.pid, signal.SIGTERM)
            async with httpx.AsyncClient(base_url=server.url, trust_env=False) as http:
                while (ready := await http.get("/readyz")).status_code == 200:
                    await asyncio.sleep(0.05)
                assert ready.json()["code"] == "draining"
            while True:
                move = await session.script()
                reply = await session.step(move.action.model_dump())
                if reply.terminated:
                    break
            assert (await session.evaluate()).outcome == "success"
            await session.close()
        deadline = time.monotonic() + 30
        while any(psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie" for pid in pids):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)

    with running_server(ServerConfig(port=0, max_sessions=4, workers=2)) as server:
        pids = [*workers(server).values()]
        pids += [browser for pid in pids for browser in browsers_of(pid)]
        assert len(pids) == 4
        asyncio.run(body(server, pids))
