"""ToolCUA's data and offline stages end to end, on two apps in a real browser."""

import asyncio
import dataclasses

import jax
import numpy as np
import pytest

from env_servers.server import running_server
from env_servers.suites import instantiate
from gui_rl.data.pipeline import TurnSource
from gui_rl.data.samples import BatchShape
from gui_rl.flywheel.interleave import InterleaveConfig, carry_out, interleave, share_kept
from gui_rl.flywheel.plans import boundaries, critical, exact_calls, is_tool, merged, tool_plan
from gui_rl.flywheel.tools import Library
from gui_rl.learn import optim, sft, toolcua
from gui_rl.learn.losses import LossConfig
from gui_rl.learn.state import init_state, make_mesh
from gui_rl.learn.step import make_train_step
from gui_rl.model.config import preset
from gui_rl.prompt.context import ContextConfig
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.rollout.agents import Prompts, ScriptAgent
from gui_rl.rollout.engine import Engine, EngineConfig
from gui_rl.rollout.env_client import EnvClient
from gui_rl.rollout.episode import Spec, play_all
from gui_rl.rollout.sampler import SamplingParams

TASKS = ("orders/show+mark+order", "shop/add+remove+checkout", "orders/pick")
CONTEXT = ContextConfig(history_turns=0, screenshot_first=True)
SHAPE = BatchShape(rows=4, row_length=1024, row_patches=256, micro_batches=1)


@pytest.fixture(scope="module")
def server(chromium):
    with running_server() as server:
        yield server


@pytest.fixture(scope="module")
def prompts():
    return Prompts(Tokenizer.load("gui-tiny"), CONTEXT)


def with_client(server, body):
    async def run():
        async with EnvClient(server.url, server.token) as client:
            return await body(client)

    return asyncio.run(run())


@pytest.fixture(scope="module")
def sources(server, prompts):
    specs = [Spec("virtual", task, 21) for task in TASKS]
    return with_client(
        server, lambda client: play_all(client, ScriptAgent(prompts), specs, script=True, keep_final=True)
    )


@pytest.fixture(scope="module")
def made(server, prompts, sources):
    kept = []
    config = InterleaveConfig(variants=4, levels=2)
    counts = with_client(server, lambda client: interleave(client, prompts, sources, kept.append, config))
    return kept, counts


def test_all_that_is_kept_reached_the_goal_and_counts_add_up(made, sources):
    kept, counts = made
    assert counts["sources"] == 3 and counts["no_tool"] == 1 and counts["tools_tried"] == 2
    for kind in ("tools", "coarse", "interleaved"):
        lost = sum(n for name, n in counts.items() if name.startswith(f"{kind}_")) - counts[f"{kind}_tried"]
        assert lost == counts[f"{kind}_tried"]  # every plan that was tried ended in one way
        assert counts[f"{kind}_tried"] > 0 and 0 < share_kept(counts, kind) <= 1
    assert len(kept) == sum(n for name, n in counts.items() if name.endswith(("_recorded", "_redone")))
    assert all(done.episode.success and done.episode.progress == done.episode.total for done in kept)
    assert len({done.episode.id for done in kept}) == len(kept)
    by_task = {source.task: source for source in sources}
    for done in kept:
        source, episode = by_task[done.episode.task], done.episode
        assert episode.instruction == source.instruction and episode.made_by["plan"] == done.how
        offered = {tool["function"]["name"] for tool in episode.tools}
        assert offered == {*done.plan.tools, *(composite.name for composite in done.plan.composites)}
        assert [turn.action["name"] for turn in episode.turns if is_tool(turn)] == [
            step.call["name"] for step in done.plan.steps
        ]
        assert all('"success": true' in turn.tool_result for turn in episode.turns if is_tool(turn))


def test_what_was_kept_leads_through_the_same_states_again(made, server):
    """A fresh session with the same offer, and nothing but the stored actions."""

    async def again(client, done):
        episode, plan = done.episode, done.plan
        async with client.group(
            "virtual", episode.task, episode.seed, tools=plan.tools, composites=plan.composites
        ) as (session,):
            seen = [(await session.reset()).state_hash]
            for turn in episode.turns:
                seen.append((await session.step(turn.action)).observation.state_hash)
            verdict = await session.evaluate()
        assert verdict.outcome == "success"
        assert seen[:-1] == [turn.state_hash for turn in episode.turns]

    async def all_again(client):
        await asyncio.gather(*(again(client, done) for done in made[0]))

    with_client(server, all_again)


def test_a_coarse_tool_is_one_turn_and_the_library_knows_it(made):
    kept, _ = made
    specs = {spec.name: spec for done in kept for spec in instantiate("virtual", done.episode.task, 21).tools}
    used = Library()
    for done in kept:
        used.add(done.plan, done.episode)
    tools = {tool.name: tool for tool in used.tools(specs)}
    coarse = [tool for tool in tools.values() if tool.granularity == "coarse"]
    assert coarse and all(len(tool.members) > 1 and set(tool.members) <= set(specs) for tool in coarse)
    assert {tool.granularity for tool in tools.values()} >= {"coarse", "mid"}
    for done in kept:
        for step in done.plan.steps:
            assert step.call["name"] in tools
            assert len(step.subtasks) == len(step.calls)


