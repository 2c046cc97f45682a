"""The server over HTTP, on real screens: leases, idempotent steps, verdicts and faults."""

import asyncio
import base64
import concurrent.futures
import dataclasses
import io
import os
import signal
import time

import httpx
import pytest
from PIL import Image
from prometheus_client.parser import text_string_to_metric_families
from wire import Held, good, refused

from env_servers.browser import Browser, BrowserLost
from env_servers.check import check
from env_servers.episode import prefix_progress
from env_servers.errors import UserError
from env_servers.leases import Refusal
from env_servers.orphans import browsers_of
from env_servers.protocol.messages import CreateSessions, StepRequest
from env_servers.server import ServerConfig, running_server
from env_servers.sessions import SessionStore
from env_servers.suites import SUITES, tasks

MOST = 12


@pytest.fixture(scope="module")
def server(chromium):
    with running_server(ServerConfig(port=0, max_sessions=MOST)) as server:
        yield server


@pytest.fixture(scope="module")
def http(server):
    with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as http:
        yield http


@pytest.fixture
def create(http, server):
    made = []

    def create(task="shop/set", seed=3, **more):
        body = {"suite": "virtual", "task": task, "seed": seed, "script": True, **more}
        reply = http.post("/v1/sessions", json=body, headers={"Authorization": f"Bearer {server.token}"})
        leases = [Held(http, lease) for lease in good(reply)]
        made.extend(leases)
        return leases

    yield create
    for held in made:
        held.close()


@pytest.fixture
def one(create):
    """A fresh session on a task whose checkpoint counts clicks: an amount in the cart must become exactly so much."""
    (held,) = create()
    held.reset()
    return held


def counters(http):
    families = text_string_to_metric_families(http.get("/metrics").text)
    return {(s.name, *sorted(s.labels.values())): s.value for family in families for s in family.samples}


# --- leases ----------------------------------------------------------------------------------------------------------
def test_open_endpoints(http):
    assert good(http.get("/livez")) == {"status": "alive"}
    assert good(http.get("/readyz"))["status"] == "ready"
    assert http.get("/docs").status_code == 200
    paths = good(http.get("/openapi.json"))["paths"]
    assert {"/v1/suites", "/v1/suites/{suite}/tasks", "/v1/sessions", "/v1/sessions/{session_id}/step"} <= set(paths)


def test_tasks_are_listed_with_what_a_run_needs(http, server):
    headers = {"Authorization": f"Bearer {server.token}"}
    assert good(http.get("/v1/suites", headers=headers)) == sorted(SUITES)
    listed = good(http.get("/v1/suites/virtual/tasks", headers=headers))
    known = tasks("virtual")
    assert [task["id"] for task in listed] == list(known)
    for task in listed:
        mine = known[task["id"]]
        assert {field: task[field] for field in ("device", "feasible", "max_steps", "tool_beneficial")} == {
            "device": mine.device,
            "feasible": mine.feasible,
            "max_steps": mine.max_steps,
            "tool_beneficial": mine.tool_beneficial,
        }


def test_tokens_open_only_their_own_door(http, server, create):
    first, second = create(count=2)
    body = {"task": "shop/set", "seed": 3}
    for headers in ({}, {"Authorization": "Bearer wrong"}, first.headers):
        refused(http.post("/v1/sessions", json=body, headers=headers), 401, "unauthorized")
        refused(http.get("/v1/suites", headers=headers), 401, "unauthorized")
    for headers in ({}, second.headers, {"Authorization": f"Bearer {server.token}"}):
        refused(http.post(f"{first.path}/reset", headers=headers), 401, "unauthorized")
    refused(http.post("/v1/sessions/nothing/reset", headers=first.headers), 404, "unknown_session")


