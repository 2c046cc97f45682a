"""ToolCUA's rewards and advantages: switch decisions, action matches, the path reward, the guard against idle calls."""

import dataclasses
import json
import math

import numpy as np
import pytest

from env_servers.protocol.actions import Call
from gui_rl.data.schema import Episode, Turn, TurnRecord
from gui_rl.learn.toolcua import (
    ACCURACY,
    PathConfig,
    SwitchConfig,
    ToolCalls,
    _drawn,
    action_match,
    fill_switches,
    path_rewards,
    switch_reward,
    tool_calls,
    tool_metrics,
)
from gui_rl.prompt.render import encode_response, response_text
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.rollout.sampler import Completion

OK = {"success": True, "result": None, "error_message": None}


def gui(action, **arguments):
    return {"name": "browser_use", "arguments": {"action": action, **arguments}}


def tool(name="shop.add", **arguments):
    return {"name": name, "arguments": arguments}


def turn(action, index=0, **fields):
    return Turn(index, b"", action=action, **fields)


def episode(actions, success=True, hashes=None, results=None, parse_errors=()):
    hashes = hashes or [str(k) for k in range(len(actions))]
    turns = tuple(
        turn(
            action, k, state_hash=hashes[k], parse_error="no_call" if k in parse_errors else None,
            tool_result=json.dumps((results or {}).get(k, OK)) if action and action["name"] == "shop.add" else None,
        )
        for k, action in enumerate(actions)
    )  # fmt: skip
    outcome = "success" if success else "fail"
    return Episode("e", "s", "shop/t", 0, "web", "i", (1, 1), turns, outcome)


def test_actions_match_by_name_target_and_arguments():
    boxed = turn(gui("click", coordinate=[100, 100]), target_box=(80, 80, 120, 120))
    assert action_match(gui("click", coordinate=[120, 80]), boxed) == 1
    assert action_match(gui("click", coordinate=[121, 80]), boxed) == 0
    assert action_match(gui("scroll", direction="up"), boxed) == 0
    bare = turn(gui("click", coordinate=[100, 100]))
    assert action_match(gui("click", coordinate=[240, 100]), bare) == 1
    assert action_match(gui("click", coordinate=[200, 200]), bare, reach=141) == 0
    typed = turn(gui("type", text="Red Cup", coordinate=[0, 0]))
    assert action_match(gui("type", text=" red cup", coordinate=[0, 0]), typed) == 1
    assert action_match(gui("type", text="red cup"), typed) == 0.5
    called = turn(tool(thing="cup", amount=1))
    assert action_match(tool(thing="Cup", amount=1), called) == 1
    assert action_match(tool(thing="cup", amount=2), called) == 0.75
    assert action_match(tool(thing="cup", amount=1, more=3), called) == pytest.approx(0.5 + 0.5 * 2 / 3)
    assert action_match(tool("shop.buy", thing="cup", amount=1), called) == 0
    assert action_match(gui("go_back"), turn(gui("go_back"))) == 1


def test_the_switch_is_rewarded_before_the_action():
    config, called, clicked = SwitchConfig(decision=0.4), turn(tool(thing="cup")), turn(gui("click", coordinate=[9, 9]))
    assert switch_reward(None, called, config) == 0
    assert switch_reward(gui("click", coordinate=[9, 9]), called, config) == 0
    assert switch_reward(tool(thing="cup"), clicked, config) == 0
    assert switch_reward(tool("shop.buy"), called, config) == 0.4
    assert switch_reward(tool(thing="lamp"), called, config) == pytest.approx(0.4 + 0.6 * 0.5)
    assert switch_reward(tool(thing="cup"), called, config) == switch_reward(clicked.action, clicked, config) == 1


def completion(tokenizer, action):
    text = "nothing" if action is None else response_text("Go.", Call(action["name"], action["arguments"]))
    ids = encode_response(tokenizer, text)
    return Completion(ids, [-0.5] * len(ids), "stop", 3)


def test_advantages_of_single_turn_rl_are_standardised_within_each_critical_step():
    tokenizer = Tokenizer.load("gui-tiny")
    schema = {"properties": {"thing": {"type": "string"}}, "required": ["thing"], "type": "object"}
    signature = {"type": "function", "function": {"name": "shop.add", "description": "Add.", "parameters": schema}}
    owner = dataclasses.replace(episode([tool(thing="cup")]), tools=(signature,))
    ids = tuple(tokenizer.encode("hello"))
    wanted = dataclasses.replace(owner.turns[0], prompt_ids=ids, response_ids=(1,))
    record = TurnRecord(owner, wanted, ())
    answers = [tool(thing="cup"), tool(thing="lamp"), gui("click", coordinate=[1, 1]), None]
    groups = [[completion(tokenizer, a) for a in answers], [completion(tokenizer, answers[0])] * 4]
    filled = fill_switches([record, record], groups, tokenizer, SwitchConfig())
    rewards = np.array([1.0, 0.75, 0.0, 0.0])
    expected = (rewards - rewards.mean()) / rewards.std()
    assert len(filled.samples) == 4  # the second group says nothing
    for sample, value, answer in zip(filled.samples, expected, groups[0], strict=True):
        (branch,) = sample.branches
        assert branch.advantage == pytest.approx(np.full(len(answer.token_ids), value))
        assert branch.ids.tolist() == answer.token_ids and (branch.behaviour_logp == -0.5).all()
        assert (branch.pg_weight == 1).all() and not branch.ce_weight.any() and sample.ids.tolist() == list(ids)
    assert filled.metrics == {
        "reward": pytest.approx((1.75 + 4) / 8), "decision_right": 6 / 8, "valid_calls": 7 / 8, "groups": 2.0,
        "groups_constant": 1.0,
    }  # fmt: skip
    near = fill_switches([record], [groups[0][:2]], tokenizer, SwitchConfig(std_floor=0.5))
    assert [s.branches[0].advantage[0] for s in near.samples] == pytest.approx([0.25, -0.25])  # std 0.125, floored


