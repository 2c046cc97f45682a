"""A step of MRPO between its rollout and its update: rewards, groups, advantages, samples.

In: the pools of a step (`rollout.groups`) and the settings. Out: `Filled`, what the one train step is to be given.
1. Every trajectory of a pool gets its reward by component (`rewards`): the outcome, UI-MOPD's rule, or ToolCUA's path.
2. The buffer makes a group of n out of the pool by the raw outcomes, whatever the rewards: kept, swapped or empty.
3. Reward minus the group's mean is the advantage of every turn of a member; every turn is a sample, with the ids and
   the log-probabilities it was sampled with (token-ID transport).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from gui_rl.data.packing import Sample
from gui_rl.data.samples import BatchShape, turn_sample
from gui_rl.data.schema import Episode
from gui_rl.errors import UserError
from gui_rl.learn.advantages import Aggregation, aggregation_weights, group_advantages
from gui_rl.learn.buffer import BufferState, SwapWeights, select_group
from gui_rl.learn.measured import rollout_metrics
from gui_rl.learn.rewards import rule_reward, teacher_mask
from gui_rl.learn.schedule import PhaseMode
from gui_rl.learn.teachers import Teaching
from gui_rl.learn.toolcua import PathConfig, path_rewards, tool_metrics
from gui_rl.rollout.groups import Pool

Benefits = Mapping[tuple[str, str], int]
"""+1 or -1 of every (suite, task): whether its tools save actions."""


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
      reward: "outcome" (success, less the parse penalty); ToolCUA's "path", which adds to it what the use of tools and
        the length are worth (`path`); or UI-MOPD's "rule" for single steps on stored states, where the episode's score
        is the agreement of its action.
      path: settings of the reward "path".
      parse_penalty: taken off the reward of a trajectory that held any response without a valid call, once.
      cosines_every: steps between measurements of how the families' gradients point (`evaluate.diagnostics`); 0: none.
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
    reward: Literal["outcome", "path", "rule"] = "outcome"
    path: PathConfig = PathConfig()
    parse_penalty: float = 0.3
    cosines_every: int = 0
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


class Filled(NamedTuple):
    """What `fill` makes of a step's pools: samples, their families and group keys, the buffer, and what to log."""

    samples: list[Sample]
    families: list[str]
    buffer: BufferState
    metrics: dict[str, float]
    groups: Sequence[str] = ()


def informative(pool: Pool) -> bool:
    """Whether both outcomes are in the pool."""
    return 0 < sum(pool.outcomes) < len(pool.outcomes)


def rewards(
    episodes: Sequence[Episode], config: MRPOConfig, tool_beneficial: int | None = None
) -> list[dict[str, float]]:
    """The reward by component of every trajectory of a pool; a trajectory's reward is their sum. A pure function.

    "outcome": 1 for success; `format`: less `parse_penalty`, once a trajectory, where a response held no valid call
    (R19). "path": see `toolcua.path_rewards`. "rule": see `rewards.rule_reward`.

    tool_beneficial: of the pool's task; needed for the reward "path" alone.
    """
    if config.reward == "path":
        return path_rewards(episodes, tool_beneficial, config.path, config.parse_penalty)
    failed = [any(turn.parse_error for turn in episode.turns) for episode in episodes]
    if config.reward == "rule":
        return [{"rule": rule_reward(None if f else e.score)} for e, f in zip(episodes, failed, strict=True)]
    return [
        {"outcome": float(e.success), "format": -config.parse_penalty * f}
        for e, f in zip(episodes, failed, strict=True)
    ]


def fill(
    pools: Sequence[Pool],
    buffer: BufferState,
    config: MRPOConfig,
    number: int,
    benefits: Benefits = {},  # noqa: B006 - read alone
) -> Filled:
    """Groups, advantages and samples of step `number`: a pure function. A pool too small for a group gives none.

    benefits: of the pools' tasks; needed for the reward "path" alone.
    Raises UserError for a task whose benefit is needed and not there.
    """
    parts = [rewards(pool.episodes, config, _benefit(pool, config, benefits)) for pool in pools]
    totals = [np.array([sum(each.values()) for each in mine]) for mine in parts]
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
        taught = _kl_weight(totals[index], config)
        if not chosen and taught:
            members += [(episode, 0.0, 0.0, taught, pool.key) for episode in pool.episodes[: config.group]]
        if chosen:
            advantages = _advantages(pool, totals[index], group.indices, group.weights, config)
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
    each = [components for mine in parts for components in mine]
    metrics = rollout_metrics(pools, each, number) | {f"groups_{name}": float(n) for name, n in counts.items()}
    if config.reward == "path":
        owned = [(episode, _benefit(pool, config, benefits)) for pool in pools for episode in pool.episodes]
        metrics |= tool_metrics([episode for episode, _ in owned], each, [benefit for _, benefit in owned])
    if members:
        metrics["advantage_size"] = float(np.mean([abs(advantage) for _, advantage, *_ in members]))
    if config.teaching is not None:
        weights = [_kl_weight(mine, config) for mine in totals if mine.size]
        metrics["taught"] = float(np.mean(weights or [0.0]))
    return Filled(samples, families, buffer, metrics, keys)


def _benefit(pool: Pool, config: MRPOConfig, benefits: Benefits) -> int | None:
    if config.reward != "path" or not pool.episodes:
        return None
    task = pool.episodes[0].suite, pool.episodes[0].task
    if task not in benefits:
        raise UserError(f"the reward `path` needs to know whether tools help: the suite does not say so of {task}")
    return benefits[task]


def _kl_weight(totals: Sequence[float], config: MRPOConfig) -> float:
    """Weight of a group's divergence: 1 where there is one to minimise, but for UI-MOPD's mask. The mask is of the
    whole pool's mean reward, before anything is selected or filtered (R21)."""
    if config.teaching is None or config.teaching.threshold is None:
        return 1.0 if config.kl or config.teaching is not None else 0.0
    return teacher_mask(totals, config.teaching.threshold)


def _advantages(
    pool: Pool, totals: np.ndarray, indices: Sequence[int], weights: Sequence[float], config: MRPOConfig
) -> Sequence[float]:
    """Of the chosen members: reward minus the baseline."""
    values = totals[np.asarray(indices)]
    if config.baseline == "pool":
        return values - np.mean(totals)
    outcomes = [float(pool.episodes[i].success) for i in indices]
    return group_advantages(values, outcomes=outcomes, weights=weights).per_trajectory
