"""Four roles: their update equations, what they are asked, and one policy that plays them in a real world."""

import asyncio
import dataclasses
import math

import jax
import numpy as np
import pytest

from env_servers.server import running_server
from gui_rl.data.samples import by_role, turn_sample
from gui_rl.data.schema import Episode, RoleCall
from gui_rl.model.config import preset
from gui_rl.model.params import init_params
from gui_rl.prompt.context import TINY_CONTEXT, HistoryTurn
from gui_rl.prompt.images import prepare
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.rollout.agents import Prompts, View
from gui_rl.rollout.engine import Engine, engine_config
from gui_rl.rollout.env_client import EnvClient
from gui_rl.rollout.episode import Spec, play_all
from gui_rl.rollout.roles import (
    RolesAgent,
    RoleState,
    action_of,
    items,
    read_feedback,
    read_items,
    told,
    update,
)
from gui_rl.rollout.sampler import SamplingParams

TOKENIZER = Tokenizer.load("gui-tiny")


def updated(turn, state, **said):
    """(X_t, calls, what was asked) with the answers of a table."""
    asked = {}

    async def say(role, text, seen):
        asked[role] = (text, seen)
        return RoleCall(role, (1,), (), seen, (2,), (), said[role])

    new, calls = asyncio.run(update(say, "Star the pear.", turn, "Tap it.", state, "K" if not turn else ""))
    return new, calls, asked


def test_the_plan_comes_from_the_instruction_and_what_is_known():
    state, calls, asked = updated(0, RoleState(), manager="Open it.\n Star it. \n")
    assert state == RoleState(("Open it.", "Star it.")) and [call.role for call in calls] == ["manager"]
    text, seen = asked["manager"]
    assert "Star the pear." in text and "Known: K" in text and seen == (0,)
    assert told("I", state) == "I\nSubgoals: Open it. Star it."


def test_after_success_notes_and_subgoals_are_renewed():
    before = RoleState(("Open it.", "Star it."), notes=("A is 1.",))
    said = {"reflector": "SUCCESS It opened.", "notetaker": "A is 1.\nB is 2.", "manager": "Star it."}
    state, calls, asked = updated(3, before, **said)
    assert state == RoleState(("Star it.",), True, "It opened.", ("A is 1.", "B is 2."))
    assert [(call.role, call.image_turns) for call in calls] == [
        ("reflector", (2, 3)), ("notetaker", (3,)), ("manager", (3,)),
    ]  # fmt: skip
    assert "Tap it." in asked["reflector"][0] and "A is 1." in asked["notetaker"][0]
    assert "Open it.\nStar it." in asked["manager"][0] and "SUCCESS It opened." in asked["manager"][0]
    assert told("I", state) == "I\nSubgoals: Star it.\nFeedback: SUCCESS It opened.\nNotes: A is 1. B is 2."


def test_after_failure_the_notes_stay_and_nobody_is_asked_for_them():
    before = RoleState(("Star it.",), notes=("A is 1.",))
    state, calls, _ = updated(1, before, reflector="FAILURE It is shut.", manager="Open it.\nStar it.")
    assert state == RoleState(("Open it.", "Star it."), False, "It is shut.", ("A is 1.",))
    assert [call.role for call in calls] == ["reflector", "manager"]


def test_what_is_no_answer_changes_nothing_and_is_marked():
    before = RoleState(("Star it.",), notes=("A is 1.",))
    state, calls, _ = updated(1, before, reflector="Perhaps.", manager=" \n")
    assert state == RoleState(("Star it.",), False, "", ("A is 1.",))
    assert [bool(call.failure) for call in calls] == [True, True]
    state, calls, _ = updated(1, before, reflector="SUCCESS", notetaker="<tool_call>", manager="None")
    assert state == RoleState((), True, "", ("A is 1.",)) and [bool(c.failure) for c in calls] == [False, True, False]


