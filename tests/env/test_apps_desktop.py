"""The desktop apps in a real Chromium: predicates, scripts, tool routes, near-misses, determinism, injection."""

import copy
import hashlib
from dataclasses import replace

import pytest

from env_servers.check import trials
from env_servers.inputs import perform
from env_servers.protocol.actions import from_pixels
from env_servers.sessions import SessionStore
from env_servers.suites import instantiate, tasks
from env_servers.suites.apps import registry
from env_servers.suites.apps.settings import effects as settings_effects
from env_servers.suites.apps.sheet import content
from env_servers.suites.apps.sheet import effects as sheet_effects
from env_servers.suites.apps.writer import app as writer_app
from env_servers.suites.virtual.app import generator, make_instance, paths, state_hash
from env_servers.suites.virtual.gestures import elements_of

APPS = ("writer", "sheet", "settings")
EFFECTS = {
    "writer": writer_app.EFFECTS,
    "sheet": sheet_effects.EFFECTS,
    "settings": settings_effects.EFFECTS,
}
ALL = {task_id: task for task_id, task in tasks("apps").items() if task.app in APPS}
PLAYED = (
    "writer/bold+italic",
    "writer/replace+comment",
    "sheet/fill+delete",
    "sheet/sort",
    "settings/snap+volume+mute",
)


def done(instance, without=(), extra=None):
    """The state that the effects of the instance's path leave, and those of `extra` (subtask, slots) after them."""
    state, effects = copy.deepcopy(instance.initial), EFFECTS[instance.app.name]
    for name in instance.task.path:
        if name in effects and name not in without:
            effects[name](state, instance.slots)
    if extra:
        effects[extra[0]](state, extra[1])
    return state


@pytest.mark.parametrize("name", APPS)
def test_tasks_cover_the_dag(name):
    app = registry()[name]
    listed = app.tasks()
    assert len(app.subtasks) >= 12 and len(set(paths(app))) >= 40 and len(app.tools) >= 3
    assert {step for task in listed for step in task.path} == {subtask.id for subtask in app.subtasks}
    assert {len(task.path) for task in listed} == {1, 2, 3, 4}
    assert {task.tool_beneficial for task in listed} == {1, -1} and {task.feasible for task in listed} == {True, False}
    assert all(tool.name.startswith(f"{name}.") for tool in app.tools)
    for seed in range(3):
        for subtask in app.subtasks:
            slots = app.slots(seed, (subtask.id,), app.initial(seed))
            assert set(subtask.needs) <= slots.keys(), subtask.id


@pytest.mark.parametrize("task_id", sorted(ALL))
def test_predicates_tell_the_right_end_from_near_misses(task_id):
    for seed in (0, 1_000_003):
        instance = instantiate("apps", task_id, seed)
        assert not any(check(instance.initial) for check in instance.checkpoints)
        assert not instance.final(instance.initial)
        assert "{" not in instance.instruction
        again = instantiate("apps", task_id, seed)
        assert (again.slots, again.initial) == (instance.slots, instance.initial)
        effects = EFFECTS[instance.app.name]
        steps = [name for name in instance.task.path if name in effects]
        if len(steps) < len(instance.task.path):
            continue  # questions and places are tried in the browser
        end = done(instance)
        if "save" in steps:
            assert not instance.final({**end, "docs": [{**doc, "dirty": True} for doc in end["docs"]]})
        assert instance.final(end) and all(check(end) for check in instance.checkpoints)
        assert instance.final(copy.deepcopy(end))  # scoring changes nothing
        for name in steps:  # one thing left undone
            assert not instance.final(done(instance, without=(name,)))
        other = next(name for name in sorted(effects) if name not in steps and name != "save")
        slots = instance.app.slots(seed, (other,), instance.initial)
        try:
            more = done(instance, extra=(other, slots))
        except (KeyError, StopIteration, ValueError):
            continue  # the task took away what the other one needs
        assert instance.app.outcome(more) == instance.app.outcome(end) or not instance.final(more)  # a side effect


