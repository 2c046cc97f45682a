"""Online reinforcement learning: MRPO (GUI-Owl-1.5, section 2.4.3).

The loop, once a step:
1. The device phase names the family; tasks and fresh training seeds of it are drawn (a round).
2. The present policy plays a pool of k*n episodes of each task. With `max_lag` 0 the round begins now. Above 0 the next
   `max_lag` rounds begin as well: the environments go on with them while this one is completed and trained on, and
   episodes under way continue with the weights of each moment.
3. The buffer makes a group of n out of each pool: kept, swapped or empty (`select_group`). A pool too small for a group
   is played again in a later round of its family.
4. Rewards minus the group's mean become advantages; every turn of every member is a sample, with the ids and the
   log-probabilities it was sampled with (token-ID transport). Where the divergence from a reference policy counts, the
   reference scores the samples, and those of empty groups too: a task that is always failed has no advantage that could
   bring it back. In the reference's place may stand teachers that are routed by platform (UI-MOPD, `make_teach`).
5. One optimisation step, in a thread; the sampler gets the new weights under the next version.
So the batch of step s holds tokens of versions s - max_lag to s and no others, a step's tasks are of its own phase, and
what is trained on in which step does not depend on which episode happens to end first. A pool may hold trajectories of
several versions within that bound; the importance weights of the loss are per token. With `max_lag` 0 it is of one.
Every draw is a function of the seed, the step and the outcomes known when the round begins; rounds that were drawn and
not trained on are in the checkpoint, so that a resumed run plays the same tasks, each once.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gui_rl.data.batch import Batch
from gui_rl.data.packing import Sample
from gui_rl.data.samples import BatchShape, family_batches, micro_batches, turn_sample
from gui_rl.data.schema import Episode
from gui_rl.errors import UserError
from gui_rl.learn import checkpoint
from gui_rl.learn.advantages import Aggregation, aggregation_weights, group_advantages
from gui_rl.learn.buffer import BufferState, SwapWeights, select_group
from gui_rl.learn.losses import LossConfig
from gui_rl.learn.measured import Meter, rollout_metrics
from gui_rl.learn.rewards import rule_reward, teacher_mask
from gui_rl.learn.schedule import PhaseMode, device_phases, draw_tasks, unstable_tasks
from gui_rl.learn.state import TrainState
from gui_rl.learn.step import TrainStep, make_scorer, place, process_rows
from gui_rl.learn.teachers import Teaching
from gui_rl.model.config import ModelConfig
from gui_rl.rollout.agents import PolicyAgent
from gui_rl.rollout.env_client import EnvClient
from gui_rl.rollout.episode import Places, Transport
from gui_rl.rollout.groups import Pool, Rounds, Ticket, play_pool

REMEMBERED = 4
"""A task's recent rollouts: as many as this number of groups."""


