"""Online reinforcement learning: MRPO (GUI-Owl-1.5, section 2.4.3).

The loop, once a step:
1. The device phase names the family; tasks and fresh training seeds of it are drawn.
2. The present policy plays a pool of k*n episodes of each task (`play_pools`).
3. The buffer makes a group of n out of each pool: kept, swapped or empty (`select_group`).
4. Rewards minus the group's mean become advantages; every turn of every member is a sample, with the ids and the
   log-probabilities it was sampled with (token-ID transport). Where the divergence from a reference policy counts, the
   reference scores the samples, and those of empty groups too: a task that is always failed has no advantage that could
   bring it back.
5. One optimisation step; the sampler gets the new weights under the next version.
Every draw is a function of the seed and the step, so that a resumed run plays the same tasks.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gui_rl.data.batch import Batch
from gui_rl.data.packing import Sample
from gui_rl.data.samples import BatchShape, micro_batches, turn_sample
from gui_rl.data.schema import Episode
from gui_rl.learn import checkpoint
from gui_rl.learn.advantages import Aggregation, aggregation_weights, group_advantages
from gui_rl.learn.buffer import BufferState, SwapWeights, select_group
from gui_rl.learn.schedule import PhaseMode, device_phases, unstable_tasks
from gui_rl.learn.state import TrainState
from gui_rl.learn.step import TrainStep, make_scorer, place
from gui_rl.model.config import ModelConfig
from gui_rl.rollout.agents import PolicyAgent
from gui_rl.rollout.env_client import EnvClient
from gui_rl.rollout.episode import Transport
from gui_rl.rollout.groups import Pool, play_pools

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
      muon_rate, adam_rate, warmup: peaks of the cosine schedules of the matrices and of the rest (tables, norms), and
        steps of linear warm-up.
      swap_weights: "none" (the paper) or "horvitz_thompson", which undoes the swap's bias.
      aggregation: what the policy-gradient mean is taken over.
      kl: coefficient of the reverse KL divergence from the reference policy, the mean over all tokens; 0 needs none.
      parse_penalty: taken off the reward of a trajectory that held any response without a valid call, once.
      parallel: episodes at a time.
      deadline_s: wall-clock limit of a step's rollout, seconds.
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
    muon_rate: float = 8e-4
    adam_rate: float = 1.6e-4
    warmup: int = 2
    swap_weights: SwapWeights = "none"
    aggregation: Aggregation = "token"
    kl: float = 0.0
    parse_penalty: float = 0.3
    parallel: int = 32
    deadline_s: float = 120.0
    checkpoint_every: int = 10
    seed: int = 0
    shape: BatchShape = BatchShape()


@dataclasses.dataclass(frozen=True)
class StepReport:
    """What happened in one step, for logs and curves."""

    step: int
    families: tuple[str, ...]
    metrics: Mapping[str, float]
    episodes: Sequence[Episode]


async def train(
    state: TrainState,
    step: TrainStep,
    agent: PolicyAgent,
    client: EnvClient,
    tasks: Mapping[str, Sequence[tuple[str, str]]],
    seeds: range,
    cfg: ModelConfig,
    config: MRPOConfig,
    mesh,
    directory: Path,
    report: Callable[[StepReport], Awaitable[None]],
    reference: Callable[[Batch], Batch] = lambda batch: batch,
    policy: Callable[[Any], Any] = lambda trained: trained,
) -> TrainState:
    """Trains from the state's step to `config.steps`.

    Args:
      state: the policy; donated to the steps.
      step: from `make_train_step`.
      agent: the policy behind a sampler, which gets new weights after every step.
      client: environment servers.
      tasks: (suite, task id) pairs of each family.
      seeds: training seeds to draw from.
      cfg: the policy's configuration.
      config: settings.
      mesh: devices.
      directory: of the checkpoints.
      report: awaited after every step, when the sampler has the step's weights.
      reference: fills in `teacher_logp` of a placed batch (`make_reference`), where `config.kl` is not 0.
      policy: the sampler's weights from the state's: adapters are merged into the frozen policy here (`lora.merge`).
    """
    phases = device_phases(config.steps, config.phases, tuple(tasks), config.stage_steps)
    start, buffer, recent = int(state.step) // config.epochs, BufferState(), {}
    if start:
        progress = checkpoint.restore(directory, state).progress
        buffer, recent = BufferState.from_dict(progress["buffer"]), progress["recent"]
    await agent.sampler.update_weights(policy(state.params), start)
    with checkpoint.Checkpoints(directory) as checkpoints:
        for number in range(start, config.steps):
            began = time.monotonic()
            families = phases[number]
            unstable = unstable_tasks(recent)
            drawn = draw_tasks(tasks, families, seeds, config.tasks, [config.seed, number], unstable, config.explore)
            transport = Transport()
            pools = await play_pools(
                client, agent, drawn, config.group * config.oversample, run=f"rl{number}", parallel=config.parallel,
                deadline_s=config.deadline_s, transport=transport,
            )  # fmt: skip
            played = time.monotonic()
            for (_, task, _), pool in zip(drawn, pools, strict=True):
                recent[task] = [*recent.get(task, ()), *pool.outcomes][-REMEMBERED * config.group :]
            samples, buffer, counts = fill(pools, buffer, config, number)
            metrics: dict[str, float] = {}
            batch = place(micro_batches(samples, cfg, config.shape), mesh) if samples else None
            if samples and config.kl:
                batch = reference(batch)
            for _ in range(config.epochs):
                if batch is None:  # every pool was constant: the step passes without an update
                    state = state.replace(step=state.step + 1)
                    continue
                state, measured = step(state, batch)
                metrics = metrics or {name: float(value) for name, value in measured.items()}
            # The trainer's buffers are donated at its next step; by then this rollout's weights have been replaced.
            await agent.sampler.update_weights(policy(state.params), number + 1)
            metrics |= counts | {"tito_mismatch_rate": transport.rate}
            metrics |= {"seconds_rollout": played - began, "seconds_train": time.monotonic() - played}
            episodes = [episode for pool in pools for episode in pool.episodes]
            await report(StepReport(number + 1, families, metrics, episodes))
            if number + 1 == config.steps or (number + 1) % config.checkpoint_every == 0:
                checkpoints.save(state, {"buffer": buffer.to_dict(), "recent": recent})
    return state


def make_reference(cfg: ModelConfig, mesh, params) -> Callable[[Batch], Batch]:
    """What scores a batch under fixed parameters, for `train`."""
    score = make_scorer(cfg, mesh)
    return lambda batch: batch.replace(teacher_logp=score(params, batch))


def draw_tasks(
    tasks: Mapping[str, Sequence[tuple[str, str]]],
    families: Sequence[str],
    seeds: range,
    count: int,
    entropy: Sequence[int],
    unstable: Collection[str] = (),
    explore: float = 1.0,
) -> list[tuple[str, str, int]]:
    """`count` (suite, task, seed) of the families in turn.

    With probability `explore` a task is drawn from all of its family, else from the `unstable` ones, where there are
    any. No task is drawn twice before all that it is drawn from were.
    """
    rng = np.random.default_rng(list(entropy))
    left: dict[tuple[str, bool], list[tuple[str, str]]] = {}
    drawn = []
    for number in range(count):
        family = families[number % len(families)]
        narrow = [pair for pair in tasks[family] if pair[1] in unstable]
        chosen = bool(narrow) and rng.random() >= explore
        if not left.get((family, chosen)):
            pairs = narrow if chosen else tasks[family]
            left[family, chosen] = [pairs[index] for index in rng.permutation(len(pairs))]
        drawn.append((*left[family, chosen].pop(), seeds[int(rng.integers(len(seeds)))]))
    return drawn


def reward(episode: Episode, config: MRPOConfig) -> float:
    """1 for success; less `parse_penalty`, once a trajectory, where a response held no valid call (R19)."""
    failed = any(turn.parse_error for turn in episode.turns)
    return float(episode.success) - config.parse_penalty * failed


def fill(
    pools: Sequence[Pool], buffer: BufferState, config: MRPOConfig, number: int
) -> tuple[list[Sample], BufferState, dict[str, float]]:
    """Groups, advantages and samples of a step: (samples, the buffer after it, what to log)."""
    members: list[tuple[Episode, float, float]] = []  # episode, advantage, weight
    counts = {"kept": 0, "swapped": 0, "empty": 0}
    for index, pool in enumerate(pools):
        if len(pool.episodes) < config.group:
            status = "empty"
        else:
            seed = int(np.random.default_rng([config.seed, number, index]).integers(2**31))
            group = select_group(seed, pool.outcomes, config.group, config.swap_weights)
            status = group.status
            chosen = [pool.episodes[i] for i in group.indices]
            if not chosen and config.kl:
                members += [(episode, 0.0, 0.0) for episode in pool.episodes[: config.group]]
            if chosen:
                rewards = [reward(episode, config) for episode in chosen]
                outcomes = [float(episode.success) for episode in chosen]
                advantages = group_advantages(rewards, outcomes=outcomes, weights=group.weights).per_trajectory
                members += zip(chosen, map(float, advantages), map(float, group.weights), strict=True)
        counts[status] += 1
        buffer = buffer.record(status)
    turns = [(owner, index) for owner, (episode, _, _) in enumerate(members) for index in range(len(episode.turns))]
    samples: list[Sample] = []
    if turns:
        lengths = [len(members[owner][0].turns[index].response_ids) for owner, index in turns]
        weights = aggregation_weights(lengths, [owner for owner, _ in turns], config.aggregation)
        kl_weight = 1.0 if config.kl else 0.0
        for (owner, index), weight in zip(turns, weights, strict=True):
            episode, advantage, importance = members[owner]
            logp = np.asarray(episode.turns[index].behaviour_logp, np.float32)
            samples.append(
                turn_sample(
                    episode,
                    index,
                    pg_weight=float(weight * importance),
                    advantage=advantage,
                    behaviour_logp=logp,
                    kl_weight=kl_weight,
                )
            )
    return samples, buffer, counts_of(pools) | {f"groups_{name}": float(value) for name, value in counts.items()}


def counts_of(pools: Sequence[Pool]) -> dict[str, float]:
    """Success, turns, format failures and faults of a step's pools."""
    episodes = [episode for pool in pools for episode in pool.episodes]
    turns = [turn for episode in episodes for turn in episode.turns]
    out: dict[str, Any] = {"episodes": len(episodes), "faults": sum(pool.faults for pool in pools), "turns": len(turns)}
    if episodes:
        out["success"] = float(np.mean([episode.success for episode in episodes]))
        out["progress"] = float(np.mean([episode.progress / max(episode.total, 1) for episode in episodes]))
        out["step_limit"] = float(np.mean([episode.outcome == "step_limit" for episode in episodes]))
    if turns:
        out["parse_errors"] = float(np.mean([turn.parse_error is not None for turn in turns]))
        lags = {turn.policy_version for turn in turns}
        out["staleness"] = float(max(lags) - min(lags))
    return {name: float(value) for name, value in out.items()}