def test_a_group_is_one_call_and_starts_from_one_screen(create):
    group = create(task="files/move", seed=9, count=4)
    assert len({held.lease["session"] for held in group}) == len({held.lease["token"] for held in group}) == 4
    assert len({(held.lease["instruction"], held.lease["generation"]) for held in group}) == 1
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        observations = list(pool.map(Held.reset, group))
    assert len({(o["state_hash"], o["screenshot"]) for o in observations}) == 1
    image = Image.open(io.BytesIO(base64.b64decode(observations[0]["screenshot"])))
    assert image.size == (observations[0]["width"], observations[0]["height"]) == (160, 128)
    assert (observations[0]["css_width"], observations[0]["css_height"]) == (160, 128)
    assert observations[0]["device_pixel_ratio"] == 1
    shot = group[1].http.get(f"{group[1].path}/screenshot", headers=group[1].headers)
    assert shot.headers["content-type"] == "image/png"
    assert shot.content == base64.b64decode(observations[0]["screenshot"])


def test_a_full_server_says_when_to_come_back(create, http, server):
    create(count=MOST - 1)
    headers = {"Authorization": f"Bearer {server.token}"}
    body = {"task": "shop/set", "seed": 3, "count": 2}
    reply = http.post("/v1/sessions", json=body, headers=headers)
    refused(reply, 429, "full")
    assert int(reply.headers["retry-after"]) >= 1
    create(count=1)
    refused(http.post("/v1/sessions", json={**body, "count": MOST + 1}, headers=headers), 422, "too_many_sessions")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"task": "shop/nothing", "seed": 1}, 404, "unknown_task"),
        ({"suite": "nowhere", "task": "shop/set", "seed": 1}, 404, "unknown_suite"),
        ({"task": "shop/set", "seed": 1, "tools": ["shop.fly"]}, 422, "unknown_tool"),
        ({"task": "shop/set", "seed": 10_000_000}, 422, "invalid_request"),
        ({"task": "shop/set", "seed": -1}, 422, "invalid_request"),
        ({"task": "shop/set"}, 422, "invalid_request"),
        ({"task": "shop/set", "seed": 1, "colour": "red"}, 422, "invalid_request"),
    ],
)
def test_a_bad_request_for_sessions_is_a_problem(http, server, body, status, code):
    reply = http.post("/v1/sessions", json=body, headers={"Authorization": f"Bearer {server.token}"})
    refused(reply, status, code)


def test_unknown_addresses_are_problems_too(http):
    refused(http.get("/v1/nowhere"), 404, "not_found")
    refused(http.put("/v1/sessions"), 405, "method_not_allowed")


def test_heartbeat_and_close(create):
    (held,) = create(ttl_s=1000)
    beat = good(held.post("heartbeat"))
    assert 0 < beat["expires_in_s"] <= 1000 and beat["generation"] == held.lease["generation"]
    assert held.close().status_code == 204
    refused(held.post("heartbeat"), 404, "unknown_session")


# --- steps -----------------------------------------------------------------------------------------------------------
def test_steps_sent_again_never_click_twice(one):
    """Every step of the script three times at once and once more later: the amount still comes out exactly (R31)."""
    sent = []
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        terminated = False
        while not terminated:
            action = good(one.post("script"))["action"]
            body = one.request(action)
            replies = list(pool.map(lambda body: one.post("step", body), [body] * 3))
            assert len({reply.content for reply in replies}) == 1
            terminated = good(replies[0])["terminated"]
            sent.append((body, replies[0].content))
            one.at += 1
    for body, reply in sent:
        assert one.post("step", body).content == reply
    verdict = good(one.post("evaluate"))
    assert (verdict["outcome"], verdict["score"], verdict["steps"]) == ("success", 1, len(sent))


def test_a_step_has_its_place(create):
    (held,) = create()
    refused(held.post("step", held.request(None, parse_error="no_call") | {"episode": 1}), 409, "no_episode")
    refused(held.post("evaluate"), 409, "no_episode")
    held.reset()
    click, wait = held.gui("click", coordinate=[10, 990]), held.gui("wait", time=0)
    good(held.step(click))
    refused(held.post("step", held.request(click) | {"step": 0, "action": wait}), 409, "step_conflict")
    refused(held.post("step", held.request(click) | {"step": 7}), 409, "wrong_step")
    refused(held.post("step", held.request(click) | {"episode": 2}), 409, "wrong_episode")
    held.reset()
    refused(held.post("step", held.request(click) | {"episode": 1}), 409, "wrong_episode")
    good(held.step(held.gui("terminate", status="success")))
    refused(held.step(click), 409, "episode_over")


