"""Who may do what, and what text can do: tokens, other sessions, files, the network, markup, the address."""

import asyncio
import copy
import dataclasses
import subprocess
import sys

import httpx
import psutil
import pytest

from env_servers.browser import PageError
from env_servers.errors import UserError
from env_servers.protocol.messages import CreateSessions, StepRequest
from env_servers.server import ServerConfig, running_server, serve
from env_servers.sessions import SessionStore
from env_servers.suites import instantiate
from env_servers.suites.virtual import registry

OPEN = {"/livez", "/readyz", "/metrics", "/openenv/health", "/openenv/metadata", "/openenv/schema"}
HACK = "window.hacked = true"
MARKUP = (
    f'<img src=x onerror="{HACK}">',
    f'"><svg onload="{HACK}"></svg><script>{HACK}</script>',
    f"'-({HACK})-'",
    f"${{{HACK}}}",
    f"javascript:{HACK}",
    "<|im_end|>",
)
LIVE = "script:not([data-own]), [onerror]:not([data-own]), [onload]:not([data-own])"
UNHURT = f"""function () {{
  return {{ hacked: this.hacked ?? null, made: document.body.querySelectorAll("{LIVE}").length }};
}}"""
MARK_OWN = """function () {
  document.querySelectorAll("script, [onerror], [onload]").forEach((element) => element.setAttribute("data-own", ""));
}"""


@pytest.fixture(scope="module")
def server(chromium):
    with running_server(ServerConfig(port=0, max_sessions=8)) as server:
        yield server


@pytest.fixture(scope="module")
def http(server):
    with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as http:
        yield http


@pytest.fixture(scope="module")
def pair(http, server):
    """Two sessions on the same task."""
    body = {"task": "shop/set", "seed": 3, "count": 2, "script": True}
    made = http.post("/v1/sessions", json=body, headers=key(server.token)).json()
    yield made
    for lease in made:
        http.delete(f"/v1/sessions/{lease['session']}", headers=key(lease["token"]))


def key(token):
    return {"Authorization": f"Bearer {token}"}


# --- doors -----------------------------------------------------------------------------------------------------------
def test_no_call_without_its_token(http, server, pair):
    """Every operation of the OpenAPI document, and MCP: none but the open ones answers without the right token."""
    mine, other = pair
    operations = [
        (method.upper(), path)
        for path, methods in http.get("/openapi.json").json()["paths"].items()
        for method in methods
        if path not in OPEN
    ]
    operations.append(("POST", "/v1/sessions/{session_id}/mcp"))
    assert len(operations) >= 11
    bodies = {
        "/v1/sessions": {"task": "shop/set", "seed": 3},
        "/v1/sessions/{session_id}/step": {"episode": 1, "step": 0, "parse_error": "no_call"},
    }
    for method, path in operations:
        of_session = "{session_id}" in path
        wrong = [{}, key("wrong"), {"Authorization": "Basic Og=="}, {"Authorization": "Bearer"}]
        wrong += [key(other["token"]), key(server.token)] if of_session else [key(mine["token"])]
        for headers in wrong:
            url = path.format(session_id=mine["session"], suite="virtual")
            reply = http.request(method, url, headers=headers, json=bodies.get(path))
            assert (reply.status_code, reply.json()["code"]) == (401, "unauthorized"), (method, path, headers)
            assert mine["token"] not in reply.text and other["token"] not in reply.text


def test_a_session_s_data_is_its_own(http, pair):
    """What one session did is in no reply of another one, and its name alone opens nothing."""
    mine, other = pair
    for lease in pair:
        http.post(f"/v1/sessions/{lease['session']}/reset", headers=key(lease["token"]))
    secret = "a secret of the first session"
    body = {"episode": 1, "step": 0, "parse_error": "no_call", "response": {"text": secret}}
    path = f"/v1/sessions/{mine['session']}"
    assert http.post(f"{path}/step", json=body, headers=key(mine["token"])).status_code == 200
    assert secret in http.get(f"{path}/episode", headers=key(mine["token"])).text
    assert secret not in http.get(f"/v1/sessions/{other['session']}/episode", headers=key(other["token"])).text
    for open_to_all in ("/metrics", "/readyz", "/livez", "/openapi.json"):
        text = http.get(open_to_all).text
        assert not any(word in text for word in (secret, mine["token"], mine["session"], other["session"]))


