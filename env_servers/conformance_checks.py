"""The checks of `conformance`, in the order in which they run; each is told by its name and one sentence."""

from __future__ import annotations

import asyncio
import re
import time

from prometheus_client.parser import text_string_to_metric_families
from pydantic import TypeAdapter

from .conformance import Broken, Held, NotTried, Wire, check, expect, picture, sized
from .protocol.messages import EpisodeReply, EvaluateReply, Heartbeat, Lease, Problem, StepReply, TaskInfo
from .suites.suite import SWITCH

CALLS = {
    "/livez", "/readyz", "/metrics", "/v1/suites", "/v1/suites/{}/tasks", "/v1/sessions", "/v1/sessions/{}",
    *(f"/v1/sessions/{{}}/{what}" for what in ("reset", "step", "screenshot", "evaluate", "heartbeat", "episode")),
}  # fmt: skip
METRICS = {"gui_rl_env_sessions", "gui_rl_env_sessions_created_total", "gui_rl_env_steps_total"}
MOST_HELD, AT_A_TIME = 1024, 16  # sessions that `full` takes before it gives up
PATIENCE_S = 15.0  # for a reaper to come round


@check("alive")
async def alive(wire: Wire) -> str:
    """/livez and /readyz answer without a token, and the OpenAPI document has every call of the protocol."""
    (await wire.ask("GET", "/livez")).good()
    (await wire.ask("GET", "/readyz")).good()
    paths = (await wire.ask("GET", "/openapi.json")).good().get("paths", {})
    missing = CALLS - {re.sub(r"{\w+}", "{}", path) for path in paths}
    expect(not missing, f"the OpenAPI document lacks {', '.join(sorted(missing))}")
    return f"alive and ready; {len(paths)} paths in the OpenAPI document"


@check("tasks")
async def tasks(wire: Wire) -> str:
    """Suites and tasks are listed with what a run needs."""
    suites = (await wire.owner("GET", "/v1/suites")).good(list[str])
    expect(wire.suite in suites, f"suite {wire.suite!r} has tasks and is not listed")
    listed = (await wire.owner("GET", f"/v1/suites/{wire.suite}/tasks")).good(TypeAdapter(list[TaskInfo]))
    expect(len({task.id for task in listed}) == len(listed), "two tasks have one id")
    expect(all(task.max_steps > 0 and task.tool_beneficial in (1, -1) for task in listed), "a task has no sense")
    return f"{len(suites)} suites, {len(listed)} tasks in {wire.suite}"


@check("tokens")
async def tokens(wire: Wire) -> str:
    """Nothing is done without the right token: the server's for leases, a session's own for the rest."""
    first, second = await wire.create(count=2)
    opened = 0
    for token in ("", "wrong", first.lease.token):
        for method, path, body in (("POST", "/v1/sessions", wire.wanted()), ("GET", "/v1/suites", None)):
            reply = await wire.ask(method, path, body, token)
            if not token and reply.status < 300:
                opened += 1  # a server may be open to all
                continue
            expect(opened or reply.status == 401, f"{reply.what} answers {reply.status} to a wrong token")
    calls = [("POST", what) for what in ("reset", "step", "evaluate", "heartbeat")]
    calls += [("GET", "screenshot"), ("GET", "episode"), ("DELETE", "")]
    for method, what in calls:
        body = {"episode": 1, "step": 0, "parse_error": "no_call"} if what == "step" else None
        for token in ("", "wrong", second.lease.token, wire.token):
            (await first.ask(method, what, body, token=token)).refused(401, "unauthorized")
    return f"{len(calls)} calls refused four wrong tokens each" + (" (leases are open to all)" if opened else "")


@check("lease")
async def lease(wire: Wire) -> str:
    """A group is one call: as many sessions as asked, each with a name and a token of its own, on one task and seed."""
    group = await wire.create(count=3)
    expect(len(group) == 3, f"count 3 gives {len(group)} sessions")
    leases = [held.lease for held in group]
    expect(len({one.session for one in leases}) == len({one.token for one in leases}) == 3, "two sessions share a name")
    shared = {(one.task, one.seed, one.instruction, one.max_steps, one.total) for one in leases}
    expect(len(shared) == 1, "the sessions of a group differ")
    expect((leases[0].task, leases[0].seed) == (wire.task, wire.seed), "the lease is on another task or seed")
    return f"three sessions of {leases[0].device}, {leases[0].max_steps} steps, {leases[0].total} checkpoints"


