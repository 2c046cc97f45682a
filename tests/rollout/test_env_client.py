"""The client against a real server, and against a wire that breaks at chosen moments."""

import asyncio
import contextlib
import os
import signal
import socket

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from env_servers import orphans
from env_servers.server import ServerConfig, running_server
from gui_rl.errors import UserError
from gui_rl.rollout.env_client import EnvClient, EnvFault, RefusedError

TASK = ("virtual", "shop/set", 3)  # an amount must become exactly so much: one click too many fails it


@pytest.fixture(scope="module")
def server(chromium):
    with running_server(ServerConfig(port=0, max_sessions=4)) as server:
        yield server


class Wire:
    """Passes requests on, and loses replies (`lose`) or requests (`refuse`) whose address ends in a given word."""

    def __init__(self, lose=(), refuse=()):
        self.lose, self.refuse, self.sent = list(lose), list(refuse), []

    async def __call__(self, request, handler):
        verb = request.url.path.rsplit("/", 1)[-1]
        self.sent.append(verb)
        if verb in self.refuse:
            self.refuse.remove(verb)
            raise aiohttp.ServerDisconnectedError("refused")
        reply = await handler(request)
        if verb in self.lose:
            await reply.read()
            self.lose.remove(verb)
            raise aiohttp.ClientOSError("connection reset")
        return reply


def connected(client, wire):
    """The client, talking over a wire of ours."""
    client._http = aiohttp.ClientSession(middlewares=(wire,))
    return client


@contextlib.asynccontextmanager
async def answering(answer):
    """A client of a server that gives every POST of sessions the answer of a function."""
    app = web.Application()
    app.router.add_post("/v1/sessions", answer)
    async with TestServer(app) as server, EnvClient(str(server.make_url("/"))) as client:
        yield client


async def play(session):
    await session.reset()
    while True:
        move = await session.script()
        reply = await session.step(move.action.model_dump(), text=move.conclusion, token_ids=[1, 2, 3])
        if reply.terminated or reply.truncated:
            return await session.evaluate()


def test_a_group_plays_to_its_end(server):
    async def body():
        async with EnvClient(server.url, server.token) as client:
            assert TASK[1] in {task.id for task in await client.tasks()}
            async with client.group(*TASK, count=4, script=True) as sessions:
                verdicts = await asyncio.gather(*map(play, sessions))
                record = await sessions[0].record()
                assert (await sessions[0].heartbeat()).expires_in_s > 0
            assert [verdict.outcome for verdict in verdicts] == ["success"] * 4
            assert all(step.response.token_ids == [1, 2, 3] for step in record.steps)
            with pytest.raises(EnvFault) as lost:
                await sessions[0].record()
            assert lost.value.outcome == "env_crash"
            async with client.group(*TASK, count=4):  # there is room again
                pass

    asyncio.run(body())


def test_observations_and_what_a_lease_says(server):
    async def body():
        async with EnvClient(server.url, server.token) as client, client.group(*TASK, tools=True) as (session,):
            first = await session.reset()
            assert first.png.startswith(b"\x89PNG") and (first.width, first.height) == (160, 128)
            assert (session.device, session.instruction) == ("web", first.instruction)
            assert "shop.checkout" in [tool["function"]["name"] for tool in session.tools]
            reply = await session.step(None, parse_error="no_call", text="hm")
            assert reply.observation.step == session.step_index == 1
            assert reply.observation.state_hash == first.state_hash
            again = await session.reset()
            assert (again.episode, again.step, session.step_index) == (2, 0, 0)
            assert again.screenshot == first.screenshot

    asyncio.run(body())


def test_a_lost_reply_is_asked_for_again_and_nothing_is_clicked_twice(server):
    async def body():
        wire = Wire(lose=["step"] * 3 + ["evaluate", "script"], refuse=["step", "evaluate"])
        async with connected(EnvClient(server.url, server.token), wire) as client:
            async with client.group(*TASK, script=True) as (session,):
                verdict = await play(session)
                assert (verdict.outcome, verdict.steps) == ("success", session.step_index)
                assert wire.sent.count("step") == session.step_index + 4
                assert wire.lose == wire.refuse == []

    asyncio.run(body())


