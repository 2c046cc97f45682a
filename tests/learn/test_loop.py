"""The loop of online training: exact when synchronous, bounded when not, and nothing lost or trained twice."""

import asyncio
import dataclasses
from collections import Counter
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scripted import TASKS, Scripted, learner

from gui_rl.data.samples import BatchShape
from gui_rl.errors import UserError
from gui_rl.learn import checkpoint, online
from gui_rl.learn.buffer import BufferState
from gui_rl.learn.mrpo import MRPOConfig, fill
from gui_rl.learn.online import draw_tasks
from gui_rl.learn.schedule import unstable_tasks
from gui_rl.learn.state import TrainState
from gui_rl.rollout.episode import Spec, play_all
from gui_rl.rollout.groups import Pool
from gui_rl.rollout.simulated import SimulatedClient, SimulatedSession, Simulation

SHAPE = BatchShape(rows=8, row_length=64, row_patches=96, micro_batches=2)
CONFIG = MRPOConfig(
    steps=5, group=4, oversample=2, tasks=3, stage_steps=2, max_lag=0, parallel=24, checkpoint_every=1, shape=SHAPE
)
QUICK = Simulation(mean_s=0.0, shortest=2, longest=4)
SEEDS = range(1000)


def run(
    config, directory, client=None, agent=None, update=None, state=None, stop=None, tasks=TASKS, policy=None, lease=None
):
    """The last state, what every step reported and the samples it was trained on; `stop`: a step after which to die."""
    reports, filled = [], []
    if update is None:
        state, update = learner(config)

    def watched(state, given):
        filled.append(given)
        return update(state, given)

    async def report(step):
        reports.append(step)
        if step.step == stop:
            raise KeyboardInterrupt

    async def whole():
        return await online.train(
            state, watched, agent or Scripted(), client or SimulatedClient(QUICK), tasks, SEEDS, config, directory,
            report, policy, lease=lease,
        )  # fmt: skip

    try:
        state = asyncio.run(whole())
    except KeyboardInterrupt:
        state = None
    return state, reports, filled


def still(state, filled):
    """An update that changes nothing."""
    return state.replace(step=state.step + 1), {}


def bare(value=0.0):
    return TrainState(jnp.asarray(0), {"w": jnp.asarray(value)}, {"m": jnp.asarray(0.0)}, jax.random.key(0))


def as_numbers(sample):
    branch = sample.branches[0]
    return [
        sample.id, sample.ids.tolist(), [image.patches.sum() for image in sample.images], branch.ids.tolist(),
        branch.pg_weight.tolist(), branch.advantage.tolist(), branch.behaviour_logp.tolist(),
    ]  # fmt: skip


def test_without_lag_a_step_is_draw_play_fill_train_one_after_the_other(tmp_path):
    """Samples, losses and parameters, bit by bit, of the loop as plain as it can be written."""
    state, reports, filled = run(CONFIG, tmp_path)

    async def plainly():
        state, update = learner(CONFIG)
        agent, client, buffer, recent, steps = Scripted(), SimulatedClient(QUICK), BufferState(), {}, []
        for number in range(CONFIG.steps):
            family = ("mobile", "desktop", "web")[number // 2]
            await agent.update_weights(None, number)
            drawn = draw_tasks(TASKS, (family,), SEEDS, 3, [0, number], unstable_tasks(recent), CONFIG.explore)
            specs = [Spec(t.suite, t.task, t.seed, copy, f"rl{number}") for t in drawn for copy in range(8)]
            episodes = await play_all(client, agent, specs, parallel=24)
            pools = [Pool(t.key, tuple(episodes[8 * i : 8 * i + 8]), 0) for i, t in enumerate(drawn)]
            for ticket, pool in zip(drawn, pools, strict=True):
                recent[ticket.task] = [*recent.get(ticket.task, ()), *pool.outcomes][-16:]
            step = fill(pools, buffer, CONFIG, number)
            state, metrics = update(state, step)
            buffer = step.buffer
            steps.append((step.samples, metrics))
        return state, steps

    expected, steps = asyncio.run(plainly())
    assert sum(len(samples) for samples, _ in steps) > 100
    for given, report, (samples, metrics) in zip(filled, reports, steps, strict=True):
        assert list(map(as_numbers, given.samples)) == list(map(as_numbers, samples))
        assert {name: report.metrics[name] for name in metrics} == metrics  # the loss among them
    for mine, other in zip(jax.tree.leaves(state.params), jax.tree.leaves(expected.params), strict=True):
        np.testing.assert_array_equal(mine, other)


@pytest.fixture(scope="module")
def overlapped(tmp_path_factory):
    config = dataclasses.replace(CONFIG, steps=9, stage_steps=1, max_lag=2, parallel=16)
    client = SimulatedClient(Simulation(mean_s=0.004, shortest=2, longest=8))
    return config, *run(config, tmp_path_factory.mktemp("overlapped"), client)


def test_with_lag_rollouts_go_on_while_the_trainer_steps_and_no_sample_is_older(overlapped):
    config, state, reports, filled = overlapped
    lags = Counter()
    for report in reports:
        lags += Counter(report.step - 1 - turn.policy_version for e in report.episodes for turn in e.turns)
    assert set(lags) <= {0, 1, 2} and lags[1] + lags[2] > lags[0]
    assert max(report.metrics["staleness_max"] for report in reports) == 2
    across = [len({turn.policy_version for turn in e.turns}) for report in reports for e in report.episodes]
    assert max(across) > 1  # episodes under way went on with new weights
    assert int(state.step) == 9 and all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.params))


