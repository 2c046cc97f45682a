"""The kit of the apps in a real Chromium: what is visible, touches, wheel, focus, tools, and text that is no markup."""

import pytest

from env_servers.inputs import perform
from env_servers.protocol.actions import from_pixels
from env_servers.suites.apps.pages import assemble
from env_servers.suites.suite import PageKind

WIDTH, HEIGHT = 360, 640
PAGE = """
<script>
"use strict";
const log = (what) => () => change((state) => { state.log.push(what); });
const at = (left, top, width, height) => `position: absolute; left: ${left}px; top: ${top}px; width: ${width}px; ` +
  `height: ${height}px; `;
const row = (text, k) =>
  h("div", { name: `row ${k}`, style: "height: 40px", onclick: log(`click ${k}`), onhold: log(`hold ${k}`) }, text);
const swiped = (event) => {
  event.preventDefault();
  log(`swipe ${Math.round(event.detail.dx)} ${Math.round(event.detail.dy)}`)();
};
const typed = (event) => change((state) => { state.text = event.target.value; });
const { change } = mount({
  start() {},
  show(state) {
    document.getElementById("root").replaceChildren(
      h("div", { name: "list", style: at(0, 0, 200, 200) + "overflow: auto" }, ...state.rows.map(row)),
      h("div", { name: "map", style: at(0, 300, 360, 200), onswipe: swiped }),
      h("input", { name: "box", value: state.text, style: at(0, 220, 200, 40), oninput: typed }),
      h("button", { name: "gone", style: "display: none" }, "gone"),
      state.cover && h("div", { style: at(0, 0, 200, 70) + "background: #ffffff" }));
  },
  tools: {
    "kit.add"(state, { text }) {
      if (!text) throw Error("nothing to add");
      state.rows.push(text);
      return { rows: state.rows.length };
    },
  },
});
</script>
"""


def kind(touch):
    html = assemble("kit-test", "mobile" if touch else "web").replace("</body>", PAGE + "</body>")
    return PageKind(f"kit-{touch}", html, WIDTH, HEIGHT, touch=touch)


STATE = {"rows": [f"text {k}" for k in range(30)], "text": "", "log": [], "cover": False, "b": 1, "a": 2}


@pytest.fixture
def screens(run, browser):
    leased = {touch: run(browser.lease(kind(touch))) for touch in (True, False)}
    yield leased
    for screen in leased.values():
        run(browser.release(screen))


@pytest.fixture
def touch(run, screens):
    run(screens[True].load(STATE))
    return screens[True]


def point(x, y):
    return list(from_pixels(x, y, WIDTH, HEIGHT))


def names(run, screen):
    return [element["name"] for element in run(screen.elements())]


def act(run, screen, action, **given):
    run(perform(screen, "mobile" if screen.kind.touch else "web", {"action": action, **given}))
    return run(screen.state())


def swipe(run, screen, start, end):
    return act(run, screen, "swipe", coordinate=point(*start), coordinate2=point(*end))


def scrolled(run, screen):
    return run(screen.call("function () { return document.querySelector('[data-name=list]').scrollTop }"))


def test_elements_are_what_can_be_seen_and_hit(run, touch):
    assert [name for name in names(run, touch) if name != "map"] == [*(f"row {k}" for k in range(5)), "box"]
    boxes = {element["name"]: element["box"] for element in run(touch.elements())}
    assert boxes["row 1"][1::2] == [40, 80] and boxes["row 1"][0] == 0
    run(touch.load({**STATE, "cover": True}))
    assert "row 0" not in names(run, touch) and "row 1" not in names(run, touch) and "row 2" in names(run, touch)


def test_what_is_cut_off_has_the_box_of_what_is_left_and_a_sliver_is_nothing(run, touch):
    swipe(run, touch, (100, 180), (100, 164))  # 16 px: 24 px are left of the first row, 16 px of the sixth are in sight
    boxes = {element["name"]: element["box"] for element in run(touch.elements())}
    assert boxes["row 0"][1::2] == [0, 24] and boxes["row 5"][1::2] == [184, 200]
    swipe(run, touch, (100, 180), (100, 161))  # 35 px in all: 5 px are left of the first row
    shown = names(run, touch)
    assert "row 0" not in shown and "row 1" in shown and "row 5" in shown


