"""The virtual suite in a real Chromium: geometry, determinism, predicates, scripts, tool routes, near-misses (R34)."""

import copy
import hashlib
import itertools
import json
import time
from dataclasses import replace

import pytest
from playwright.sync_api import sync_playwright

from env_servers.errors import UserError
from env_servers.protocol.actions import Call, to_pixels, validate_call
from env_servers.suites import instantiate, tasks
from env_servers.suites.virtual import icons, registry, vocabulary_samples
from env_servers.suites.virtual.app import (
    SEEDS,
    Subtask,
    check_dag,
    generator,
    make_instance,
    paths,
    script_length,
    scripted_move,
    split_of,
    state_hash,
)
from env_servers.suites.virtual.gestures import elements_of
from env_servers.suites.virtual.words import counted

APPS = sorted(registry)
ALL = tasks("virtual")
KEYS = {"ctrl": "Control", "delete": "Delete", "backspace": "Backspace", "escape": "Escape"}


class Screen:
    """An app in a page of its own, driven by real touch, mouse and keyboard events."""

    def __init__(self, browser, app):
        context = browser.new_context(
            viewport={"width": app.width, "height": app.height}, has_touch=app.device == "mobile"
        )
        self.app, self.page = app, context.new_page()
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.set_content(app.page)
        self.devtools = context.new_cdp_session(self.page)

    def load(self, state):
        self.page.evaluate("state => window.app.load(state)", state)

    def state(self):
        assert not self.errors
        return self.page.evaluate("window.app.state()")

    def elements(self):
        return elements_of(self.page.evaluate("window.app.elements()"))

    def tool(self, name, arguments):
        return self.page.evaluate("([name, given]) => window.app.tool(name, given)", [name, arguments])

    def words(self):
        return self.page.eval_on_selector_all("#screen text", "nodes => nodes.map(node => node.textContent)")

    def _finger(self, seconds, start, *path):
        """Touch events carry their own time, so that a long press needs no waiting."""
        begin = time.time()
        steps = [("touchStart", start), *(("touchMove", point) for point in path), ("touchEnd", None)]
        for k, (kind, point) in enumerate(steps):
            points = [] if point is None else [{"x": point[0], "y": point[1]}]
            stamp = begin + seconds * k / (len(steps) - 1)
            message = {"type": kind, "touchPoints": points, "timestamp": stamp}
            self.devtools.send("Input.dispatchTouchEvent", message)

    def act(self, call):
        assert validate_call(Call(**call), self.app.device, [tool.schema() for tool in self.app.tools]) is None
        given = call["arguments"]
        if call["name"] in {tool.name for tool in self.app.tools}:
            result = self.tool(call["name"], given)
            assert result["success"], result
            return
        at, to = (
            to_pixels(*given[key], self.app.width, self.app.height) if key in given else None
            for key in ("coordinate", "coordinate2")
        )
        mouse = self.page.mouse
        match given["action"]:
            case "click" if self.app.device == "mobile":
                self._finger(0.05, at)
            case "long_press":
                self._finger(1.0, at)
            case "swipe":
                self._finger(0.2, at, to)
            case "click" | "left_click":
                mouse.click(*at)
            case "double_click":
                mouse.dblclick(*at)
            case "right_click":
                mouse.click(*at, button="right")
            case "left_click_drag":
                mouse.down()
                mouse.move(*at, steps=3)
                mouse.up()
            case "key":
                self.page.keyboard.press("+".join(KEYS.get(key, key) for key in given["keys"]))
            case "type":
                self.page.keyboard.insert_text(given["text"])
            case "scroll":
                mouse.wheel(0, 100 if given["direction"] == "down" else -100)
            case "system_button":
                self.page.evaluate("name => window.app.button(name)", given["button"])
            case "answer":
                self.page.evaluate("text => window.app.answer(text)", given["text"])

    def play(self, instance, tools=(), judge=None, most=30):
        """Run the script: its moves, last status, which checkpoints (of `judge`, else its own) it met, end state."""
        judge = judge or instance
        self.load(instance.initial)
        met, seen, calls = [False] * len(instance.checkpoints), [False] * len(judge.checkpoints), []
        while len(calls) < most:
            state, records = self.page.evaluate("[window.app.state(), window.app.elements()]")
            met = [old or check(state) for old, check in zip(met, instance.checkpoints, strict=True)]
            seen = [old or check(state) for old, check in zip(seen, judge.checkpoints, strict=True)]
            move = scripted_move(self.app, instance, state, elements_of(records), met, tools)
            if move.call["arguments"].get("action") == "terminate":
                return calls, move.call["arguments"]["status"], seen, state
            calls.append(move)
            self.act(move.call)
        raise AssertionError(f"the script of {instance.task.id} does not end: {[move.conclusion for move in calls]}")


