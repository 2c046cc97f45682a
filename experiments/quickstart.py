"""The whole chain on a laptop: worlds, demonstrations, SFT, MRPO, evaluation, report.

    gui-rl quickstart            (or: gui-rl run quickstart --resume)

1. Start an environment server with real Chromium.
2. Measure a random and a scripted policy on the evaluation seeds.
3. Collect scripted demonstrations over HTTP and store them.
4. SFT from the shipped base; evaluate.
5. MRPO with alternating device phases; evaluate.
6. Write result.json and report.html.
Every stage is complete, or done again: a run that was interrupted goes on where it was (SFT and MRPO from their last
checkpoint).
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import resource
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import psutil

from env_servers.server import ServerConfig, running_server
from env_servers.suites.virtual.app import SEEDS
from experiments.bench import BASE, write_json
from experiments.trainer import Trainer, begun
from gui_rl.data.schema import Episode
from gui_rl.data.store import EpisodeSource, write_episodes
from gui_rl.data.trajectory_files import write_trajectory
from gui_rl.errors import UserError
from gui_rl.evaluate.suites import FAMILIES, Score, evaluate, evaluation_specs, tasks_of
from gui_rl.learn import online, sft
from gui_rl.model import hf
from gui_rl.prompt.context import TINY_CONTEXT
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.report.manifest import write_manifest
from gui_rl.report.metrics import RunLog
from gui_rl.report.progress import Progress
from gui_rl.report.report import write_report
from gui_rl.rollout.agents import Agent, PolicyAgent, Prompts, RandomAgent, ScriptAgent
from gui_rl.rollout.engine import Engine, engine_config
from gui_rl.rollout.env_client import EnvClient
from gui_rl.rollout.episode import Spec, play_all
from gui_rl.rollout.sampler import SamplingParams


@dataclasses.dataclass(frozen=True)
class Config:
    """Settings of the quickstart.

    Attributes:
      name: of the run's folder below `runs`.
      base: folder with the base's config.json and safetensors.
      longest: tasks of at most this many subtasks.
      demonstrations: scripted episodes a family.
      evaluation: episodes a family in every evaluation.
      probes, probe: points of each training's learning curve, its end included, and episodes a family in a point.
      sft, rl: settings of the two trainings.
      show: trajectories a family kept for the report.
      seed: of everything that is drawn.
    """

    name: str = "quickstart"
    base: Path = BASE
    longest: int = 1
    demonstrations: int = 150
    evaluation: int = 90
    probes: int = 5
    probe: int = 22
    sft: sft.SFTConfig = sft.SFTConfig()
    rl: online.MRPOConfig = online.MRPOConfig(steps=80, tasks=8, epochs=2, max_lag=0, lazy=True, parallel=20)
    show: int = 4
    seed: int = 0


class Stages:
    """What a run has finished: one JSON file, replaced as a whole after every stage."""

    def __init__(self, path: Path):
        self.path = path
        self.done: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}

    def put(self, name: str, value: Any) -> None:
        """Records a finished stage."""
        self.done[name] = value
        write_json(self.path, self.done)


def main(config: Config = Config(), resume: bool = False) -> Path:  # noqa: B008 - frozen
    """Runs all stages; returns the path of the report."""
    run = Path("runs") / config.name
    if run.exists() and not resume:
        number = next(n for n in range(1, 10**6) if not run.with_name(f"{run.name}-{n}").exists())
        run.rename(run.with_name(f"{run.name}-{number}"))
        print(f"the earlier run is now {run}-{number}")
    if resume and not run.is_dir():
        raise UserError(f"no run to go on with at {run}: start it without --resume")
    run.mkdir(parents=True, exist_ok=True)
    kept = run / "config.json"
    asked = json.loads(json.dumps(dataclasses.asdict(config), default=str))
    if resume and kept.is_file() and json.loads(kept.read_text()) != asked:
        raise UserError(f"{kept} holds other settings: resume with those, or start anew without --resume")
    seeds = {"seed": config.seed, **{split: [seeds.start, seeds.stop] for split, seeds in SEEDS.items()}}
    write_manifest(run, asked, seeds)
    if not jax.config.jax_compilation_cache_dir:
        jax.config.update("jax_compilation_cache_dir", str(Path(".cache/jax").absolute()))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
    with running_server(ServerConfig(port=0)) as server, Progress() as progress:
        log = RunLog(run)
        try:
            asyncio.run(_Quickstart(config, run, log, progress).run(server.url, server.token))
        finally:
            log.close()
    report = write_report(run)
    print(f"report: {report}")
    return report


class _Quickstart:
    def __init__(self, config: Config, run: Path, log: RunLog, progress: Progress):
        self.config, self.path, self.log, self.progress = config, run, log, progress
        self.stages = Stages(run / "stages.json")
        self.tokenizer = Tokenizer.load("gui-tiny")
        self.prompts = Prompts(self.tokenizer, TINY_CONTEXT)
        self.cfg, self.base = hf.load(config.base)
        self.trainer = Trainer(self.cfg)
        self.engine = Engine(self.cfg, self.base, self.tokenizer, engine_config(TINY_CONTEXT))

    async def run(self, url: str, token: str) -> None:
        """All stages that are not yet done."""
        async with EnvClient(url, token) as client:
            self.client = client
            self.tasks = await tasks_of(client, "virtual", self.config.longest)
            await self._baseline("random", RandomAgent(self.prompts))
            await self._baseline("script", ScriptAgent(self.prompts))
            await self._collect()
            params = await self._sft()
            await self._policy("sft", params)
            params = await self._rl(params)
            await self._policy("rl", params)
            await self.engine.close()
        self._result()

    # --- stages
    async def _baseline(self, name: str, agent: Agent) -> None:
        if name in self.stages.done:
            return
        began = time.monotonic()
        scores, episodes = await self._evaluate(name, agent)
        if name == "script":
            self._show(name, episodes)
        self._put(name, {family: dataclasses.asdict(score) for family, score in scores.items()}, began)

    async def _policy(self, name: str, params) -> None:
        """Evaluates a policy: as it is trained (temperature 1), and greedy beside it."""
        if name in self.stages.done:
            return
        began = time.monotonic()
        await self.engine.update_weights(params, -1)
        scores: dict[str, dict] = {}
        for form, temperature in (("sampled", 1.0), ("greedy", 0.0)):
            agent = PolicyAgent(self.engine, self.prompts, SamplingParams(temperature))
            found, episodes = await self._evaluate(f"{name}-{form}", agent)
            for family, score in found.items():
                if form == "sampled":
                    scores[family] = dataclasses.asdict(score)
                else:
                    scores[family]["greedy"] = dataclasses.asdict(score)
            if form == "sampled":
                self._show(name, episodes)
        step = self.config.sft.steps if name == "sft" else self.config.rl.steps
        curve = {f"eval/{family}/success": score["success"] for family, score in scores.items()}
        self.log.log(name, step, curve)
        if name == "sft":  # where RL starts from
            self.log.log("rl", 0, curve)
        self._put(name, scores, began)

    async def _collect(self) -> None:
        data = self.path / "data" / "demonstrations"
        if "collect" in self.stages.done:
            return
        began, seeds = time.monotonic(), SEEDS["train"]
        specs = [
            Spec(*pairs[number % len(pairs)], seed=seeds[-1 - number], run="demo")
            for pairs in self.tasks.values()
            for number in range(self.config.demonstrations)
        ]
        with self.progress.stage("demonstrations", total=len(specs), unit="episode") as stage:
            episodes = await play_all(
                self.client, ScriptAgent(self.prompts), specs, script=True, tick=lambda _: stage.advance(),
                parallel=self.config.rl.parallel,
            )  # fmt: skip
        good = [episode for episode in episodes if episode.success]
        if data.exists():  # of a run that was stopped between the two lines below
            data = data.with_name(f"demonstrations-{time.time_ns()}")
        write_episodes(data, good)
        self._put("collect", {"path": str(data), "kept": len(good), "dropped": len(episodes) - len(good)}, began)

    async def _sft(self) -> Any:
        config, directory = self.config.sft, self.path / "checkpoints" / "sft"
        if "sft_trained" in self.stages.done:
            return self.trainer.finished(directory)
        started = time.monotonic()
        done = self._begun("sft", directory)
        with self.progress.stage("SFT", total=config.steps, done=done) as stage:

            async def report(number: int, values: Mapping[str, float], params: Any) -> None:
                if self._probed(number, config.steps):
                    values = {**values, **await self._probe(params)}
                self.log.log("sft", number, values)
                stage.advance(loss=values["loss"])

            source = EpisodeSource(self.stages.done["collect"]["path"])
            params = await self.trainer.sft(self.base, source, config, directory, report)
        self._put("sft_trained", {"steps": config.steps}, started)
        return params

    async def _rl(self, params) -> Any:
        config, directory = self.config.rl, self.path / "checkpoints" / "rl"
        if "rl_trained" in self.stages.done:
            return self.trainer.finished(directory)
        started = time.monotonic()
        done = self._begun("rl", directory, config.epochs)
        agent = PolicyAgent(self.engine, self.prompts, SamplingParams(1.0))
        totals = dict(self.stages.done.get("groups", {"kept": 0, "swapped": 0, "empty": 0}))
        with self.progress.stage("MRPO", total=config.steps, done=done) as stage:

            async def report(done: online.StepReport) -> None:
                groups = {name: done.metrics[f"groups_{name}"] for name in ("kept", "swapped", "empty")}
                for name, count in groups.items():
                    totals[name] += count
                values = {
                    **done.metrics,
                    **{f"groups/{n}": v / max(sum(groups.values()), 1) for n, v in groups.items()},
                }
                values["rollout/success"] = done.metrics.get("success", 0.0)
                if self._probed(done.step, config.steps):
                    values |= await self._probe()
                family = done.families[0] if len(done.families) == 1 else "mix"
                self.log.log_pools("rl", done.step, done.episodes)
                self.log.log("rl", done.step, values, phase=family)
                stage.advance(metrics=done.metrics)

            params = await self.trainer.online(params, agent, self.client, self.tasks, config, directory, report)
        self.stages.done["groups"] = totals
        self._put("rl_trained", {"steps": config.steps}, started)
        return params

    # --- helpers
    def _probed(self, step: int, steps: int) -> bool:
        """Whether the learning curve has a point here; the last one is the evaluation after the training."""
        return step < steps and step % max(steps // self.config.probes, 1) == 0

    async def _probe(self, params=None) -> dict[str, float]:
        """A point of the learning curve, of these weights or of those the sampler has."""
        if params is not None:
            await self.engine.update_weights(params, -1)
        agent = PolicyAgent(self.engine, self.prompts, SamplingParams(1.0))
        specs = evaluation_specs(self.tasks, self.config.probe, "probe")
        scores, _ = await evaluate(self.client, agent, specs, parallel=self.config.rl.parallel)
        return {f"eval/{family}/success": score.success for family, score in scores.items()}

    async def _evaluate(self, name: str, agent: Agent) -> tuple[dict[str, Score], list[Episode]]:
        specs = evaluation_specs(self.tasks, self.config.evaluation, name)
        with self.progress.stage(f"evaluate {name}", total=len(specs), unit="episode") as stage:
            return await evaluate(
                self.client,
                agent,
                specs,
                script=True,
                keep_final=True,
                tick=lambda _: stage.advance(),
                parallel=self.config.rl.parallel,
            )

    def _begun(self, stage: str, directory: Path, updates: int = 1) -> int:
        """Steps that are done already; what was logged after them is dropped."""
        done = begun(directory, updates)
        if done:
            self.log.rewind(stage, done)
        return done

    def _show(self, name: str, episodes: list[Episode]) -> None:
        for family in FAMILIES:
            mine = [episode for episode in episodes if episode.device == family]
            won, lost = [e for e in mine if e.success], [e for e in mine if not e.success]
            half = self.config.show // 2
            for episode in [*won[:half], *lost[:half]] if name != "script" else won[:1]:
                write_trajectory(self.path, episode)

    def _put(self, name: str, value: Any, began: float) -> None:
        seconds = self.stages.done.setdefault("seconds", {})
        seconds[name] = round(time.monotonic() - began, 1)
        self.stages.done["peak_memory_gb"] = max(self.stages.done.get("peak_memory_gb", 0), memory_gb())
        self.stages.put(name, value)

    def _result(self) -> None:
        done = self.stages.done
        groups = done["groups"]
        result = {
            "minutes": round(sum(done["seconds"].values()) / 60, 2),
            "peak_memory_gb": round(done["peak_memory_gb"], 2),
            "seconds": done["seconds"],
            "groups": {name: count / max(sum(groups.values()), 1) for name, count in groups.items()},
            "families": {
                family: {name: done[name][family] for name in ("random", "script", "sft", "rl")}
                for family in self.tasks
            },
        }
        write_json(self.path / "result.json", result)
        self.progress.note(summary(result))


def summary(result: Mapping[str, Any]) -> str:
    """The result in a few lines of text: success by family, sampled, and greedy beside it."""
    lines = ["success      random     SFT    MRPO  script   (greedy SFT, MRPO)"]
    for family, scores in result["families"].items():
        sampled = [scores[policy]["success"] for policy in ("random", "sft", "rl", "script")]
        greedy = [scores[policy]["greedy"]["success"] for policy in ("sft", "rl")]
        cells = "".join(f"{100 * value:6.0f} %" for value in sampled)
        lines.append(f"{family:11}{cells}   ({100 * greedy[0]:.0f} %, {100 * greedy[1]:.0f} %)")
    lines.append(f"{result['minutes']:.1f} minutes, {result['peak_memory_gb']:.1f} GB")
    return "\n".join(lines)


def memory_gb() -> float:
    """Memory in GB: this process at its peak, its children (server, Chromium) now, shared pages counted once."""
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    children = 0
    for child in psutil.Process().children(recursive=True):
        try:
            children += child.memory_full_info().pss
        except psutil.Error:  # it has just ended
            continue
    return own + children / 2**30
