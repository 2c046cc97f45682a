"""The web apps mail, search and admin in a real Chromium: tasks, scripts, near-misses, pixels, injection."""

import asyncio
import copy
import hashlib
import json
from dataclasses import replace

import pytest

from env_servers.check import PLANS, check
from env_servers.inputs import perform
from env_servers.protocol.actions import Call, validate_call
from env_servers.suites import apps, instantiate
from env_servers.suites.virtual.app import generator, make_instance, paths, state_hash
from env_servers.suites.virtual.gestures import Element, elements_of

NAMES = ("mail", "search", "admin")
SAMPLE = (
    "mail/rescue+label+save+forward",
    "mail/archive+tell",
    "search/book",
    "admin/contact",
    "admin/missing",
)
MARKUP = '<img src=x onerror="window.hacked = 1"><b>bold</b>'


@pytest.fixture(scope="module")
def screens(run, browser):
    return {name: run(browser.lease(apps.registry()[name].kind)) for name in NAMES}


async def act(screen, call, app):
    assert validate_call(Call(**call), "web", [tool.schema() for tool in app.tools]) is None
    if call["name"] == "browser_use":
        await perform(screen, "web", call["arguments"])
    else:
        reply = await screen.tool(call["name"], call["arguments"])
        assert reply["success"], reply


async def play(screen, instance, tools=(), begin=True):
    """Run the script: its calls, the last status, which checkpoints were met, the end state."""
    if begin:
        await screen.load(instance.initial)
    met, calls = [False] * len(instance.checkpoints), []
    while len(calls) <= instance.task.max_steps + 10:
        state = await screen.state()
        met = [old or check(state) for old, check in zip(met, instance.checkpoints, strict=True)]
        call = instance.move(state, elements_of(await screen.elements()), met, tools).call
        if call["arguments"].get("action") == "terminate":
            return calls, call["arguments"]["status"], met, state
        calls.append(call)
        await act(screen, call, instance.app)
    raise AssertionError(f"the script of {instance.task.id} does not end: {calls}")


async def click(screen, name):
    (x0, y0, x1, y1) = next(one["box"] for one in await screen.elements() if one["name"] == name)
    await screen.page.mouse.click((x0 + x1) / 2, (y0 + y1) / 2)


def single(name):
    return [task for task in apps.registry()[name].tasks() if len(task.path) == 1 and task.feasible]


def solved(instance, met, state):
    return instance.succeeded(state, "success", all(met))


# --- without a browser -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", NAMES)
def test_tasks_cover_a_large_dag(name):
    app = apps.registry()[name]
    listed = app.tasks()
    assert len(app.subtasks) >= 12 and len(app.tools) >= 3 and app.device == "web"
    assert len(listed) == 40 == len({task.path for task in listed}) and sum(1 for _ in paths(app)) > 200
    assert {step for task in listed for step in task.path} == set(app.by_id)
    assert {len(task.path) for task in listed} == {1, 2, 3, 4}
    assert {task.tool_beneficial for task in listed} == {1, -1}
    assert {task.feasible for task in listed} == {True, False}


@pytest.mark.parametrize("name", NAMES)
def test_every_seed_gives_a_feasible_instance_that_starts_unsolved(name):
    app = apps.registry()[name]
    for task in app.tasks():
        for seed in (*range(5), 100_000, 1_000_000):
            instance = instantiate("apps", task.id, seed)
            assert not any(check(instance.initial) for check in instance.checkpoints), (task.id, seed)
            assert not instance.final(instance.initial)
            assert instance.instruction and "{" not in instance.instruction
            again = instantiate("apps", task.id, seed)
            assert (again.slots, again.initial) == (instance.slots, instance.initial)
            needed = [str(instance.slots[slot]) for step in task.path for slot in app.by_id[step].needs]
            assert all(need in instance.instruction for need in needed)
            assert all(f'"{need}"' in json.dumps(instance.initial) for need in needed)


@pytest.mark.parametrize("name", NAMES)
def test_seeds_vary_content_and_layout(name):
    app = apps.registry()[name]
    assert len({state_hash(app.initial(seed)) for seed in range(50)}) == 50
    assert len({state_hash(app.sample_state(seed)) for seed in range(100)}) == 100
    for key in app.initial(0)["layout"]:
        assert len({json.dumps(app.initial(seed)["layout"][key]) for seed in range(60)}) > 1, key


