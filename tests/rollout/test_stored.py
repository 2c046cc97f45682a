"""Single steps on stored states: ids as stored, the reward by agreement, and the same groups as whole episodes."""

import asyncio
import dataclasses
import io

import numpy as np
import pytest
from PIL import Image

from env_servers.protocol.actions import Call
from gui_rl.data.samples import with_ids
from gui_rl.data.schema import Episode, Turn, TurnRecord
from gui_rl.errors import UserError
from gui_rl.learn.buffer import BufferState
from gui_rl.learn.mrpo import MRPOConfig, fill, rewards
from gui_rl.learn.teachers import Teaching
from gui_rl.prompt.context import TINY_CONTEXT
from gui_rl.prompt.render import encode_response, response_text
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.rollout.groups import Ticket
from gui_rl.rollout.sampler import Completion
from gui_rl.rollout.stored import agreement, make_play_stored

TOKENIZER = Tokenizer.load("gui-tiny")


def tap(x, y):
    return Call("mobile_use", {"action": "click", "coordinate": [x, y]})


def said(call):
    return response_text("Press it.", call)


@pytest.fixture(scope="module")
def state():
    """A recorded turn: a tap into a known box."""
    out = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (160, 128, 3), np.uint8)).save(out, "PNG")
    action = {"name": "mobile_use", "arguments": {"action": "click", "coordinate": [500, 500]}}
    turn = Turn(0, out.getvalue(), text=said(tap(500, 500)), action=action, target_box=(450, 450, 550, 600))
    episode = Episode("e", "virtual", "t", 0, "mobile", "Press.", (128, 160), (turn,), "success", 1.0, source="script")
    episode = with_ids(episode, TOKENIZER, TINY_CONTEXT)
    return TurnRecord(episode, episode.turns[0], (out.getvalue(),))


class Answers:
    """A sampler that gives these responses in turn."""

    def __init__(self, *texts):
        self.ids, self.prompts = [encode_response(TOKENIZER, text) for text in texts], []

    async def sample(self, prompts, params, keys):
        assert len(set(keys)) == len(prompts)
        self.prompts += prompts
        return [Completion(self.ids[n], [-0.5] * len(self.ids[n]), "stop", 7) for n in range(len(prompts))]


def test_a_stored_prompt_becomes_a_group_with_the_rule_reward(state):
    right, beside, other = (
        said(tap(460, 590)),
        said(tap(700, 500)),
        said(Call("mobile_use", {"action": "wait", "time": 1})),
    )
    sampler = Answers(right, beside, other, "I do not know.")
    play = make_play_stored({"s": state}, sampler, TOKENIZER, 4)
    pool = asyncio.run(play(Ticket("stored", "s", 3), 0))
    config = MRPOConfig(group=4, oversample=1, reward="rule", teaching=Teaching(estimator="k2"))
    assert [parts["rule"] for parts in rewards(pool.episodes, config)] == [1.0, -0.5, -0.5, -1.0]
    assert [e.outcome for e in pool.episodes] == ["success", "fail", "fail", "format_fail"]
    assert pool.episodes[1].score == 0.5 and pool.episodes[2].score == 0.0
    found = fill([pool], BufferState(), config, 7)
    mean = (1.0 - 0.5 - 0.5 - 1.0) / 4
    samples = sorted(found.samples, key=lambda sample: sample.id)
    for sample, ids, value in zip(samples, sampler.ids, (1.0, -0.5, -0.5, -1.0), strict=True):
        assert sample.ids.tolist() == list(state.turn.prompt_ids) and sample.branches[0].ids.tolist() == ids
        np.testing.assert_allclose(sample.branches[0].advantage, value - mean)
        assert (sample.branches[0].kl_weight == 1).all()
    assert all(prompt.ids == list(state.turn.prompt_ids) for prompt in sampler.prompts)
    assert found.metrics["staleness"] == 0 and found.families == ["mobile"] * 4


def test_agreement_counts_the_parts_that_are_right():
    def call(**arguments):
        return {"name": "mobile_use", "arguments": arguments}

    typed = call(action="type", text="Cup")
    assert agreement(call(action="type", text=" cup "), typed) == 1.0
    assert agreement(call(action="type", text="tree"), typed) == 0.5
    assert agreement(call(action="wait", time=1), typed) == 0.0
    here = call(action="click", coordinate=[500, 500])
    assert agreement(call(action="click", coordinate=[535, 470]), here) == 1.0
    assert agreement(call(action="click", coordinate=[545, 500]), here) == 0.5
    assert agreement(call(action="click", coordinate=[545, 500]), here, (400, 400, 600, 600)) == 1.0
    assert agreement({"name": "shop.search", "arguments": {}}, here) == 0.0


def test_states_that_cannot_be_played_are_refused(state):
    bare = state._replace(turn=dataclasses.replace(state.turn, action=None))
    with pytest.raises(UserError, match="no reference action"):
        make_play_stored({"s": bare}, Answers(), TOKENIZER, 2)
    with pytest.raises(UserError, match="2 screenshots"):
        make_play_stored({"s": state._replace(screens=state.screens * 2)}, Answers(), TOKENIZER, 2)
    with pytest.raises(UserError, match="no stored state"):
        asyncio.run(make_play_stored({}, Answers(), TOKENIZER, 2)(Ticket("stored", "x", 0), 0))