@pytest.mark.parametrize("body", [{}, {"action": None}, {"action": {"name": "x"}}, {"parse_error": "no_call", "x": 1}])
def test_a_malformed_step_is_refused_and_does_not_count(one, body):
    refused(one.post("step", {"episode": one.episode, "step": 0, **body}), 422, "invalid_request")
    good(one.step(None, parse_error="no_call"))


def test_calls_that_cannot_be_carried_out_count_and_change_nothing(create):
    (held,) = create(task="shop/buy+set+checkout")
    before = held.reset()
    calls = [
        ("unknown_action", held.gui("fly")),
        ("missing_argument", held.gui("click")),
        ("bad_argument", held.gui("click", coordinate="here")),
        ("out_of_range", held.gui("click", coordinate=[5, 1001])),
        ("unknown_tool", {"name": "shop.checkout", "arguments": {}}),
        ("unsupported", held.gui("goto", url="http://example.org")),
    ]
    for number, (error, action) in enumerate(calls):
        reply = good(held.step(action))
        assert (reply["error"], reply["observation"]["step"]) == (error, number + 1)
    reply = good(held.step(None, parse_error="bad_json"))
    assert reply["error"] is None and reply["tool_result"] is None
    for field in ("state_hash", "screenshot"):
        assert reply["observation"][field] == before[field]


def test_tools_work_on_the_same_document(create):
    plain, tooled = create(task="shop/checkout", seed=4)[0], create(task="shop/checkout", seed=4, tools=True)[0]
    assert plain.lease["tools"] == []
    assert "shop.checkout" in [tool["function"]["name"] for tool in tooled.lease["tools"]]
    before = tooled.reset()
    wrong = good(tooled.step({"name": "shop.remove_from_cart", "arguments": {"thing": "nosuchthing"}}))
    assert wrong["tool_result"]["success"] is False and wrong["tool_result"]["error_message"]
    assert wrong["observation"]["tool_results"] == [wrong["tool_result"]]
    assert wrong["observation"]["state_hash"] == before["state_hash"]
    paid = good(tooled.step({"name": "shop.checkout", "arguments": {}}))
    assert paid["tool_result"]["success"] is True and paid["observation"]["screenshot"] != before["screenshot"]
    good(tooled.step(tooled.gui("terminate", status="success")))
    assert good(tooled.post("evaluate"))["outcome"] == "success"


def test_responses_come_back_as_they_were_sampled(one):
    click = one.gui("click", coordinate=[10, 990])
    good(one.step(click, response={"text": "Action: x", "token_ids": [5, 151645, 0]}))
    good(one.step(None, parse_error="no_call", response={"text": "hm"}))
    record = good(one.http.get(f"{one.path}/episode", headers=one.headers))
    assert [step["response"] for step in record["steps"]] == [
        {"text": "Action: x", "token_ids": [5, 151645, 0], "sampled": None},
        {"text": "hm", "token_ids": [], "sampled": None},
    ]
    assert [step["action"] for step in record["steps"]] == [click, None]
    assert (record["status"], record["episode"], record["steps"][1]["parse_error"]) == ("running", 1, "no_call")


def test_scripts_are_for_those_who_asked_for_them(create):
    (held,) = create(script=False)
    held.reset()
    refused(held.post("script"), 403, "script_disabled")


# --- verdicts --------------------------------------------------------------------------------------------------------
def play(held, ending, actions=0):
    """Some steps of the script, then `ending` (terminate's status) or none."""
    held.reset()
    for _ in range(actions):
        good(held.step(good(held.post("script"))["action"]))
    if ending:
        good(held.step(held.gui("terminate", status=ending)))
    return good(held.post("evaluate"))