@check("generation")
async def generation(wire: Wire) -> str:
    """The run of the server that holds a session has one name: in the lease and in every heartbeat."""
    held = await wire.one()
    beat = (await held.ask("POST", "heartbeat")).good(Heartbeat)
    again = (await held.ask("POST", "heartbeat")).good(Heartbeat)
    seen = {held.lease.generation, beat.generation, again.generation}
    expect(len(seen) == 1 and held.lease.generation, f"one session names {len(seen)} generations")
    return held.lease.generation


@check("observation")
async def observation(wire: Wire) -> str:
    """The screen is a PNG of the size that is said, the same one at /screenshot."""
    held = await wire.one()
    (await held.ask("GET", "screenshot")).refused(409, "no_episode")
    seen = await held.reset()
    sized(seen)
    expect((seen.step, seen.device) == (0, held.lease.device), "the first observation is not of step 0 of this device")
    expect(bool(seen.instruction), "the observation has no instruction")
    shot = await held.ask("GET", "screenshot")
    expect(shot.headers.get("content-type") == "image/png", "/screenshot is not image/png")
    expect(shot.body == picture(seen), "/screenshot shows something else than the observation")
    return f"{seen.width}x{seen.height} px, {len(picture(seen)) // 1000} kB"


@check("determinism")
async def determinism(wire: Wire) -> str:
    """The same task and seed begin with the same state hash and pixels: in a group and after a second reset."""
    held = await wire.create(count=2)
    seen = [await one.reset() for one in (*held, held[0])]
    expect(len({one.state_hash for one in seen}) == 1, "the same seed gives different state hashes")
    expect(len({picture(one) for one in seen}) == 1, "the same seed gives different pixels")
    expect([one.episode for one in seen] == [seen[0].episode] * 2 + [seen[0].episode + 1], "a reset keeps the episode")
    return f"three resets, one state {seen[0].state_hash[:12]}"


@check("steps")
async def steps(wire: Wire) -> str:
    """A step has its place: the present episode, the next number, one action."""
    held = await wire.one()
    body = {"episode": 1, "step": 0, "action": held.gui("wait", time=0)}
    (await held.ask("POST", "step", body)).refused(409, "no_episode")
    await held.reset()
    reply = await held.step(held.gui("wait", time=0))
    expect(reply.observation.step == 1, "the observation after step 0 is not numbered 1")
    other = held.gui("terminate", status="failure")
    for change, code in (({"step": 7}, "wrong_step"), ({"episode": held.episode + 1}, "wrong_episode")):
        (await held.ask("POST", "step", held.request(other) | change)).refused(409, code)
    (await held.ask("POST", "step", held.request(other) | {"step": 0})).refused(409, "step_conflict")
    expect((await held.step(other)).terminated, "terminate does not terminate")
    (await held.ask("POST", "step", held.request(other))).refused(409, "episode_over")
    return "wrong_step, wrong_episode, step_conflict, no_episode and episode_over are told apart"


@check("idempotent")
async def idempotent(wire: Wire) -> str:
    """A step that is sent again, at the same time or later, gets the stored reply and is carried out once."""
    held = await wire.one()
    await held.reset()
    middle = {"coordinate": [500, 500]}
    click = held.gui("left_click" if held.lease.device == "desktop" else "click", **middle)
    body = held.request(click)
    replies = list(await asyncio.gather(*(held.ask("POST", "step", body) for _ in range(3))))
    first, held.at = replies[0].good(StepReply), 1
    if not (first.terminated or first.truncated):  # a click into the middle may end a task
        await held.step(held.gui("wait", time=0))
    replies.append(await held.ask("POST", "step", body))
    expect(all(reply.good(StepReply) == first for reply in replies), "a step sent again has another reply")
    record = (await held.ask("GET", "episode")).good(EpisodeReply)
    expect(len(record.steps) == held.at, f"four sendings of one step are kept as {len(record.steps) - held.at + 1}")
    return "three at once and one later: one step"