# --- scripts and near-misses -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", NAMES)
def test_every_subtask_is_solved_and_its_near_misses_are_not(name, run, screens):
    app, screen = apps.registry()[name], screens[name]
    offered = tuple(tool.name for tool in app.tools)

    async def one(task):
        instance = instantiate("apps", task.id, 1_000_007)
        by_tool = app.by_tool(app.by_id[task.path[0]])
        calls, status, met, end = await play(screen, instance, offered)
        assert status == "success" and solved(instance, met, end), task.id
        assert (len(calls) == 1) if by_tool else len(calls) < task.max_steps
        assert solved(instance, met, copy.deepcopy(end)) and await screen.state() == end  # scoring changes nothing
        assert not instance.succeeded(end, None, True) and not instance.succeeded(end, "failure", True)
        wrong = app.fill(generator("wrong", task.id), task.path, instance.initial)  # the same deed, another object
        text = app.by_id[task.path[0]].text.format(**wrong)
        if text != instance.instruction:
            other = replace(instance, slots=wrong, subtask_texts=(text,))
            other = replace(other, checkpoints=(lambda s: app.by_id[task.path[0]].checkpoint(s, wrong),))
            *_, reached, astray = await play(screen, other, offered)
            assert all(reached) and not (instance.checkpoints[0](astray) and instance.final(astray)), task.id

    for task in single(name):
        run(one(task))


