"""What tiny experiments stand on: worlds, samplers, one trainer, and folders of what is made once.

In: the shipped base. Out: `Bench`, whose `stage` keeps the result of a piece of work in a folder that is named by the
digest of what it was made from:

    ROOT/KIND-DIGEST/settings.json     kind, settings, digests of the stages it was made from, revision
                     metrics.jsonl     curves of a training
                     checkpoints/      of a training that is under way
                     policy/ | data/ | records.jsonl     the result: a policy, a dataset, the episodes of an evaluation
                     done.json         numbers and seconds; written last

The kinds of stages are in `experiments.lab`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import jax

from env_servers.protocol.messages import TaskInfo
from env_servers.server import ServerConfig, running_server
from env_servers.suites import tasks as tasks_of
from experiments.trainer import Trainer
from gui_rl.data.schema import Episode
from gui_rl.data.store import EpisodeSource, write_episodes
from gui_rl.errors import UserError
from gui_rl.evaluate.command import Journal
from gui_rl.evaluate.records import Record
from gui_rl.evaluate.suites import FAMILIES
from gui_rl.model import hf
from gui_rl.prompt.context import TINY_CONTEXT, ContextConfig
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.report.manifest import as_json, git_revision
from gui_rl.report.metrics import RunLog
from gui_rl.report.progress import Progress, Stage
from gui_rl.rollout import policy
from gui_rl.rollout.agents import Agent, PolicyAgent, Prompts, RandomAgent, ScriptAgent
from gui_rl.rollout.engine import Engine, engine_config
from gui_rl.rollout.env_client import EnvClient
from gui_rl.rollout.roles import RolesAgent
from gui_rl.rollout.sampler import SamplingParams

BASE = Path(__file__).parent / "base_policy"
"""The shipped base (see `experiments.base`)."""
DONE = "done.json"
VOCABULARY = "gui-tiny"
ROOM = 320
"""Tokens of a prompt with tools or notes in it, or a larger picture, at most."""
THINKING_TOKENS = 160
"""Of a response with its thought, at most."""
Tasks = Mapping[str, Sequence[tuple[str, str]]]
"""(suite, task id) pairs by device family."""


@dataclasses.dataclass(frozen=True)
class Made:
    """The result of a stage, which other stages are made from."""

    kind: str
    digest: str
    folder: Path

    @property
    def numbers(self) -> dict[str, Any]:
        """What was counted and measured while it was made."""
        return json.loads((self.folder / DONE).read_text())["numbers"]

    @property
    def data(self) -> EpisodeSource:
        """The episodes of a dataset."""
        return EpisodeSource(self.folder / "data")

    @property
    def records(self) -> list[Record]:
        """The episodes of an evaluation."""
        return list(Journal(self.folder / "records.jsonl").records.values())


def form(tools: bool = False, thinking: bool = False, room: int | None = None) -> ContextConfig:
    """gui-tiny's form of prompts, with `room` (tokens); more than usual for what is offered, and for what was noted."""
    limit = room or (ROOM if tools or thinking else TINY_CONTEXT.max_prompt_tokens)
    return dataclasses.replace(TINY_CONTEXT, thinking=thinking, max_prompt_tokens=limit)