@pytest.mark.parametrize(("verb", "outcome"), [("reset", "reset_failed"), ("step", "env_crash")])
def test_what_stays_lost_is_a_fault_and_a_reset_is_sent_once(server, verb, outcome):
    async def body():
        wire = Wire(refuse=[])
        async with connected(EnvClient(server.url, server.token), wire) as client:
            async with client.group(*TASK) as (session,):
                await session.reset()
                wire.refuse, wire.sent = [verb] * 100, []
                with pytest.raises(EnvFault) as fault:
                    if verb == "reset":
                        await session.reset()
                    else:
                        await session.step(None, parse_error="no_call")
                assert fault.value.outcome == outcome
                assert wire.sent.count(verb) == (1 if verb == "reset" else 5)

    asyncio.run(body())


def test_a_killed_browser_is_a_fault(server):
    async def body():
        async with EnvClient(server.url, server.token) as client, client.group(*TASK) as (session,):
            await session.reset()
            (browser,) = orphans.browsers_of(server.pid)
            os.kill(browser, signal.SIGKILL)
            with pytest.raises(EnvFault) as fault:
                arguments = {"action": "click", "coordinate": [500, 500]}
                await session.step({"name": "browser_use", "arguments": arguments})
            assert fault.value.outcome == "env_crash"
            verdict = await session.evaluate()
            assert (verdict.outcome, verdict.score) == ("env_crash", None)
            assert (await session.reset()).step == 0

    asyncio.run(body())


def test_a_full_server_is_waited_for(server):
    async def body():
        async with EnvClient(server.url, server.token) as client:
            first = await client.create(*TASK, count=3)
            waiting = asyncio.create_task(client.create(*TASK, count=2))
            await asyncio.sleep(0.5)
            assert not waiting.done()
            await first[0].close()
            await first[0].close()  # gone already: no harm
            second = await waiting
            client.full_deadline_s = 0.1
            with pytest.raises(UserError, match="stayed full.*--max-sessions"):
                await client.create(*TASK)
            await asyncio.gather(*(session.close() for session in first + second))

    asyncio.run(body())


def test_the_wait_is_as_long_as_the_server_asks(monkeypatch):
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)

    async def answer(request):
        if pauses.count(7) < 2:
            problem = {"title": "Too Many Requests", "status": 429, "code": "full", "detail": "no room"}
            return web.json_response(problem, status=429, headers={"Retry-After": "7"})
        return web.json_response([], status=201)

    async def body():
        async with answering(answer) as client:
            monkeypatch.setattr("gui_rl.rollout.env_client.asyncio.sleep", sleep)
            assert await client.create(*TASK) == []

    asyncio.run(body())
    assert pauses.count(7) == 2


def test_what_the_user_can_put_right_is_said_so(server):
    async def body():
        async with EnvClient(server.url, "wrong") as client:
            with pytest.raises(UserError, match="does not accept this token"):
                await client.create(*TASK)
        async with EnvClient(server.url, server.token) as client:
            with pytest.raises(UserError, match="has no task 'shop/nothing'"):
                await client.create("virtual", "shop/nothing", 1)
            with pytest.raises(UserError, match="no suite 'nowhere'"):
                await client.tasks("nowhere")
            with pytest.raises(UserError, match="at most 4 sessions"):
                await client.create(*TASK, count=5)
        with socket.create_server(("127.0.0.1", 0)) as free:
            url = f"http://127.0.0.1:{free.getsockname()[1]}"
        async with EnvClient(url) as client:
            with pytest.raises(UserError, match=f"no environment server answers at {url}"):
                await client.create(*TASK)

    asyncio.run(body())


def test_a_program_s_own_mistake_is_no_fault_of_the_environment(server):
    async def body():
        async with EnvClient(server.url, server.token) as client, client.group(*TASK) as (session,):
            with pytest.raises(RefusedError, match="no_episode"):
                await session.evaluate()
            await session.reset()
            with pytest.raises(RefusedError, match="script_disabled"):
                await session.script()
            session.step_index = 5
            with pytest.raises(RefusedError) as refused:
                await session.step(None, parse_error="no_call")
            assert refused.value.problem.code == "wrong_step"

    asyncio.run(body())


def test_a_reply_that_is_no_problem_json_is_still_an_error():
    async def answer(request):
        assert (await request.json())["task"] == TASK[1]
        return web.Response(status=502, text="<html>bad gateway</html>")

    async def body():
        async with answering(answer) as client:
            with pytest.raises(RefusedError, match="bad gateway"):
                await client.create(*TASK)

    asyncio.run(body())
