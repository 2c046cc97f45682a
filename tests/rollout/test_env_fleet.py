"""Many servers: who gets a session, who is left alone for a while, and how a lost one is noticed.

The servers here only lease sessions and fail when told to; the faults of real ones are in tests/env/test_faults.py.
"""

import asyncio
import contextlib
import socket
import time

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gui_rl.errors import UserError
from gui_rl.rollout import env_client, env_fleet
from gui_rl.rollout.env_client import EnvClient, EnvFault

TASK = ("virtual", "shop/set", 3)


class Fake:
    """A server that leases. sessions: held by others. broken: what it answers, or "hang"."""

    def __init__(self, limit=8, sessions=0, broken=""):
        self.limit, self.sessions, self.broken, self.made, self.asked = limit, sessions, broken, 0, []

    def app(self):
        app = web.Application()
        app.router.add_get("/livez", self.livez)
        app.router.add_get("/readyz", self.readyz)
        app.router.add_post("/v1/sessions", self.create)
        app.router.add_route("*", "/v1/sessions/{session}/{verb}", self.session)
        app.router.add_delete("/v1/sessions/{session}", self.session)
        return app

    async def trouble(self):
        if self.broken == "hang":
            await asyncio.sleep(60)
        if self.broken == "draining":
            return problem(503, "draining")
        return None

    async def livez(self, _):
        return await self.trouble() or web.json_response({})

    async def readyz(self, _):
        self.asked.append("readyz")
        said = {"status": "ready", "sessions": self.sessions + self.made, "limit": self.limit}
        return await self.trouble() or web.json_response(said)

    async def create(self, request):
        self.asked.append("create")
        count = (await request.json())["count"]
        if failure := await self.trouble():
            return failure
        if self.sessions + self.made + count > self.limit:
            return problem(429, "full", {"Retry-After": "0"})
        self.made += count
        lease = dict(session="s", token="t", generation="g", suite="virtual", task="shop/set", seed=3, device="web")
        lease |= dict(instruction="", css_width=1, css_height=1, max_steps=4, total=1, tools=[])
        return web.json_response([lease] * count, status=201)

    async def session(self, request):
        self.asked.append(request.match_info.get("verb", "close"))
        if self.broken == "crash":
            return problem(500, "env_crash", outcome="env_crash")
        self.made -= request.method == "DELETE"
        return await self.trouble() or web.json_response({"generation": "g", "expires_in_s": 1})


def problem(status, code, headers=None, **more):
    body = {"title": "", "status": status, "code": code, "detail": code, **more}
    return web.json_response(body, status=status, headers=headers)


