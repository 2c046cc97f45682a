"""Real pages in real Chromium: pixels, input of every kind, no network, and what happens when the browser dies."""

import asyncio
import base64
import contextlib
import dataclasses
import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from env_servers import orphans
from env_servers.browser import Browser, BrowserLost, PageError, PageKind, find_chromium, png_size
from env_servers.errors import UserError
from env_servers.inputs import WAIT_LIMIT_S, Unsupported, perform
from env_servers.suites.virtual import registry

# A page that writes down what reaches it: pointer and key events with their points and, for a touch, how long it was.
LOG_PAGE = """<!doctype html><style>*{margin:0;caret-color:transparent}</style>
<body style="height:2000px"><input id="box" style="position:absolute;left:0;top:0;width:100px;height:40px">
<select id="list" style="position:absolute;left:0;top:50px;width:100px;height:30px">
<option value="a">first</option><option value="b">second</option></select><script>
let state = { log: [] }, down = 0;
const write = (...entry) => state.log.push(entry);
for (const kind of ["mousedown", "mouseup", "click", "dblclick", "contextmenu", "auxclick"])
  addEventListener(kind, (e) => { if (kind === "contextmenu") e.preventDefault();
    write(kind, e.clientX, e.clientY, e.button, e.detail) });
addEventListener("touchstart", (e) => { down = e.timeStamp;
  write("touchstart", e.touches[0].clientX, e.touches[0].clientY) });
addEventListener("touchmove", (e) => write("touchmove", e.touches[0].clientX, e.touches[0].clientY));
addEventListener("touchend", (e) => write("touchend", Math.round(e.timeStamp - down)));
addEventListener("keydown", (e) => write("key", (e.ctrlKey ? "ctrl+" : "") + (e.shiftKey ? "shift+" : "") + e.key));
addEventListener("wheel", (e) => { e.preventDefault(); write("wheel", e.deltaX, e.deltaY) }, { passive: false });
window.app = {
  load: (next) => { state = structuredClone(next); document.getElementById("box").value = "" },
  state: () => ({ ...state, text: document.getElementById("box").value, list: document.getElementById("list").value }),
  elements: () => [{ name: "box", box: [0, 0, 100, 40] }],
  tool: (name, args) => { if (name === "bad") throw Error("no such tool"); return { success: true, result: args } },
  button: (name) => write("button", name),
  answer: (text) => write("answer", text),
};
</script>"""
TOUCH = PageKind("log", LOG_PAGE, 200, 100, touch=True)
MOUSE = PageKind("log", LOG_PAGE, 200, 100)
APPS = sorted(registry)


def kind_of(name):
    app = registry[name]
    return PageKind(name, app.page, app.width, app.height, touch=app.device == "mobile")


def after(run, browser, kind, device, *calls):
    """The page's state after these calls on a fresh load."""

    async def play():
        screen = await browser.lease(kind)
        try:
            await screen.load({"log": []})
            for arguments in calls:
                await perform(screen, device, arguments)
            return await screen.state()
        finally:
            await browser.release(screen)

    return run(play())