def test_with_lag_the_tasks_of_a_step_are_of_its_phase_and_whole(overlapped):
    config, _, reports, _ = overlapped
    for report in reports:
        assert report.families == (("mobile", "desktop", "web")[(report.step - 1) % 3],)
        assert {episode.device for episode in report.episodes} == set(report.families)
        played = Counter((episode.task, episode.seed) for episode in report.episodes)
        assert played == {(ticket.task, ticket.seed): 8 for ticket in report.tickets}
        assert len(report.tickets) == 3


def test_stale_samples_get_truncated_importance_weights_and_fresh_ones_the_clip():
    assert online.loss_config(CONFIG).anchor == "behaviour"
    stale = online.loss_config(dataclasses.replace(CONFIG, max_lag=1))
    assert stale.anchor == "current" and stale.importance_max == 2.0
    assert online.loss_config(dataclasses.replace(CONFIG, max_lag=1, epochs=2)).anchor == "behaviour"


@pytest.mark.parametrize("lag", [0, 2])
def test_a_run_that_dies_goes_on_with_the_same_tasks_each_once(tmp_path, lag):
    config = dataclasses.replace(CONFIG, steps=8, stage_steps=1, max_lag=lag)
    _, whole, _ = run(config, tmp_path / "whole", update=still, state=bare())
    expected = {report.step: report.tickets for report in whole}
    trained, state = {}, bare()
    for stop in (2, 3, 6, None):
        if checkpoint.steps(tmp_path / "cut"):
            state = checkpoint.restore(tmp_path / "cut", bare()).state
        trained = {step: tickets for step, tickets in trained.items() if step <= int(state.step)}
        _, reports, _ = run(config, tmp_path / "cut", update=still, state=state, stop=stop)
        assert not trained.keys() & {report.step for report in reports}
        trained |= {report.step: report.tickets for report in reports}
    assert trained == expected
    progress = checkpoint.restore_progress(tmp_path / "cut", 7)
    assert progress["policy_version"] == 7 and progress["phase"] == ["mobile"]
    assert sorted(progress["buffer"]["rounds"]) == (["7"] if lag else [])


class Broken(SimulatedClient):
    """Sessions of one task crash at every step, or never answer."""

    def __init__(self, task, hang):
        super().__init__(QUICK)
        self.task, self.hang = task, hang

    async def create(self, suite, task, seed, count=1, **options):
        client = self if task != self.task else SimulatedClient(dataclasses.replace(QUICK, faults=1.0))
        if task == self.task and self.hang:
            client = SimulatedClient(dataclasses.replace(QUICK, mean_s=1e4, sigma=0.0))
        return [SimulatedSession(client, suite, task, seed) for _ in range(count)]


@pytest.mark.parametrize("hang", [False, True], ids=["crashes", "hangs"])
def test_a_lost_group_is_played_again_and_dropped_in_the_end(tmp_path, hang):
    """It never enters a baseline, and the steps go on without it."""
    tasks = {"web": TASKS["web"][:3]}
    config = dataclasses.replace(CONFIG, steps=4, retries=2, deadline_s=0.4, explore=1.0)
    _, reports, filled = run(config, tmp_path, Broken("web/1", hang), update=still, state=bare(), tasks=tasks)
    tries = [[t.tries for t in report.tickets if t.task == "web/1"] for report in reports]
    assert tries == [[0], [0, 1], [0, 1, 2], [0, 1, 2]]
    assert [report.metrics["groups_again"] for report in reports] == [1, 2, 2, 2]
    assert [report.metrics["groups_dropped"] for report in reports] == [0, 0, 1, 1]
    for report, given in zip(reports, filled, strict=True):
        assert {episode.task for episode in report.episodes} == {"web/0", "web/2"}
        assert report.metrics["faults"] == 8 * report.metrics["groups_short"]
        assert sum(report.metrics[f"groups_{name}"] for name in ("kept", "swapped", "empty")) == 2
        assert all("web/1" not in sample.id for sample in given.samples)


def test_dynamic_sampling_ends_at_its_cap_and_counts_what_was_empty(tmp_path):
    client = SimulatedClient(dataclasses.replace(QUICK, success=1.0))
    config = dataclasses.replace(CONFIG, steps=1, refill=4)
    _, (report,), _ = run(config, tmp_path / "none", client, update=still, state=bare())
    assert report.metrics["refilled"] == 4 and report.metrics["groups_empty"] == 7 == len(report.tickets)
    _, (report,), _ = run(config, tmp_path / "all", update=still, state=bare())  # all pools have both outcomes
    assert report.metrics["refilled"] == 0 and report.metrics["groups_empty"] == 0


