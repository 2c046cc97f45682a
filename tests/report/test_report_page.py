"""The report as a reader meets it: opened in Chromium, looked at for what it shows and what it must not do."""

import json
import shutil

import pytest
from playwright.sync_api import sync_playwright

from gui_rl.errors import UserError
from gui_rl.report.report import write_report


@pytest.fixture(scope="module")
def browser(chromium):
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def opened(browser):
    """opened(path, width) -> (page, console and page errors, requested URLs)."""
    contexts = []

    def open_page(path, width=1280, scheme="light"):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        trouble, requests = [], []
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        return page, trouble, requests

    yield open_page
    for context in contexts:
        context.close()


def test_shows_every_section_and_number(finished_run, opened):
    report = write_report(finished_run)
    assert report == finished_run / "report.html"
    page, trouble, requests = opened(report)
    assert trouble == []
    assert [url for url in requests if not url.startswith("data:")] == [report.as_uri()]
    assert page.title() == "tiny-run · gui_rl"
    assert page.locator("h2").all_inner_texts() == [
        "Success on held-out seeds",
        "Learning curves",
        "MRPO groups",
        "Time and memory",
        "Trajectories",
        "Made with",
        "Every metric",
    ]
    headline = page.locator(".headline b").all_inner_texts()
    assert headline == ["43%", "68%", "+26", "13.4", "3.1"]  # (43.3+35+50)/3, (71.7+55+78.3)/3, their difference
    table = page.locator("table").inner_text()
    for shown in ("60 episodes", "72%", "60–83", "greedy 75%", "35%", "23–47", "100%"):  # 0.717 ± 1.96 √(pq/60)
        assert shown in table
    text = page.locator("main").inner_text()
    for shown in (
        "51.2%",
        "29.3%",
        "19.5%",
        "rl 6:42 (51%)",
        "Chromium 1.2.3",
        "DejaVuSans.ttf",
        "jax 0.10.2",
        "0.999 to 1.002",
    ):
        assert shown in text
    assert page.locator("section:has(h2:text('Learning curves')) svg").count() == 7
    assert page.get_by_text("revision 0123456789").count() == 1


def test_phases_are_shaded_in_the_order_of_training(finished_run, opened):
    page, _, _ = opened(write_report(finished_run))
    chart = page.locator("svg[aria-label^='mobile: success']")
    hints = [title.text_content() for title in chart.locator("rect > title").all()]
    assert hints == ["RL on mobile", "RL on desktop", "RL on web"] * 2
    lefts = [rect.bounding_box()["x"] for rect in chart.locator("rect:has(title)").all()]
    assert lefts == sorted(lefts)
    last_point = chart.locator("circle > title").last.text_content()
    assert last_point == "mobile, RL: 72% at step 60"


def test_marks_lie_where_the_policy_acted(finished_run, opened):
    page, _, _ = opened(write_report(finished_run))

    def fraction(turn, selector):
        screen, mark = turn.locator(".screen svg").bounding_box(), turn.locator(selector).first.bounding_box()
        middle = (mark["x"] + mark["width"] / 2 - screen["x"], mark["y"] + mark["height"] / 2 - screen["y"])
        return middle[0] / screen["width"], middle[1] / screen["height"]

    turns = page.locator(".trajectory").first.locator(".turn")
    assert turns.count() == 5
    assert fraction(turns.nth(0), "path.mark") == pytest.approx((0.210, 0.293), abs=0.01)
    assert fraction(turns.nth(0), "rect.target") == pytest.approx((0.2115, 0.2935), abs=0.01)
    assert fraction(turns.nth(3), "path.mark") == pytest.approx((0.760, 0.560), abs=0.01)
    assert turns.nth(1).locator("path.mark").count() == 0  # typing has no place
    assert turns.nth(4).locator("path.mark").count() == 0
    assert fraction(turns.nth(2), "path.mark") == pytest.approx((0.520, (0.800 + 0.330) / 2), abs=0.01)
    for image in page.locator(".screen img").all():
        assert image.evaluate("image => image.complete && image.naturalWidth > 0")