# --- finding Chromium ------------------------------------------------------------------------------------------------
def test_a_missing_browser_is_said_with_its_remedy(monkeypatch, tmp_path):
    monkeypatch.delenv("GUI_RL_CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="apt-get install chromium.*GUI_RL_CHROMIUM"):
        find_chromium()
    monkeypatch.setenv("GUI_RL_CHROMIUM", str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match="GUI_RL_CHROMIUM names '.*nowhere'"):
        find_chromium()


def test_a_browser_that_does_not_start_is_a_user_error(run):
    with pytest.raises(UserError, match="does not start"):
        run(Browser("/bin/false").start())


# --- pixels and state ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", APPS)
def test_equal_states_give_equal_pixels_on_any_page(run, browser, name):
    """On two pages at once, and on a used page after other states, clicks and scrolls (R35)."""
    app, kind = registry[name], kind_of(name)
    touch = {"action": "click", "coordinate": [500, 500]}
    mess = {
        "mobile": [touch, {"action": "swipe", "coordinate": [500, 700], "coordinate2": [500, 300]}],
        "desktop": [{**touch, "action": "left_click"}, {"action": "scroll", "pixels": -100}],
        "web": [touch, {"action": "scroll", "direction": "down"}],
    }[app.device]

    async def play():
        first, second = await browser.lease(kind), await browser.lease(kind)
        assert first is not second
        for seed in range(3):
            state = app.sample_state(seed)
            views = []
            for screen in (first, second, first):
                await screen.load(state)
                views.append(await screen.view())
                for arguments in mess:
                    await perform(screen, app.device, arguments)
            assert views[0].png == views[1].png == views[2].png
            assert views[0].state == views[1].state == views[2].state
            image = Image.open(io.BytesIO(views[0].png))
            assert image.size == (views[0].width, views[0].height) == (app.width, app.height)
        await browser.release(first)
        await browser.release(second)

    run(play())


def test_pages_are_used_again_until_they_are_worn(run, browser, monkeypatch):
    kind = PageKind("again", LOG_PAGE, 120, 90)

    async def play():
        one = await browser.lease(kind)
        await browser.release(one)
        assert await browser.lease(kind) is one
        monkeypatch.setattr("env_servers.browser.RECYCLE_AFTER", 2)
        await browser.release(one)
        two = await browser.lease(kind)
        assert two is not one and one.page.is_closed()
        await browser.release(two)

    run(play())


def test_only_the_pages_used_last_are_kept(run, browser, monkeypatch):
    async def play():
        old, new = [await browser.lease(PageKind(name, LOG_PAGE, 120, 90)) for name in ("old", "new")]
        monkeypatch.setattr("env_servers.browser.IDLE_PAGES", len(browser._idle) + 1)
        known = list(browser._idle)
        await browser.release(old)
        await browser.release(new)
        gone, *kept = [*known, old, new]
        assert browser._idle == kept and gone.page.is_closed() and not new.page.is_closed()

    run(play())


@pytest.mark.parametrize("reload", [False, True])
def test_a_document_that_keeps_something_is_loaded_anew(run, browser, reload):
    async def play():
        screen = await browser.lease(PageKind("keeps", LOG_PAGE, 120, 90, after="window.kept = 0", reload=reload))
        counts = []
        for _ in range(3):
            await screen.load({"log": []})
            counts.append(await screen.call("function () { return this.kept++ }"))
        await browser.release(screen)
        return counts

    assert run(play()) == ([0, 0, 0] if reload else [0, 1, 2])


def test_png_size_reads_the_header():
    buffer = io.BytesIO()
    Image.new("RGB", (37, 51)).save(buffer, "PNG")
    assert png_size(base64.b64encode(buffer.getvalue()).decode()) == (37, 51)
    with pytest.raises(ValueError, match="not a PNG"):
        png_size("AAAA" * 12)


# --- input -----------------------------------------------------------------------------------------------------------
def test_touch(run, browser):
    tap = {"action": "click", "coordinate": [750, 500]}
    assert [e[:3] for e in after(run, browser, TOUCH, "mobile", tap)["log"]][0] == ["touchstart", 150, 50]
    log = after(run, browser, TOUCH, "mobile", tap)["log"]
    assert [e[0] for e in log] == ["touchstart", "touchend", "mousedown", "mouseup", "click"]
    assert log[1][1] < 400

    for held, least in (({}, 500), ({"time": 2}, 2000), ({"time": 0}, 500)):
        log = after(run, browser, TOUCH, "mobile", {"action": "long_press", "coordinate": [750, 500], **held})["log"]
        end = next(e for e in log if e[0] == "touchend")
        assert least <= end[1] < least + 1000

    swipe = {"action": "swipe", "coordinate": [500, 800], "coordinate2": [500, 200]}
    log = after(run, browser, TOUCH, "mobile", swipe)["log"]
    assert log[0] == ["touchstart", 100, 80] and log[-1][0] == "touchend"
    moves = [e[1:] for e in log if e[0] == "touchmove"]
    assert moves[-1] == [100, 20] and [y for _, y in moves] == sorted((y for _, y in moves), reverse=True)


def test_phone_buttons_and_keys(run, browser):
    calls = [{"action": "system_button", "button": name} for name in ("Back", "Home", "Menu", "Enter")]
    calls += [{"action": "key", "text": name} for name in ("KEYCODE_BACK", "enter")]
    log = after(run, browser, TOUCH, "mobile", *calls)["log"]
    pressed = "button Back, button Home, button Menu, key Enter, button Back, key Enter"
    assert log == [entry.split() for entry in pressed.split(", ")]


@pytest.mark.parametrize(
    ("device", "action", "events"),
    [
        ("desktop", "left_click", [("mousedown", 0), ("mouseup", 0), ("click", 0)]),
        ("desktop", "right_click", [("mousedown", 2), ("contextmenu", 2), ("mouseup", 2), ("auxclick", 2)]),
        ("desktop", "middle_click", [("mousedown", 1), ("mouseup", 1), ("auxclick", 1)]),
        ("desktop", "double_click", [("mousedown", 0), ("mouseup", 0), ("click", 0)] * 2 + [("dblclick", 0)]),
        ("web", "click", [("mousedown", 0), ("mouseup", 0), ("click", 0)]),
    ],
)
def test_mouse_buttons(run, browser, device, action, events):
    log = after(run, browser, MOUSE, device, {"action": action, "coordinate": [750, 500]})["log"]
    assert [(e[0], e[3]) for e in log] == events
    assert {tuple(e[1:3]) for e in log} == {(150, 50)}


def test_triple_click_and_drag(run, browser):
    log = after(run, browser, MOUSE, "desktop", {"action": "triple_click", "coordinate": [750, 500]})["log"]
    assert [e[4] for e in log if e[0] == "click"] == [1, 2, 3]
    drag = [
        {"action": "mouse_move", "coordinate": [600, 900]},
        {"action": "left_click_drag", "coordinate": [900, 500]},
    ]
    log = after(run, browser, MOUSE, "desktop", *drag)["log"]
    assert [e[:3] for e in log if e[0] in ("mousedown", "mouseup")] == [["mousedown", 120, 90], ["mouseup", 180, 50]]


def test_wheel(run, browser):
    calls = [{"action": "scroll", "direction": direction} for direction in ("down", "up", "left", "right")]
    assert after(run, browser, MOUSE, "web", *calls)["log"] == [
        ["wheel", 0, 100], ["wheel", 0, -100], ["wheel", -100, 0], ["wheel", 100, 0],
    ]  # fmt: skip
    calls = [{"action": "scroll", "pixels": 50, "coordinate": [800, 800]}, {"action": "hscroll", "pixels": 50}]
    assert after(run, browser, MOUSE, "desktop", *calls)["log"] == [["wheel", 0, -50], ["wheel", -50, 0]]


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        (["ctrl", "c"], ["ctrl+Control", "ctrl+c"]),
        (["ctrl", "C"], ["ctrl+Control", "ctrl+c"]),
        (["Delete"], ["Delete"]),
        (["page_down"], ["PageDown"]),
        (["shift", "tab"], ["shift+Shift", "shift+Tab"]),
        (["f5"], ["F5"]),
        (["x"], ["x"]),
    ],
)
def test_keys(run, browser, keys, wanted):
    log = after(run, browser, MOUSE, "desktop", {"action": "key", "keys": keys})["log"]
    assert [e[1] for e in log if e[0] == "key"] == wanted