def test_a_swipe_scrolls_by_its_length_and_is_no_tap(run, touch):
    state = swipe(run, touch, (100, 180), (100, 60))
    assert abs(scrolled(run, touch) - 120) <= 1 and state["log"] == []
    swipe(run, touch, (100, 60), (100, 180))
    assert abs(scrolled(run, touch)) <= 1


def test_a_swipe_that_is_taken_scrolls_nothing(run, touch):
    state = swipe(run, touch, (100, 400), (180, 340))
    assert len(state["log"]) == 1
    dx, dy = map(int, state["log"][0].split()[1:])
    assert abs(dx - 80) <= 1 and abs(dy + 60) <= 1 and scrolled(run, touch) == 0


def test_a_hold_is_no_tap_and_a_tap_no_hold(run, touch):
    assert act(run, touch, "long_press", coordinate=point(50, 100))["log"] == ["hold 2"]
    assert act(run, touch, "click", coordinate=point(50, 60))["log"] == ["hold 2", "click 1"]


def test_the_wheel_scrolls_what_lies_under_it_at_once(run, screens):
    screen = screens[False]
    run(screen.load(STATE))
    run(perform(screen, "web", {"action": "scroll", "direction": "down", "coordinate": point(100, 100)}))
    assert scrolled(run, screen) == 100
    run(perform(screen, "web", {"action": "scroll", "direction": "down", "coordinate": point(300, 600)}))
    assert scrolled(run, screen) == 100 and run(screen.call("function () { return scrollY }")) == 0


@pytest.mark.parametrize("finger", (True, False))
def test_focus_and_scroll_stay_while_the_state_is_shown_anew(run, screens, finger):
    screen = screens[finger]
    run(screen.load(STATE))
    run(screen.call("function () { document.querySelector('[data-name=list]').scrollTop = 80 }"))
    act(run, screen, "click", coordinate=point(60, 240))
    act(run, screen, "type", text="one")
    assert act(run, screen, "type", text=" two")["text"] == "one two" and scrolled(run, screen) == 80
    run(screen.load(STATE))
    assert scrolled(run, screen) == 0
    assert act(run, screen, "type", text="lost")["text"] == ""  # a new episode begins without a focus


def test_text_is_never_markup(run, touch):
    bad = "<img src=x onerror='window.hit = 1'><script>window.hit = 1</script>"
    run(touch.load({**STATE, "rows": [bad, "\"]'*{}"]}))
    act(run, touch, "click", coordinate=point(60, 240))
    assert act(run, touch, "type", text=bad)["text"] == bad
    assert run(touch.tool("kit.add", {"text": bad}))["success"]
    made = "document.querySelectorAll('#root img, #root script').length"
    assert run(touch.call(f"function () {{ return [{made}, window.hit ?? null] }}")) == [0, None]
    assert run(touch.call("function () { return document.querySelector('[data-name=\"row 0\"]').textContent }")) == bad


def test_tools_answer_and_refuse(run, touch):
    assert run(touch.tool("kit.add", {"text": "more"})) == {
        "success": True,
        "result": {"rows": 31},
        "error_message": None,
    }
    for name, given in (("kit.add", {}), ("kit.nothing", {}), ("constructor", {}), ("toString", {})):
        reply = run(touch.tool(name, given))
        assert reply["success"] is False and reply["result"] is None and reply["error_message"]
    assert len(run(touch.state())["rows"]) == 31


def test_the_state_is_canonical_and_the_page_keeps_no_hold_of_it(run, touch):
    assert list(run(touch.state())) == sorted(STATE)
    text = (
        "function () { const state = window.app.state(); state.rows.length = 0; return window.app.state().rows.length }"
    )
    assert run(touch.call(text)) == 30