@dataclasses.dataclass(frozen=True)
class MRPOConfig:
    """Settings of MRPO. The paper states neither n, k, the learning rate nor the stage length: these are ours.

    Attributes:
      steps: optimisation steps.
      group, oversample: n trajectories a group, k: a pool has k*n.
      tasks: tasks a step.
      explore: share of the tasks that are drawn from all of the family; the others are drawn from those whose recent
        rollouts had both outcomes (`unstable_tasks`; figure 8a). 1 draws from all tasks alone.
      epochs: optimiser updates on each step's trajectories; from the second on, the ratio to the sampler is clipped.
      phases, stage_steps: how the device families alternate (`device_phases`).
      max_lag: how many versions older than the policy that is trained a sample may be. 0: rollout and training take
        turns. Above 0 they overlap, and `loss_config` corrects for the difference.
      lazy: play the first n of a pool, and the other (k-1)n only where those came out all alike: the same groups in
        distribution for fewer episodes. Not where the whole pool is looked at (baseline "pool", "horvitz_thompson").
      refill: further pools that a step may play where pools of its own are constant (dynamic sampling, with this cap).
      retries: how often a pool that the environment left too small for a group is played again before it is dropped.
      muon_rate, adam_rate, warmup: peaks of the cosine schedules of the matrices and of the rest (tables, norms), and
        steps of linear warm-up.
      baseline: what the reward is compared with: the mean of the "group" of n, or of the "pool" of k*n, which no
        selection has touched.
      swap_weights: "none" (the paper) or "horvitz_thompson", which undoes the swap's bias.
      aggregation: what the policy-gradient mean is taken over.
      kl: coefficient of the reverse KL divergence from the reference policy, the mean over all tokens; 0 needs none.
      teaching: teachers instead of the reference (UI-MOPD); None: there are none.
      reward: "outcome" (success, less the parse penalty), or UI-MOPD's "rule" for single steps on stored states, where
        the episode's score is the agreement of its action.
      parse_penalty: taken off the reward of a trajectory that held any response without a valid call, once.
      parallel: episodes at a time.
      deadline_s: wall-clock limit of a pool's rollout, from its first episode on, seconds.
      checkpoint_every: steps between checkpoints; one is always made at the end.
      seed: of tasks, seeds and subsamples.
      shape: rows of a micro-batch.
    """

    steps: int = 90
    group: int = 8
    oversample: int = 2
    tasks: int = 6
    explore: float = 0.5
    epochs: int = 1
    phases: PhaseMode = "cycle"
    stage_steps: int = 2
    max_lag: int = 2
    lazy: bool = False
    refill: int = 0
    retries: int = 2
    muon_rate: float = 8e-4
    adam_rate: float = 1.6e-4
    warmup: int = 2
    baseline: Literal["group", "pool"] = "group"
    swap_weights: SwapWeights = "none"
    aggregation: Aggregation = "token"
    kl: float = 0.0
    teaching: Teaching | None = None
    reward: Literal["outcome", "rule"] = "outcome"
    parse_penalty: float = 0.3
    parallel: int = 32
    deadline_s: float = 120.0
    checkpoint_every: int = 10
    seed: int = 0
    shape: BatchShape = BatchShape()

    def __post_init__(self):
        if self.lazy and (self.baseline == "pool" or self.swap_weights != "none"):
            raise UserError(
                "lazy pools are not played whole: use them with the baseline `group` and swap_weights `none`, or not"
            )
        if self.kl and self.teaching is not None:
            raise UserError("kl is the reference's coefficient, teaching.scale the teachers': give one of the two")


@dataclasses.dataclass(frozen=True)
class StepReport:
    """What happened in one step, for logs and curves."""

    step: int
    families: tuple[str, ...]
    metrics: Mapping[str, float]
    episodes: Sequence[Episode]
    tickets: Sequence[Ticket] = ()


class Filled(NamedTuple):
    """What `fill` makes of a step's pools: samples, their families and group keys, the buffer, and what to log."""

    samples: list[Sample]
    families: list[str]
    buffer: BufferState
    metrics: dict[str, float]
    groups: Sequence[str] = ()


Update = Callable[[TrainState, Filled], tuple[TrainState, dict[str, float]]]


def loss_config(config: MRPOConfig) -> LossConfig:
    """The loss of a run: samples that may be stale get truncated importance weights instead of a clipped ratio (R15).

    With several updates a rollout the ratio is to the sampler in any case, and clipped.
    """
    stale = config.max_lag > 0 and config.epochs == 1
    anchor = "current" if stale else "behaviour"
    if (told := config.teaching) is None:
        return LossConfig(kl_scale=config.kl, anchor=anchor)
    return LossConfig(kl_scale=told.scale, kl_estimator=told.estimator, kl_placement=told.placement, anchor=anchor)