@pytest.mark.parametrize(
    ("task", "ending", "actions", "outcome", "progress"),
    [
        ("shop/checkout", "success", 2, "success", 1),
        ("shop/checkout", "success", 1, "fail", 0),
        ("shop/checkout", "failure", 2, "fail", 1),
        ("shop/checkout", None, 2, "policy_timeout", 1),
        ("shop/checkout", None, 0, "policy_timeout", 0),
        ("shop/missing", "failure", 0, "success", 0),
        ("shop/missing", "success", 0, "fail", 0),
    ],
)
def test_outcomes(create, task, ending, actions, outcome, progress):
    verdict = play(*create(task=task), ending, actions)
    assert (verdict["outcome"], verdict["progress"], verdict["total"]) == (outcome, progress, 1)
    assert verdict["score"] == float(outcome == "success")
    assert verdict["checkpoints"] == ([2] if progress else [None])


def test_all_steps_used(create):
    held, silent, mixed = create(task="shop/checkout", count=3)
    for session, answers in ((held, "www"), (silent, "nnn"), (mixed, "wn")):
        session.reset()
        for number in range(session.lease["max_steps"]):
            if answers[number % len(answers)] == "n":
                reply = good(session.step(None, parse_error="no_call"))
            else:
                reply = good(session.step(session.gui("wait", time=0)))
            assert reply["truncated"] == (number + 1 == session.lease["max_steps"]) and not reply["terminated"]
    verdicts = [good(session.post("evaluate")) for session in (held, silent, mixed)]
    assert [verdict["outcome"] for verdict in verdicts] == ["step_limit", "format_fail", "step_limit"]
    assert [verdict["score"] for verdict in verdicts] == [0, 0, 0]
    assert verdicts[1]["parse_failures"] == silent.lease["max_steps"]


def test_a_verdict_is_found_once(create, http):
    (held,) = create(task="shop/checkout")
    before = counters(http)
    verdict = play(held, "success", 2)
    assert good(held.post("evaluate")) == verdict
    refused(held.step(held.gui("wait", time=0)), 409, "episode_over")
    assert good(held.post("evaluate")) == verdict
    after = counters(http)
    key = ("gui_rl_env_episodes_total", "success", "virtual")
    assert after[key] - before.get(key, 0) == 1
    again = play(held, "success", 0)
    assert again["outcome"] == "fail"


def test_metrics_count_what_happened(create, http):
    before = counters(http)
    (held,) = create(task="shop/checkout")
    play(held, "success", 2)
    after = counters(http)

    def more(*key):
        return after[("gui_rl_env_" + key[0], *key[1:])] - before.get(("gui_rl_env_" + key[0], *key[1:]), 0)

    assert more("steps_total", "web") == more("step_seconds_count") == 3
    assert more("resets_total") == more("sessions_created_total") == more("sessions") == 1
    assert after[("gui_rl_env_sessions_limit",)] == MOST


def test_prefix_progress_is_the_longest_prefix_ever_met():
    assert [prefix_progress(met) for met in ([], [None], [0], [3, 2], [1, None, 2], [None, 4])] == [0, 0, 1, 2, 1, 0]


def test_the_self_test_finds_every_task_right(chromium):
    wanted = ["shop/checkout", "shop/missing", "files/delete", "orders/show"]
    found = asyncio.run(check(task_ids=[name for name in wanted if name in tasks("virtual")], seeds=[11]))
    assert len(found) >= 12 and [str(trial) for trial in found if not trial.right] == []
    with pytest.raises(UserError, match="no task"):
        asyncio.run(check(task_ids=["shop/nothing"]))


# --- faults ----------------------------------------------------------------------------------------------------------
def test_a_killed_browser_is_an_outcome_of_its_own(create, http, server):
    held, idle = create(count=2)
    held.reset()
    idle.reset()
    click = held.gui("click", coordinate=[500, 500])
    good(held.step(click))
    (browser,) = browsers_of(server.pid)
    os.kill(browser, signal.SIGKILL)
    for session in (held, idle):
        body = session.request(session.gui("click", coordinate=[100, 900]))
        problem = refused(session.post("step", body), 500, "env_crash")
        assert problem.outcome == "env_crash"
        assert refused(session.post("step", body), 500, "env_crash") == problem
        verdict = good(session.post("evaluate"))
        assert (verdict["outcome"], verdict["score"]) == ("env_crash", None)
    assert good(http.get("/readyz"))["status"] == "ready"
    verdict = play(*create(task="shop/checkout"), "success", 2)
    assert verdict["outcome"] == "success"
    assert play(held, "success")["outcome"] == "fail"
    assert len(browsers_of(server.pid)) == 1


