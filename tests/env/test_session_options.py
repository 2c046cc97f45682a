"""What a session may ask for on top of a task: things in its way, marks; and the tasks that cannot be done."""

import asyncio
import io
import json
import typing
from functools import partial

import pytest
from PIL import Image, ImageChops

from env_servers.check import check
from env_servers.leases import Refusal
from env_servers.protocol.actions import from_pixels
from env_servers.protocol.messages import CreateSessions, Disturbance, StepRequest
from env_servers.sessions import SessionStore
from env_servers.suites import apps, instantiate, tasks
from env_servers.suites.disturb import COST, disturbed
from env_servers.suites.virtual import registry
from env_servers.suites.virtual.icons import COLOURS, THINGS

KINDS = typing.get_args(Disturbance)
BLOCKING = sorted(set(KINDS) - {"cookies", "notification"})
SAMPLE = ("orders/star", "files/move", "shop/set")  # one of each family; the self-test's command line takes them all


class Played:
    """A session of a store in this process, with its steps counted."""

    def __init__(self, store, session):
        self.store, self.session, self.at = store, session, 0

    async def reset(self):
        self.at = 0
        return await self.store.reset(self.session)

    async def step(self, call):
        request = StepRequest(episode=self.session.episode.number, step=self.at, action=call)
        self.at += 1
        return await self.store.step(self.session, request)

    async def act(self, action, **arguments):
        function = {"mobile": "mobile_use", "desktop": "computer_use", "web": "browser_use"}[self.session.device]
        return await self.step({"name": function, "arguments": {"action": action, **arguments}})

    async def script(self):
        return (await self.store.script(self.session)).action.model_dump()

    @property
    def state(self):
        return self.session.episode.last_state


def play(run, browser, body, **request):
    """Run `body(played)` on a new session."""

    async def playing():
        store = SessionStore(browser, 4)
        (lease,) = await store.create(CreateSessions(script=True, **request))
        session = store.get(lease.session, lease.token)
        try:
            return await body(Played(store, session))
        finally:
            await store.close(session)

    return run(playing())


def seed_for(kind, at, task="shop/set"):
    """The first seed whose disturbance comes with observation `at`."""
    made = (disturbed(instantiate("virtual", task, seed), [kind]) for seed in range(100))
    return next(instance.seed for instance in made if instance.initial["disturb"][0]["at"] == at)


# --- disturbances ----------------------------------------------------------------------------------------------------
def test_the_kinds_of_the_protocol_are_the_kinds_that_there_are():
    assert set(KINDS) == set(COST)
    for kind in KINDS:
        whole = instantiate("virtual", "shop/set", 4)
        first, again = disturbed(whole, [kind]), disturbed(whole, [kind])
        assert first.initial == again.initial and first.page == again.page
        assert first.task.max_steps > whole.task.max_steps and first.checkpoints == whole.checkpoints
    places = {
        str(disturbed(instantiate("virtual", "shop/set", seed), ["popup"]).initial["disturb"]) for seed in range(9)
    }
    assert len(places) > 5
    assert disturbed(whole, []) is whole


@pytest.mark.parametrize("kind", KINDS)
def test_the_self_test_holds_with_each_of_them_in_the_way(chromium, kind):
    task = SAMPLE[KINDS.index(kind) % len(SAMPLE)]
    found = asyncio.run(check(task_ids=[task], seeds=[seed_for(kind, 0, task)], disturb=[kind]))
    assert len(found) >= 5 and [str(trial) for trial in found if not trial.right] == []


def test_several_come_one_after_the_other_and_over_any_suite(chromium):
    kinds = ("permission", "loading", "cookies")
    found = asyncio.run(check("miniwob25", ["miniwob/click-checkboxes", "miniwob/login-user"], [0, 1], disturb=kinds))
    found += asyncio.run(check("infeasible", ["shop/set"], [0], disturb=kinds))
    assert len(found) == 15 and [str(trial) for trial in found if not trial.right] == []


