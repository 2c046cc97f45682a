"""The conformance suite: our server passes it, and a server that breaks one thing fails just the check of that name."""

import asyncio
import contextlib
import json
import secrets
import socket
from collections import defaultdict

import pytest
import uvicorn

from env_servers import conformance
from env_servers.conformance import CHECKS, run_checks
from env_servers.errors import UserError
from env_servers.routes import ServerConfig, create_app
from gui_rl.cli import main

TASK, TOKEN = "shop/checkout", "the server's token"


class Spoiled:
    """ASGI middleware around a good server: `before` may change a request, `after` a reply."""

    def __init__(self, app):
        self.app = app

    def before(self, method, path, headers, body):
        return headers, body

    def after(self, method, path, sent, status, headers, body):
        return status, headers, body

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        method, path, raw, more = scope["method"], scope["path"], b"", True
        while more:
            message = await receive()
            raw, more = raw + message.get("body", b""), message.get("more_body", False)
        headers, raw = self.before(method, path, dict(scope["headers"]), raw)
        headers[b"content-length"] = str(len(raw)).encode()
        start, content = {}, []

        async def again():
            return {"type": "http.request", "body": raw, "more_body": False}

        async def keep(message):
            if message["type"] == "http.response.start":
                start.update(message)
            else:
                content.append(message.get("body", b""))

        await self.app({**scope, "headers": list(headers.items())}, again, keep)
        replied = (start["status"], dict(start["headers"]), b"".join(content))
        status, headers, body = self.after(method, path, raw, *replied)
        headers[b"content-length"] = str(len(body)).encode()
        await send({"type": "http.response.start", "status": status, "headers": list(headers.items())})
        await send({"type": "http.response.body", "body": body})


def spoil(change):
    """A server that changes the JSON of its replies: change(method, path, status, document) does so in place."""

    class Changed(Spoiled):
        def after(self, method, path, sent, status, headers, body):
            if body[:1] in (b"{", b"["):
                document = json.loads(body)
                new = change(method, path, status, document)
                body = json.dumps(document).encode()
                status = new or status
            return status, headers, body

    return Changed


class OpenDoors(Spoiled):
    """Any token opens a session."""

    def __init__(self, app):
        super().__init__(app)
        self.known = {}

    def before(self, method, path, headers, body):
        token = self.known.get(path.split("/")[3]) if path.startswith("/v1/sessions/") else None
        return (headers | {b"authorization": f"Bearer {token}".encode()} if token else headers), body

    def after(self, method, path, sent, status, headers, body):
        if path == "/v1/sessions" and status == 201:
            self.known |= {lease["session"]: lease["token"] for lease in json.loads(body)}
        return status, headers, body


class Twice(Spoiled):
    """A step that comes again has another reply."""

    def __init__(self, app):
        super().__init__(app)
        self.seen = set()

    def after(self, method, path, sent, status, headers, body):
        if path.endswith("/step") and status == 200:
            if (path, sent) in self.seen:
                document = json.loads(body)
                document["observation"]["state_hash"] = secrets.token_hex(8)
                body = json.dumps(document).encode()
            self.seen.add((path, sent))
        return status, headers, body


class Fickle(Spoiled):
    """The same seed has another state hash every time; within an episode it keeps its word."""

    def __init__(self, app):
        super().__init__(app)
        self.names = defaultdict(dict)

    def after(self, method, path, sent, status, headers, body):
        what = path.split("/")[-1]
        if what in ("reset", "step") and status == 200:
            document = json.loads(body)
            seen, names = document if what == "reset" else document["observation"], self.names[path.split("/")[3]]
            if what == "reset":
                names.clear()
            seen["state_hash"] = names.setdefault(seen["state_hash"], secrets.token_hex(8))
            body = json.dumps(document).encode()
        return status, headers, body


class SecondThoughts(Spoiled):
    """Scored again, an episode has taken another number of steps."""

    def __init__(self, app):
        super().__init__(app)
        self.times = defaultdict(int)

    def after(self, method, path, sent, status, headers, body):
        if path.endswith("/evaluate") and status == 200:
            document = json.loads(body) | {"steps": self.times[path]}
            self.times[path] += 1
            body = json.dumps(document).encode()
        return status, headers, body


class Immortal(Spoiled):
    """Sessions have no limits."""

    def before(self, method, path, headers, body):
        if path == "/v1/sessions" and body.startswith(b"{"):
            body = json.dumps({k: v for k, v in json.loads(body).items() if k not in ("ttl_s", "idle_s")}).encode()
        return headers, body

    def after(self, method, path, sent, status, headers, body):
        if path.endswith("/heartbeat") and status == 200:
            body = json.dumps(json.loads(body) | {"expires_in_s": 1.0}).encode()
        return status, headers, body


class Headers(Spoiled):
    """Replies lose a header, or have another media type."""

    def __init__(self, app, lost=b"", media=None):
        super().__init__(app)
        self.lost, self.media = lost, media

    def after(self, method, path, sent, status, headers, body):
        headers = {name: value for name, value in headers.items() if name != self.lost}
        if self.media and status >= 400:
            headers[b"content-type"] = self.media
        return status, headers, body


class Welcome(Spoiled):
    """The end of a session is answered by 200."""

    def after(self, method, path, sent, status, headers, body):
        return (200 if status == 204 else status), headers, body


class Uncounted(Spoiled):
    """Steps are missing in the metrics."""

    def after(self, method, path, sent, status, headers, body):
        if path == "/metrics":
            body = b"\n".join(line for line in body.split(b"\n") if b"gui_rl_env_steps_total" not in line)
        return status, headers, body