def in_store(body, *, clock=time.monotonic, **request):
    """Run `body(store, session)` on a session in this process."""

    async def play():
        async with Browser() as browser:
            store = SessionStore(browser, 4, clock=clock)
            (lease,) = await store.create(CreateSessions(task="shop/checkout", seed=3, **request))
            await body(store, store.get(lease.session, lease.token))

    asyncio.run(play())


def test_a_failing_predicate_is_the_grader_s_fault(chromium):
    def broken(state):
        raise KeyError("cart")

    async def body(store, session):
        whole = session.instance
        session.instance = dataclasses.replace(whole, final=broken)
        await store.reset(session)
        arguments = {"action": "terminate", "status": "success"}
        end = StepRequest(episode=1, step=0, action={"name": "browser_use", "arguments": arguments})
        await store.step(session, end)
        session.episode.first_met = [0]
        verdict = await store.evaluate(session)
        assert (verdict.outcome, verdict.score) == ("grader_error", None) and "KeyError" in verdict.detail

        session.instance = dataclasses.replace(whole, checkpoints=(broken,))
        with pytest.raises(Refusal) as refusal:
            await store.reset(session)
        assert refusal.value.outcome == "grader_error"
        assert (await store.evaluate(session)).outcome == "grader_error"

    in_store(body)


def test_a_reset_that_fails_is_said_and_scored_by_nobody(chromium, monkeypatch):
    async def body(store, session):
        async def lease(kind):
            raise BrowserLost("no page")

        with monkeypatch.context() as patch:
            patch.setattr(store.screens, "lease", lease)
            with pytest.raises(Refusal) as refusal:
                await store.reset(session)
        assert (refusal.value.code, refusal.value.outcome) == ("reset_failed", "reset_failed")
        verdict = await store.evaluate(session)
        assert (verdict.outcome, verdict.score) == ("reset_failed", None)
        assert (await store.reset(session)).episode == 2

    in_store(body)


def test_sessions_end_with_their_time(chromium):
    """Silence and the hard limit, on a clock that the test turns; a request breaks the silence, not the limit."""
    time_now = [0.0]

    async def at(store, now):
        time_now[0] = now
        return await store.reap()

    async def body(store, session):
        await store.reset(session)
        token, name = session.token, session.id
        for now in (9, 18, 27):
            assert await at(store, now) == 0
            store.get(name, token)
        assert await at(store, 38) == 1 and session.screen is None
        with pytest.raises(Refusal, match="unknown_session"):
            store.get(name, token)
        with pytest.raises(Refusal, match="unknown_session"):
            await store.reset(session)

        (lease,) = await store.create(CreateSessions(task="shop/checkout", seed=3, ttl_s=30, idle_s=10))
        for now in (46, 55, 64):
            assert await at(store, now) == 0
            store.get(lease.session, lease.token)
        assert await at(store, 67.9) == 0
        assert await at(store, 68) == 1
        text = store.metrics.text().decode()
        assert 'sessions_expired_total{reason="idle"} 1.0' in text
        assert 'sessions_expired_total{reason="ttl"} 1.0' in text

    in_store(body, clock=lambda: time_now[0], idle_s=10, ttl_s=1000)


def test_the_reaper_runs_by_itself(create, http, server):
    (held,) = create(idle_s=0.2)
    deadline = time.monotonic() + 30
    while http.get("/metrics").text.count('sessions_expired_total{reason="idle"}') == 0:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    refused(held.post("heartbeat"), 404, "unknown_session")


def test_a_session_of_an_earlier_run_is_told_so(create, http):
    (held,) = create()
    worker, generation, number = held.lease["session"].split("-")
    assert generation == held.lease["generation"]
    other = "0" * len(generation)
    problem = refused(
        http.post(f"/v1/sessions/{worker}-{other}-{number}/reset", headers=held.headers), 410, "lost_session"
    )
    assert problem.outcome == "env_crash" and generation in problem.detail