@pytest.mark.parametrize("kind", KINDS)
def test_they_are_seen_said_and_gone_with_the_script_s_own_actions(run, browser, kind):
    async def body(played):
        first = await played.reset()
        showing = played.state["disturbances"]["showing"]
        assert showing["kind"] == kind and played.state["disturbances"]["gone"] == []
        for _ in range(COST[kind]):
            reply = await played.step(await played.script())
            if played.state["disturbances"]["gone"]:
                break
        assert played.state["disturbances"] == {"showing": None, "gone": [kind]}
        again = await played.reset()
        assert (again.screenshot, again.state_hash) == (first.screenshot, first.state_hash)
        return reply.observation.screenshot, first.screenshot

    seed = seed_for(kind, 0)
    after, first = play(run, browser, body, task="shop/set", seed=seed, disturb=[kind])
    undisturbed = play(run, browser, lambda played: played.reset(), task="shop/set", seed=seed).screenshot
    assert after == undisturbed != first


@pytest.mark.parametrize("kind", BLOCKING)
def test_a_blocking_one_takes_all_input_and_the_task_below_stays_as_it_is(run, browser, kind):
    async def body(played):
        await played.reset()
        below = {key: value for key, value in played.state.items() if key != "disturbances"}
        box = next(element["box"] for element in await page_elements(played) if element["name"] == "box")
        x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
        for call in (
            partial(played.act, "click", coordinate=list(from_pixels(x, y, 160, 128))),
            partial(played.act, "type", text="cat\n"),
            partial(played.act, "scroll", direction="down"),
            partial(played.act, "go_back"),
        ):
            await call()
            assert {key: value for key, value in played.state.items() if key != "disturbances"} == below
        return played.state["disturbances"]["showing"]["kind"]

    async def page_elements(played):
        bare = await browser.lease(registry["shop"].kind)
        await bare.load(instantiate("virtual", "shop/set", played.session.request.seed).initial)
        elements = await bare.elements()
        await browser.release(bare)
        return elements

    seed = next(seed for seed in range(500) if _apart(kind, seed))
    assert play(run, browser, body, task="shop/set", seed=seed, disturb=[kind]) == kind


def _apart(kind, seed):
    """Whether this seed's disturbance comes at once and low on the screen, with the shop's search box at its top."""
    instance = disturbed(instantiate("virtual", "shop/set", seed), [kind])
    (item,) = instance.initial["disturb"]
    return item["at"] == 0 and item["y"] > 0.9 and instance.initial["layout"]["bar"] == "top"


def test_a_late_one_comes_with_the_second_observation(run, browser):
    async def body(played):
        await played.reset()
        assert played.state["disturbances"]["showing"] is None
        await played.act("scroll", direction="down")
        return played.state["disturbances"]["showing"]["kind"]

    assert play(run, browser, body, task="shop/set", seed=seed_for("popup", 1), disturb=["popup"]) == "popup"


def test_an_unknown_disturbance_is_refused():
    with pytest.raises(ValueError, match="disturb"):
        CreateSessions(task="shop/set", seed=1, disturb=["earthquake"])


# --- marks -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("suite", "task"), [("virtual", "shop/set"), ("miniwob25", "miniwob/login-user")])
def test_a_task_is_solved_by_labels_alone(run, browser, suite, task):
    async def body(played):
        observation = await played.reset()
        while played.session.episode.status == "running":
            labels = {tuple(mark.box): mark.label for mark in observation.marks}
            assert sorted(labels.values()) == list(range(1, len(observation.marks) + 1))
            move = await played.store.script(played.session)
            action = move.action.model_dump()
            if action["arguments"].pop("coordinate", None):
                action["arguments"]["label"] = labels[move.box]
            reply = await played.step(action)
            assert reply.error is None
            observation = reply.observation
        return await played.store.evaluate(played.session)

    assert play(run, browser, body, suite=suite, task=task, seed=2, marks=True).score == 1


def test_marks_are_on_the_picture_and_nowhere_else(run, browser):
    async def observed(played):
        return await played.reset()

    marked = play(run, browser, observed, task="shop/set", seed=2, marks=True)
    plain = play(run, browser, observed, task="shop/set", seed=2)
    again = play(run, browser, observed, task="shop/set", seed=2, marks=True)
    assert marked.screenshot == again.screenshot != plain.screenshot
    assert marked.state_hash == plain.state_hash and plain.marks == []
    changed = ImageChops.difference(*(Image.open(io.BytesIO(seen.png)).convert("RGB") for seen in (marked, plain)))
    for mark in marked.marks:
        x0, y0, x1, y1 = map(round, mark.box)
        assert changed.crop((x0, y0, x1, y1)).getbbox() is not None, mark