def test_lazy_pools_end_where_the_first_n_differ(tmp_path):
    """All alike: the whole pool is played, which may be those n; not alike: n episodes are enough."""
    config = dataclasses.replace(CONFIG, steps=1, lazy=True)
    alike = SimulatedClient(dataclasses.replace(QUICK, success=1.0))
    _, (report,), _ = run(config, tmp_path / "alike", alike, update=still, state=bare())
    whole = config.group * config.oversample
    assert len(report.episodes) == whole * len(report.tickets)
    _, (report,), _ = run(config, tmp_path / "differ", update=still, state=bare())
    assert report.metrics["groups_empty"] == 0 and len(report.episodes) < whole * len(report.tickets)
    plain = dataclasses.replace(config, oversample=1)
    _, (report,), _ = run(plain, tmp_path / "plain", alike, update=still, state=bare())
    assert len(report.episodes) == plain.group * len(report.tickets)
    with pytest.raises(UserError, match="lazy"):
        dataclasses.replace(config, baseline="pool")


class Tooled(SimulatedClient):
    """Its tasks say whether tools help, and it knows which sessions were leased with tools."""

    def __init__(self):
        super().__init__(QUICK)
        self.leased = []

    async def tasks(self, suite):
        assert suite == "simulated"
        names = [task for pairs in TASKS.values() for _, task in pairs]
        return [SimpleNamespace(id=task, tool_beneficial=-1 if task.endswith("0") else 1) for task in names]

    async def create(self, suite, task, seed, count=1, tools=False, **options):
        self.leased.append(tools)
        return await super().create(suite, task, seed, count, **options)


def test_the_path_reward_s_sessions_have_tools_and_its_tasks_say_whether_they_help(tmp_path):
    """Nothing here calls a tool: R_tool is for the tasks that tools do not help with."""
    client, config = Tooled(), dataclasses.replace(CONFIG, steps=3, reward="path")
    _, reports, _ = run(config, tmp_path, client, update=still, state=bare(), lease={"tools": True})
    assert client.leased and all(client.leased)
    for report in reports:
        paid = np.mean([0.4 * (e.success and e.task.endswith("0")) for e in report.episodes])
        assert report.metrics["reward/tool"] == pytest.approx(paid)
        assert report.metrics["tool_calls"] == 0 and report.metrics["reward/length"] > 0
    assert any(report.metrics["reward/tool"] > 0 for report in reports)
    with pytest.raises(UserError, match="offer them"):
        run(config, tmp_path, client, update=still, state=bare())


def test_the_sampler_gets_the_policy_that_the_state_stands_for(tmp_path):
    """Where adapters are trained, `policy` makes weights of them, at the start and after every step."""
    agent = Scripted()
    config = dataclasses.replace(CONFIG, steps=2)
    view = lambda trained: {"v": 1 + trained["w"]}  # noqa: E731
    run(config, tmp_path, agent=agent, update=still, state=bare(3.0), policy=view)
    assert [(float(params["v"]), version) for params, version in agent.weights] == [(4.0, 0), (4.0, 1), (4.0, 2)]
    restored = checkpoint.restore(tmp_path, bare()).state
    assert int(restored.step) == 2 and float(restored.params["w"]) == 3.0  # the trained values, not the view


def test_the_weights_of_an_overlapped_run_are_the_sampler_s_own(tmp_path):
    """The trainer takes over the buffers of its state while the sampler still reads: they must not be the same."""
    agent, config = Scripted(), dataclasses.replace(CONFIG, steps=3, max_lag=1)
    state, _, _ = run(config, tmp_path, agent=agent)
    for params, version in agent.weights:
        assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(params)), version
    for mine, trained in zip(jax.tree.leaves(agent.weights[-1][0]), jax.tree.leaves(state.params), strict=True):
        np.testing.assert_array_equal(mine, trained)


def test_an_error_of_the_rollout_ends_the_run_and_leaves_nothing_behind(tmp_path):
    class Refusing(SimulatedClient):
        async def create(self, *args, **options):
            raise ValueError("no such suite")

    async def whole():
        with pytest.raises(ValueError, match="no such suite"):
            await online.train(
                bare(), still, Scripted(), Refusing(QUICK), TASKS, SEEDS, dataclasses.replace(CONFIG, max_lag=2),
                tmp_path, None,
            )  # fmt: skip
        return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    assert asyncio.run(whole()) == []


def test_families_kept_apart_train_in_one_step(tmp_path):
    config = dataclasses.replace(CONFIG, steps=2, phases="project")
    state, update = learner(config)
    _, reports, filled = run(config, tmp_path, update=update, state=state)
    for report, given in zip(reports, filled, strict=True):
        assert set(given.families) == {"mobile", "desktop", "web"}
        assert {"cosine_0_1", "cosine_0_2", "cosine_1_2", "conflicts"} <= report.metrics.keys()
        assert all(-1 <= report.metrics[f"cosine_{pair}"] <= 1 for pair in ("0_1", "0_2", "1_2"))