@contextlib.asynccontextmanager
async def fleet(*fakes, **options):
    async with contextlib.AsyncExitStack() as stack:
        started = [await stack.enter_async_context(TestServer(fake.app())) for fake in fakes]
        urls = [str(server.make_url("")) for server in started]
        yield await stack.enter_async_context(EnvClient(urls, **options))


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Seconds become hundredths."""
    for name, value in {"PING_EVERY_S": 0.05, "PING_S": 2.0, "PROBE_EVERY_S": 0.0, "SLACK_S": 0.1}.items():
        monkeypatch.setattr(env_fleet, name, value)
    monkeypatch.setattr(env_fleet, "QUARANTINE_S", (0.2, 1.0))


def test_sessions_go_where_the_smallest_share_is_taken():
    async def body():
        small, large = Fake(limit=4, sessions=2), Fake(limit=16, sessions=5)
        async with fleet(small, large) as client:
            for _ in range(4):
                await client.create(*TASK)
            assert (small.made, large.made) == (1, 3)  # 2/4, 5/16 … 8/16: the first of equals is the small one
            large.sessions, small.sessions = 13, 0  # others came and went
            await client.create(*TASK)
            assert small.made == 2

    asyncio.run(body())


def test_placing_at_once_is_spread_too():
    async def body():
        fakes = [Fake(), Fake()]
        async with fleet(*fakes) as client:
            await asyncio.gather(*(client.create(*TASK) for _ in range(8)))
            assert [fake.made for fake in fakes] == [4, 4]

    asyncio.run(body())


def test_a_full_or_draining_server_is_passed_over():
    async def body():
        full, draining, free = Fake(limit=10**6, sessions=10**6), Fake(broken="draining"), Fake(limit=2, sessions=1)
        async with fleet(full, draining, free) as client:
            await client.create(*TASK)
            assert free.made == 1 and "create" not in draining.asked
            draining.broken = ""
            began = time.monotonic()
            await client.create(*TASK)  # the only one with room, once its quarantine is over
            assert draining.made == 1 and time.monotonic() - began > 0.05

    asyncio.run(body())


def test_faults_in_a_row_bring_quarantine_which_doubles_and_a_good_end_lifts_it():
    async def body():
        async with fleet(Fake(broken="crash"), Fake(limit=4, sessions=3)) as client:
            bad = client.servers[0]
            (session,) = await client.create(*TASK)
            for strike in range(env_fleet.STRIKES):
                assert not bad.quarantined_s, strike
                with pytest.raises(EnvFault):
                    await session.heartbeat()
            first = bad.quarantined_s
            assert 0 < first <= env_fleet.QUARANTINE_S[0]
            bad.failed(), bad.quarantine()
            assert bad.quarantined_s <= first  # many failures at once are one reason
            await asyncio.sleep(first)
            bad.quarantine()
            assert bad.quarantined_s > 1.5 * env_fleet.QUARANTINE_S[0]
            await asyncio.sleep(bad.quarantined_s)
            bad.ended_well()
            bad.quarantine()
            assert bad.quarantined_s <= env_fleet.QUARANTINE_S[0]

    asyncio.run(body())


def test_a_server_that_answers_nothing_is_noticed_and_its_requests_are_given_up(monkeypatch):
    monkeypatch.setattr(env_fleet, "RESENDS", 1)

    async def body():
        fake = Fake()
        async with fleet(fake, timeout_s=60) as client:
            (session,) = await client.create(*TASK)
            fake.broken = "hang"
            began = time.monotonic()
            with pytest.raises(EnvFault) as fault:
                await session.heartbeat()
            assert fault.value.outcome == "env_crash" and time.monotonic() - began < 20
            assert client.servers[0].quarantined_s > 0
            fake.broken = ""
            assert len(await client.create(*TASK)) == 1  # it is back, and was waited for

    asyncio.run(body())


def test_no_place_before_the_rollout_s_deadline_is_a_fault_and_no_score():
    async def body():
        async with fleet(Fake(limit=1)) as client:
            await client.create(*TASK)
            client.servers[0].served = True
            with pytest.raises(EnvFault) as fault:
                await client.create(*TASK, deadline=time.monotonic() - 1)
            assert fault.value.outcome == "reset_failed"

    asyncio.run(body())


def test_a_request_does_not_outlive_the_deadline():
    async def body():
        fake = Fake()
        async with fleet(fake, timeout_s=60) as client:
            (session,) = await client.create(*TASK, deadline=time.monotonic() + 0.3)

            fake.broken = "hang"
            began = time.monotonic()
            with pytest.raises(EnvFault):
                await session.heartbeat()
            assert time.monotonic() - began < 20

    asyncio.run(body())


def test_a_name_is_a_server_at_each_of_its_addresses(monkeypatch):
    monkeypatch.setattr(env_client, "RESOLVE_EVERY_S", 0.0)

    async def body():
        fakes = [Fake(), Fake()]
        async with contextlib.AsyncExitStack() as stack:
            first = await stack.enter_async_context(TestServer(fakes[0].app(), host="127.0.0.1"))
            second = await stack.enter_async_context(TestServer(fakes[1].app(), host="127.0.0.2", port=first.port))
            addresses = ["127.0.0.1"]

            async def getaddrinfo(host, port, **_):
                if host != "env-servers":
                    raise socket.gaierror("unknown name")
                return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

            monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
            client = await stack.enter_async_context(EnvClient(f"dns+http://env-servers:{first.port}"))
            await client.create(*TASK, count=2)
            addresses.append("127.0.0.2")
            await client.create(*TASK)
            assert [fake.made for fake in fakes] == [2, 1]
            kept = client.servers[1]
            addresses.remove("127.0.0.1")
            await client.create(*TASK)
            assert client.servers == [kept] and fakes[1].made == 2
            async with EnvClient("dns+http://nowhere:80") as lost:
                with pytest.raises(UserError, match="'nowhere'.*no address"):
                    await lost.create(*TASK)
            assert second.port == first.port

    asyncio.run(body())
