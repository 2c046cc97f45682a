"""The phone's apps in a real Chromium: tasks, predicates, near-misses, scripts, tools, determinism (R34, R35)."""

import copy
import hashlib
import json

import pytest

from env_servers.inputs import perform
from env_servers.suites import instantiate, tasks
from env_servers.suites.apps import registry
from env_servers.suites.virtual.app import generator, make_instance, paths, state_hash
from env_servers.suites.virtual.gestures import elements_of

APPS = ("ride", "tickets", "notes")
ALL = {task.id: task for task in tasks("apps").values() if task.app in APPS}
SINGLE = sorted(task.id for task in ALL.values() if len(task.path) == 1 and task.feasible)
LONG = sorted(next(task.id for task in ALL.values() if task.app == app and len(task.path) == 4) for app in APPS)


@pytest.fixture(scope="module")
def screens(run, browser):
    return {name: run(browser.lease(registry()[name].kind)) for name in APPS}


async def play(screen, instance, tools=(), most=40):
    """Run the script: its moves, last status, which checkpoints were met, the states after every move."""
    await screen.load(instance.initial)
    met, moves, states = [False] * len(instance.checkpoints), [], []
    while len(moves) < most:
        state, elements = await screen.state(), elements_of(await screen.elements())
        states.append(state)
        met = [old or bool(check(state)) for old, check in zip(met, instance.checkpoints, strict=True)]
        move = instance.move(state, elements, met, tools)
        if move.call["arguments"].get("action") == "terminate":
            return moves, move.call["arguments"]["status"], met, states
        moves.append(move)
        if move.call["name"] in tools:
            reply = await screen.tool(move.call["name"], move.call["arguments"])
            assert reply["success"], reply
        else:
            await perform(screen, "mobile", move.call["arguments"])
        await screen.view()  # as in a session: without a picture a page in the background draws no frames
    raise AssertionError(f"the script of {instance.task.id} does not end: {[move.conclusion for move in moves]}")


def seed_of(task_id):
    return 1_000_000 + int(hashlib.sha256(task_id.encode()).hexdigest(), 16) % 1000


# --- without a browser -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", APPS)
def test_the_dag_is_wide_enough_and_covered(name):
    app = registry()[name]
    listed = app.tasks()
    assert len(app.subtasks) >= 12 and len(set(paths(app))) >= 40 and len(listed) == 40 and len(app.tools) >= 3
    assert {step for task in listed for step in task.path} == {subtask.id for subtask in app.subtasks}
    assert {len(task.path) for task in listed} == {1, 2, 3, 4}
    assert {task.feasible for task in listed} == {True, False} and {task.tool_beneficial for task in listed} == {1, -1}
    assert all("{" + slot + "}" in subtask.text for subtask in app.subtasks for slot in subtask.needs)
    assert all(slot in app.pools for subtask in app.subtasks for slot in subtask.needs)


@pytest.mark.parametrize("task_id", sorted(ALL))
def test_every_seed_gives_a_feasible_instance_that_starts_unsolved(task_id):
    for seed in (*range(8), 1_000_000):
        instance = instantiate("apps", task_id, seed)
        assert not any(check(instance.initial) for check in instance.checkpoints)
        assert not instance.final(instance.initial)
        assert "{" not in instance.instruction and instance.instruction == " ".join(instance.subtask_texts)
        again = instantiate("apps", task_id, seed)
        assert (again.slots, again.initial) == (instance.slots, instance.initial)


@pytest.mark.parametrize("name", APPS)
def test_seeds_vary_content_and_layout(name):
    app = registry()[name]
    assert len({state_hash(app.initial(seed)) for seed in range(40)}) == 40
    for key in app.initial(0)["layout"]:
        assert len({str(app.initial(seed)["layout"][key]) for seed in range(60)}) > 1, key
    for seed in range(100_000, 100_040):
        assert app.facts(app.sample_state(seed)) and all(answer for _, answer in app.facts(app.sample_state(seed)))