def test_every_printable_key_can_be_pressed(run, browser):
    keys = [chr(code) for code in range(32, 127)]
    log = after(run, browser, MOUSE, "desktop", *({"action": "key", "keys": [key]} for key in keys))["log"]
    assert [e[1].removeprefix("shift+") for e in log if e[0] == "key"] == keys


def test_absurd_numbers_and_texts_are_no_fault_of_the_browser(run, browser):
    huge = 10**400
    calls = [{"action": "scroll", "pixels": huge}, {"action": "hscroll", "pixels": -1e308}]
    calls += [{"action": "key", "keys": ["ctrl", "+"]}, {"action": "type", "text": "\x00\x1b\r" + "x" * 10_000}]
    assert after(run, browser, MOUSE, "desktop", *calls)["log"][:2] == [["wheel", 0, -10_000], ["wheel", 10_000, 0]]
    held = {"action": "long_press", "coordinate": [1000, 1000], "time": huge}
    assert after(run, browser, TOUCH, "mobile", held)["log"][0] == ["touchstart", 199, 99]


@pytest.mark.parametrize(
    "text", ["two words", "'); window.app.load({}) //", '"${1}`\\', "naïve 漢字 \u2028 🙂", "Control+A"], ids=str
)
def test_typed_text_is_data(run, browser, text):
    """It arrives as it is: never as source, never as a key combination (R5)."""
    typed = {"action": "type", "text": text, "coordinate": [100, 100]}
    state = after(run, browser, MOUSE, "web", typed)
    assert state["text"] == text
    assert after(run, browser, MOUSE, "web", {"action": "answer", "text": text})["log"] == [["answer", text]]


