"""Prefix progress against golden cases and brute force; collection against a real environment server."""

import asyncio
import dataclasses
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from env_servers.protocol.actions import FUNCTIONS, Call
from env_servers.server import running_server
from env_servers.suites.virtual import registry
from env_servers.suites.virtual import tasks as virtual_tasks
from gui_rl.data.schema import Episode, Turn
from gui_rl.errors import UserError
from gui_rl.flywheel.annotator import Exact
from gui_rl.flywheel.collect import CollectConfig, Item, collect, first_cut, prefix_progress, settle, truncate
from gui_rl.flywheel.tasks import MadeTask
from gui_rl.prompt.context import TINY_CONTEXT
from gui_rl.prompt.render import encode_response, response_text
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.rollout.agents import Prompts, Reply, ScriptAgent
from gui_rl.rollout.env_client import EnvClient

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


def test_prefix_progress_golden():
    for case in json.loads((GOLDEN / "prefix_progress.json").read_text())["cases"]:
        got = prefix_progress(case["checkpoint_met"])
        assert got.progress == case["expect_progress"]
        assert got.truncate_after_step == case["expect_truncate_after_step"]
        assert list(got.remaining) == case["expect_remaining"]
        assert got.accepted is case["expect_accepted"]


def test_prefix_progress_by_brute_force():
    random = np.random.default_rng(0)
    for _ in range(200):
        met = random.random((random.integers(1, 7), random.integers(1, 5))) < 0.4
        steps, total = met.shape
        progress = max(m for m in range(total + 1) if all(any(met[t, k] for t in range(steps)) for k in range(m)))
        last = max((t + 1 for t in range(steps) if progress and met[t, progress - 1]), default=0)
        got = prefix_progress(met.tolist())
        assert (got.progress, got.truncate_after_step, got.accepted) == (progress, last, progress == total)


def test_truncation_keeps_the_steps_of_the_prefix():
    progress = prefix_progress([[0, 0], [1, 0], [0, 0]])
    assert truncate(["a", "b", "c"], progress) == ["a", "b"]
    with pytest.raises(ValueError, match="step 2"):
        truncate(["a"], progress)


@pytest.mark.parametrize("wrong", [[], [[]], [[1], [1, 0]]])
def test_wrong_tables_are_refused(wrong):
    with pytest.raises(ValueError):
        prefix_progress(wrong)


def test_the_first_cut_by_brute_force():
    random = np.random.default_rng(1)
    for _ in range(200):
        met = random.random((random.integers(1, 7), random.integers(1, 5))) < 0.4
        m = prefix_progress(met.tolist()).progress
        wanted = next((t for t in range(len(met) + 1) if all(met[:t, k].any() for k in range(m))), 0)
        assert first_cut(met.tolist(), m) == wanted


class Straying(ScriptAgent):
    """The script, but after `good` steps of an episode it only waits, then gives up."""

    good = 3

    async def act(self, view):
        if len(view.history) < self.good:
            return await super().act(view)
        name = FUNCTIONS[view.device]
        late = len(view.history) >= self.good + 2
        call = {"action": "terminate", "status": "success"} if late else {"action": "wait", "time": 0.1}
        text = response_text("Stop." if late else "Wait.", Call(name, call))
        return Reply(text, self.prompts.of(view), encode_response(self.prompts.tokenizer, text))


@pytest.fixture(scope="module")
def server(chromium):
    with running_server() as server:
        yield server


@pytest.fixture(scope="module")
def prompts():
    return Prompts(Tokenizer.load("gui-tiny"), TINY_CONTEXT)


def made(task, seed):
    app = registry[task.split("/")[0]]
    path = tuple(task.split("/")[1].split("+"))
    slots = app.slots(seed, path, app.initial(seed))
    texts = tuple(app.by_id[name].text.format(**slots) for name in path)
    return MadeTask(
        app.name,
        app.device,
        path,
        slots,
        texts,
        "First: " + " Then: ".join(texts),
        suite="virtual",
        task=task,
        seed=seed,
    )


def collecting(server, agent, tasks, **options):
    kept = []
    judge, people = options.pop("judge", None), options.pop("people", None)

    async def run():
        async with EnvClient(server.url, server.token) as client:
            config = CollectConfig(script=True, **options)
            return await collect(client, agent, tasks, kept.append, config, judge=judge, people=people)

    return asyncio.run(run()), kept


LONG = next(task for task in virtual_tasks() if task.startswith("orders/") and task.count("+") == 3)


def test_a_good_agent_is_accepted_with_the_composed_instruction(server, prompts):
    counts, kept = collecting(server, ScriptAgent(prompts), [made(LONG, 5), made("shop/add", 6), made("files/move", 7)])
    assert counts["accepted"] == 3 == len(kept) and counts["steps"] == sum(len(episode.turns) for episode in kept)
    assert kept[0].instruction.startswith("First: ") and kept[0].success and not kept[0].remaining
    assert "First: " in prompts.tokenizer.decode(kept[0].turns[0].prompt_ids)
    assert kept[0].made_by == {"instruction": "template", "checkpoints": "exact"}
    assert [episode.suite for episode in kept] == ["virtual"] * 3 and kept[0].total == 4


def test_tools_are_offered_where_asked_for(server, prompts):
    counts, (episode,) = collecting(server, ScriptAgent(prompts), [made("orders/order", 9)], tools=True)
    assert counts["accepted"] == 1 and episode.tools
    assert any(turn.action["name"].startswith("orders.") for turn in episode.turns)