def make_update(
    step: TrainStep,
    cfg: ModelConfig,
    config: MRPOConfig,
    mesh,
    reference: Callable[[Batch], Batch] = lambda batch: batch,
    families: Sequence[str] = (),
    teach: Callable[[Filled], Filled] = lambda filled: filled,
) -> Update:
    """What `train` does with the samples of a step.

    Args:
      step: from `make_train_step`, with `families=len(families)` for the phases "project".
      cfg: the policy's configuration.
      config: settings.
      mesh: the trainer's devices. With several processes each of them fills the same batch and places its own rows.
      reference: fills in `teacher_logp` of a placed batch (`make_reference`), where `config.kl` is not 0.
      families: the families in order; only needed for the phases "project".
      teach: marks the samples for `config.teaching` (`make_teach`); what it adds to the metrics is logged.
    """
    shapes: set[tuple[int, ...]] = set()

    def update(state: TrainState, filled: Filled) -> tuple[TrainState, dict[str, float]]:
        if not filled.samples:  # every pool was constant: the step passes without an update
            return state.replace(step=state.step + config.epochs), {}
        filled = teach(filled)
        if config.phases == "project":
            batch = family_batches(filled.samples, filled.families, families, cfg, config.shape)
        else:
            batch = micro_batches(filled.samples, cfg, config.shape)
        shapes.add((*batch.targets.shape, batch.inputs.patches.shape[2]))
        batch = place(process_rows(batch), mesh)
        if config.kl:
            batch = reference(batch)
        metrics: dict[str, float] = {}
        for _ in range(config.epochs):
            state, measured = step(state, batch)
            metrics = metrics or {name: float(value) for name, value in measured.items()}
        return state, {**filled.metrics, **metrics} | {"train_compile_count": float(len(shapes))}

    return update