@pytest.fixture(scope="module")
def browser(chromium):
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--headless"])
        yield running
        running.close()


@pytest.fixture(scope="module")
def screens(browser):
    return {name: Screen(browser, app) for name, app in registry.items()}


def solved(instance, met, state):
    return all(met) and instance.final(state)


# --- without a browser -----------------------------------------------------------------------------------------------
def test_splits_are_disjoint_and_own_every_seed():
    assert [split_of(seed) for seed in (0, 99_999, 100_000, 999_999, 1_000_000)] == [
        "train",
        "train",
        "pretrain",
        "pretrain",
        "evaluation",
    ]
    for one, other in itertools.combinations(SEEDS.values(), 2):
        assert not set(one) & set(other)
    for seed in (-1, 1_100_000):
        with pytest.raises(ValueError, match="no split"):
            split_of(seed)


def test_dag_check_names_what_is_wrong():
    def vertex(name, *after):
        return Subtask(name, "", lambda s, t: False, lambda s, t, e: None, after=after, at="", actions=1)

    check_dag([vertex("a", "start"), vertex("b", "a", "start")], "x")
    for vertices, message in (
        ([vertex("a", "start"), vertex("a", "start")], "more than once"),
        ([vertex("a", "nowhere")], "unknown"),
        ([vertex("a")], "can not be reached"),
        ([vertex("a", "start", "b"), vertex("b", "a")], "cycle"),
    ):
        with pytest.raises(ValueError, match=message):
            check_dag(vertices, "x")


@pytest.mark.parametrize("name", APPS)
def test_paths_are_the_walks_of_the_dag(name):
    app = registry[name]
    edges = {(before, subtask.id) for subtask in app.subtasks for before in subtask.after}
    ids = [subtask.id for subtask in app.subtasks]
    walks = {
        walk
        for length in range(1, 4)
        for walk in itertools.product(ids, repeat=length)
        if all(edge in edges for edge in itertools.pairwise(("start", *walk)))
    }
    assert set(paths(app, longest=3)) == walks and len(list(paths(app, longest=3))) == len(walks)


@pytest.mark.parametrize("name", APPS)
def test_tasks_cover_the_dag(name):
    app = registry[name]
    listed = app.tasks()
    assert len(app.subtasks) >= 8 and 12 <= len(listed) <= 40 and len(app.tools) >= 1
    assert len({task.path for task in listed}) == len({task.id for task in listed}) == len(listed)
    assert {step for task in listed for step in task.path} == {subtask.id for subtask in app.subtasks}
    assert {len(task.path) for task in listed} == {1, 2, 3, 4}
    assert {task.tool_beneficial for task in listed} == {1, -1}
    assert {task.feasible for task in listed} == {True, False}
    for task in listed:
        assert task.id == f"{name}/{'+'.join(task.path)}" and ALL[task.id] == task and task.device == app.device


@pytest.mark.parametrize("task_id", sorted(ALL))
def test_every_seed_gives_a_feasible_instance_that_starts_unsolved(task_id):
    for seed in (*range(12), 100_000, 1_000_000):
        instance = instantiate("virtual", task_id, seed)
        assert not any(check(instance.initial) for check in instance.checkpoints)
        assert not instance.final(instance.initial)
        assert "{" not in instance.instruction and instance.instruction == " ".join(instance.subtask_texts)
        things = [value for key, value in instance.slots.items() if value in icons.THINGS and "_words" not in key]
        assert len(things) == len(set(things))
        again = instantiate("virtual", task_id, seed)
        assert (again.slots, again.initial) == (instance.slots, instance.initial)