def test_answers_are_read_as_they_are_written():
    for found in ((), ("one",), ("one", "two")):
        assert read_items(items(found)) == found
    assert read_feedback("SUCCESS") == (True, "") and read_feedback(" FAILURE No way. ") == (False, "No way.")
    with pytest.raises(ValueError, match="neither"):
        read_feedback("success")
    past = HistoryTurn(None, 'So.\n</think>\n\nAction: Tap it.\n<tool_call>\n{"a": 1}\n</tool_call>', (), "Tap it.")
    assert action_of(past) == 'Tap it. {"a": 1}'
    assert action_of(dataclasses.replace(past, response_text="Hm.", conclusion="")) == "no call"


@pytest.fixture(scope="module")
def played(chromium):
    """Three episodes, the first two of one id, in four roles of a small random policy."""
    cfg = preset("gui-tiny")
    text = dataclasses.replace(cfg.text, num_hidden_layers=1, vocab_size=64 * math.ceil(TOKENIZER.vocab_size / 64))
    vision = dataclasses.replace(cfg.vision, depth=1, deepstack_visual_indexes=(0,))
    cfg = dataclasses.replace(cfg, text=text, vision=vision, image_token_id=TOKENIZER.image_id)
    params = jax.jit(init_params, static_argnums=0)(cfg, jax.random.key(0))

    async def run(server):
        engine = Engine(cfg, params, TOKENIZER, dataclasses.replace(engine_config(TINY_CONTEXT), row_buckets=(4,)))
        agent = RolesAgent(engine, Prompts(TOKENIZER, TINY_CONTEXT), SamplingParams(max_tokens=12))
        try:
            async with EnvClient(server.url, server.token) as client:
                specs = [Spec("virtual", "shop/cart", 5), Spec("virtual", "orders/ask", 6)]
                return [(await play_all(client, agent, specs, parallel=2)) for _ in range(2)]
        finally:
            await engine.close()

    with running_server() as server:
        return asyncio.run(run(server))


def test_every_call_is_kept_as_it_was_sampled(played):
    first, again = played
    for episode in first:
        assert episode.scored and episode.source == "policy" and len(episode.turns) > 1
        for turn in episode.turns:
            calls = {call.role: call for call in turn.calls}
            assert set(calls) >= ({"reflector", "manager"} if turn.index else {"manager"})
            for call in turn.calls:
                assert len(call.behaviour_logp) == len(call.response_ids) > 0
                assert TOKENIZER.decode(call.response_ids).removesuffix("<|im_end|>") == call.text
                assert call.prompt_ids.count(TOKENIZER.image_id) == sum(h * w // 4 for _, h, w in call.image_grids)
                assert len(call.image_turns) == len(call.image_grids) == (2 if call.role == "reflector" else 1)
            assert "Subgoals: " in TOKENIZER.decode(turn.prompt_ids)
            assert ("Feedback: " in TOKENIZER.decode(turn.prompt_ids)) == (turn.index > 0)
    said = [[[call.response_ids for call in turn.calls] for turn in e.turns] for e in first]
    assert said == [[[call.response_ids for call in turn.calls] for turn in e.turns] for e in again]


def test_roles_become_episodes_with_samples(played):
    (episode, _), _ = played
    own, *others = by_role(episode)
    assert own.turns[0].response_ids == episode.turns[0].response_ids and not own.turns[0].calls
    assert [role.made_by["role"] for role in others][:1] == ["manager"]
    for role in others:
        for turn in role.turns:
            if turn.use:
                assert turn_sample(role, turn.index, ce_weight=1.0).patches
    assert Episode.from_dict(episode.to_dict()) == episode


def test_what_the_worker_is_told_fits_its_prompt():
    prompts = Prompts(TOKENIZER, TINY_CONTEXT)
    agent = RolesAgent(None, prompts)

    view = View("e", "web", "Star the pear.", (), prepare(np.zeros((128, 160, 3), np.uint8)), (), None)
    state = RoleState(("Open it. " * 4,) * 3, True, "So. " * 4, ("Note this number. " * 4,) * 4)
    seen = agent._told(view, state)
    assert "Open it." in seen.instruction and seen.instruction.count("number") < 16
    assert len(prompts.of(seen).ids) <= TINY_CONTEXT.max_prompt_tokens
    small = agent._told(view, RoleState(("Open it.",)))
    assert small.instruction == told("Star the pear.", RoleState(("Open it.",)))