async def train(
    state: TrainState,
    update: Update,
    agent: PolicyAgent,
    client: EnvClient,
    tasks: Mapping[str, Sequence[tuple[str, str]]],
    seeds: range,
    config: MRPOConfig,
    directory: Path,
    report: Callable[[StepReport], Awaitable[None]],
    policy: Callable[[Any], Any] | None = None,
    play: Callable[[Ticket, int], Awaitable[Pool]] | None = None,
    lease: Mapping[str, Any] | None = None,
) -> TrainState:
    """Trains from the state's step to `config.steps`.

    Args:
      state: the policy; donated to the steps.
      update: from `make_update`; runs in a thread while the environments go on.
      agent: the policy behind a sampler, which gets new weights after every step.
      client: environment servers.
      tasks: (suite, task id) pairs of each family.
      seeds: training seeds to draw from.
      config: settings.
      directory: of the checkpoints.
      report: awaited after every step, when the sampler has the step's weights.
      policy: the sampler's weights from the state's: adapters are merged into the frozen policy here (`lora.merge`), or
        parameters moved to the sampler's mesh (`make_mover`). What it gives must not share buffers with the state where
        `config.max_lag` is not 0; by default it is the state's own parameters, or then a copy of them.
      play: `(ticket, step) -> pool`, where not full episodes in the environments are played (`make_play_stored`).
      lease: options of the sessions (`rollout.episode.play_group`), e.g. `{"tools": True}`.
    """
    if policy is None:
        policy = (lambda trained: jax.tree.map(jnp.copy, trained)) if config.max_lag else (lambda trained: trained)
    phases = device_phases(config.steps, config.phases, tuple(tasks), config.stage_steps)
    start, buffer = int(state.step) // config.epochs, BufferState()
    if start:
        buffer = BufferState.from_dict(checkpoint.restore_progress(directory, int(state.step))["buffer"])
    await agent.sampler.update_weights(policy(state.params), start)
    places, transport = Places(config.parallel), Transport()
    meter = Meter(places, agent.sampler)

    def play_full(ticket: Ticket, number: int) -> Awaitable[Pool]:
        return play_pool(
            client, agent, ticket, config.group * config.oversample, places, run=f"rl{number}",
            first=config.group if config.lazy else None, deadline_s=config.deadline_s, transport=transport, lease=lease,
        )  # fmt: skip

    def draw(number: int, count: int, *more: int) -> list[Ticket]:
        unstable = unstable_tasks(buffer.recent)
        return draw_tasks(tasks, phases[number], seeds, count, [config.seed, number, *more], unstable, config.explore)

    rounds = Rounds(play or play_full)
    with checkpoint.Checkpoints(directory) as checkpoints:
        try:
            for number in range(start, config.steps):
                began = time.monotonic()
                for ahead in range(number, min(number + config.max_lag + 1, config.steps)):
                    if ahead not in buffer.rounds:
                        again = [t for t in buffer.waiting if any((t.suite, t.task) in tasks[f] for f in phases[ahead])]
                        buffer = buffer.begin(ahead, [*draw(ahead, config.tasks), *again])
                    if ahead not in rounds:
                        rounds.begin(ahead, buffer.rounds[ahead])
                tickets, pools = list(buffer.rounds[number]), await rounds.take(number)
                refilled = 0
                while refilled < config.refill and (wanted := config.tasks - sum(map(informative, pools))) > 0:
                    more = draw(number, min(wanted, config.refill - refilled), 1 + refilled)
                    rounds.begin(number, more)
                    refilled += len(more)
                    tickets, pools = [*tickets, *more], [*pools, *await rounds.take(number)]
                waited = time.monotonic() - began
                short = [t for t, pool in zip(tickets, pools, strict=True) if len(pool.episodes) < config.group]
                again = [ticket for ticket in short if ticket.tries < config.retries]
                for ticket, pool in zip(tickets, pools, strict=True):
                    buffer = buffer.remember(ticket.task, pool.outcomes, REMEMBERED * config.group)
                buffer = buffer.end(number, again)

                def learn(state: TrainState, pools: Sequence[Pool], buffer: BufferState, number: int):
                    filled = fill(pools, buffer, config, number)
                    return filled, *update(state, filled)

                filled, state, metrics = await asyncio.to_thread(learn, state, pools, buffer, number)
                buffer = filled.buffer
                # The trainer takes over the state's buffers at its next step; by then the sampler has these.
                await agent.sampler.update_weights(policy(state.params), number + 1)
                metrics |= filled.metrics | meter.since_last() | {"tito_mismatch_rate": transport.rate}
                metrics |= {"groups_again": len(again), "groups_dropped": len(short) - len(again)}
                metrics |= {"groups_waiting": len(buffer.waiting), "refilled": refilled}
                metrics |= {"seconds_rollout": waited, "seconds_train": time.monotonic() - began - waited}
                episodes = [episode for pool in pools for episode in pool.episodes]
                await report(StepReport(number + 1, phases[number], metrics, episodes, tuple(tickets)))
                if number + 1 == config.steps or (number + 1) % config.checkpoint_every == 0:
                    progress = {"buffer": buffer.to_dict(), "policy_version": number + 1, "phase": phases[number]}
                    await asyncio.to_thread(checkpoints.save, state, progress)
        finally:
            await rounds.stop()
    return state


def informative(pool: Pool) -> bool:
    """Whether both outcomes are in the pool."""
    return 0 < sum(pool.outcomes) < len(pool.outcomes)


def make_reference(cfg: ModelConfig, mesh, params) -> Callable[[Batch], Batch]:
    """What scores a batch under fixed parameters, for `make_update`."""
    score = make_scorer(cfg, mesh)
    return lambda batch: batch.replace(teacher_logp=score(params, batch))


def rewards(episode: Episode, config: MRPOConfig) -> dict[str, float]:
    """The reward by component: 1 for success; less `parse_penalty`, once a trajectory, where a response held no valid
    call (R19); or the rule reward."""
    failed = any(turn.parse_error for turn in episode.turns)
    if config.reward == "rule":
        return {"rule": rule_reward(None if failed else episode.score)}
    return {"outcome": float(episode.success), "format": -config.parse_penalty * failed}