def test_seeds_vary_content_and_layout():
    for app in registry.values():
        assert len({state_hash(app.initial(seed)) for seed in range(50)}) == 50
        assert len({state_hash(app.sample_state(seed)) for seed in range(200)}) >= 195
        for key in app.initial(0)["layout"]:
            assert len({json.dumps(app.initial(seed)["layout"][key]) for seed in range(60)}) > 1, key


def test_unknown_suites_and_tasks_are_the_users_errors():
    with pytest.raises(UserError, match="no suite"):
        tasks("nothing")
    with pytest.raises(UserError, match="no task"):
        instantiate("virtual", "files/nothing", 0)
    with pytest.raises(ValueError, match="no split"):
        instantiate("virtual", "files/move", -1)


def test_state_hash_is_canonical():
    assert state_hash({"a": 1, "b": [1, 2]}) == state_hash({"b": [1, 2], "a": 1}) != state_hash({"a": 1, "b": [2, 1]})


def test_facts_of_states_written_by_hand():
    shop = registry["shop"].initial(0)
    shop.update(page="cart", cart=[["apple", 2], ["fish", 5]], row="fish")
    assert dict(registry["shop"].facts(shop)) == {
        "Which page is open?": "cart",
        "How many apples are in the cart?": "2",
        "How many fish are in the cart?": "5",
        "Is the cart empty?": "no",
        "What is selected?": "fish",
    }
    orders = registry["orders"].initial(0)
    orders.update(screen="form", form={"pick": "key", "amount": 3})
    assert dict(registry["orders"].facts(orders)) == {
        "Which tab is open?": "form",
        "What is the amount?": "3",
        "Which thing is picked?": "key",
    }
    files = registry["files"].initial(0)
    files.update(place="red", folders={"red": ["apple", "lamp"]}, order=["red"], starred=["lamp"], view="list")
    facts = dict(registry["files"].facts(files))
    assert facts["Which folder is open?"] == "red" and facts["How many things are shown?"] == "2"
    assert facts["Is the apple starred?"] == "no" and facts["Is the lamp starred?"] == "yes"


def test_words():
    assert [counted(n, "key") for n in (1, 2)] == ["1 key", "2 keys"] and counted(3, "leaf") == "3 leaves"
    samples = vocabulary_samples(3000, 0)
    assert len(samples) == 3000 and samples == vocabulary_samples(3000, 0) != vocabulary_samples(3000, 1)
    text = set(" ".join(samples).replace(".", "").replace("?", "").split())
    assert set(icons.THINGS) <= text and {"2", "yes", "no", "Swipe", "Drag", "Type"} <= text
    assert len(text) < 250


def test_icons_are_distinct():
    drawn = list(icons.bodies().values())
    assert len(icons.THINGS) == 20 and len(set(drawn)) == len(drawn)
    assert all(thing.colour in ("", *icons.COLOURS) for thing in icons.THINGS.values())


# --- pages -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", APPS)
def test_elements_are_large_inside_apart_and_named_once(name, screens):
    app, screen = registry[name], screens[name]
    for seed in range(100_000, 100_060):
        state = app.sample_state(seed)
        screen.load(state)
        assert screen.state() == state  # loading adds and drops nothing
        elements = screen.elements()
        names = [element.name for element in elements]
        assert len(names) == len(set(names)) and 1 <= len(names) <= 9
        assert set(names) <= set(app.names)
        for element in elements:
            x0, y0, x1, y1 = element.box
            assert x1 - x0 >= 20 and y1 - y0 >= 20
            assert 0 <= x0 and 0 <= y0 and x1 <= app.width and y1 <= app.height
            assert all(
                100 <= 1000 * c / side <= 990 for c, side in zip(element.centre, (app.width, app.height), strict=True)
            )
        for one, other in itertools.combinations(elements, 2):
            (a0, b0, a1, b1), (c0, d0, c1, d1) = one.box, other.box
            assert a1 <= c0 or c1 <= a0 or b1 <= d0 or d1 <= b0, (seed, one, other)


