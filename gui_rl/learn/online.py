"""Online reinforcement learning: MRPO (GUI-Owl-1.5, section 2.4.3).

The loop, once a step:
1. The device phase names the family; tasks and fresh training seeds of it are drawn (a round).
2. The present policy plays a pool of k*n episodes of each task. With `max_lag` 0 the round begins now. Above 0 the next
   `max_lag` rounds begin as well: the environments go on with them while this one is completed and trained on, and
   episodes under way continue with the weights of each moment.
3. The buffer makes a group of n out of each pool: kept, swapped or empty (`select_group`). A pool too small for a group
   is played again in a later round of its family.
4. Rewards minus the group's mean become advantages, and every turn of every member a sample (`mrpo.fill`). Where the
   divergence from a reference policy counts, the reference scores the samples, and those of empty groups too: a task
   that is always failed has no advantage that could bring it back. In the reference's place may stand teachers that are
   routed by platform (UI-MOPD, `make_teach`).
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
from typing import Any

import jax
import jax.numpy as jnp

from gui_rl.data.batch import Batch
from gui_rl.data.samples import family_batches, micro_batches
from gui_rl.data.schema import Episode
from gui_rl.errors import UserError
from gui_rl.learn import checkpoint
from gui_rl.learn.buffer import BufferState
from gui_rl.learn.losses import LossConfig
from gui_rl.learn.measured import Meter
from gui_rl.learn.mrpo import Benefits, Filled, MRPOConfig, fill, informative
from gui_rl.learn.schedule import device_phases, draw_tasks, unstable_tasks
from gui_rl.learn.state import TrainState
from gui_rl.learn.step import TrainStep, make_scorer, place, process_rows
from gui_rl.model.config import ModelConfig
from gui_rl.rollout.agents import PolicyAgent
from gui_rl.rollout.env_client import EnvClient
from gui_rl.rollout.episode import Places, Transport
from gui_rl.rollout.groups import Pool, Rounds, Ticket, play_pool

REMEMBERED = 4
"""A task's recent rollouts: as many as this number of groups."""


@dataclasses.dataclass(frozen=True)
class StepReport:
    """What happened in one step, for logs and curves."""

    step: int
    families: tuple[str, ...]
    metrics: Mapping[str, float]
    episodes: Sequence[Episode]
    tickets: Sequence[Ticket] = ()


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
    diagnose: Callable[[TrainState, Filled], Mapping[str, float]] | None = None,
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
      diagnose: what to measure before the update, every `config.cosines_every` steps (`evaluate.diagnostics.Cosines`);
        it is told every step, so that it knows the latest samples of each family.
    Raises:
      UserError: where `config.cosines_every` asks for what `diagnose` does not measure.
    """
    if config.cosines_every and diagnose is None:
        raise UserError("cosines_every asks for the gradients' cosines, and nothing here measures them: set it to 0")
    shapes: set[tuple[int, ...]] = set()

    def update(state: TrainState, filled: Filled) -> tuple[TrainState, dict[str, float]]:
        if not filled.samples:  # every pool was constant: the step passes without an update
            return state.replace(step=state.step + config.epochs), {}
        filled = teach(filled)
        told = {} if diagnose is None else diagnose(state, filled)
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
        return state, {**filled.metrics, **told, **metrics} | {"train_compile_count": float(len(shapes))}

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
    Raises:
      UserError: for the reward "path" with R_tool where no tools are offered.
    """
    if config.reward == "path" and config.path.tool_weight and not (lease or {}).get("tools"):
        raise UserError("the reward `path` is for the use of tools: offer them, or set path.tool_weight to 0")
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

    benefits: Benefits = {}
    if config.reward == "path":
        suites = sorted({suite for pairs in tasks.values() for suite, _ in pairs})
        benefits = {(suite, task.id): task.tool_beneficial for suite in suites for task in await client.tasks(suite)}
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
                    filled = fill(pools, buffer, config, number, benefits)
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


def make_reference(cfg: ModelConfig, mesh, params) -> Callable[[Batch], Batch]:
    """What scores a batch under fixed parameters, for `make_update`."""
    score = make_scorer(cfg, mesh)
    return lambda batch: batch.replace(teacher_logp=score(params, batch))
