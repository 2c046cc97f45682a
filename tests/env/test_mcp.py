"""A session's tools as an MCP server, asked by the SDK's own client over real HTTP."""

import asyncio
import base64
import contextlib
import json
import subprocess
import sys

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from env_servers.server import ServerConfig, running_server
from env_servers.suites import apps, instantiate, libreoffice, virtual
from env_servers.suites.distractors import foreign_tools
from env_servers.suites.virtual import registry

OWN = [spec.name for spec in registry["shop"].tools]
TASK = "shop/checkout"


@pytest.fixture(scope="module")
def server(chromium):
    with running_server(ServerConfig(port=0, max_sessions=16)) as server:
        yield server


@pytest.fixture(scope="module")
def http(server):
    with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as http:
        yield http


@pytest.fixture
def lease(http, server):
    """Leases sessions, and ends them with the test."""
    made = []

    def lease(**more):
        body = {"task": TASK, "seed": 4, "tools": True, **more}
        reply = http.post("/v1/sessions", json=body, headers={"Authorization": f"Bearer {server.token}"})
        assert reply.status_code == 201, reply.text
        made.extend(reply.json())
        return reply.json()[0]

    yield lease
    for one in made:  # one that the test has ended is not there any more
        http.delete(f"/v1/sessions/{one['session']}", headers={"Authorization": f"Bearer {one['token']}"})


def ask(http, method, lease, what="", body=None):
    path = f"/v1/sessions/{lease['session']}" + (f"/{what}" if what else "")
    reply = http.request(method, path, json=body, headers={"Authorization": f"Bearer {lease['token']}"})
    assert reply.status_code < 300, reply.text
    return reply.json() if reply.content else None