@check("actions")
async def actions(wire: Wire) -> str:
    """A call that cannot be carried out counts as a step, says why, and changes nothing."""
    held = await wire.one()
    before = await held.reset()
    wrong = {
        "unknown_action": held.gui("fly"),
        "missing_argument": {"name": held.gui("x")["name"], "arguments": {}},
        "bad_argument": held.gui("type", text=5),
        "unknown_tool": {"name": "nobody.nothing", "arguments": {}},
    }
    for number, (error, action) in enumerate(list(wrong.items())[: held.lease.max_steps - 1], start=1):
        reply = await held.step(action)
        expect(reply.error == error, f"{action} is answered by {reply.error}, not {error}")
        expect(reply.observation.step == number, "a call that failed does not count")
        expect(reply.observation.state_hash == before.state_hash, f"{error} changes the state")
    return ", ".join(list(wrong)[: held.lease.max_steps - 1])


@check("record")
async def record(wire: Wire) -> str:
    """What the policy said comes back with the episode as it was sampled, token ids too."""
    held = await wire.one()
    await held.reset()
    said = {"text": "Action: wait <|im_end|> \u00e9", "token_ids": [5, 151645, 0]}
    action = held.gui("wait", time=0)
    await held.step(action, response=said)
    await held.step(None, parse_error="no_call", response={"text": "hm"})
    kept = (await held.ask("GET", "episode")).good(EpisodeReply).steps
    expect([one.response and one.response.token_ids for one in kept] == [said["token_ids"], []], "token ids are lost")
    expect(kept[0].response.text == said["text"] and kept[0].action.model_dump() == action, "a step is kept otherwise")
    expect((kept[1].action, kept[1].parse_error) == (None, "no_call"), "a parse error is kept otherwise")
    return "text, token ids, actions and parse errors"


@check("evaluate_once")
async def evaluate_once(wire: Wire) -> str:
    """The verdict is found once, never changes, and ends the episode; a reset begins another one."""
    held = await wire.one()
    (await held.ask("POST", "evaluate")).refused(409, "no_episode")
    await held.reset()
    verdicts = await asyncio.gather(*(held.evaluate() for _ in range(2)))
    verdicts.append(await held.evaluate())
    expect(all(one == verdicts[0] for one in verdicts), "scoring twice gives two verdicts")
    expect(verdicts[0].outcome == "policy_timeout", f"an episode that nobody ended is {verdicts[0].outcome}")
    (await held.ask("POST", "step", held.request(held.gui("wait", time=0)))).refused(409, "episode_over")
    await held.reset()
    await held.step(held.gui("wait", time=0))
    return "three requests, one verdict"


@check("outcomes")
async def outcomes(wire: Wire) -> str:
    """Each end has its own outcome; doing nothing is no success; progress and checkpoints agree."""
    found: dict[str, EvaluateReply] = {}
    for ending in ("failure", "success"):
        held = await wire.one()
        await held.reset()
        await held.step(held.gui("terminate", status=ending))
        found[f"terminate({ending}) at once"] = await held.evaluate()
    for what, parse_error in (("waiting", None), ("silence", "no_call")):
        held = await wire.one()
        await held.reset()
        for number in range(held.lease.max_steps):
            action = None if parse_error else held.gui("wait", time=0)
            reply = await held.step(action, **({"parse_error": parse_error} if parse_error else {}))
            expect(reply.truncated == (number + 1 == held.lease.max_steps), "truncated is not said at the last step")
        found[what] = await held.evaluate()
    wanted = dict(zip(found, ("fail", "fail", "step_limit", "format_fail"), strict=True))
    for what, verdict in found.items():
        expect(verdict.outcome == wanted[what], f"{what} is {verdict.outcome}, not {wanted[what]}")
        expect(verdict.score == 0, f"{what} scores {verdict.score}")
        met = [step is not None for step in verdict.checkpoints]
        expect(verdict.progress == (met + [False]).index(False), "progress is not the prefix of checkpoints met")
    return ", ".join(sorted(set(wanted.values())))