def test_text_beside_the_screens(finished_run, opened):
    page, _, _ = opened(write_report(finished_run))
    good, failed = page.locator(".trajectory").nth(0), page.locator(".trajectory").nth(1)
    said = good.locator(".turn").nth(0).inner_text()
    for shown in ("The pear is the second thing", "Open the <b>pear</b>, part 0.", "click coordinate=[210, 293]"):
        assert shown in said
    assert "step limit" in failed.inner_text() and "1 of 3 checkpoints" in failed.inner_text()
    assert "bad_json" in failed.inner_text() and '{"name":' in failed.inner_text()


def test_hostile_text_stays_text(finished_run, opened):
    for path in (finished_run / "trajectories").glob("*.json"):
        episode = json.loads(path.read_text())
        hostile = '</script><script>document.title="owned"</script><img src=x onerror=alert(1)>"\''
        episode["task"] = hostile
        for turn in episode["turns"]:
            turn["conclusion"] = turn["thought"] = turn["tool_result"] = hostile
        path.write_text(json.dumps(episode))
    manifest = json.loads((finished_run / "manifest.json").read_text())
    manifest["versions"]["<script>alert(2)</script>"] = "1"
    (finished_run / "manifest.json").write_text(json.dumps(manifest))
    page, trouble, requests = opened(write_report(finished_run))
    assert page.title() == "tiny-run · gui_rl" and trouble == [] and len(set(requests)) >= 1
    assert page.locator("script").count() == 0 and page.locator("[onerror]").count() == 0
    assert page.locator('img:not([src^="data:image/png"])').count() == 0
    assert page.locator(".instruction").first.inner_text().startswith('Star the <img src=x onerror="document.title=1">')


@pytest.mark.parametrize("width", [480, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_fits_the_window_and_is_readable(finished_run, opened, width, scheme):
    page, _, _ = opened(write_report(finished_run), width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    luminance = """selector => {
        const read = (element, field) => getComputedStyle(element)[field].match(/[\\d.]+/g).slice(0, 3).map(Number);
        const light = rgb => rgb.map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
            .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
        const a = light(read(document.querySelector(selector), "color"));
        const b = light(read(document.body, "backgroundColor"));
        return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    }"""
    for selector in ("h1", ".lead", ".outcome.good", ".outcome.bad"):
        assert page.evaluate(luminance, selector) >= 4.5  # WCAG AA


def test_a_run_that_goes_on_has_a_report(finished_run, opened):
    (finished_run / "result.json").unlink()
    shutil.rmtree(finished_run / "trajectories")
    page, trouble, _ = opened(write_report(finished_run))
    text = page.locator("body").inner_text()
    assert trouble == []
    assert "not finished yet" in text and "The final evaluation has not run yet." in text
    assert "No trajectory was stored yet." in text


def test_a_missing_screenshot_is_said(finished_run, opened):
    (finished_run / "trajectories" / "mobile-0-00.png").unlink()
    page, _, _ = opened(write_report(finished_run))
    assert "the screenshot file is gone" in page.locator(".trajectory").first.inner_text()


@pytest.mark.parametrize("what", ["missing", "empty", "broken", "bad episode"])
def test_no_run_is_one_clear_line(finished_run, tmp_path, what):
    folder = tmp_path / "other"
    if what == "empty":
        folder.mkdir()
    elif what == "broken":
        folder = finished_run
        (folder / "result.json").write_text("{")
    elif what == "bad episode":
        folder = finished_run
        (folder / "trajectories" / "web-0.json").write_text('{"turns": [{}]}')
    with pytest.raises(UserError) as raised:
        write_report(folder)
    assert str(folder) in str(raised.value) and "\n" not in str(raised.value)