def change_if(ends, change, code=None):
    """Changes replies of addresses with this end; those problems alone that have `code`, where one is given."""

    def changed(method, path, status, document):
        fits = isinstance(document, dict) and document.get("code") == code if code else status < 300
        return change(document) if path.endswith(ends) and fits else None

    return spoil(changed)


def other_seed(leases):
    if len(leases) == 3:
        leases[1]["seed"] += 1


def no_reason(reply):
    if reply["error"] == "unknown_action":
        reply["error"] = None


def ascii_only(record):
    for step in record["steps"]:
        if step["response"]:
            step["response"]["text"] = step["response"]["text"].encode("ascii", "ignore").decode()


def blunt(verdict):
    verdict["outcome"] = verdict["outcome"].replace("format_fail", "fail")


def one_device(reply):
    """Whatever is in front, the observation calls it a phone."""
    reply["observation"]["device"] = "mobile"


BROKEN = {
    "alive": change_if("/livez", lambda document: 503),
    "tasks": change_if("/tasks", lambda listed: listed[0].update(tool_beneficial=0)),
    "tokens": OpenDoors,
    "lease": change_if("/sessions", other_seed),
    "generation": change_if("/heartbeat", lambda beat: beat.update(generation=secrets.token_hex(8))),
    "observation": change_if("/reset", lambda seen: seen.update(width=seen["width"] + 1)),
    "determinism": Fickle,
    "steps": change_if("/step", lambda problem: problem.update(code="conflict"), "wrong_step"),
    "idempotent": Twice,
    "actions": change_if("/step", no_reason),
    "record": change_if("/episode", ascii_only),
    "evaluate_once": SecondThoughts,
    "outcomes": change_if("/evaluate", blunt),
    "script": change_if("/script", lambda problem: 200, "script_disabled"),
    "tools": change_if("/step", lambda reply: (reply["tool_result"] or {}).pop("error_message", None) and None),
    "problems": lambda app: Headers(app, media=b"application/json"),
    "metrics": Uncounted,
    "close": Welcome,
    "expiry": Immortal,
    "full": lambda app: Headers(app, lost=b"retry-after"),
    "devices": change_if("/step", one_device),
}


class Quiet(uvicorn.Server):
    """Leaves signals to the test's own process."""

    def capture_signals(self):
        return contextlib.nullcontext()


@contextlib.asynccontextmanager
async def served(browser, broken=None):
    """A server in this process, its URL; all share one browser."""
    app = create_app(ServerConfig(token=TOKEN, max_sessions=6), browser)
    with socket.create_server(("127.0.0.1", 0)) as bound:
        server = Quiet(uvicorn.Config(broken(app) if broken else app, log_level="warning", access_log=False))
        serving = asyncio.create_task(server.serve([bound]))
        while not server.started:
            assert not serving.done()
            await asyncio.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            server.should_exit = True
            await serving


@pytest.fixture(scope="module")
def verdicts(run, browser):
    """What the suite finds on the good server (None) and on every broken one, all at the same time."""

    class Shared:
        """The one browser, which no server starts or stops."""

        def __getattr__(self, name):
            return getattr(browser, name)

        async def start(self):
            return None

        stop = start

    async def one(gate, name):
        async with gate, served(Shared(), BROKEN.get(name)) as url:
            return name, await run_checks(url, TOKEN, task=TASK)

    async def all_of_them():
        gate = asyncio.Semaphore(7)
        return dict(await asyncio.gather(*(one(gate, name) for name in (None, *BROKEN))))

    return run(all_of_them())


def test_our_server_does_what_the_protocol_says(verdicts):
    assert [str(verdict) for verdict in verdicts[None] if not verdict.ok] == []
    assert [verdict.name for verdict in verdicts[None]] == list(CHECKS)
    assert all(verdict.says and "\n" not in verdict.says for some in verdicts.values() for verdict in some)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_server_fails_just_the_check_of_that_name(verdicts, name):
    assert [verdict.name for verdict in verdicts[name] if verdict.ok is False] == [name], [
        str(verdict) for verdict in verdicts[name] if not verdict.ok
    ]


def test_every_check_has_been_broken():
    assert set(CHECKS) == set(BROKEN)


def test_the_command_says_a_line_a_check_and_ends_with_a_code(monkeypatch, capsys):
    def found(ok):
        async def run_checks(*arguments):
            return [conformance.Verdict("alive", True, "well"), conformance.Verdict("full", ok, "seen")]

        return run_checks

    for ok, code in ((True, 0), (None, 0), (False, 1)):
        monkeypatch.setattr(conformance, "run_checks", found(ok))
        with pytest.raises(SystemExit) as end:
            main(["env", "check", "http://127.0.0.1:1", "--token", "x"])
        assert end.value.code == code
        assert len(capsys.readouterr().out.splitlines()) == 3


def test_what_the_user_can_put_right_is_said(run, browser, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(SystemExit) as end:
        main(["env", "check", f"http://127.0.0.1:{port}"])
    assert end.value.code == 2 and "no answer" in capsys.readouterr().err

    async def refused():
        async with served(browser) as url:
            for arguments, says in (
                ({"token": "wrong"}, "token"),
                ({"token": TOKEN, "task": "shop/nothing"}, "no feasible task"),
                ({"token": TOKEN, "suite": "nowhere"}, "--suite"),
            ):
                with pytest.raises(UserError, match=says):
                    await run_checks(url, **arguments)

    run(refused())