@pytest.mark.parametrize("name", APPS)
def test_the_same_deed_on_another_thing_is_a_near_miss(name):
    app = registry()[name]
    tried = 0
    for task in app.tasks():
        if len(task.path) > 1 or task.path[0] not in EFFECTS[name]:
            continue
        instance = make_instance(app, task, 11)
        for attempt in range(6):
            wrong = app.fill(generator("wrong", attempt), task.path, instance.initial)
            mistaken = copy.deepcopy(instance.initial)
            EFFECTS[name][task.path[0]](mistaken, wrong)
            if wrong["goals"] != instance.slots["goals"]:
                assert not instance.final(mistaken), task.id
                tried += 1
    assert tried > 20


@pytest.mark.parametrize(
    ("cells", "comes_to"),
    [
        (["=SUM(B1:B3)", "2", "3", "x"], 5),
        (["=AVERAGE(B1:B3)*2", "2", "3", "4"], 6),
        (["=MAX(B1:B3)-MIN(B1,B2)", "2", "3", "9"], 7),
        (["=(B1+B2)/B3", "2", "3", "4"], 1.25),
        (["=B1/0", "1"], "#ERROR"),
        (["=B1+1", "word"], "#ERROR"),
        (["=A1", "1"], "#ERROR"),
        (["=__import__('os')", "1"], "#ERROR"),
        (["plain", "1"], "plain"),
    ],
)
def test_formulas(cells, comes_to, run, browser):
    """Python's formulas against written values, and the page's against the same."""
    state = registry()["sheet"].initial(0)
    rows = state["sheets"][0]["rows"] = [content.blank() for _ in range(content.ROWS)]
    for y, text in enumerate(cells):
        rows[max(0, y - 1)]["cells"][min(y, 1)] = text
    assert content.value(rows, 0, 0) == comes_to
    screen = run(browser.lease(registry()["sheet"].kind))
    run(screen.load(state))
    reply = run(screen.tool("sheet.read_cells", {"sheet": state["sheets"][0]["name"]}))
    shown = reply["result"]["rows"][0][0]
    assert shown == str(comes_to) or (str(comes_to) == "#ERROR" and shown.startswith("#"))
    run(browser.release(screen))


@pytest.mark.parametrize("task_id", PLAYED)
def test_scripts_and_tool_routes_solve_the_tasks(task_id, run, browser):
    found = run(trials(SessionStore(browser, max_sessions=1), "apps", task_id, 1_000_000))
    assert {trial.plan for trial in found} >= {"script", "tools", "nothing", "short"}
    assert [str(trial) for trial in found if not trial.right] == []


async def follow(screen, instance, judge):
    """Play the script of `instance` by real input; which checkpoints of it and of `judge` it met, and its end."""
    met, seen = [False] * len(instance.checkpoints), [False] * len(judge.checkpoints)
    for _ in range(45):
        state, elements = await screen.state(), elements_of(await screen.elements())
        met = [old or check(state) for old, check in zip(met, instance.checkpoints, strict=True)]
        seen = [old or check(state) for old, check in zip(seen, judge.checkpoints, strict=True)]
        arguments = instance.move(state, elements, met, ()).call["arguments"]
        if arguments["action"] == "terminate":
            return met, seen, state
        await perform(screen, "desktop", arguments)
    raise AssertionError(f"the script of {instance.task.id} does not end")


@pytest.mark.parametrize("task_id", ["writer/bold", "sheet/change", "settings/folder"])
def test_the_same_deed_on_another_thing_fails_in_the_browser(task_id, run, browser):
    right = instantiate("apps", task_id, 5)
    app, name = right.app, right.task.path[0]
    wrong = app.fill(generator("wrong"), right.task.path, right.initial)
    assert wrong["goals"] != right.slots["goals"]
    mistaken = replace(right, slots=wrong, checkpoints=(lambda state: app.by_id[name].checkpoint(state, wrong),))
    screen = run(browser.lease(app.kind))
    run(screen.load(right.initial))
    met, seen, end = run(follow(screen, mistaken, right))
    assert met == [True] and not right.succeeded(end, "success", all(seen))
    run(browser.release(screen))