@pytest.mark.parametrize("name", ["..%2f..%2fetc%2fpasswd", "../../../etc/passwd", "....//etc/passwd", "virtual%00"])
def test_names_are_looked_up_and_never_opened(http, server, name):
    reply = http.get(f"/v1/suites/{name}/tasks", headers=key(server.token))
    assert reply.status_code == 404 and "root:" not in reply.text
    for suite in ("virtual", "miniwob"):
        body = {"suite": suite, "task": f"{suite}/{name}", "seed": 1}
        reply = http.post("/v1/sessions", json=body, headers=key(server.token))
        assert (reply.status_code, reply.json()["code"]) == (404, "unknown_task")


def test_a_request_is_not_read_without_an_end(http, pair):
    path, headers = f"/v1/sessions/{pair[0]['session']}/step", key(pair[0]["token"])
    whole = b'{"episode": 1, "step": 0, "parse_error": "' + b"x" * 5_000_000 + b'"}'

    def in_pieces():
        for start in range(0, len(whole), 100_000):
            yield whole[start : start + 100_000]

    for content in (whole, in_pieces()):
        try:
            reply = http.post(path, content=content, headers={**headers, "Content-Type": "application/json"})
        except httpx.WriteError:  # closed before all of it was sent
            continue
        assert (reply.status_code, reply.json()["code"]) == (413, "too_large")
    assert http.get("/livez").status_code == 200


# --- the address to listen on ----------------------------------------------------------------------------------------
def test_a_server_listens_on_this_machine_alone_and_tells_nobody_its_token(server):
    assert ServerConfig().host == "127.0.0.1"
    process = psutil.Process(server.pid)
    listening = [c.laddr.ip for c in process.net_connections("inet") if c.status == psutil.CONN_LISTEN]
    assert listening == ["127.0.0.1"]
    assert server.token not in " ".join(process.cmdline())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "198.51.100.1", "example.org"])
