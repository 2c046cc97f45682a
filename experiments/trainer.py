"""The trainings that experiments are made of: SFT, online RL and single-turn RL of one policy, on these devices.

In: parameters, data or environments, a config. Out: the trained parameters. Every training can be killed at any time:
called again with the same folder of checkpoints, it goes on from the last one. Programs are compiled once for all
trainings of one `Trainer` whose loss and schedules are alike.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import optax

from env_servers.suites.suite import SEEDS
from gui_rl.data.pipeline import Source
from gui_rl.data.schema import TurnRecord
from gui_rl.evaluate.diagnostics import Cosines
from gui_rl.learn import checkpoint, online, optim, sft, toolcua
from gui_rl.learn.losses import LossConfig
from gui_rl.learn.state import TrainState, abstract_state, init_state, make_mesh, state_shardings
from gui_rl.learn.step import TrainStep, make_gradient, make_train_step
from gui_rl.learn.teachers import LocalTeacher, make_teach
from gui_rl.model.config import ModelConfig
from gui_rl.model.params import ShardingRules
from gui_rl.rollout.agents import PolicyAgent
from gui_rl.rollout.env_client import EnvClient

RL_SEEDS = SEEDS["train"][: len(SEEDS["train"]) // 2]
"""Seeds that rollouts are drawn from; demonstrations count down from the end of the training seeds."""
Rates = tuple[tuple[float, int, int], ...]
"""(peak, updates, updates of warm-up) of the matrices' and of the rest's schedule."""


def begun(directory: Path, updates: int = 1) -> int:
    """Steps that the last checkpoint in a folder holds, `updates` each; 0 where there is none."""
    return max(checkpoint.steps(directory), default=0) // updates


class Trainer:
    """Trains policies of one configuration.

    Args:
      cfg: of the policies.
      mesh: devices; all of them where not given.

    Attributes:
      gradient: `(loss) -> (params, batch) -> gradient` (`learn.step.make_gradient`), compiled once for each loss.
    """

    def __init__(self, cfg: ModelConfig, mesh: Any = None):
        self.cfg, self.mesh = cfg, make_mesh() if mesh is None else mesh
        self._steps: dict[tuple, tuple[optax.GradientTransformation, TrainStep, list[Any]]] = {}
        self.gradient = functools.cache(lambda loss: make_gradient(self.cfg, loss, self.mesh))

    async def sft(
        self,
        params: Any,
        sources: Source | Mapping[str, tuple[Source, float]],
        config: sft.SFTConfig,
        directory: Path,
        report: Callable[[int, Mapping[str, float], Any], Awaitable[None]],
    ) -> Any:
        """Supervised fine-tuning; the parameters at its end.

        Args:
          params: to start from.
          sources: episodes; or several sources by name, with their weights in the mixture.
          config: settings.
          directory: of the checkpoints.
          report: awaited after every step with its number, its metrics, and the parameters, which the next step takes
            over. The steps run in a thread of their own.
        """
        rates = tuple((rate, config.steps, config.warmup) for rate in (config.muon_rate, config.adam_rate))
        optimizer, step = self._step(rates, LossConfig())
        state = self._state(optimizer, params, config.seed, directory)
        loop, stopped = asyncio.get_running_loop(), threading.Event()

        def told(number: int, metrics: Mapping, state: TrainState) -> None:
            if stopped.is_set():  # Ctrl-C: the thread ends here
                raise InterruptedError
            values = {name: float(value) for name, value in metrics.items()}
            asyncio.run_coroutine_threadsafe(report(number, values, state.params), loop).result()

        try:
            state = await asyncio.to_thread(
                sft.train, state, step, sources, self.cfg, config, self.mesh, directory, told
            )
        except asyncio.CancelledError:
            stopped.set()
            raise
        return state.params

    async def online(
        self,
        params: Any,
        agent: PolicyAgent,
        client: EnvClient,
        tasks: Mapping[str, Sequence[tuple[str, str]]],
        config: online.MRPOConfig,
        directory: Path,
        report: Callable[[online.StepReport], Awaitable[None]],
        *,
        teachers: Mapping[str, tuple[ModelConfig, Any]] | None = None,
        **playing: Any,
    ) -> Any:
        """Online RL and on-policy distillation (`learn.online.train`); the parameters at its end.

        Args:
          params: to start from; also the reference where `config.kl` counts.
          agent: the policy behind a sampler, which gets the weights of every step.
          client, tasks: what is played, by family.
          config: settings.
          directory: of the checkpoints.
          report: awaited after every step.
          teachers: configuration and parameters by name, where `config.teaching` asks for them.
          playing: `play` or `lease` of `learn.online.train`.
        """
        updates, warmup = config.steps * config.epochs, config.warmup * config.epochs
        rates = tuple((rate, updates, warmup) for rate in (config.muon_rate, config.adam_rate))
        families = tuple(tasks)
        exact = config.teaching is not None and config.teaching.estimator == "full"
        local = {
            name: LocalTeacher(cfg, theirs, self.mesh, exact=exact) for name, (cfg, theirs) in (teachers or {}).items()
        }
        heads = [teacher.head for teacher in local.values()] if exact else []
        apart = len(families) if config.phases == "project" else 1
        loss = online.loss_config(config)
        optimizer, step = self._step(rates, loss, apart, heads)
        extra = {"teach": make_teach(local, config.teaching)} if config.teaching is not None else {}
        if config.cosines_every:
            gradient = make_gradient(self.cfg, loss, self.mesh, heads=heads) if heads else self.gradient(loss)
            extra["diagnose"] = Cosines(gradient, self.cfg, config, self.mesh, families)
        if config.kl:
            extra["reference"] = online.make_reference(self.cfg, self.mesh, params)
        update = online.make_update(step, self.cfg, config, self.mesh, families=families, **extra)
        state = self._state(optimizer, params, config.seed, directory)
        state = await online.train(
            state, update, agent, client, tasks, RL_SEEDS, config, directory, report, **playing
        )  # fmt: skip
        return state.params

    async def switches(
        self,
        params: Any,
        agent: PolicyAgent,
        turns: Sequence[TurnRecord],
        config: toolcua.SwitchConfig,
        rates: tuple[float, float],
        directory: Path,
        report: Callable[[int, Mapping[str, float]], Awaitable[None]],
    ) -> Any:
        """Single-turn RL on stored steps (`learn.toolcua.train_switches`); the parameters at its end.

        rates: peaks of the matrices' and of the rest's learning rate; a tenth of the steps is warm-up.
        """
        warmup = max(config.steps // 10, 0)
        optimizer, step = self._step(tuple((rate, config.steps, warmup) for rate in rates), LossConfig())
        state = self._state(optimizer, params, config.seed, directory)
        tokenizer = agent.prompts.tokenizer
        state = await toolcua.train_switches(
            state, step, agent.sampler, tokenizer, turns, self.cfg, config, self.mesh, directory, report
        )  # fmt: skip
        return state.params

    def finished(self, directory: Path) -> Any:
        """The parameters of a training that has ended: those of its last checkpoint."""
        where = state_shardings(self.cfg, optax.identity(), self.mesh, ShardingRules())
        like = checkpoint.sharded_like(abstract_state(self.cfg, optax.identity()), where)
        return checkpoint.restore_params(directory, like.params)

    def _step(
        self, rates: Rates, loss: LossConfig, families: int = 1, heads: Sequence[Any] = ()
    ) -> tuple[optax.GradientTransformation, TrainStep]:
        """The optimizer and the compiled step, which reads the latest heads that were given for it."""
        key = (rates, loss, families, tuple(head.shape for head in heads))
        if key not in self._steps:
            optimizer, read = optim.muon(self.cfg, *(optim.learning_rate(*rate) for rate in rates)), list(heads)
            step = make_train_step(self.cfg, loss, optimizer, self.mesh, families=families, heads=read)
            self._steps[key] = optimizer, step, read
        optimizer, step, read = self._steps[key]
        read[:] = heads
        return optimizer, step

    def _state(self, optimizer: Any, params: Any, seed: int, directory: Path) -> TrainState:
        if not checkpoint.steps(directory):
            return init_state(self.cfg, optimizer, seed, self.mesh, params=params)
        where = state_shardings(self.cfg, optimizer, self.mesh, ShardingRules())
        return checkpoint.restore(directory, checkpoint.sharded_like(abstract_state(self.cfg, optimizer), where)).state