@check("script")
async def script(wire: Wire) -> str:
    """Scripted moves are for those who asked, and solve the task."""
    closed = await wire.one()
    await closed.reset()
    reply = await closed.ask("POST", "script")
    if reply.status in (404, 405):
        raise NotTried("the server has no scripts")
    reply.refused(403, "script_disabled")
    held = await wire.one(script=True)
    await held.reset()
    for _ in range(held.lease.max_steps):
        move = (await held.ask("POST", "script")).good()
        done = await held.step(move["action"])
        if done.terminated or done.truncated:
            break
    verdict = await held.evaluate()
    expect((verdict.outcome, verdict.score) == ("success", 1), f"the script ends as {verdict.outcome}")
    expect(verdict.progress == verdict.total, f"the script meets {verdict.progress} of {verdict.total} checkpoints")
    return f"{wire.task} solved in {verdict.steps} steps"


@check("tools")
async def tools(wire: Wire) -> str:
    """Tools are offered as asked: none, all, or some; one that is not offered cannot be called."""
    plain, all_of_them = await wire.one(), await wire.one(tools=True)
    own = [tool for tool in plain.lease.tools if tool["function"]["name"] != SWITCH]  # the server's, of two devices
    expect(own == [], "tools are offered that nobody asked for")
    names = [name for tool in all_of_them.lease.tools if (name := tool["function"]["name"]) != SWITCH]
    (await wire.owner("POST", "/v1/sessions", wire.wanted(tools=["nobody.nothing"]))).refused(422, "unknown_tool")
    if not names:
        raise NotTried(f"{wire.task} has no tools")
    some = await wire.one(tools=names[:1])
    offered = [tool for tool in some.lease.tools if tool["function"]["name"] != SWITCH]
    expect([tool["function"]["name"] for tool in offered] == names[:1], "other tools are offered than asked for")
    await some.reset()
    if names[1:]:
        reply = await some.step({"name": names[1], "arguments": {}})
        expect(reply.error in ("unknown_tool", "missing_argument"), "a tool that is not offered can be called")
    schema = offered[0]["function"]["parameters"]
    sample = {"string": "x", "integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}
    arguments = {name: sample[schema["properties"][name]["type"]] for name in schema.get("required", ())}
    reply = await some.step({"name": names[0], "arguments": arguments})
    shaped = reply.tool_result is None or {"success", "result", "error_message"} <= set(reply.tool_result)
    expect(shaped and (reply.tool_result or reply.error), "a tool's result lacks success, result or error_message")
    return ", ".join(names)


@check("problems")
async def problems(wire: Wire) -> str:
    """Every error is problem JSON (RFC 9457) with a stable code."""
    held = await wire.one()
    await held.reset()
    step = f"/v1/sessions/{held.lease.session}/step"
    asked = [
        (wire.owner("POST", "/v1/sessions", wire.wanted(task="no/such")), 404, "unknown_task"),
        (wire.owner("POST", "/v1/sessions", wire.wanted(suite="nowhere")), 404, "unknown_suite"),
        (wire.owner("POST", "/v1/sessions", wire.wanted(seed=-1)), 422, "invalid_request"),
        (wire.owner("POST", "/v1/sessions", wire.wanted(colour="red")), 422, "invalid_request"),
        (wire.owner("GET", "/v1/suites/nowhere/tasks"), 404, "unknown_suite"),
        (wire.ask("POST", "/v1/sessions/nothing/reset", None, "x"), 404, "unknown_session"),
        (wire.ask("POST", step, {}, held.lease.token), 422, "invalid_request"),
        (wire.ask("POST", step, held.request(None), held.lease.token), 422, "invalid_request"),
        (wire.ask("GET", "/v1/nowhere", None, wire.token), 404, "not_found"),
    ]
    for reply, status, code in [(await request, status, code) for request, status, code in asked]:
        reply.refused(status, code)
        kind = reply.headers.get("content-type", "").split(";")[0]
        expect(kind == "application/problem+json", f"{reply.what} answers {code} as {kind}")
        expect(
            Problem.model_validate_json(reply.body).status == status, f"{reply.what} says another status in its problem"
        )
    for broken in (b"{", b"\xff", b"[" * 5000):
        reply = await wire.ask("POST", step, broken, held.lease.token)
        expect(400 <= reply.status < 500, f"{reply.what} answers {reply.status} to a body that is no JSON")
    await held.step(held.gui("wait", time=0))
    return f"{len(asked)} errors, none of them counted as a step"


@check("metrics")
async def metrics(wire: Wire) -> str:
    """/metrics is Prometheus text that counts sessions and steps."""

    async def values() -> dict[str, float]:
        reply = await wire.ask("GET", "/metrics")
        expect(reply.status == 200, f"/metrics answers {reply.status}")
        try:
            families = list(text_string_to_metric_families(reply.body.decode()))
        except ValueError as error:
            raise Broken(f"/metrics is not in Prometheus' text format: {error}") from error
        found: dict[str, float] = {}
        for family in families:
            for sample in family.samples:
                found[sample.name] = found.get(sample.name, 0) + sample.value
        return found

    before = await values()
    held = await wire.one()
    await held.reset()
    await held.step(held.gui("wait", time=0))
    after = await values()
    expect(METRICS <= set(after), f"/metrics lacks {', '.join(sorted(METRICS - set(after)))}")
    for name in ("gui_rl_env_sessions_created_total", "gui_rl_env_steps_total"):
        expect(after[name] >= before.get(name, 0) + 1, f"{name} does not count")
    return f"{len(after)} series"


@check("close")
async def close(wire: Wire) -> str:
    """A session that was ended is gone."""
    held = await wire.one()
    await held.reset()
    expect((await held.ask("DELETE")).status == 204, "DELETE does not answer 204")
    (await held.ask("POST", "heartbeat")).refused(404, "unknown_session")
    return "204, then 404 unknown_session"


@check("expiry")
async def expiry(wire: Wire) -> str:
    """A session ends at its hard limit, heartbeats or not, and earlier when its owner is silent."""
    busy, silent, kept = await wire.one(ttl_s=1.5), await wire.one(idle_s=0.5), await wire.one(ttl_s=600)
    beat = (await busy.ask("POST", "heartbeat")).good(Heartbeat)
    expect(0 < beat.expires_in_s <= 1.5, f"a session of 1.5 s says that it has {beat.expires_in_s} s left")
    started = time.monotonic()
    while (reply := await busy.ask("POST", "heartbeat")).status == 200:
        expect(time.monotonic() - started < PATIENCE_S, "a session outlives its ttl_s")
        await asyncio.sleep(0.2)
    reply.refused(404, "unknown_session")
    (await silent.ask("POST", "heartbeat")).refused(404, "unknown_session")
    (await kept.ask("POST", "heartbeat")).good(Heartbeat)
    return f"ttl_s and idle_s hold; the reaper came within {time.monotonic() - started:.1f} s"


@check("full")
async def full(wire: Wire) -> str:
    """A full server says 429 with Retry-After, keeps what it has, and takes another session when one has ended."""
    count = AT_A_TIME
    while len(wire.sessions) < MOST_HELD:
        reply = await wire.owner("POST", "/v1/sessions", wire.wanted(count=count))
        if reply.status == 201:
            wire.sessions += [Held(wire, one) for one in reply.good(TypeAdapter(list[Lease]))]
        elif count > 1:
            count //= 2  # a group is all or none
        else:
            break
    else:
        raise NotTried(f"not full with {MOST_HELD} sessions")
    reply.refused(429, "full")
    wait = reply.headers.get("retry-after", "")
    expect(wait.isdigit() and int(wait) >= 1, f"429 comes with Retry-After {wait!r}")
    holds = len(wire.sessions)
    first = wire.sessions.pop(0)
    await first.ask("DELETE")
    await wire.one()
    (await wire.sessions[0].ask("POST", "heartbeat")).good(Heartbeat)
    return f"full with {holds} sessions; Retry-After {wait} s"