def test_critical_steps_all_come_before_any_comes_again():
    config = SwitchConfig(batch=4)
    drawn = [index for number in range(5) for index in _drawn(10, config, number)]
    assert sorted(drawn[:10]) == sorted(drawn[10:]) == list(range(10)) and drawn[:10] != drawn[10:]
    assert _drawn(3, config, 0) == _drawn(3, config, 0) and sorted(_drawn(3, config, 0)[:3]) == [0, 1, 2]


CLICK, END = gui("click", coordinate=[1, 1]), gui("terminate", status="success")


def test_the_path_reward_of_a_pool_by_hand():
    pool = [
        episode([tool(), END]),  # 2 steps, a tool
        episode([CLICK] * 5 + [END]),  # 6 steps, none
        episode([tool(), tool(), CLICK, END], success=False),  # 4 steps
        episode([None, CLICK, tool(), END], parse_errors=(0,)),  # 4 steps, a format failure
    ]
    mean = 4.0
    found = path_rewards(pool, 1)
    assert found[0] == pytest.approx({"outcome": 1, "format": 0, "tool": 0.4, "length": 0.2 * (1 + 2 / mean)})
    late = math.exp(-(6 - mean) / (30 - mean))
    assert found[1] == pytest.approx({"outcome": 1, "format": 0, "tool": 0, "length": 0.2 * late})
    assert found[2] == {"outcome": 0, "format": 0, "tool": 0, "length": 0}
    assert found[3] == pytest.approx({"outcome": 1, "format": -0.3, "tool": 0.4, "length": 0.2})
    harmful = path_rewards(pool, -1)
    assert [parts["tool"] for parts in harmful] == [0, 0.4, 0, 0]
    assert [sum(parts.values()) for parts in path_rewards(pool, 1, ACCURACY)] == [1, 1, 0, 0.7]
    assert path_rewards([], 1) == []
    longer = path_rewards([episode([CLICK] * 40), episode([CLICK] * 2)], -1)  # S_max is at least the longest
    assert longer[0]["length"] == pytest.approx(0.2 * math.exp(-1))
    with pytest.raises(ValueError, match="tool_beneficial"):
        path_rewards(pool, 0)


def test_calls_that_did_nothing_are_found_and_can_be_left_unrewarded():
    read, failed = {**OK, "result": "three"}, {"success": False, "result": None, "error_message": "no"}
    idle = episode([tool(), CLICK, END], hashes=["a", "a", "b"])
    reading = episode([tool(), CLICK, END], hashes=["a", "a", "b"], results={0: read})
    failing = episode([tool(), CLICK, END], hashes=["a", "a", "b"], results={0: failed})
    real = episode([tool(), tool(), END], hashes=["a", "b", "b"])
    lost = episode([tool(), END], success=False, hashes=["a", "a"])
    unknown = episode([tool(), END], hashes=["", ""])
    assert tool_calls(idle) == ToolCalls(1, 0, 1, 1)
    assert tool_calls(reading) == ToolCalls(1, 0, 1, 0)
    assert tool_calls(failing) == ToolCalls(1, 1, 1, 1)
    assert tool_calls(real) == ToolCalls(2, 0, 1, 1)
    assert tool_calls(unknown) == ToolCalls(1, 0, 0, 0)
    pool = [idle, reading, failing, real, lost]
    paid = path_rewards(pool, 1)
    assert [parts["tool"] > 0 for parts in paid] == [True, True, True, True, False]
    assert tool_metrics(pool, paid, [1, 1, 1, -1, 1]) == pytest.approx({
        "tool_invocation_rate": 3 / 5,
        "tool_calls_an_episode": 6 / 5, "tool_calls": 6, "tool_calls_failed": 1 / 6, "tool_calls_unchanged": 5 / 6,
        "tool_calls_idle": 4 / 6, "tool_calls_rewarded": 5, "tool_calls_rewarded_failed": 1 / 5,
        "tool_calls_rewarded_unchanged": 4 / 5, "tool_calls_rewarded_idle": 3 / 5,
    })  # fmt: skip
    guarded = path_rewards(pool, 1, PathConfig(effective=True))
    assert [parts["tool"] > 0 for parts in guarded] == [False, True, False, True, False]
    assert tool_metrics(pool, path_rewards(pool, 1, ACCURACY), [1] * 5)["tool_calls_rewarded"] == 0
    assert set(tool_metrics([], [], []).values()) == {0.0}
