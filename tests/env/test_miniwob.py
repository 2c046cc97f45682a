"""MiniWoB++ on real pages: what starts, what is the same twice, who decides on success, and that thinking is free."""

import asyncio
import random

import pytest

from env_servers.browser import Browser
from env_servers.check import check
from env_servers.errors import UserError
from env_servers.protocol.messages import CreateSessions, StepRequest
from env_servers.sessions import SessionStore
from env_servers.suites import instantiate, miniwob, tasks
from env_servers.suites.miniwob import DESKTOP, SMALL_TASKS, page_kind, pages
from env_servers.suites.miniwob.scripts import SCRIPTS
from env_servers.suites.miniwob.survey import begin, mess
from env_servers.suites.suite import SEEDS

ALL, SMALL = tasks("miniwob"), tasks("miniwob25")


class Played:
    """An episode in a store of this process."""

    def __init__(self, store, session):
        self.store, self.session, self.at = store, session, 0

    async def act(self, action, **arguments):
        function = {"web": "browser_use", "desktop": "computer_use"}[self.session.device]
        call = {"name": function, "arguments": {"action": action, **arguments}}
        number = self.session.episode.number
        reply = await self.store.step(self.session, StepRequest(episode=number, step=self.at, action=call))
        self.at += 1
        return reply

    async def click(self, name):
        box = next(e["box"] for e in await self.session.screen.elements() if e["name"] == name)
        x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
        return await self.act("click", coordinate=[round(1000 * x / 160), round(1000 * y / 210)])


def play(run, browser, page, seed, body):
    """Run `body(played, observation)` on a fresh episode; its value and the verdict."""

    async def playing():
        store = SessionStore(browser, 4)
        (lease,) = await store.create(CreateSessions(suite="miniwob", task=f"miniwob/{page}", seed=seed))
        session = store.get(lease.session, lease.token)
        played = Played(store, session)
        try:
            value = await body(played, await store.reset(session))
            return value, await store.evaluate(session)
        finally:
            await store.close(session)

    return run(playing())


# --- what there is ---------------------------------------------------------------------------------------------------
def test_every_page_of_the_package_is_a_task_or_left_out_with_a_reason():
    names = {path.stem for path in miniwob.folder().glob("*.html")}
    assert set(pages()["pages"]) | set(pages()["left_out"]) == names and len(names) == 130
    assert not set(pages()["pages"]) & set(pages()["left_out"])
    assert {task_id.removeprefix("miniwob/") for task_id in ALL} == set(pages()["pages"])
    assert DESKTOP <= set(pages()["pages"]) and set(SCRIPTS) <= set(pages()["pages"])


def test_the_small_suite_is_25_of_the_same_tasks_by_clicking_and_typing():
    assert len(SMALL) == 25 and {f"miniwob/{name}" for name in SMALL_TASKS} == set(SMALL)
    for task_id, task in SMALL.items():
        assert ALL[task_id] == task and task.device == "web"
        assert instantiate("miniwob25", task_id, 7) == instantiate("miniwob", task_id, 7)


def test_train_and_evaluation_seeds_are_disjoint_and_told_to_the_page():
    for split, mode in (("train", "train"), ("pretrain", "train"), ("evaluation", "test")):
        seed = SEEDS[split][0]
        assert instantiate("miniwob", "miniwob/click-test", seed).initial == {"seed": seed, "mode": mode}
    with pytest.raises(ValueError, match="no split"):
        instantiate("miniwob", "miniwob/click-test", SEEDS["evaluation"].stop)