def test_labels_that_are_not_drawn_do_nothing(run, browser):
    async def body(played):
        before = await played.reset()
        errors = []
        for label in (0, 99, "first", 1):
            reply = await played.act("click", label=label)
            errors.append(reply.error)
            assert reply.error is None or reply.observation.state_hash == before.state_hash
        return errors

    assert play(run, browser, body, task="shop/set", seed=2, marks=True) == ["unsupported"] * 3 + [None]
    assert play(run, browser, body, task="shop/set", seed=2) == ["unsupported"] * 4


def test_marks_are_refused_where_no_action_takes_a_label(run, browser):
    with pytest.raises(Refusal, match="mobile"):
        play(run, browser, lambda played: played.reset(), task="orders/star", seed=2, marks=True)


# --- infeasible variants ---------------------------------------------------------------------------------------------
def test_infeasible_variants_are_the_virtual_tasks_with_something_absent():
    variants, whole = tasks("infeasible"), tasks("virtual")
    assert len(variants) > 60 and set(variants) < set(whole)
    for task_id, task in variants.items():
        app = registry[task.app]
        assert not task.feasible and "infeasible" in task.tags and task.max_steps == whole[task_id].max_steps
        renamed = set()
        for seed in (*range(8), 1_000_000):
            one, other = instantiate("infeasible", task_id, seed), instantiate("virtual", task_id, seed)
            assert one.slots == instantiate("infeasible", task_id, seed).slots
            assert one.initial == other.initial and one.instruction != other.instruction
            (slot,) = (name for name in one.slots if one.slots[name] != other.slots[name] and "_words" not in name)
            renamed.add(slot)
            assert one.slots[slot] in (THINGS if other.slots[slot] in THINGS else COLOURS)
            assert f"'{one.slots[slot]}'" not in str(one.initial)
            assert slot in app.by_id[one.absent].needs
            assert one.slots.get(f"{slot}_words", one.slots[slot]) in one.instruction
            assert not any(check(one.initial) for check in one.checkpoints) and not one.final(one.initial)
        assert renamed


def test_infeasible_variants_are_solved_by_giving_up_alone(chromium):
    sample = sorted(tasks("infeasible"))[::12]
    assert {task_id.split("/")[0] for task_id in sample} == set(registry)
    found = asyncio.run(check("infeasible", sample, seeds=[5]))
    assert len(found) == 3 * len(sample) and [str(trial) for trial in found if not trial.right] == []


ABSENT = (
    ("ride/favourite", 0), ("tickets/train", 0), ("notes/rainy", 1), ("writer/delete", 0), ("sheet/change", 0),
    ("settings/erase", 0), ("mail/vote", 0), ("search/cheaper", 0), ("admin/ship", 0),
)  # fmt: skip
"""One of each everyday app, whose script used to give up without having looked, or not to give up at all."""


def test_everything_that_an_everyday_task_names_can_be_absent():
    variants = tasks("infeasible-apps")
    assert {task.app for task in variants.values()} == set(apps.NAMES)
    for app in apps.registry().values():
        slots = {slot for subtask in app.subtasks for slot in subtask.needs}
        assert slots and slots <= set(app.pools), (
            f"{app.name} does not say what {slots - set(app.pools)} are drawn from"
        )
        single = [task for task in variants.values() if task.app == app.name and len(task.path) == 1]
        for task in single[::3]:
            one = instantiate("infeasible-apps", task.id, 3)
            held = json.dumps(one.initial)
            (slot,) = (name for name in app.by_id[one.absent].needs if one.slots[name] not in held)
            assert one.slots[slot] in app.pools[slot] and one.slots[slot] in one.instruction


def test_scripts_give_up_only_once_they_have_looked(run, browser):
    async def body(played):
        await played.reset()
        while True:
            move = await played.script()
            reply = await played.step(move)
            if reply.terminated or reply.truncated:
                return move["arguments"], played.at, await played.store.evaluate(played.session)

    for task, seed in ABSENT:
        said, steps, verdict = play(run, browser, body, suite="infeasible-apps", task=task, seed=seed)
        assert (said, verdict.score) == ({"action": "terminate", "status": "failure"}, 1.0), task
        assert steps > 1 or task in ("writer/delete", "sheet/change"), task  # those two show all at once