STRAY = {
    "mail": ("mail.post", lambda state: {"thread": state["threads"][0]["title"], "text": "Nobody asked for this."}),
    "search": ("search.bookmark_page", lambda state: {"name": state["pages"][-1]["name"]}),
    "admin": (
        "admin.set_cell",
        lambda state: {"table": "stock", "row": state["tables"]["stock"][5]["item"], "field": "count", "value": "777"},
    ),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_script_gives_up_on_what_is_missing_only_after_a_search_for_it(name):
    instance = instantiate("apps", f"{name}/missing", 3)
    state = copy.deepcopy(instance.initial)
    if name == "admin":
        state["at"]["page"] = "users"
    move = instance.move(state, [Element("search box", (0, 0, 90, 20))], [False], ())
    assert move.call["arguments"]["action"] == "type"
    assert move.call["arguments"]["text"] == instance.slots["missing"] + "\n"


@pytest.mark.parametrize(("name", "task"), [("mail", "star"), ("search", "cancel"), ("admin", "promote")])
def test_side_effects_spoil_a_success(name, task, run, screens):
    instance = instantiate("apps", f"{name}/{task}", 21)

    async def body():
        *_, met, end = await play(screens[name], instance)
        assert solved(instance, met, end)
        tool, arguments = STRAY[name]
        assert (await screens[name].tool(tool, arguments(end)))["success"]
        assert not solved(instance, met, await screens[name].state())

    run(body())


def test_all_plans_of_the_self_test_come_out_right():
    trials = asyncio.run(check("apps", SAMPLE, (1_000_001,)))
    assert [str(trial) for trial in trials if not trial.right] == []
    assert {trial.plan for trial in trials} == set(PLANS)


@pytest.mark.parametrize("name", NAMES)
def test_scripts_find_back_from_anywhere(name, run, screens):
    app, screen = apps.registry()[name], screens[name]
    rng = generator("wander", name)
    known = [task for task in single(name) if not task.path[0].startswith("send")]

    async def one():
        instance = make_instance(app, rng.choice(known), rng.randrange(1000))
        await screen.load(instance.initial)
        for _ in range(rng.randint(1, 4)):
            await screen.state()
            found = [one["name"] for one in await screen.elements()]
            await click(screen, rng.choice([each for each in found if not each.startswith("delete")]))
        *_, status, met, _ = await play(screen, instance, begin=False)
        return all(met) or status == "failure"

    assert all(run(one()) for _ in range(5))


# --- pages -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", NAMES)
def test_a_state_shows_the_same_pixels_on_a_used_and_on_a_fresh_page(name, run, browser, screens):
    app = apps.registry()[name]

    async def look(screen, state):
        await screen.load(state)
        view = await screen.view()
        assert view.state == state
        names = [element["name"] for element in await screen.elements()]
        assert len(names) == len(set(names)) >= 1
        return state_hash(view.state), hashlib.sha256(view.png).hexdigest()

    async def body():
        states = [app.initial(3), *(app.sample_state(seed) for seed in range(100_010, 100_016))]
        used = [await look(screens[name], state) for state in states]
        assert used == [await look(screens[name], state) for state in states]
        fresh = await browser.lease(app.kind)  # the other one is on lease
        assert fresh is not screens[name]
        assert used[::-1] == [await look(fresh, state) for state in reversed(states)]
        await browser.release(fresh)

    run(body())


def _poison(name, state):
    """The state with markup in place of what persons wrote, and a screen that shows it."""
    if name == "mail":
        state["mails"][0].update({"from": MARKUP, "subject": MARKUP, "lines": [MARKUP], "folder": "Inbox"})
        state["layout"]["brand"] = MARKUP
    elif name == "search":
        state["pages"][0].update({"name": MARKUP, "lines": [MARKUP]})
        state.update({"at": {"page": "page", "id": 0}, "dialog": None})
        state["dialog"] = {"icon": "error", "title": MARKUP, "text": MARKUP, "ok": MARKUP, "then": ""}
    else:
        state["tables"]["orders"][0].update({"number": MARKUP, "customer": MARKUP, "status": MARKUP})
    return state


@pytest.mark.parametrize("name", NAMES)
def test_text_of_entities_and_typed_text_is_never_markup(name, run, screens):
    screen, app = screens[name], apps.registry()[name]

    async def body():
        await screen.load(_poison(name, app.initial(9)))
        await screen.view()
        assert "<img src=x" in await screen.call("function () { return document.body.innerText }")
        if name == "search":
            await click(screen, MARKUP)
        box = next(one for one in await screen.elements() if one["name"] == "search box")
        (x0, y0, x1, y1) = box["box"]
        await screen.page.mouse.click((x0 + x1) / 2, (y0 + y1) / 2)
        await screen.page.keyboard.insert_text(MARKUP)
        await screen.page.keyboard.press("Enter")
        state = await screen.state()
        assert MARKUP in json.dumps(state, ensure_ascii=False).replace('\\"', '"')
        await screen.view()
        spoilt = "function () { return [this.hacked ?? null, document.querySelectorAll('img').length] }"
        assert await screen.call(spoilt) == [None, 0]

    run(body())


WRONG = {
    "mail": (
        "mail.move_mail",
        {"sender": "Nobody", "folder": "Spam"},
        ("mail.send_mail", {"to": "x", "subject": "a", "text": "b"}),
    ),
    "search": ("search.book", {"place": "Nowhere"}, ("search.fill_field", {"field": "pay", "value": "Shells"})),
    "admin": (
        "admin.delete_row",
        {"table": "users", "row": "Nobody"},
        ("admin.add_user", {"name": "", "mail": "a@b.c", "role": "Reader"}),
    ),
}


@pytest.mark.parametrize("name", NAMES)
def test_tools_refuse_what_cannot_be_done_and_change_nothing(name, run, screens):
    screen, state = screens[name], apps.registry()[name].initial(3)
    tool, arguments, other = WRONG[name]

    async def body():
        await screen.load(state)
        for called in ((tool, arguments), other, (f"{name}.nothing", {})):
            reply = await screen.tool(*called)
            assert set(reply) == {"success", "result", "error_message"}
            assert reply["success"] is False and reply["error_message"]
        assert await screen.state() == state

    run(body())


@pytest.mark.parametrize(
    ("name", "address", "place"),
    [
        ("mail", "https://mail.example/forum", "forum"),
        ("search", "/bookings", "bookings"),
        ("admin", "/stock", "stock"),
    ],
)
def test_goto_opens_an_address_and_go_back_returns(name, address, place, run, screens):
    screen, state = screens[name], apps.registry()[name].initial(4)

    async def body():
        await screen.load(state)
        await perform(screen, "web", {"action": "goto", "url": address})
        assert (await screen.state())["at"]["page"] == place
        await perform(screen, "web", {"action": "go_back"})
        assert (await screen.state())["at"] == state["at"]

    run(body())


def test_a_form_with_a_gap_is_not_sent_but_told_about(run, screens):
    screen, app = screens["search"], apps.registry()["search"]
    state = app.initial(6)
    state["drafts"][str(state["started"])]["date"] = ""
    state["at"] = {"page": "form", "id": state["started"]}

    async def body():
        await screen.load(state)
        await perform(screen, "web", {"action": "scroll", "direction": "down"})
        await click(screen, "send")
        now = await screen.state()
        assert now["dialog"]["text"] == "Please enter the date." and now["wrong"] == "date"
        assert app.outcome(now) == app.outcome(state)
        await click(screen, "OK")
        assert (await screen.state())["dialog"] is None

    run(body())


def test_a_cell_takes_whole_numbers_only(run, screens):
    screen, app = screens["admin"], apps.registry()["admin"]
    state = app.initial(8)
    state["at"]["page"] = "stock"
    item = state["tables"]["stock"][0]["item"]

    async def body():
        for text, count in (("many", state["tables"]["stock"][0]["count"]), ("123", 123)):
            await screen.load(state)
            await screen.state()
            await click(screen, f"count of {item}")
            await screen.page.keyboard.insert_text(text)
            await screen.page.keyboard.press("Enter")
            now = await screen.state()
            assert now["tables"]["stock"][0]["count"] == count
            assert (now["dialog"] is None) == (count == 123)
            await screen.view()

    run(body())