@pytest.mark.parametrize("name", APPS)
def test_counted_facts_stand_on_the_screen(name, screens):
    app, screen = registry[name], screens[name]
    for seed in range(100_100, 100_130):
        state = app.sample_state(seed)
        screen.load(state)
        shown = {element.name for element in screen.elements()}
        for question, answer in app.facts(state):
            if question.endswith((" ordered?", " bought?", " in the cart?")):
                assert f"x{answer}" in screen.words()
            if question == "What is the amount?":
                assert answer in screen.words()
            if question == "How many things are shown?":
                assert int(answer) == len(shown & set(icons.THINGS))


@pytest.mark.parametrize("name", APPS)
def test_the_same_seed_gives_the_same_state_and_pixels(name, screens, browser):
    app = registry[name]
    fresh = Screen(browser, app)
    for seed in (7, 100_007):
        pictures = []
        for screen in (screens[name], fresh, fresh):
            screen.load(app.initial(seed) if seed < 100_000 else app.sample_state(seed))
            pictures.append((state_hash(screen.state()), hashlib.sha256(screen.page.screenshot()).hexdigest()))
        assert len(set(pictures)) == 1


@pytest.mark.parametrize("name", APPS)
def test_tools_refuse_what_cannot_be_done_and_change_nothing(name, screens):
    screen = screens[name]
    screen.load(registry[name].initial(3))
    before = screen.state()
    wrong = {
        "orders": ("orders.add_order", {"thing": "nothing", "amount": 1}),
        "files": ("files.copy_file", {"name": "nothing", "folder": "red"}),
        "shop": ("shop.add_to_cart", {"thing": before.get("catalogue", [""])[0], "amount": 0}),
    }[name]
    for tool, arguments in (wrong, (f"{name}.nothing", {})):
        reply = screen.tool(tool, arguments)
        assert set(reply) == {"success", "result", "error_message"}
        assert reply["success"] is False and reply["error_message"]
    assert screen.state() == before


def test_typing_replaces_clears_and_submits(screens):
    app, screen = registry["shop"], screens["shop"]
    screen.load(app.initial(5))
    thing = app.initial(5)["catalogue"][-1]

    def click(name):
        (x0, y0, x1, y1) = next(element.box for element in screen.elements() if element.name == name)
        screen.page.mouse.click((x0 + x1) / 2, (y0 + y1) / 2)

    screen.page.keyboard.type("lost")  # nothing has the focus
    assert screen.state()["text"] == ""
    click("box")
    screen.page.keyboard.type("wrong")
    assert screen.state()["text"] == "wrong"
    click("box")
    screen.page.keyboard.type(thing)
    screen.page.keyboard.press("Enter")
    assert screen.state()["query"] == thing and not screen.state()["focus"]
    assert {element.name for element in screen.elements()} & set(icons.THINGS) == {thing}


def test_a_short_press_is_a_tap_and_back_leaves(screens):
    app, screen = registry["orders"], screens["orders"]
    state = app.initial(2)
    screen.load(state)
    thing = next(element for element in screen.elements() if element.name in icons.THINGS)
    screen._finger(0.3, thing.centre)
    assert (screen.state()["screen"], screen.state()["item"]) == ("detail", thing.name)
    screen.page.evaluate("window.app.button('Back')")
    assert screen.state() == state
    screen._finger(0.45, thing.centre)
    assert (thing.name in screen.state()["marked"]) != (thing.name in state["marked"])


