"""Decomposition: operations read from answers, and plans that are carried out in the real worlds."""

import asyncio
import json

import pytest

from env_servers.server import running_server
from env_servers.suites.virtual import tasks as virtual_tasks
from gui_rl.flywheel.annotator import Answer, Exact, RubbishError
from gui_rl.flywheel.operations import DecomposingAgent, Operation, decompose, operation_of, read_operations
from gui_rl.prompt.context import TINY_CONTEXT
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.rollout.agents import Prompts, ScriptAgent
from gui_rl.rollout.env_client import EnvClient
from gui_rl.rollout.episode import Spec, play_all


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ([], "list of operations"),
        ({"op": "tap"}, "list of operations"),
        (["tap"], "operation 0: None is none of"),
        ([{"op": "finish"}, {"op": "fly"}], "operation 1: 'fly'"),
        ([{"op": "double", "target": "x"}], "'double' is none of"),
        ([{"op": "tap"}], "tap needs"),
        ([{"op": "finish", "target": "x"}], "finish needs"),
        ([{"op": "swipe", "direction": "north"}], "direction"),
        ([{"op": "tap", "target": 3}], "target is 3"),
        ([{"op": "wait", "seconds": True}], "seconds is True"),
    ],
)
def test_answers_that_are_no_plan(value, match):
    with pytest.raises(ValueError, match=match):
        read_operations(value, "mobile")


class Saying:
    name = "saying"

    def __init__(self, text):
        self.text, self.questions = text, []

    async def ask(self, question):
        self.questions.append(question)
        return Answer(self.text, self.name)


def test_the_question_names_the_screen_and_the_operations():
    annotator = Saying('[{"op": "tap", "target": "apple"}, {"op": "finish"}]')
    plan = asyncio.run(decompose(annotator, "Star the apple.", "mobile", ["apple", "form"], b"png"))
    assert plan == [Operation("tap", {"target": "apple"}), Operation("finish", {})]
    (question,) = annotator.questions
    assert "Star the apple." in question.text and "apple, form" in question.text and "swipe(direction)" in question.text
    assert question.images == (b"png",)
    with pytest.raises(RubbishError):
        asyncio.run(decompose(Saying("I would tap it."), "Star.", "mobile", [], b""))


class Watched(ScriptAgent):
    """The script; keeps the operation behind each of its moves."""

    async def act(self, view):
        move = await view.session.script()
        PLANS.setdefault(view.episode, []).append(operation_of(move, view.device).to_dict())
        return await super().act(view)


PLANS = {}


@pytest.fixture(scope="module")
def prompts():
    return Prompts(Tokenizer.load("gui-tiny"), TINY_CONTEXT)


def test_the_script_s_own_plans_reach_the_goals_of_all_apps(chromium, prompts):
    """Exact decomposition, by name alone, played in fresh sessions: every other task of every app."""
    specs = [Spec("virtual", task, 50 + k) for k, task in enumerate(virtual_tasks()) if k % 2]

    def play(agent, server, specs):
        async def run():
            async with EnvClient(server.url, server.token) as client:
                return await play_all(client, agent, specs, script=True, parallel=8)

        return asyncio.run(run())

    with running_server() as server:
        assert all(episode.success for episode in play(Watched(prompts), server, specs))
        exact = Exact({"decompose": lambda facts: facts})
        agent = DecomposingAgent(prompts, exact, facts=dict(PLANS))
        episodes = play(agent, server, specs)
        assert [episode.id for episode in episodes if not episode.success] == [] and agent.failed == 0
        assert {episode.source for episode in episodes} == {"script"}
        assert {item["op"] for plan in PLANS.values() for item in plan} >= {"tap", "hold", "double", "drag", "scroll"}

        lost = DecomposingAgent(prompts, Saying(json.dumps([{"op": "tap", "target": "unicorn"}])))
        rubbish = DecomposingAgent(prompts, Saying("no"))
        for agent in (lost, rubbish):
            (episode,) = play(agent, server, specs[:1])
            assert episode.outcome == "fail" and agent.failed == 1
            assert episode.turns[-1].action["arguments"] == {"action": "terminate", "status": "failure"}