@pytest.mark.parametrize("name", APPS)
def test_whatever_a_task_names_can_be_renamed_to_what_is_not_there(name):
    app = registry()[name]
    for seed in range(15):
        held = json.dumps(app.initial(seed))
        for slot in {slot for subtask in app.subtasks for slot in subtask.needs}:
            assert any(f'"{other}"' not in held for other in app.pools[slot]), slot


# --- screens ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", APPS)
def test_screens_show_their_state_with_named_elements(name, run, screens):
    app, screen = registry()[name], screens[name]
    for seed in range(100_000, 100_025):
        state = app.sample_state(seed)
        run(screen.load(state))
        assert run(screen.state()) == state
        elements = elements_of(run(screen.elements()))
        names = [element.name for element in elements]
        assert names and len(names) == len(set(names))
        dates = {*state.get("days", ()), *(f"clear {box}" for box in ("search", "text", "title"))}
        assert set(names) <= {*app.names, *dates}, set(names) - set(app.names)
        for x0, y0, x1, y1 in (element.box for element in elements):
            assert 0 <= x0 < x1 <= app.width and 0 <= y0 < y1 <= app.height and min(x1 - x0, y1 - y0) >= 10


@pytest.mark.parametrize("name", APPS)
def test_the_same_seed_gives_the_same_state_and_pixels_on_a_fresh_page(name, run, browser, screens):
    app, used = registry()[name], screens[name]
    fresh = run(browser.lease(app.kind))
    for seed in (7, 100_007, 100_008, 100_012):
        pictures = set()
        for screen in (used, fresh, used):
            run(screen.load(app.initial(seed) if seed < 100_000 else app.sample_state(seed)))
            view = run(screen.view())
            pictures.add((state_hash(view.state), view.png))
        assert len(pictures) == 1, seed
    run(browser.release(fresh))


BAD = "<img src=x onerror='window.hit = 1'>"


@pytest.mark.parametrize(
    ("name", "place"),
    [("ride", ("places", 0, "name")), ("tickets", ("films", 0, "title")), ("notes", ("notes", 0, "title"))],
)
def test_names_and_typed_text_are_never_markup(name, place, run, screens):
    state, screen = copy.deepcopy(registry()[name].initial(3)), screens[name]
    first, second, third = place
    old, state[first][second][third] = state[first][second][third], BAD
    state = {key: BAD if value == old else value for key, value in state.items()}
    if name == "ride":
        state |= {"screen": "search", "slot": "home"}
    if name == "notes":
        state["open"] = "notes"
    run(screen.load(state))
    hand = registry()[name].hand
    run(perform(screen, "mobile", hand.tap(elements_of(run(screen.elements())), "search").call["arguments"]))
    run(perform(screen, "mobile", hand.type(BAD).call["arguments"]))
    assert run(screen.state())["query"] == BAD
    assert run(screen.call("function () { return [document.images.length, window.hit ?? null] }")) == [0, None]
    assert BAD in run(screen.call("function () { return document.getElementById('root').textContent }"))


@pytest.mark.parametrize("name", APPS)
def test_tools_refuse_what_cannot_be_done_and_change_nothing(name, run, screens):
    screen = screens[name]
    run(screen.load(registry()[name].initial(3)))
    before = run(screen.state())
    wrong = {
        "ride": (
            ("ride.order", {"to": "Nowhere", "class": "Mini"}),
            ("ride.rate", {"to": before.get("trips", [{"to": ""}])[0]["to"], "stars": 9}),
        ),
        "tickets": (
            ("tickets.buy_film", {"title": "Nothing", "day": "", "time": "", "seats": []}),
            ("tickets.refund", {"title": "Nothing"}),
        ),
        "notes": (("notes.move", {"title": "Nothing", "folder": "x"}), ("weather.get", {"city": "Nowhere"})),
    }[name]
    for tool, arguments in (*wrong, (f"{name}.nothing", {})):
        reply = run(screen.tool(tool, arguments))
        assert reply["success"] is False and reply["error_message"]
    assert run(screen.state()) == before