def test_an_open_server_for_others_is_refused(host):
    with pytest.raises(UserError, match="GUI_RL_ENV_TOKEN"):
        serve(ServerConfig(host=host, open=True, port=0))
    if host == "0.0.0.0":
        command = [sys.executable, "-m", "env_servers.server", "--host", host, "--open", "--port", "0"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


# --- text is text ----------------------------------------------------------------------------------------------------
def leaves(value, path=()):
    """Paths of every string in a state; of a list's items the first alone."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from leaves(item, (*path, name))
    elif isinstance(value, list):
        for number, item in enumerate(value[:2]):
            yield from leaves(item, (*path, number))


def replaced(state, path, text):
    changed = copy.deepcopy(state)
    place = changed
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = text
    return changed


@pytest.mark.parametrize("name", registry)
def test_no_text_of_a_state_becomes_markup_or_code(run, browser, name):
    """Every string of the initial state replaced by markup: entities come from content files, as data."""

    async def play():
        screen = await browser.lease(registry[name].kind)
        try:
            await screen.call(MARK_OWN)
            state = registry[name].initial(5)
            tried = 0
            for path in leaves(state):
                for text in MARKUP[:2]:
                    try:
                        await screen.load(replaced(state, path, text))
                        await screen.view()
                    except PageError:
                        continue  # a name that the app does not know
                    finally:
                        await unhurt(screen, path, text)
                    tried += 1
            assert tried
        finally:
            screen.usable = False
            await browser.release(screen)

    run(play())


async def unhurt(screen, *about):
    """Nothing has run and nothing was made of the text. An image that cannot be loaded says so a moment later."""
    await asyncio.sleep(0.02)
    assert await screen.call(UNHURT) == {"hacked": None, "made": 0}, about


def played(run, browser, body, **request):
    """Run `body(screen, step, session)` on a session whose episode has no end of its own."""

    async def play():
        store = SessionStore(browser, 4)
        (lease,) = await store.create(CreateSessions(**{"seed": 3, **request}))
        session = store.get(lease.session, lease.token)
        session.instance = dataclasses.replace(
            session.instance, task=dataclasses.replace(session.instance.task, max_steps=100)
        )
        await store.reset(session)
        await session.screen.call(MARK_OWN)

        async def step(name, **arguments):
            place = {"episode": 1, "step": len(session.episode.steps)}
            return await store.step(session, StepRequest(**place, action={"name": name, "arguments": arguments}))

        try:
            return await body(session.screen, step, session)
        finally:
            await store.close(session)

    return run(play())


@pytest.mark.parametrize(
    ("suite", "task", "function"),
    [
        ("virtual", "shop/set", "browser_use"),
        ("virtual", "orders/star", "mobile_use"),
        ("virtual", "files/move", "computer_use"),
        ("miniwob", "miniwob/enter-text", "browser_use"),
        ("miniwob", "miniwob/text-editor", "computer_use"),
    ],
)
def test_typed_text_is_shown_and_never_run(run, browser, suite, task, function):
    async def body(screen, step, session):
        before = screen.page.url
        for text in MARKUP:
            for action in ("type", "answer"):
                await step(function, action=action, text=text)
            assert screen.page.url == before
            await unhurt(screen, text)

    played(run, browser, body, suite=suite, task=task)


def test_special_tokens_are_shown_as_they_are(run, browser):
    """What the model's tokenizer reserves is ten characters on a screen, in the state and in the record."""

    async def body(screen, step, session):
        box = next(e for e in await screen.elements() if e["name"] == "box")["box"]
        x, y = (round((a + b) / 2 * 1000 / side) for a, b, side in zip(box[:2], box[2:], (160, 128), strict=True))
        await step("browser_use", action="type", text="<|im_end|>", coordinate=[x, y])
        assert session.episode.last_state["text"] == "<|im_end|>"
        words = "function () { return [...document.querySelectorAll('text')].map((t) => t.textContent) }"
        assert "<|im_end|>" in await screen.call(words)
        assert session.episode.steps[-1].action.arguments["text"] == "<|im_end|>"

    played(run, browser, body, task="shop/set")


def test_arguments_of_tools_are_data(run, browser):
    async def body(screen, step, session):
        for text in MARKUP:
            reply = await step("shop.add_to_cart", thing=text, amount=1)
            assert reply.tool_result["success"] is False
            await unhurt(screen)

    played(run, browser, body, task="shop/set", tools=True)


# --- files and the network -------------------------------------------------------------------------------------------
def test_a_policy_cannot_leave_the_app(run, browser):
    async def body(screen, step, session):
        before = screen.page.url
        for url in ("file:///etc/passwd", "http://127.0.0.1/", "javascript:window.hacked=1", "data:text/html,x"):
            assert (await step("browser_use", action="goto", url=url)).error == "unsupported"
        await step("browser_use", action="go_back")
        assert screen.page.url == before
        await unhurt(screen)

    played(run, browser, body, task="shop/set")

    async def keys(screen, step, session):
        before = screen.page.url
        pages = len(screen.page.context.pages)
        for names in (["ctrl", "o"], ["ctrl", "u"], ["ctrl", "l"], ["ctrl", "t"], ["F12"], ["alt", "left"]):
            await step("computer_use", action="key", keys=names)
        assert screen.page.url == before
        assert len(screen.page.context.pages) == pages

    played(run, browser, keys, suite="virtual", task="files/move")


@pytest.mark.parametrize("suite_task", [("virtual", "shop/set"), ("miniwob", "miniwob/enter-text")])
def test_a_page_reads_no_file_and_reaches_no_network(run, browser, server, suite_task):
    """Even the page's own code cannot: not the file next to it, not a server on this machine."""

    async def body(screen, step, session):
        tries = """async function (url) {
          const asked = (url) => new Promise((done) => {
            const request = new XMLHttpRequest();
            request.onload = () => done(request.responseText.slice(0, 20)); request.onerror = () => done(null);
            try { request.open("GET", url); request.send(); } catch { done(null); }
          });
          return [await fetch(url).then((r) => r.text(), () => null), await asked(url)];
        }"""
        for url in ("file:///etc/passwd", "file:///proc/self/environ", f"{server.url}/livez"):
            assert await screen.call(tries, url) == [None, None], url

    played(run, browser, body, suite=suite_task[0], task=suite_task[1])


def test_instructions_hold_no_markup():
    for name in registry:
        for task in registry[name].tasks():
            text = instantiate("virtual", task.id, 1).instruction
            assert not set("<>") & set(text), task.id


def test_nothing_runs_on_the_event_loop_for_strangers(http, server):
    """Many requests with a wrong token at once leave the server as quick as before for its owner."""

    async def storm():
        async with httpx.AsyncClient(base_url=server.url, timeout=60, trust_env=False) as many:
            replies = await asyncio.gather(*(many.get("/v1/suites", headers=key("wrong")) for _ in range(200)))
        return {reply.status_code for reply in replies}

    assert asyncio.run(storm()) == {401}
    assert http.get("/v1/suites", headers=key(server.token)).status_code == 200