def reward(episode: Episode, config: MRPOConfig) -> float:
    """The whole reward."""
    return sum(rewards(episode, config).values())


def fill(pools: Sequence[Pool], buffer: BufferState, config: MRPOConfig, number: int) -> Filled:
    """Groups, advantages and samples of step `number`: a pure function. A pool too small for a group gives none."""
    members: list[tuple[Episode, float, float, float, str]] = []  # episode, advantage, weight, weight of KL, group
    counts = {"kept": 0, "swapped": 0, "empty": 0, "short": 0}
    for index, pool in enumerate(pools):
        if len(pool.episodes) < config.group:
            counts["short"] += 1
            continue
        seed = int(np.random.default_rng([config.seed, number, index]).integers(2**31))
        group = select_group(
            seed, pool.outcomes, config.group, config.swap_weights, "first" if config.lazy else "random"
        )
        chosen = [pool.episodes[i] for i in group.indices]
        taught = _kl_weight(pool, config)
        if not chosen and taught:
            members += [(episode, 0.0, 0.0, taught, pool.key) for episode in pool.episodes[: config.group]]
        if chosen:
            advantages = _advantages(pool, group.indices, group.weights, config)
            for episode, advantage, weight in zip(chosen, advantages, group.weights, strict=True):
                members.append((episode, float(advantage), float(weight), taught, pool.key))
        counts[group.status] += 1
        buffer = buffer.record(group.status)
    turns = [(owner, index) for owner, (episode, *_) in enumerate(members) for index in range(len(episode.turns))]
    samples: list[Sample] = []
    if turns:
        lengths = [len(members[owner][0].turns[index].response_ids) for owner, index in turns]
        weights = aggregation_weights(lengths, [owner for owner, _ in turns], config.aggregation)
        for (owner, index), weight in zip(turns, weights, strict=True):
            episode, advantage, importance, taught, _ = members[owner]
            samples.append(
                turn_sample(
                    episode,
                    index,
                    pg_weight=float(weight * importance),
                    advantage=advantage,
                    behaviour_logp=np.asarray(episode.turns[index].behaviour_logp, np.float32),
                    kl_weight=taught,
                )
            )
    families, keys = [members[owner][0].device for owner, _ in turns], [members[owner][-1] for owner, _ in turns]
    parts = [rewards(episode, config) for pool in pools for episode in pool.episodes]
    metrics = rollout_metrics(pools, parts, number) | {f"groups_{name}": float(n) for name, n in counts.items()}
    if members:
        metrics["advantage_size"] = float(np.mean([abs(advantage) for _, advantage, *_ in members]))
    if config.teaching is not None:
        metrics["taught"] = float(np.mean([_kl_weight(pool, config) for pool in pools if pool.episodes] or [0.0]))
    return Filled(samples, families, buffer, metrics, keys)


def _kl_weight(pool: Pool, config: MRPOConfig) -> float:
    """Weight of a group's divergence: 1 where there is one to minimise, but for UI-MOPD's mask. The mask is of the
    whole pool's mean reward, before anything is selected or filtered (R21)."""
    if config.teaching is None or config.teaching.threshold is None:
        return 1.0 if config.kl or config.teaching is not None else 0.0
    return teacher_mask([reward(episode, config) for episode in pool.episodes], config.teaching.threshold)


def _advantages(pool: Pool, indices: Sequence[int], weights: Sequence[float], config: MRPOConfig) -> Sequence[float]:
    """Of the chosen members: reward minus the baseline."""
    chosen = [pool.episodes[i] for i in indices]
    values = [reward(episode, config) for episode in chosen]
    if config.baseline == "pool":
        return np.subtract(values, np.mean([reward(episode, config) for episode in pool.episodes]))
    outcomes = [float(episode.success) for episode in chosen]
    return group_advantages(values, outcomes=outcomes, weights=weights).per_trajectory