def test_a_plan_that_does_not_reach_the_goal_is_not_kept(server, prompts, sources):
    """A wrong argument, and a tool step bound to a sub-task that it does not do."""
    source = next(s for s in sources if s.task.startswith("shop/"))
    names = [spec.name for spec in instantiate("virtual", source.task, source.seed).tools]
    plan = tool_plan(source, exact_calls(source), names)
    first = plan.steps[0]
    call = {**first.calls[0], "arguments": {**first.calls[0]["arguments"], "amount": 2}}
    wrong = dataclasses.replace(plan, parts=(dataclasses.replace(first, calls=(call,)), *plan.parts[1:]))
    early = dataclasses.replace(plan, parts=(dataclasses.replace(first, subtasks=(0, 1)), *plan.parts[1:]))

    async def body(client):
        config = InterleaveConfig()
        return [await carry_out(client, prompts, source, p, "recorded", config, "x") for p in (plan, wrong, early)]

    (good, grounded), (bad, _), (unbound, bound) = with_client(server, body)
    assert good.success and grounded
    assert not bad.success
    assert unbound.success and not bound
    assert merged(plan) is not None


def test_the_script_goes_on_from_the_screen_that_a_tool_left(server, prompts):
    """After the tool the app shows another screen than after the steps it stands for: the recorded steps miss."""
    spec = Spec("virtual", "orders/unstar+mark+delete+finished", 0)

    async def body(client):
        (source,) = await play_all(client, ScriptAgent(prompts), [spec], script=True)
        plan = tool_plan(source, exact_calls(source), ["orders.set_mark"])
        return [
            await carry_out(client, prompts, source, plan, how, InterleaveConfig(), how)
            for how in ("recorded", "redone")
        ]

    (recorded, _), (redone, grounded) = with_client(server, body)
    assert not recorded.success and redone.success and grounded
    assert sum(map(is_tool, redone.turns)) == 1 and redone.made_by["plan"] == "redone"


def test_a_prompt_over_the_limit_is_counted_and_the_rest_goes_on(server, prompts, sources):
    short = Prompts(prompts.tokenizer, dataclasses.replace(CONTEXT, max_prompt_tokens=40))
    kept = []
    counts = with_client(server, lambda client: interleave(client, short, sources, kept.append))
    assert not kept and counts["tools_too_long"] == counts["tools_tried"] == counts["ungrounded"] == 2


def test_warm_up_and_single_turn_rl_on_what_was_made(made, prompts, tmp_path):
    """One SFT step on D_all lowers its loss; one single-turn RL step on D_critical moves the policy."""
    every = [done.episode for done in made[0]]
    few = [found for found in map(critical, every) if found]
    assert few and sum(turn.use for e in few for turn in e.turns) == sum(len(boundaries(e)) for e in every)
    tokenizer, mesh = prompts.tokenizer, make_mesh(devices=jax.devices()[:1])
    cfg = dataclasses.replace(preset("gui-tiny"), image_token_id=tokenizer.image_id)
    state = init_state(cfg, optim.adamw(1e-3), 0, mesh)
    step = make_train_step(cfg, LossConfig(), optim.adamw(1e-3), mesh)
    losses = []
    config = sft.SFTConfig(steps=2, turns=4, shape=SHAPE, checkpoint_every=9, ahead=0)
    state = sft.train(
        state, step, every[:1], cfg, config, mesh, tmp_path / "sft", lambda n, m, _: losses.append(float(m["loss"]))
    )
    assert losses[1] < losses[0]

    class Half:
        """The engine, with every second answer replaced by the recorded one: an untrained policy never calls a tool."""

        def __init__(self, engine, turns):
            self.engine, self.turns = engine, turns

        async def sample(self, given, params, keys):
            done = await self.engine.sample(given, params, keys)
            answers = {tuple(record.turn.prompt_ids): record.turn.response_ids for record in self.turns}
            for k in range(0, len(done), 2):
                ids = list(answers[tuple(given[k].ids)])
                done[k] = dataclasses.replace(done[k], token_ids=ids, logprobs=[-1.0] * len(ids))
            return done

        async def update_weights(self, params, version):
            await self.engine.update_weights(params, version)

    turns = TurnSource(few)
    longest = max(len(record.turn.prompt_ids) for record in map(turns.__getitem__, range(len(turns))))
    reports = []

    async def rl():
        engine = Engine(cfg, state.params, tokenizer, EngineConfig(row_buckets=(8,), capacity=longest + 8))
        config = toolcua.SwitchConfig(
            steps=3, group=4, batch=2, sampling=SamplingParams(max_tokens=8), shape=SHAPE, checkpoint_every=9
        )

        async def report(number, metrics):
            reports.append((number, metrics))

        sampler = Half(engine, [turns[index] for index in range(len(turns))])
        done = await toolcua.train_switches(
            state, step, sampler, tokenizer, turns, cfg, config, mesh, tmp_path / "rl", report
        )
        await engine.close()
        return done

    before = jax.tree.map(np.array, state.params)
    trained = asyncio.run(rl())
    assert [number for number, _ in reports] == [3] and int(trained.step) == 3
    metrics = reports[0][1]
    assert metrics["reward"] == metrics["decision_right"] == 0.5 and metrics["groups_constant"] == 0
    moved = jax.tree.map(lambda a, b: float(np.abs(np.asarray(a) - np.asarray(b)).max()), trained.params, before)
    assert max(jax.tree.leaves(moved)) > 0