def test_a_line_break_is_the_enter_key(run, browser):
    typed = {"action": "type", "text": "one\n", "coordinate": [100, 100]}
    state = after(run, browser, MOUSE, "web", typed)
    assert state["text"] == "one" and state["log"][-1] == ["key", "Enter"]


def test_select_chooses_an_option_by_label_or_value(run, browser):
    for option in ("second", "b"):
        state = after(run, browser, MOUSE, "web", {"action": "select", "coordinate": [100, 600], "option": option})
        assert state["list"] == "b"


@pytest.mark.parametrize(
    ("kind", "device", "arguments"),
    [
        (MOUSE, "web", {"action": "click", "label": 3}),
        (MOUSE, "web", {"action": "goto", "url": "http://example.org"}),
        (MOUSE, "web", {"action": "select", "coordinate": [900, 900], "option": "second"}),
        (MOUSE, "web", {"action": "select", "coordinate": [100, 600], "option": "third"}),
        (MOUSE, "desktop", {"action": "key", "keys": ["ctrl", "nosuchkey"]}),
        (MOUSE, "desktop", {"action": "key", "keys": ["漢"]}),
        (TOUCH, "mobile", {"action": "open", "text": "maps"}),
    ],
)
def test_what_a_page_cannot_do_is_unsupported(run, browser, kind, device, arguments):
    with pytest.raises(Unsupported):
        after(run, browser, kind, device, arguments)


def test_waiting_is_bounded_and_words_touch_nothing(run, browser):
    async def play():
        await asyncio.wait_for(after_wait(), 20 + WAIT_LIMIT_S)

    async def after_wait():
        screen = await browser.lease(TOUCH)
        await screen.load({"log": []})
        for arguments in (
            {"action": "wait", "time": 1e6},
            {"action": "interact", "text": "?"},
            {"action": "terminate", "status": "success"},
        ):
            await perform(screen, "mobile", arguments)
        assert (await screen.state())["log"] == []
        await browser.release(screen)

    run(play())


# --- the page's own faults, the network ------------------------------------------------------------------------------
def test_tools_and_thrown_errors(run, browser):
    async def play():
        screen = await browser.lease(MOUSE)
        assert await screen.tool("good", {"a": [1, "x"]}) == {"success": True, "result": {"a": [1, "x"]}}
        with pytest.raises(PageError, match="no such tool"):
            await screen.tool("bad", {})
        assert (await screen.elements())[0]["name"] == "box"
        await browser.release(screen)

    run(play())


def test_pages_have_no_network(run, browser, tmp_path):
    async def play():
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        screen = await browser.lease(MOUSE)
        fetched = await screen.call(
            "function (url) { return fetch(url, { mode: 'no-cors' }).then(() => 'answered', (e) => e.message) }",
            f"http://127.0.0.1:{port}/",
        )
        online = await screen.call("function () { return navigator.onLine }")
        await browser.release(screen)
        server.close()
        return fetched, online

    assert run(play()) == ("Failed to fetch", False)


# --- death -----------------------------------------------------------------------------------------------------------
def test_a_killed_browser_is_lost_and_the_next_lease_has_a_new_one(run, chromium):
    async def play():
        async with Browser(chromium) as browser:
            screen = await browser.lease(MOUSE)
            idle = await browser.lease(MOUSE)
            await browser.release(idle)
            (mine,) = (p for p in orphans.labelled() if p.owner == os.getpid() and p.pid not in before)
            os.kill(mine.pid, signal.SIGKILL)
            with pytest.raises(BrowserLost):
                for _ in range(100):
                    await screen.view()
                    await asyncio.sleep(0.05)
            await browser.release(screen)
            fresh = await browser.lease(MOUSE)
            assert fresh not in (screen, idle)
            await fresh.load({"log": []})
            assert (await fresh.view()).width == 200
            assert browser.launches == 2
        assert not mine.profile.exists()

    before = {process.pid for process in orphans.labelled() if process.owner == os.getpid()}
    run(play())
    assert set(orphans.browsers_of(os.getpid())) == before


