"""Episodes against a real environment server with real Chromium."""

import asyncio
import dataclasses
import time

import numpy as np
import psutil
import pytest

from env_servers.protocol.actions import Call
from env_servers.server import running_server
from gui_rl.data.samples import turn_sample
from gui_rl.errors import UserError
from gui_rl.prompt.context import TINY_CONTEXT, ContextConfig
from gui_rl.prompt.parse import parse_response
from gui_rl.prompt.render import encode_response, response_text
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.rollout.agents import Prompts, RandomAgent, Reply, ScriptAgent
from gui_rl.rollout.env_client import EnvClient, Session
from gui_rl.rollout.episode import Places, Spec, Transport, play_all
from gui_rl.rollout.episode import play as play_one
from gui_rl.rollout.groups import Rounds, Ticket, play_pool
from gui_rl.rollout.told import told_episode

TASKS = (("orders/star", "mobile"), ("files/move", "desktop"), ("shop/add", "web"))


@pytest.fixture(scope="module")
def server(chromium):
    with running_server() as server:
        yield server


@pytest.fixture(scope="module")
def prompts():
    return Prompts(Tokenizer.load("gui-tiny"), TINY_CONTEXT)


def play(server, agent, specs, **options):
    async def run():
        async with EnvClient(server.url, server.token) as client:
            return await play_all(client, agent, specs, **options)

    return asyncio.run(run())