@pytest.mark.parametrize("cut", ["last", "first"])
def test_what_a_straying_agent_reached_is_kept_and_the_rest_is_played_from_there(server, prompts, cut):
    task = made(LONG, 5)
    counts, kept = collecting(server, Straying(prompts), [task], cut=cut, attempts=6)
    assert counts["accepted"] == 1 and counts["cut"] == len(kept) - 1 >= 1 and not counts["people"]
    reached = 0
    for episode in kept[:-1]:
        assert 0 < episode.progress < episode.total == 4 - reached and not episode.success
        reached += episode.progress
        assert episode.remaining == " ".join(task.subtasks[reached:])
        waits = [turn for turn in episode.turns if turn.action["arguments"]["action"] in ("wait", "terminate")]
        assert not waits if cut == "first" else True
    assert kept[1].instruction == kept[0].remaining and kept[-1].success and kept[-1].progress == kept[-1].total
    # the later episode began where the earlier one was cut: its first screen is the one that followed the cut
    assert kept[1].turns[0].screenshot == kept[0].final_screenshot
    assert "Step 1" not in prompts.tokenizer.decode(kept[1].turns[0].prompt_ids)


def test_what_stays_unsolved_goes_to_people_and_comes_back_as_it_was(server, prompts, tmp_path):
    agent = Straying(prompts)
    object.__setattr__(agent, "good", 0)
    counts, kept = collecting(server, agent, [made("orders/star", 5)], attempts=2, people=tmp_path / "people.jsonl")
    assert not kept and counts["no_progress"] == 2 and counts["people"] == 1
    (line,) = (tmp_path / "people.jsonl").read_text().splitlines()
    item = Item.from_dict(json.loads(line))
    assert item.task == made("orders/star", 5) and item.reached == 0 and item.instruction == item.task.instruction
    with pytest.raises(UserError, match="queue"):
        Item.from_dict({"task": {}})


def test_a_judge_in_place_of_predicates(server, prompts):
    """The exact annotator plays the judge: the same trajectories are accepted and cut as by the world itself."""

    def verdict(row):
        done = [number for number, holds in enumerate(row, start=1) if holds]
        return {"subtask": done[-1] if done else None, "done": bool(done)}

    exact = Exact({"judge": verdict})
    counts, kept = collecting(server, ScriptAgent(prompts), [made("orders/star", 8)], judge=exact)
    assert counts["accepted"] == 1 and kept[0].made_by["checkpoints"] == "exact"
    counts, kept = collecting(server, Straying(prompts), [made(LONG, 5)], judge=exact, attempts=6)
    assert counts["accepted"] == 1 and counts["cut"] >= 1
    rubbish = Exact({"judge": lambda row: {"subtask": 9, "done": "maybe"}})
    counts, kept = collecting(server, ScriptAgent(prompts), [made("orders/star", 8)], judge=rubbish, attempts=2)
    assert not kept and counts["no_verdict"] == 2 and counts["people"] == 1


def test_settling_without_a_world():
    task = MadeTask("a", "web", ("x", "y"), {}, ("Do x.", "Do y."), "Do x. Do y.")
    turns = tuple(Turn(k, b"", action={"name": "browser_use", "arguments": {}}) for k in range(4))
    episode = Episode("e", "s", "t", 0, "web", "i", (1, 1), turns, "step_limit", final_screenshot=b"end")
    hashes = ["h0", "h1", "h2", "h3"]
    counts = Counter()
    held = [[0, 0], [1, 0], [1, 0], [0, 0]]
    kept, left = settle(Item(task), episode, held, hashes, "last", False, counts)
    assert len(kept.turns) == 3 and kept.remaining == "Do y." and left.reached == 1 and left.attempt == 1
    assert [step.state_hash for step in left.prefix] == ["h0", "h1", "h2"] and counts == {"cut": 1}
    kept, left = settle(Item(task), episode, held, hashes, "first", False, counts)
    assert len(kept.turns) == 2 and len(left.prefix) == 2
    kept, left = settle(Item(task), episode, [[1, 1]] * 4, hashes, "last", False, counts)
    assert kept is None and left == Item(task, attempt=1) and counts["unsettled"] == 1
    early = [[0, 1], [0, 0], [1, 0], [0, 0]]  # the second checkpoint came first: t* alone would lose the first one
    three = dataclasses.replace(task, path=("x", "y", "z"), subtasks=("Do x.", "Do y.", "Do z."))
    kept, left = settle(Item(three), episode, [[*row, 0] for row in early], hashes, "last", False, counts)
    assert len(kept.turns) == 3 and left.reached == 2
    end = dataclasses.replace(turns[3], action={"name": "browser_use", "arguments": {"action": "terminate"}})
    given_up = dataclasses.replace(episode, turns=(*turns[:3], end), outcome="fail")
    kept, left = settle(Item(task), given_up, [[1, 0]] * 4, hashes, "last", False, counts)
    assert len(kept.turns) == 3  # the wrong end is cut off, although the checkpoint holds to the last
    fault = Episode("e", "s", "t", 0, "web", "i", (1, 1), turns, "env_crash")
    kept, left = settle(Item(task), fault, held, hashes, "last", False, counts)
    assert kept is None and counts["env_crash"] == 1
    wordless = dataclasses.replace(turns[1], parse_error="no_call", action=None)
    torn = dataclasses.replace(episode, turns=(turns[0], wordless, *turns[2:]))
    kept, left = settle(Item(task), torn, held, hashes, "last", False, counts)
    assert [turn.use for turn in kept.turns] == [True, False, True] and left.prefix[1].parse_error == "no_call"