def test_what_playwright_turns_off_stays_off(run, tmp_path):
    """The last switch of a name counts for Chromium; an executable that tells its switches stands for it."""
    told, teller = tmp_path / "switches", tmp_path / "teller"
    teller.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {told}\n')
    teller.chmod(0o755)

    async def start():
        async with Browser(str(teller)):
            pass

    with pytest.raises(UserError):
        run(start())
    name = "--disable-features="
    theirs, ours = (set(s.removeprefix(name).split(",")) for s in told.read_text().split("\n") if s.startswith(name))
    assert theirs < ours


def test_a_killed_renderer_is_lost_at_once_and_the_browser_lives_on(run, chromium):
    async def play():
        async with Browser(chromium) as browser:
            screen = await browser.lease(MOUSE)
            await screen.view()
            (mine,) = (p for p in orphans.labelled() if p.owner == os.getpid() and p.pid not in before)
            for folder in Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    words = (folder / "cmdline").read_text()
                    if str(mine.profile) in words and "--type=renderer" in words:
                        os.kill(int(folder.name), signal.SIGKILL)
            for _ in range(2):
                with pytest.raises(BrowserLost, match="crash"):
                    await screen.view()
            await browser.release(screen)
            fresh = await browser.lease(MOUSE)
            assert (await fresh.view()).width == 200 and fresh is not screen
            assert browser.launches == 1

    before = {process.pid for process in orphans.labelled() if process.owner == os.getpid()}
    run(play())


def test_a_page_that_does_not_reply_is_lost(run, chromium):
    async def play():
        async with Browser(chromium) as browser:
            screen = await browser.lease(MOUSE)
            screen.timeout_s = 0.3
            with pytest.raises(BrowserLost, match="did not reply"):
                await screen.call("function () { return new Promise(() => {}) }")
            assert not screen.usable

    run(play())


def test_a_browser_that_does_not_answer_is_killed_and_replaced(run, chromium, monkeypatch):
    """Stopped, not dead: its connection stays, and nothing ever comes."""

    async def play(way):
        async with Browser(chromium) as browser:
            screen = await browser.lease(MOUSE)
            (pid,) = set(orphans.browsers_of(os.getpid())) - before
            os.kill(pid, signal.SIGSTOP)
            if way == "open":
                monkeypatch.setattr("env_servers.browser.OPEN_S", 0.5)
                with pytest.raises(BrowserLost, match="within 0.5 s"):
                    await browser.lease(dataclasses.replace(MOUSE, name="other"))
            else:
                screen.usable = False
                monkeypatch.setattr("env_servers.browser.CLOSE_S", 0.5)
                await browser.release(screen)
            while browser.alive:
                await asyncio.sleep(0.01)
            monkeypatch.undo()
            assert (await (await browser.lease(MOUSE)).view()).width == 200
            assert browser.launches == 2 and orphans.started(pid) is None

    before = set(orphans.browsers_of(os.getpid()))
    for way in ("open", "close"):
        run(play(way))


def test_orphans_are_ended_with_their_profile_and_others_are_left(tmp_path):
    """A labelled process whose owner is gone; one of a living owner; one whose owner's pid was given to another."""
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    mine = orphans.new_label().partition("=")[2]
    owners = {"gone": f"{dead.pid}.1.1", "mine": mine, "reused": f"{os.getpid()}.1.1"}
    running = {}
    for name, owner in owners.items():
        profile = tmp_path / f"playwright_{name}"
        profile.mkdir()
        sleep = [sys.executable, "-c", "print(flush=True); import time; time.sleep(60)"]
        child = subprocess.Popen(
            [*sleep, f"--gui-rl-owner={owner}", f"--user-data-dir={profile}"], stdout=subprocess.PIPE
        )
        child.stdout.readline()
        running[name] = child
    try:
        ended = orphans.reap()
        assert {running["gone"].pid, running["reused"].pid} <= set(ended)
        assert running["mine"].pid not in ended and running["mine"].poll() is None
        assert running["gone"].wait(10) == running["reused"].wait(10) == -signal.SIGKILL
        assert sorted(path.name for path in tmp_path.iterdir()) == ["playwright_mine"]
    finally:
        for child in running.values():
            child.kill()
            child.wait()
            child.stdout.close()