# --- scripts ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("task_id", [*SINGLE, *LONG])
def test_scripts_solve_and_near_misses_score_nothing(task_id, run, screens):
    task = ALL[task_id]
    app, screen = registry()[task.app], screens[task.app]
    instance = instantiate("apps", task_id, seed_of(task_id))
    moves, status, met, states = run(play(screen, instance))
    *before, end = states
    assert instance.succeeded(end, status, all(met)) and len(moves) < task.max_steps
    assert (
        instance.succeeded(copy.deepcopy(end), status, all(met)) and run(screen.state()) == end
    )  # scoring is read-only
    assert not instance.succeeded(end, "failure", all(met))
    assert not any(instance.checkpoints[-1](state) for state in before)  # one action short, or any number
    for key, value in _side_effects(app, end):
        if value not in {fact for k in task.path for fact in app.by_id[k].touches(instance.slots)}:
            assert not instance.final(key), value
    for number in range(8):  # the right deed, but with another thing
        wrong = app.fill(generator("wrong", number), task.path, instance.initial)
        asked = app.by_id[task.path[-1]]
        if asked.text.format(**wrong) != asked.text.format(**instance.slots):
            answered = end["answer"] and asked.checkpoint({**end, "answer": end["answer"]}, wrong)
            assert answered or not asked.checkpoint(end, wrong), asked.text.format(**wrong)
    offered = tuple(tool.name for tool in app.tools)
    if any(app.by_tool(app.by_id[step]) for step in task.path):
        by_tool, status, met, states = run(play(screen, instance, offered))
        assert instance.succeeded(states[-1], status, all(met)) and len(by_tool) <= len(moves)
        assert app.outcome(states[-1]) == app.outcome(end)


def _side_effects(app, state):
    """(the state with one thing changed that no task may change unasked, the fact that it changes)."""
    changed = copy.deepcopy(state)
    if app.name == "ride":
        trip = changed["trips"][-1]
        trip["tip"] = 5 if trip["tip"] != 5 else 1
        yield changed, f"tip {trip['to']}"
        changed = copy.deepcopy(state)
        changed["work"] = changed["here"]
        yield changed, "work"
    elif app.name == "tickets":
        changed["tickets"][0]["pay"] = "Cheque"
        yield changed, f"ticket {changed['tickets'][0]['title']}"
    else:
        changed["notes"][0]["text"] += "!"
        yield changed, f"text {changed['notes'][0]['title']}"
        changed = copy.deepcopy(state)
        changed["notes"].append({**changed["notes"][0], "id": "n99"})
        yield changed, "count"


@pytest.mark.parametrize("name", APPS)
def test_scripts_find_back_from_anywhere(name, run, screens):
    """After wandering off by taps and Back, the script still reaches its checkpoints, or gives up what is gone."""
    app, screen = registry()[name], screens[name]
    known = [task for task in app.tasks() if task.feasible and len(task.path) == 1]
    rng = generator("wander", name)
    gave_up = 0
    for _ in range(6):
        instance = make_instance(app, rng.choice(known), rng.randrange(1000))
        run(screen.load(instance.initial))
        for _ in range(rng.randint(1, 4)):
            element = rng.choice(elements_of(run(screen.elements())))
            act = rng.choice((app.hand.tap, app.hand.tap, app.hand.tap, app.hand.hold))
            run(perform(screen, "mobile", act([element], element.name).call["arguments"]))
            run(screen.view())
        object.__setattr__(instance, "initial", run(screen.state()))
        _, status, met, _ = run(play(screen, instance))
        assert all(met) or status == "failure", instance.instruction
        gave_up += status == "failure"
    assert gave_up <= 2
