"""Malformed requests at a live server: no 5xx, no hang (benchmarks/env_fuzz.py throws 5,000 actions)."""

import asyncio
import json
import random

import aiohttp
import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import checks
from schemathesis.specs.openapi import checks as openapi

from benchmarks.env_fuzz import fuzz, value
from env_servers.server import ServerConfig, running_server

ACTIONS = 400
EXAMPLES = 12  # of every operation


@pytest.fixture(scope="module")
def server(chromium):
    with running_server(ServerConfig(port=0)) as server:
        yield server


def test_malformed_actions_are_answered_and_break_nothing(server):
    found = asyncio.run(fuzz(server, ACTIONS, seed=1))
    assert found.bad == []
    assert sum(found.statuses.values()) == ACTIONS
    assert {200, 422} <= set(found.statuses) <= {200, 400, 409, 422}, found.statuses


SAID = [checks.not_a_server_error, openapi.status_code_conformance, openapi.content_type_conformance]


def test_every_operation_of_the_openapi_document_keeps_its_word(server):
    """Requests that schemathesis makes of the document, valid and not: no 5xx, and every reply has a status, a media
    type and a shape that the document says."""
    document = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    owner = {"Authorization": f"Bearer {server.token}"}
    with httpx.Client(base_url=server.url, headers=owner, timeout=60, trust_env=False) as http:
        body = {"task": "shop/set", "seed": 1, "script": True, "tools": True}
        (lease,) = http.post("/v1/sessions", json=body).json()
        played = set()
        for operation in (result.ok() for result in document.get_all_operations()):
            played.add(operation.label)
            if operation.label.startswith("DELETE"):
                continue  # ends the session that the others need
            asked = settings(
                max_examples=EXAMPLES,
                deadline=None,
                derandomize=True,
                database=None,
                suppress_health_check=list(HealthCheck),
            )

            def keeps_its_word(case):
                headers = owner
                if "session_id" in case.path_parameters:
                    case.path_parameters["session_id"] = lease["session"]
                    headers = {"Authorization": f"Bearer {lease['token']}"}
                case.call_and_validate(headers=headers, checks=[*SAID, openapi.response_schema_conformance], timeout=20)

            asked(given(case=operation.as_strategy())(keeps_its_word))()
        assert {"POST /v1/sessions", "POST /v1/sessions/{session_id}/step", "GET /metrics"} <= played
        assert http.get("/readyz").status_code == 200


def malformed(rng, like):
    """A message like this one with something else in it, as text; sometimes no JSON at all."""
    message = {**like, rng.choice([*like, "x"]): value(rng)}
    text = json.dumps(rng.choice((message, message, message, value(rng))))
    return rng.choice((text, text, text, text[: rng.randrange(len(text) + 1)], "[" * 20_000, "\x00"))


def test_malformed_messages_leave_an_openenv_connection_usable(server):
    async def play():
        rng = random.Random(3)
        headers = {"Authorization": f"Bearer {server.token}"}
        async with aiohttp.ClientSession() as http:
            async with http.ws_connect(f"{server.url}/openenv/ws", headers=headers) as socket:

                async def ask(text):
                    await socket.send_str(text)
                    return json.loads((await socket.receive(20)).data)

                good = {"task": "shop/set", "seed": 1}
                for _ in range(40):
                    kinds = [
                        {"type": "reset", "data": {**good, rng.choice(["seed", "task", "ttl", "tools"]): value(rng)}},
                        {"type": "step", "data": {"name": "browser_use", "arguments": value(rng)}},
                        {"type": "state", "data": value(rng)},
                    ]
                    for like in kinds:
                        assert (await ask(malformed(rng, like)))["type"] in ("observation", "state", "error")
                reply = await ask(json.dumps({"type": "reset", "data": {**good, "suite": "virtual", "tools": False}}))
                assert reply["data"]["observation"]["step"] == 0, reply

    asyncio.run(play())


def test_malformed_calls_of_mcp_are_no_server_errors(server):
    rng = random.Random(4)
    accept = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    with httpx.Client(base_url=server.url, timeout=20, trust_env=False) as http:
        owner = {"Authorization": f"Bearer {server.token}"}
        body = {"task": "shop/set", "seed": 1, "tools": True}
        (lease,) = http.post("/v1/sessions", json=body, headers=owner).json()
        path, mine = f"/v1/sessions/{lease['session']}", {"Authorization": f"Bearer {lease['token']}"}
        statuses = set()
        for number in range(60):
            if number % 10 == 0:
                assert http.post(f"{path}/reset", headers=mine).status_code == 200
            params = {"name": "shop.checkout", "arguments": value(rng), "_meta": value(rng)}
            call = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
            text = malformed(rng, call).encode()
            statuses.add(http.post(f"{path}/mcp", content=text, headers={**mine, **accept}).status_code)
        assert max(statuses) < 500, statuses
        listed = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        reply = http.post(f"{path}/mcp", json=listed, headers={**mine, **accept})
        assert [tool["name"] for tool in reply.json()["result"]["tools"]] == [
            tool["function"]["name"] for tool in lease["tools"]
        ]