@contextlib.asynccontextmanager
async def connected(server, lease, token=None, **options):
    headers = {"Authorization": f"Bearer {token or lease['token']}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False) as pool:
        url = f"{server.url}/v1/sessions/{lease['session']}/mcp"
        async with Client(streamable_http_client(url, http_client=pool), **options) as client:
            yield client


def with_client(server, lease, body, **options):
    async def play():
        async with connected(server, lease, **options) as client:
            return await body(client)

    return asyncio.run(play())


async def names(client):
    return [tool.name for tool in (await client.list_tools()).tools]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_tools_are_listed_as_the_lease_says(server, lease, mode):
    held = lease()

    async def body(client):
        return (await client.list_tools()).tools

    listed = with_client(server, held, body, mode=mode)
    offered = [tool["function"] for tool in held["tools"]]
    assert [tool.name for tool in listed] == [tool["name"] for tool in offered] == OWN
    assert all(name.startswith("shop.") for name in OWN)
    assert [tool.input_schema for tool in listed] == [tool["parameters"] for tool in offered]


def test_a_call_is_the_same_step_as_through_our_protocol(server, http, lease):
    held, other = lease(), lease()
    before, same = ask(http, "POST", held, "reset"), ask(http, "POST", other, "reset")
    assert before["state_hash"] == same["state_hash"]
    said = {"text": "Action: buy", "token_ids": [7, 8]}

    async def body(client):
        return await client.call_tool("shop.checkout", {}, meta={"episode": 1, "step": 0, "response": said})

    result = with_client(server, held, body)
    action = {"name": "shop.checkout", "arguments": {}}
    ours = ask(http, "POST", other, "step", {"episode": 1, "step": 0, "action": action, "response": said})
    assert result.structured_content == json.loads(result.content[0].text) == ours["tool_result"]
    assert result.structured_content["success"] is True and not result.is_error
    meta = {key: result.meta[key] for key in ("episode", "step", "terminated", "truncated", "state_hash")}
    assert meta == {"terminated": False, "truncated": False} | {
        key: ours["observation"][key] for key in ("episode", "step", "state_hash")
    }
    record, theirs = ask(http, "GET", held, "episode"), ask(http, "GET", other, "episode")
    assert record["steps"] == theirs["steps"] and len(record["steps"]) == 1
    # the whole reply, its screenshot too, is there for whoever sends the step over our protocol
    again = ask(http, "POST", held, "step", {"episode": 1, "step": 0, "action": action})
    assert again == ours
    end = {"name": "browser_use", "arguments": {"action": "terminate", "status": "success"}}
    assert ask(http, "POST", held, "step", {"episode": 1, "step": 1, "action": end})["terminated"]
    verdict = ask(http, "POST", held, "evaluate")
    assert (verdict["outcome"], verdict["steps"]) == ("success", 2)

    async def late(client):
        with pytest.raises(MCPError) as refused:
            await client.call_tool("shop.checkout", {})
        return refused.value

    error = with_client(server, held, late)
    assert error.data["code"] == "episode_over"
    assert ask(http, "POST", held, "evaluate") == verdict


def test_a_named_step_is_carried_out_once_and_unnamed_ones_one_after_the_other(server, http, lease):
    held = lease(task="shop/add", seed=3)
    ask(http, "POST", held, "reset")
    put = ("shop.add_to_cart", {"thing": instantiate("virtual", "shop/add", 3).slots["add"], "amount": 1})

    async def body(client):
        meta = {"episode": 1, "step": 0}
        named = await asyncio.gather(*(client.call_tool(*put, meta=meta) for _ in range(3)))
        with pytest.raises(MCPError) as conflict:
            await client.call_tool("shop.checkout", {}, meta=meta)
        unnamed = await asyncio.gather(*(client.call_tool(*put) for _ in range(2)))
        return named, conflict.value, unnamed

    named, conflict, unnamed = with_client(server, held, body)
    assert {json.dumps([r.structured_content, r.meta["step"]]) for r in named} == {
        json.dumps([named[0].structured_content, 1])
    }
    assert conflict.data["code"] == "step_conflict"
    assert sorted(result.meta["step"] for result in unnamed) == [2, 3]
    amounts = [r.structured_content["result"]["amount"] for r in (named[0], *unnamed)]
    assert sorted(amounts) == [amounts[0], amounts[0] + 1, amounts[0] + 2]
    assert len(ask(http, "GET", held, "episode")["steps"]) == 3


def test_what_cannot_be_called_fails_counts_and_changes_nothing(server, http, lease):
    held = lease(tools=["shop.add_to_cart"])
    before = ask(http, "POST", held, "reset")

    async def body(client):
        assert await names(client) == ["shop.add_to_cart"]
        results = [
            await client.call_tool("shop.checkout", {}),  # of the app, and not offered here
            await client.call_tool("shop.add_to_cart", {"thing": 5}),
            await client.call_tool("shop.add_to_cart", {"thing": "<img src=x onerror=alert(1)>", "amount": 1}),
        ]
        with pytest.raises(MCPError) as gui:
            await client.call_tool("browser_use", {"action": "terminate", "status": "success"})
        with pytest.raises(MCPError) as place:
            await client.call_tool("shop.add_to_cart", {}, meta={"step": -1})
        return results, gui.value, place.value

    results, gui, place = with_client(server, held, body)
    for result in results:
        assert result.is_error and result.structured_content["success"] is False
        assert result.structured_content["error_message"] and result.structured_content["result"] is None
        assert result.meta["state_hash"] == before["state_hash"]
    assert results[0].structured_content["error_message"].startswith("unknown_tool")
    assert (gui.data["code"], place.data["code"]) == ("not_a_tool", "invalid_request")
    assert len(ask(http, "GET", held, "episode")["steps"]) == 3


def test_distractors_are_offered_fail_and_change_nothing(server, http, lease):
    plain, held, again, other = lease(), lease(distractors=4), lease(distractors=4), lease(distractors=4, seed=5)
    offered = [tool["function"]["name"] for tool in held["tools"]]
    foreign = [name for name in offered if name not in OWN]
    assert set(OWN) < set(offered) and len(foreign) == 4 == len(set(foreign))
    assert held["tools"] == again["tools"] != other["tools"] and len(plain["tools"]) == len(OWN)
    assert not any(name.startswith("shop.") for name in foreign)
    before = ask(http, "POST", held, "reset")
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in held["tools"]}
    sample = {"string": "apple", "integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}

    async def body(client):
        assert await names(client) == offered
        made = []
        for name in foreign[:2]:
            wanted = {key: schemas[name]["properties"][key] for key in schemas[name]["required"]}
            arguments = {key: kind.get("enum", [sample.get(kind.get("type"))])[0] for key, kind in wanted.items()}
            made.append(await client.call_tool(name, arguments))
        return made

    for number, result in enumerate(with_client(server, held, body), start=1):
        assert result.is_error and "does not apply" in result.structured_content["error_message"]
        assert result.meta["state_hash"] == before["state_hash"] and result.meta["step"] == number
    shot = http.get(f"/v1/sessions/{held['session']}/screenshot", headers={"Authorization": f"Bearer {held['token']}"})
    assert shot.content == base64.b64decode(before["screenshot"])
    body = {"task": TASK, "seed": 4, "distractors": 65}
    reply = http.post("/v1/sessions", json=body, headers={"Authorization": f"Bearer {server.token}"})
    assert reply.status_code == 422 and "distractors" in reply.json()["detail"]


def test_distractors_come_from_the_apps_of_every_suite():
    for suite, task in (("virtual", "files/move"), ("apps", next(iter(apps.tasks()))), ("libreoffice", "calc/sum")):
        instance = instantiate(suite, task, 4)
        foreign = [tool["function"]["name"] for tool in foreign_tools(instance)]
        own = {spec.name for spec in instance.tools}
        paged = [app.tools for part in (virtual.registry, apps.registry()) for app in part.values()]
        every = {spec.name for specs in (*paged, *libreoffice.SPECS.values()) for spec in specs}
        assert own and set(foreign) == every - own and len(foreign) == len(every) - len(own)


def test_only_the_session_s_own_token_opens_it(server, http, lease):
    held, other = lease(), lease()
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    accept = {"Accept": "application/json, text/event-stream"}
    for token in ("none", other["token"], server.token):
        reply = http.post(
            f"/v1/sessions/{held['session']}/mcp", json=body, headers={**accept, "Authorization": f"Bearer {token}"}
        )
        assert (reply.status_code, reply.json()["code"]) == (401, "unauthorized")
    ask(http, "DELETE", other)
    reply = http.post(
        f"/v1/sessions/{other['session']}/mcp",
        json=body,
        headers={**accept, "Authorization": f"Bearer {other['token']}"},
    )
    assert (reply.status_code, reply.json()["code"]) == (404, "unknown_session")

    async def before_reset(client):
        with pytest.raises(MCPError) as refused:
            await client.call_tool("shop.checkout", {})
        return refused.value

    assert with_client(server, held, before_reset).data["code"] == "no_episode"


def test_a_server_that_nobody_asks_for_mcp_does_not_load_it():
    program = "import sys, env_servers.server; sys.exit('mcp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