class Bench:
    """Use it as `async with Lab(root) as lab`.

    Args:
      root: folder of the stages.
      base: folder of the policy that everything starts from.
      parallel: episodes at a time.

    Attributes:
      cfg, mesh, trainer: of the policies.
      client: of the environment server, which lives as long as the lab.
      base: the shipped base, as a stage.
    """

    def __init__(self, root: Path = Path("runs/lab"), base: Path = BASE, parallel: int = 32):
        self.root, self.parallel = root, parallel
        self.tokenizer = Tokenizer.load(VOCABULARY)
        self.cfg = hf.read_config(base)
        files = [path for name in ("*.safetensors", "*.json") for path in sorted(base.glob(name))]
        digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]
        self.base = Made("base", digest, base)
        self.progress = Progress()
        self.used: dict[str, Made] = {}
        self._engines: dict[tuple, Engine] = {}
        self._infos: dict[str, dict[str, TaskInfo]] = {}

    async def __aenter__(self) -> Self:
        if not jax.config.jax_compilation_cache_dir:
            jax.config.update("jax_compilation_cache_dir", str(Path(".cache/jax").absolute()))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
        self.root.mkdir(parents=True, exist_ok=True)
        self._opened = contextlib.AsyncExitStack()
        try:
            lock = self._opened.enter_context((self.root / ".lock").open("w"))
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise UserError(f"{self.root} is in use by another run: wait for it, or name another folder") from None
            server = self._opened.enter_context(running_server(ServerConfig(port=0)))
            self.client = await self._opened.enter_async_context(EnvClient(server.url, server.token))
            self._opened.enter_context(self.progress)
        except BaseException:
            await self._opened.aclose()
            raise
        self.trainer = Trainer(self.cfg)
        self.mesh = self.trainer.mesh
        return self

    async def __aexit__(self, *_: object) -> None:
        for engine in self._engines.values():
            await engine.close()
        await self._opened.aclose()

    # --- stages
    async def stage(
        self,
        kind: str,
        settings: Mapping[str, Any],
        inputs: Mapping[str, Made],
        make: Callable[[Path], Awaitable[Mapping[str, Any]]],
    ) -> Made:
        """What `make(folder)` leaves in the stage's folder, unless it is there already; it returns numbers to keep.

        Args:
          kind: first part of the folder's name.
          settings: all that the result depends on besides `inputs`; dataclasses and mappings of JSON values.
          inputs: stages that it is made from.
          make: makes the result, or goes on with one that was begun in that folder.
        """
        asked = {"kind": kind, "settings": as_json(settings), "inputs": {n: m.digest for n, m in inputs.items()}}
        digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]
        made = self.used[digest] = Made(kind, digest, self.root / f"{kind}-{digest}")
        if (made.folder / DONE).is_file():
            return made
        made.folder.mkdir(exist_ok=True)
        write_json(made.folder / "settings.json", asked | {"revision": git_revision()})
        began = time.monotonic()
        numbers = await make(made.folder)
        write_json(made.folder / DONE, {"numbers": as_json(numbers), "seconds": round(time.monotonic() - began, 2)})
        shutil.rmtree(made.folder / "checkpoints", ignore_errors=True)
        return made

    def write_data(self, folder: Path, episodes: Sequence[Episode], context: ContextConfig) -> None:
        """The result of a stage that makes a dataset: the episodes, and the form that their prompts have."""
        if (folder / "data").exists():  # of a run that was stopped before it was done
            shutil.rmtree(folder / "data")
        policy.write_form(folder, VOCABULARY, context)
        write_episodes(folder / "data", episodes)

    # --- parts
    async def tasks(self, suite: str, longest: int | None = None, scripted: bool = False) -> Tasks:
        """The tasks of a suite by family, in a fixed order.

        longest: of at most this many subtasks. scripted: those that the suite can play by itself.
        """
        own = tasks_of(suite)
        out: dict[str, list[tuple[str, str]]] = {family: [] for family in FAMILIES}
        for name, task in (await self.infos(suite)).items():
            short = longest is None or len(name.partition("/")[2].split("+")) <= longest
            if short and (own[name].scripted or not scripted):
                out[task.device].append((suite, name))
        return {family: pairs for family, pairs in out.items() if pairs}

    async def infos(self, suite: str) -> dict[str, TaskInfo]:
        """The tasks of a suite by id."""
        if suite not in self._infos:
            self._infos[suite] = {task.id: task for task in await self.client.tasks(suite)}
        return self._infos[suite]

    def params(self, made: Made) -> Any:
        """The parameters of a policy."""
        return hf.load(policy_folder(made))[1]

    async def agent(
        self,
        acting: Made | Literal["script", "random"],
        temperature: float = 1.0,
        *,
        roles: bool = False,
        context: ContextConfig | None = None,
    ) -> Agent:
        """Who acts. A policy's prompts have the form that it was trained in, unless `context` gives another."""
        if isinstance(acting, str):
            prompts = Prompts(self.tokenizer, context or form())
            return (ScriptAgent if acting == "script" else RandomAgent)(prompts)
        context = context or policy_form(acting)
        sampling = SamplingParams(temperature)
        if context.thinking:
            sampling = dataclasses.replace(sampling, max_tokens=THINKING_TOKENS)
        if context not in self._engines:
            config = engine_config(context, sampling.max_tokens)
            self._engines[context] = Engine(self.cfg, None, self.tokenizer, config)
        engine = self._engines[context]
        await engine.update_weights(self.params(acting), -1)
        return (RolesAgent if roles else PolicyAgent)(engine, Prompts(self.tokenizer, context), sampling)

    def write_policy(self, folder: Path, params: Any, context: ContextConfig) -> None:
        """The result of a stage that makes a policy; whole or not there."""
        partial = folder / "policy.partial"
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(folder / "policy", ignore_errors=True)
        hf.save(partial, self.cfg, params)
        policy.write_form(partial, VOCABULARY, context)
        os.replace(partial, folder / "policy")

    @contextlib.contextmanager
    def training(self, folder: Path, kind: str, steps: int, done: int) -> Iterator[tuple[RunLog, Stage]]:
        """The log and the progress of a training that goes on from step `done`."""
        with RunLog(folder, "disabled") as log, self.progress.stage(folder.name[:12], steps, "step", done) as stage:
            log.rewind(kind, done)
            yield log, stage


def policy_folder(made: Made) -> Path:
    """Where the weights of a policy are."""
    return made.folder if made.kind == "base" else made.folder / "policy"


def policy_form(made: Made) -> ContextConfig:
    """The form of a policy's prompts."""
    return policy.read_form(policy_folder(made))[1]


def write_json(path: Path, value: Any) -> None:
    """Writes a JSON file, whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(value, indent=1) + "\n")
    os.replace(partial, path)
