"""Malformed requests at a live server: no 5xx, no hang (benchmarks/env_fuzz.py throws 5,000 actions)."""

import asyncio

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import checks
from schemathesis.specs.openapi import checks as openapi

from benchmarks.env_fuzz import fuzz
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
