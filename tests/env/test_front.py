"""The front by itself, before two small HTTP servers: what it passes on, and how, and what it says when one is gone."""

import asyncio
import contextlib

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from env_servers.front import Front
from env_servers.server import ServerConfig

CLOSED, RELEASED = web.AppKey("closed", list), web.AppKey("released", asyncio.Event)
OWNER = {"Authorization": "Bearer secret"}


def worker(index, *, refuses=False):
    """A server that says which it is. `app[CLOSED]`: sessions that were closed again."""
    app, released = web.Application(), asyncio.Event()
    app[CLOSED], app[RELEASED] = [], released

    async def ready(_):
        return web.json_response({"status": "ready", "generation": "g", "sessions": 0, "limit": 4})

    async def create(request):
        if refuses:
            body = {"title": "", "status": 422, "code": "unknown_tool", "detail": "no such tool"}
            return web.json_response(body, status=422)
        count = (await request.json())["count"]
        leases = [{"session": f"{index}-0123456789abcdef-{k:016x}", "token": "t"} for k in range(count)]
        return web.json_response(leases, status=201)

    async def close(request):
        app[CLOSED].append(request.match_info["session"])
        return web.Response(status=204)

    async def echo(request):
        said = {"worker": index, "path": request.raw_path, "body": (await request.read()).decode()}
        return web.json_response(said | {"token": request.headers.get("Authorization")}, headers={"X-Kept": "yes"})

    async def events(request):
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        await stream.write(b"data: 1\n\n")
        await released.wait()
        await stream.write(b"data: 2\n\n")
        return stream

    async def talk(request):
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            if message.data == "end":
                break
            await (socket.send_str if isinstance(message.data, str) else socket.send_bytes)(message.data)
        return socket

    app.router.add_get("/readyz", ready)
    app.router.add_post("/v1/sessions", create)
    app.router.add_delete("/v1/sessions/{session}", close)
    app.router.add_get("/v1/sessions/{session}/events", events)
    app.router.add_get("/v1/sessions/{session}/talk", talk)
    app.router.add_route("*", "/{rest:.*}", echo)
    return app


@contextlib.asynccontextmanager
async def fronted(*apps):
    """A client of a front before these workers, and the front."""
    async with contextlib.AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(TestServer(app)) for app in apps]
        inner = await stack.enter_async_context(aiohttp.ClientSession(auto_decompress=False))
        front = Front(ServerConfig(token="secret", workers=len(apps), max_sessions=4 * len(apps)), inner)
        for one, server in zip(front.workers, servers, strict=True):
            one.url = str(server.make_url("")).rstrip("/")
        outer = await stack.enter_async_context(TestServer(front.app()))
        http = await stack.enter_async_context(aiohttp.ClientSession(base_url=outer.make_url("/"), headers=OWNER))
        yield http, front


def test_a_request_goes_to_its_session_s_worker_as_it_is():
    async def body():
        async with fronted(worker(0), worker(1)) as (http, _):
            for index in (0, 1):
                path = f"/v1/sessions/{index}-a-b/step%20x?q=%20x&r=1"
                async with http.post(path, data="body") as reply:
                    said = await reply.json()
                    assert reply.headers["X-Kept"] == "yes"
                assert said == {"worker": index, "path": path, "body": "body", "token": OWNER["Authorization"]}

    asyncio.run(body())


def test_an_event_stream_passes_as_it_comes_and_a_socket_both_ways():
    async def body():
        app = worker(1)
        async with fronted(worker(0), app) as (http, _):
            async with http.get("/v1/sessions/1-a-b/events") as reply:
                assert await reply.content.readuntil(b"\n\n") == b"data: 1\n\n"
                app[RELEASED].set()
                assert await reply.content.readuntil(b"\n\n") == b"data: 2\n\n"
            async with http.ws_connect("/v1/sessions/1-a-b/talk") as socket:
                await socket.send_str("words")
                assert await socket.receive_str() == "words"
                await socket.send_bytes(b"\0\1")
                assert await socket.receive_bytes() == b"\0\1"
                await socket.send_str("end")
                assert (await socket.receive()).type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)

    asyncio.run(body())


def test_a_group_is_all_or_none():
    async def body():
        first = worker(0)
        async with fronted(first, worker(1, refuses=True)) as (http, _):
            async with http.post("/v1/sessions", json={"task": "t", "seed": 1, "count": 4}) as reply:
                assert reply.status == 422 and (await reply.json())["code"] == "unknown_tool"
            assert len(first[CLOSED]) == 2
        async with fronted(worker(0), worker(1)) as (http, _):
            async with http.post("/v1/sessions", json={"task": "t", "seed": 1, "count": 4}) as reply:
                assert reply.status == 201
                assert sorted(lease["session"][0] for lease in await reply.json()) == ["0", "0", "1", "1"]

    asyncio.run(body())


def test_a_worker_that_is_gone_is_said_in_so_many_words():
    async def body():
        async with fronted(worker(0), worker(1)) as (http, front):
            front.workers[1].url = "http://127.0.0.1:9"  # nobody listens there
            for url in ("http://127.0.0.1:9", None):
                front.workers[1].url = url
                async with http.post("/v1/sessions/1-a-b/step", data="{}") as reply:
                    problem = await reply.json(content_type="application/problem+json")
                assert (reply.status, problem["code"], problem["outcome"]) == (410, "lost_session", "env_crash")
                for _ in range(2):  # whatever any worker can answer, the other one does
                    async with http.get("/v1/suites") as reply:
                        assert (await reply.json())["worker"] == 0
                async with http.get("/readyz") as reply:
                    assert (await reply.json())["workers"] == 1
            front.workers[0].url = None
            for path in ("/readyz", "/v1/suites"):
                async with http.get(path) as reply:
                    problem = await reply.json(content_type="application/problem+json")
                assert (problem["code"], reply.headers["Retry-After"]) == ("not_ready", "1")

    asyncio.run(body())