def test_a_missing_package_is_said_with_its_remedy(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install miniwob"):
        miniwob.folder.__wrapped__()


# --- determinism -----------------------------------------------------------------------------------------------------
def test_the_same_seed_gives_the_same_state_and_pixels_on_two_fresh_browsers(run, browser, chromium):
    """All 25 pages of the small suite, without exception; another seed gives another episode."""

    async def views(browser, seed):
        found = {}
        for task_id in SMALL:
            screen = await browser.lease(instantiate("miniwob", task_id, seed).page)
            await screen.load(instantiate("miniwob", task_id, seed).initial)
            view = await screen.view()
            found[task_id] = (view.state, view.png)
            await browser.release(screen)
        return found

    async def both():
        async with Browser(chromium) as other:
            return *await asyncio.gather(views(browser, 5), views(other, 5)), await views(browser, 6)

    first, second, third = run(both())
    assert [task_id for task_id in SMALL if first[task_id] != second[task_id]] == []
    assert [task_id for task_id in SMALL if first[task_id] == third[task_id]] == []


@pytest.mark.parametrize("name", ["click-checkboxes", "click-dialog", "terminal"])
def test_nothing_is_left_of_the_episode_before(run, browser, name):
    kind = page_kind(name, pages()["pages"][name]["reload"])

    async def play():
        used, fresh = await browser.lease(kind), await browser.lease(page_kind(name, True))
        await begin(used, 99)
        await mess(used, random.Random(name))
        one, other = await begin(used, 12), await begin(fresh, 12)
        await browser.release(used)
        await browser.release(fresh)
        return one, other

    one, other = run(play())
    assert one.state == other.state and one.png == other.png


# --- verdicts --------------------------------------------------------------------------------------------------------
def test_scripts_solve_their_pages_through_the_protocol_and_near_misses_do_not(chromium):
    names = [f"miniwob/{name}" for name in SCRIPTS]
    found = asyncio.run(check("miniwob", names[::2], seeds=[0]))
    found += asyncio.run(check("miniwob", names[1::2], seeds=[1_000_001]))
    assert {(trial.task, trial.plan) for trial in found} == {
        (n, p) for n in names for p in ("script", "nothing", "short")
    }
    assert [str(trial) for trial in found if not trial.right] == []


def test_a_task_without_a_script_is_checked_unsolved(chromium):
    found = asyncio.run(check("miniwob25", ["miniwob/click-shape"], seeds=[3]))
    assert [(trial.plan, trial.verdict.score, trial.right) for trial in found] == [("nothing", 0, True)]


@pytest.mark.parametrize(("button", "score"), [("ONE", 1), ("TWO", 0)])
def test_the_page_ends_the_episode_and_its_reward_is_the_verdict(run, browser, button, score):
    async def body(played, observation):
        assert observation.instruction == "Click button ONE."
        assert (observation.width, observation.height) == (160, 210)
        assert played.session.episode.last_state["reward"] == 0
        return await played.click(button)

    reply, verdict = play(run, browser, "click-test-2", 4, body)
    assert (reply.terminated, reply.truncated) == (True, False)
    assert (verdict.score, verdict.outcome) == (score, "success" if score else "fail")
    assert (verdict.progress, verdict.total) == (score, 1)


def test_a_partial_reward_is_no_success(run, browser):
    async def body(played, observation):
        wanted, names = observation.instruction, dict(played.session.episode.last_state["fields"])
        right = [name for name in names if name in wanted]
        assert right and len(names) > 2
        for name in right[1:]:
            await played.click(name)
        await played.click("Submit")
        return played.session.episode.last_state

    state, verdict = play(run, browser, "click-checkboxes", 3, body)
    assert 0 < state["reward"] < 1 and state["done"]
    assert verdict.score == 0


def test_declaring_success_is_none(run, browser):
    async def body(played, observation):
        return await played.act("terminate", status="success")

    reply, verdict = play(run, browser, "click-test", 1, body)
    assert reply.terminated and (verdict.outcome, verdict.score) == ("fail", 0)


# --- time ------------------------------------------------------------------------------------------------------------
def test_thinking_costs_nothing_and_waiting_is_the_page_s_time(run, browser):
    """The clock moves with steps and waits alone, and no episode runs out of time on it."""

    async def body(played, observation):
        before = await played.session.screen.state()
        await asyncio.sleep(0.05)
        now = await played.session.screen.call("function () { return Date.now() }")
        assert now == await played.session.screen.call("function () { return Date.now() }")
        await played.act("wait", time=3600)
        later = await played.session.screen.call("function () { return Date.now() }")
        assert later >= now + 60_000  # an hour is asked, a minute given; the episode goes on all the same
        assert not played.session.episode.last_state["done"] and before["instruction"]

    _, verdict = play(run, browser, "click-button", 1, body)
    assert verdict.outcome == "policy_timeout"


def test_forms_and_links_do_not_leave_the_page(run, browser):
    async def body(played, observation):
        (name, _), *_ = played.session.episode.last_state["fields"]
        await played.click(name)
        await played.act("type", text="3\n")
        return await played.session.screen.call("function () { return location.href }")

    where, _ = play(run, browser, "guess-number", 1, body)
    assert where == page_kind("guess-number", False).url