@pytest.mark.parametrize(("task_id", "detour"), [
    ("writer/heading", ["insert menu", "comment"]),
    ("sheet/total", ["column B", "cell B2", "new sheet"]),
    ("settings/role", ["terminal icon", "terminal input", "close terminal"]),
])  # fmt: skip
def test_scripts_find_back_from_anywhere(task_id, detour, run, browser):
    instance = instantiate("apps", task_id, 8)
    screen = run(browser.lease(instance.app.kind))
    run(screen.load(instance.initial))
    if task_id.startswith("writer"):
        detour = [instance.slots["doc"], *detour]
    for name in detour:
        element = next(one for one in elements_of(run(screen.elements())) if one.name == name)
        x, y = element.centre
        action = "double_click" if name == instance.slots.get("doc") else "left_click"
        run(perform(screen, "desktop", {"action": action, "coordinate": from_pixels(round(x), round(y), 1024, 640)}))
    met, _, end = run(follow(screen, instance, instance))
    assert all(met) and instance.succeeded(end, "success", True)
    run(browser.release(screen))


@pytest.mark.parametrize("name", APPS)
def test_the_same_state_gives_the_same_pixels_on_used_and_fresh_pages(name, run, browser):
    app = registry()[name]
    used, fresh = run(browser.lease(app.kind)), run(browser.lease(app.kind))
    leaving = instantiate(
        "apps", {"writer": "writer/bold", "sheet": "sheet/change", "settings": "settings/folder"}[name], 9
    )
    run(used.load(leaving.initial))
    for _ in range(2):  # left in the middle of things: it must leave no trace
        state, elements = run(used.state()), elements_of(run(used.elements()))
        run(perform(used, "desktop", leaving.move(state, elements, [False], ()).call["arguments"]))
    for state in (app.initial(7), app.sample_state(100_004), run(used.state())):
        pictures = set()
        for screen in (used, fresh, used):
            run(screen.load(state))
            view = run(screen.view())
            assert view.state == state  # loading adds and drops nothing
            pictures.add((state_hash(view.state), hashlib.sha256(view.png).hexdigest()))
        assert len(pictures) == 1
    for screen in (used, fresh):
        run(browser.release(screen))


@pytest.mark.parametrize("name", APPS)
def test_text_never_becomes_markup(name, run, browser):
    evil = '<img src=x onerror="window.broken=1"><b>x</b>'
    app = registry()[name]
    state = app.initial(3)
    if name == "writer":
        state["docs"][0].update(name=evil, footer=evil, comments=[{"quote": evil, "text": evil}])
        state["docs"][0]["lines"][0]["text"] = evil
        state.update(open=state["docs"][0]["id"], title=evil)
    elif name == "sheet":
        state["sheets"][0]["name"] = state["sheets"][0]["rows"][1]["cells"][0] = evil
        state.update(book=evil, selection=[0, 1, 0, 1])
    else:
        state["settings"]["users"].append({"name": evil, "role": evil})
        state["terminal"]["lines"].append(evil)
        state["panel"] = "users"
        state["windows"].append({"app": "terminal", "x": 400, "y": 260})
    screen = run(browser.lease(app.kind))
    run(screen.load(state))
    if name == "sheet":  # through the cell editor too
        run(screen.page.keyboard.insert_text(evil))
        run(screen.page.keyboard.press("Enter"))
    run(screen.view())
    count = "function () { return [document.querySelectorAll('img').length, this.broken ?? 0] }"
    assert run(screen.call(count)) == [0, 0]
    assert "onerror" in run(screen.call("function () { return document.body.innerText }"))
    run(browser.release(screen))


@pytest.mark.parametrize("name", APPS)
def test_tools_refuse_what_cannot_be_done_and_change_nothing(name, run, browser):
    app = registry()[name]
    screen = run(browser.lease(app.kind))
    run(screen.load(app.initial(3)))
    before = run(screen.state())
    wrong = {
        "writer": [("replace_all", {"document": "nothing", "find": "a", "replace": "b"})],
        "sheet": [("set_cell", {"sheet": "nothing", "cell": "A1", "text": "b"}),
                  ("set_cell", {"sheet": before.get("sheets", [{"name": ""}])[0]["name"], "cell": "Z9", "text": "b"})],
        "settings": [("set", {"key": "sound.volume", "value": "101"}), ("run_command", {"command": "rm ~/nothing"}),
                     ("set", {"key": "constructor", "value": "1"}), ("add_user", {"name": "<b>"})],
    }[name]  # fmt: skip
    for tool, arguments in (*wrong, ("nothing", {})):
        reply = run(screen.tool(f"{name}.{tool}", arguments))
        assert reply["success"] is False and reply["error_message"]
    assert run(screen.state()) == before
    run(browser.release(screen))