# --- scripts ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("task_id", sorted(ALL))
def test_script_and_tool_route_solve_every_task(task_id, screens):
    task = ALL[task_id]
    app, screen = registry[task.app], screens[task.app]
    seed = 1_000_000 + int(hashlib.sha256(task_id.encode()).hexdigest(), 16) % 1000
    instance = instantiate("virtual", task_id, seed)
    by_hand, status, met, end = screen.play(instance)
    if not task.feasible:
        assert status == "failure" and not solved(instance, met, end)
        return
    assert status == "success" and solved(instance, met, end) and len(by_hand) <= 8
    assert solved(instance, met, copy.deepcopy(end)) and screen.state() == end  # scoring changes nothing
    scrolled = [move for move in by_hand if move.conclusion.startswith("Swipe")]  # a long list, not the task's length
    assert len(by_hand) - len(scrolled) == script_length(app, task.path)
    assert len(by_hand) + 1 <= task.max_steps
    if not any(app.by_tool(app.by_id[step]) for step in task.path):
        assert task.tool_beneficial == -1
        return
    offered = tuple(tool.name for tool in app.tools)
    by_tool, status, met, other_end = screen.play(instance, tools=offered)
    assert status == "success" and solved(instance, met, other_end)
    assert app.outcome(other_end) == app.outcome(end)
    assert (len(by_hand) - len(by_tool) >= 2) == (task.tool_beneficial == 1)


@pytest.mark.parametrize("task_id", sorted(task_id for task_id, task in ALL.items() if len(task.path) == 1))
def test_near_misses_score_nothing(task_id, screens):
    task = ALL[task_id]
    if not task.feasible:
        return
    app, screen = registry[task.app], screens[task.app]
    instance = instantiate("virtual", task_id, 11)
    moves, *_ = screen.play(instance)

    screen.load(instance.initial)  # one action short
    for move in moves[:-1]:
        assert not instance.final(screen.state())
        screen.act(move.call)
    assert not instance.checkpoints[0](screen.state())

    if task.path == ("ask",):
        right = next(str(n) for n in range(10) if instance.checkpoints[0]({**instance.initial, "answer": str(n)}))
        for said in {"", "none", *map(str, range(11))} - {right}:
            assert not instance.final({**instance.initial, "answer": said})
        return

    for attempt in range(20):  # the same deed on another thing, in another folder or amount
        wrong = app.fill(generator("wrong", attempt), task.path, instance.initial)
        if wrong == instance.slots:
            continue
        subtask = app.by_id[task.path[0]]
        text = (subtask.text.format(**wrong),)
        mistaken = replace(
            instance,
            slots=wrong,
            subtask_texts=text,
            checkpoints=(lambda s, one=subtask, w=wrong: one.checkpoint(s, w),),
        )
        *_, met, end = screen.play(mistaken, judge=instance)
        assert not solved(instance, met, end), text
        break


@pytest.mark.parametrize("name", APPS)
def test_side_effects_spoil_a_success(name, screens):
    """The task's own deed is done, and one more that nobody asked for."""
    screen = screens[name]
    task_id = {"orders": "orders/star", "files": "files/move", "shop": "shop/set"}[name]
    instance = instantiate("virtual", task_id, 21)
    *_, met, end = screen.play(instance)
    assert solved(instance, met, end)
    extra = {
        "orders": lambda: ("orders.cancel_order", {"thing": end["orders"][0][0]}),
        "files": lambda: ("files.star_file", {"name": next(t for t in end["root"] if t not in end["starred"])}),
        "shop": lambda: ("shop.add_to_cart", {"thing": end["catalogue"][0], "amount": 1}),
    }[name]()
    assert screen.tool(*extra)["success"]
    assert not solved(instance, met, screen.state())


@pytest.mark.parametrize("name", APPS)
def test_scripts_find_back_from_anywhere(name, screens):
    """After wandering off by taps, the script still reaches its checkpoints, or gives up where the thing is gone."""
    app, screen = registry[name], screens[name]
    known = [task for task in app.tasks() if task.feasible]
    rng = generator("wander", name)
    gave_up = 0
    for _ in range(12):
        task = rng.choice(known)
        instance = make_instance(app, task, rng.randrange(1000))
        screen.load(instance.initial)
        for _ in range(rng.randint(1, 4)):
            element = rng.choice(screen.elements())
            if app.device == "mobile":
                screen._finger(rng.choice((0.1, 1)), element.centre)
            else:
                screen.page.mouse.click(*element.centre, click_count=rng.choice((1, 2)))
        _, status, met, _ = screen.play(replace(instance, initial=screen.state()))
        assert all(met) or status == "failure"
        gave_up += status == "failure"
    assert gave_up <= 4