def test_scripted_episodes_succeed_and_hold_what_training_needs(server, prompts):
    transport = Transport()
    specs = [Spec("virtual", task, 11) for task, _ in TASKS]
    episodes = play(server, ScriptAgent(prompts), specs, script=True, keep_final=True, transport=transport)
    assert [episode.device for episode in episodes] == [device for _, device in TASKS]
    for episode in episodes:
        assert episode.outcome == "success" and episode.score == 1.0 and episode.progress == episode.total
        assert episode.source == "script" and episode.final_screenshot.startswith(b"\x89PNG")
        for turn in episode.turns:
            assert turn.screenshot.startswith(b"\x89PNG") and not turn.behaviour_logp
            placeholders = turn.prompt_ids.count(prompts.tokenizer.image_id)
            assert placeholders == sum(t * h * w // 4 for t, h, w in turn.image_grids)
            said = parse_response(turn.text, episode.device)
            assert {"name": said.call.name, "arguments": said.call.arguments} == turn.action
            assert said.conclusion == turn.conclusion
            if turn.target_box and "coordinate" in turn.action["arguments"]:
                x, y = turn.action["arguments"]["coordinate"]
                x0, y0, x1, y1 = turn.target_box
                assert x0 <= x <= x1 and y0 <= y <= y1
        assert episode.turns[-1].action["arguments"]["action"] in ("terminate", "answer")
    assert transport.turns == sum(len(episode.turns) for episode in episodes) and transport.rate == 0


def test_later_prompts_hold_the_earlier_conclusions(server, prompts):
    (episode,) = play(server, ScriptAgent(prompts), [Spec("virtual", "orders/star", 12)], script=True)
    first, second = (prompts.tokenizer.decode(turn.prompt_ids) for turn in episode.turns[:2])
    assert episode.instruction in first and "None" in first
    assert f"Step 1: {episode.turns[0].conclusion}" in second


def test_screens_are_as_large_as_the_agent_s_form_says(server, prompts):
    small = Prompts(prompts.tokenizer, dataclasses.replace(TINY_CONTEXT, max_pixels=64 * 64))
    (episode,) = play(server, ScriptAgent(small), [Spec("virtual", "orders/star", 12)], script=True)
    assert all(t * h * w * 16**2 <= 64 * 64 for turn in episode.turns for t, h, w in turn.image_grids)
    assert [image.grid for image in turn_sample(episode, 0).images] == list(episode.turns[0].image_grids)


def test_the_random_agent_is_a_floor_and_reproducible(server, prompts):
    specs = [Spec("virtual", task, 13, copy) for task, _ in TASKS for copy in range(2)]
    one, two = (play(server, RandomAgent(prompts), specs) for _ in range(2))
    assert [[turn.text for turn in episode.turns] for episode in one] == [
        [turn.text for turn in episode.turns] for episode in two
    ]
    assert all(episode.scored for episode in one)


class Mumbler:
    """An agent that never calls a tool."""

    source = "policy"

    def __init__(self, prompts, seconds=0.0):
        self.prompts, self.seconds = prompts, seconds

    async def act(self, view):
        await asyncio.sleep(self.seconds)
        return Reply("I would rather not.", self.prompts.of(view), self.prompts.tokenizer.encode("I would rather not."))


def test_responses_without_a_call_are_format_failures_and_count_as_steps(server, prompts):
    (episode,) = play(server, Mumbler(prompts), [Spec("virtual", "orders/star", 14)])
    assert episode.outcome == "format_fail" and episode.scored and not episode.success
    assert {turn.parse_error for turn in episode.turns} == {"no_call"}


def test_a_script_that_sees_no_way_on_fails_and_says_why(server, prompts):
    """On this seed of the page one button hides the other."""
    (episode,) = play(server, ScriptAgent(prompts), [Spec("miniwob25", "miniwob/click-test-2", 99995)], script=True)
    assert episode.outcome == "format_fail" and episode.scored and not episode.success
    assert "looks for 'ONE' on a screen that shows only: TWO" in episode.turns[0].text


def test_the_deadline_is_one_for_the_whole_rollout(server, prompts):
    specs = [Spec("virtual", "orders/star", 15, copy) for copy in range(4)]
    episodes = play(server, Mumbler(prompts, seconds=2.0), specs, parallel=4, deadline_s=6.0)
    assert {episode.outcome for episode in episodes} == {"policy_timeout"}
    assert all(0 < len(episode.turns) < 6 for episode in episodes)  # of six steps at two seconds each


def test_a_lost_browser_is_a_fault_and_never_a_score(chromium, prompts):
    """Every Chromium of the server is killed in the middle; nothing is resampled here."""

    class Killer(Mumbler):
        async def act(self, view):
            for child in psutil.Process(self.pid).children(recursive=True):
                if "chrom" in child.name():
                    child.kill()
            text = response_text("Click.", Call("browser_use", {"action": "click", "coordinate": [500, 500]}))
            return Reply(text, self.prompts.of(view), encode_response(self.prompts.tokenizer, text))

    with running_server() as own:
        agent = Killer(prompts)
        agent.pid = own.pid
        (episode,) = play(own, agent, [Spec("virtual", "shop/add", 16)], resample=0)
        assert episode.outcome == "env_crash" and not episode.scored
        (again,) = play(own, ScriptAgent(prompts), [Spec("virtual", "shop/add", 16)], script=True)
        assert again.outcome == "success"


def test_pools_keep_their_order_and_members_share_the_initial_screen(server, prompts):
    async def run():
        async with EnvClient(server.url, server.token) as client:
            places = Places(4)
            rounds = Rounds(lambda ticket, _: play_pool(client, RandomAgent(prompts), ticket, 3, places))
            rounds.begin(7, [Ticket("virtual", "shop/add", 17), Ticket("virtual", "files/star", 18)])
            return await rounds.take(7), places

    pools, places = asyncio.run(run())
    assert [pool.key for pool in pools] == ["virtual/shop/add/17", "virtual/files/star/18"]
    for pool in pools:
        assert len(pool.episodes) == 3 and pool.faults == 0
        assert len({episode.turns[0].screenshot for episode in pool.episodes}) == 1
        assert len({episode.id for episode in pool.episodes}) == 3
    assert places.occupied_s > 0


def test_a_group_larger_than_the_places_is_played_a_part_at_a_time(server, prompts):
    episodes = play(
        server, RandomAgent(prompts), [Spec("virtual", "shop/add", 1, copy) for copy in range(3)], parallel=2
    )
    assert len(episodes) == 3 and all(episode.scored for episode in episodes)


class Guessing(RandomAgent):
    """The random agent with log-probabilities and versions, as a sampler tells them."""

    async def act(self, view):
        reply = await super().act(view)
        logp = np.random.default_rng(len(view.history)).normal(-2, 1, len(reply.response_ids)).astype(np.float32)
        spans = ((3, 1), (4, len(reply.response_ids) - 1))
        return dataclasses.replace(
            reply, behaviour_logp=tuple(logp), temperature=0.7, policy_version=3, policy_spans=spans
        )


@pytest.mark.parametrize("context", [TINY_CONTEXT, ContextConfig(history_turns=2)], ids=["one screen", "history"])
def test_an_episode_read_from_the_server_trains_like_the_one_that_was_played(server, context):
    """The agent loop runs beside the environment; the trainer has the session's lease and nothing else."""
    agent = Guessing(Prompts(Tokenizer.load("gui-tiny"), context))

    async def run():
        async with EnvClient(server.url, server.token) as client, EnvClient(server.url, server.token) as trainer:
            (session,) = await client.create("virtual", "files/move", 22)
            away, closed = Session(trainer.servers[0], session.lease), session.close

            async def later():
                return None

            session.close = later  # the session outlives the loop: it is the trainer who ends it
            played = await play_one(Spec("virtual", "files/move", 22), session, agent, time.monotonic() + 60, tell=True)
            told = told_episode(await away.record(screenshots=True), await away.evaluate(), played.id)
            short = await away.record()
            await closed()
            return played, told, short

    played, told, short = asyncio.run(run())
    assert len(played.turns) > 1 and short.screenshots == []
    plain = [dataclasses.replace(turn, seconds={}) for turn in played.turns]  # but for how long it took
    assert told == dataclasses.replace(played, turns=tuple(plain))
    for index, turn in enumerate(played.turns):
        streams = {"pg_weight": 1.0, "advantage": 0.5, "behaviour_logp": np.asarray(turn.behaviour_logp, np.float32)}
        mine, other = turn_sample(played, index, **streams), turn_sample(told, index, **streams)
        assert mine.ids.tolist() == other.ids.tolist() and mine.id == other.id
        assert mine.branches[0].ids.tolist() == other.branches[0].ids.tolist()
        np.testing.assert_array_equal(mine.branches[0].behaviour_logp, other.branches[0].behaviour_logp)
        for image, same in zip(mine.images, other.images, strict=True):
            np.testing.assert_array_equal(image.patches, same.patches)
    with pytest.raises(UserError, match="screenshots"):
        told_episode(short, None, "e")
