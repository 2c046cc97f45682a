"""The trajectory viewer as a reader meets it: in Chromium, over HTTP, with the keyboard."""

import asyncio
import dataclasses
import io
import threading
import time

import pytest
from aiohttp import web
from PIL import Image
from playwright.sync_api import sync_playwright

from gui_rl.data.schema import Episode, Turn
from gui_rl.data.trajectory_files import list_trajectories, write_trajectory
from gui_rl.errors import UserError
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.report.viewer import Viewer, ViewOptions, main

HOSTILE = '<img src=x onerror="document.title=1"> </script><script>document.title="owned"</script>'
TOKEN = "t0ken"


def png(colour):
    file = io.BytesIO()
    Image.new("RGB", (160, 128), colour).save(file, "PNG")
    return file.getvalue()


def episode(number, outcome="success", copy=0, instruction="Add the key."):
    call = {"name": "browser_use", "arguments": {"action": "click", "coordinate": [500, 250]}}
    drag = {"name": "browser_use", "arguments": {"action": "click", "coordinate": [10, 20], "coordinate2": [900, 800]}}
    turns = (
        Turn(0, png("red"), response_ids=(5, 6), behaviour_logp=(-0.1, -2.0), action=call, conclusion="Click the key.",
             thought="A key is shown.", target_box=(400, 200, 600, 300)),
        Turn(1, png("green"), action=drag, conclusion="Drag it.", tool_result='{"success": true}'),
        Turn(2, png("blue"), text="nonsense", parse_error="no_call"),
    )  # fmt: skip
    return Episode(
        f"e{number}:{copy}", "virtual", "shop/add", number, "web", instruction, (160, 128), turns, outcome,
        score=float(outcome == "success"), rewards={"accuracy": 1.0, "length": 0.2} if outcome == "success" else {},
        progress=1, total=1, policy_version=3, final_screenshot=png("white"),
    )  # fmt: skip


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    run = tmp_path_factory.mktemp("run")
    for number in range(60):
        write_trajectory(run, episode(number, "success" if number % 3 else "fail"))
    for copy, outcome in enumerate(("success", "fail", "env_crash")):
        write_trajectory(run, episode(77, outcome, copy, HOSTILE))
    return run


@pytest.fixture(scope="module")
def address(stored):
    """A served viewer's address, without its token."""
    loop, ready = asyncio.new_event_loop(), threading.Event()
    found = {}

    async def serve():
        runner = web.AppRunner(Viewer(stored, Tokenizer.load("gui-tiny")).app(TOKEN))
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        found["url"] = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
        found["runner"] = runner
        ready.set()

    thread = threading.Thread(target=lambda: (loop.run_until_complete(serve()), loop.run_forever()), daemon=True)
    thread.start()
    assert ready.wait(10)
    yield found["url"]
    asyncio.run_coroutine_threadsafe(found["runner"].cleanup(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)


def until(holds, seconds=10.0):
    """Asks from out here: the page's own rules forbid Playwright to wait inside it."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture(scope="module")
def browser(chromium):
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def page(browser, address):
    context = browser.new_context(viewport={"width": 1280, "height": 860})
    shown, trouble = context.new_page(), []
    shown.on("console", lambda message: trouble.append(message.text))
    shown.on("pageerror", lambda error: trouble.append(str(error)))
    shown.goto(f"{address}/?token={TOKEN}")
    shown.wait_for_selector("#main:not([hidden])")
    yield shown
    assert trouble == []
    context.close()


def test_lists_filters_and_sorts(page):
    assert page.inner_text("#count") == "63 of 63 episodes"
    assert page.locator(".row").count() < 40  # only what is in sight
    page.select_option("#outcome", "fail")
    assert page.inner_text("#count") == "21 of 63 episodes"
    page.fill("#words", "add 12")
    assert page.inner_text("#count") == "1 of 63 episodes"
    page.fill("#words", "")
    page.select_option("#outcome", "")
    page.select_option("#order", "reward")
    assert "fail" in page.inner_text(".row >> nth=0")


def test_steps_through_with_the_keyboard(page):
    assert page.inner_text("#step") == "step 1 of 3" and page.inner_text("#conclusion") == "Click the key."
    assert page.inner_text("#thought") == "A key is shown." and "click" in page.inner_text("#call")
    assert page.locator("#marks .target").count() == 1 and page.locator("#marks .mark").count() == 1
    tokens = page.locator("#tokens span")
    assert [token.get_attribute("title") for token in tokens.all()] == ["p = 0.9048", "p = 0.1353"]
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#result") == '{"success": true}' and page.locator("#marks .mark").count() == 2
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#error") == "no call" and page.inner_text("#call") == "nonsense"
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#step") == "the end"
    until(lambda: page.evaluate("document.getElementById('picture').naturalWidth") == 160)
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    until(lambda: "seed 1 " in page.inner_text("#facts"))
    assert page.inner_text("#rewards") == "reward 1.200 = accuracy 1.000 + length 0.200"


def test_shows_a_group_side_by_side_and_hostile_text_as_text(page):
    page.fill("#words", "77")
    page.locator(".row").first.click()
    page.wait_for_selector(".member >> nth=2")
    assert page.locator(".member").count() == 3
    assert page.inner_text("#instruction") == HOSTILE
    assert "trajectories" in page.title() and "owned" not in page.title()
    page.locator(".member", has_text="env crash").click()
    until(lambda: "env crash" in page.inner_text("#facts"))


def test_an_export_is_read_alone(stored, browser, tmp_path, capsys):
    out = tmp_path / "one.html"
    main(ViewOptions(stored, export="e77:1", out=out))
    assert str(out) in capsys.readouterr().out
    page, requests = browser.new_page(), []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(out.as_uri())
    assert page.inner_text("#instruction") == HOSTILE and page.inner_text("#step") == "step 1 of 3"
    assert page.evaluate("document.getElementById('picture').complete") and "owned" not in page.title()
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#conclusion") == "Drag it."
    assert [url for url in requests if not url.startswith("data:")] == [out.as_uri()]
    page.close()


def test_nothing_without_the_token_and_no_file_outside(browser, address):
    stranger = browser.new_context().request
    for path in ("/", "/episodes", "/?token=wrong"):
        assert stranger.get(address + path).status == 401
    assert stranger.get(f"{address}/?token={TOKEN}").status == 200
    for path in ("/episodes/..%2F..%2Fconfig", "/episodes/index", "/episodes/nothing/00.png"):
        assert stranger.get(address + path).status == 404


def test_what_the_index_misses_is_read(tmp_path):
    write_trajectory(tmp_path, episode(1))
    write_trajectory(tmp_path, episode(2))
    write_trajectory(tmp_path, dataclasses.replace(episode(1), outcome="fail"))
    index = tmp_path / "trajectories" / "index.jsonl"
    assert [(one.seed, one.outcome) for one in list_trajectories(tmp_path)] == [(2, "success"), (1, "fail")]
    index.write_text(index.read_text().splitlines()[0] + "\n{half")
    assert sorted(one.seed for one in list_trajectories(tmp_path)) == [1, 2]
    index.unlink()
    assert [one.outcome for one in list_trajectories(tmp_path)] == ["fail", "success"]


def test_a_run_without_trajectories_is_said(tmp_path):
    with pytest.raises(UserError, match="no trajectories"):
        main(ViewOptions(tmp_path))
    write_trajectory(tmp_path, episode(1))
    with pytest.raises(UserError, match="no episode 'nothing'"):
        main(ViewOptions(tmp_path, export="nothing"))
