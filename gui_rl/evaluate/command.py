"""`gui-rl eval`: one policy, wherever it is, on one suite; resumable, with chance measured beside it.

In: a policy's folder or the URL of a policy server, a suite, seeds. Out: in the run's folder

    config.json       what was asked; another question is another folder
    records.jsonl     a `Record` per episode, written when it ends: a killed evaluation goes on from here
    trajectories/     the episodes themselves, for `gui-rl view`, where asked for
    summary.json      `records.cells` by agent

Local and remote policies go through the same sampler protocol, the same agent and the same loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import fnmatch
import functools
import json
import os
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Literal

import tyro
from rich.console import Console
from rich.table import Table

from env_servers.protocol.messages import Disturbance, TaskInfo
from env_servers.server import ServerConfig, running_server
from env_servers.suites.suite import SEEDS
from gui_rl.data.schema import Episode
from gui_rl.data.trajectory_files import write_trajectory
from gui_rl.errors import UserError
from gui_rl.evaluate.records import Record, Summary, cells
from gui_rl.flywheel.documents import read_documents, retrieve
from gui_rl.model import hf
from gui_rl.prompt.context import TINY_CONTEXT
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.rollout import policy
from gui_rl.rollout.agents import Agent, PolicyAgent, Prompts, RandomAgent, ScriptAgent
from gui_rl.rollout.engine import Engine, engine_config
from gui_rl.rollout.env_client import EnvClient
from gui_rl.rollout.episode import Spec, play_all
from gui_rl.rollout.remote import RemoteSampler
from gui_rl.rollout.roles import RolesAgent
from gui_rl.rollout.sampler import SamplingParams

EPISODE_S = 60.0
"""Wall-clock seconds that an episode may take on average, once there is room for it."""
TOKEN = "GUI_RL_TOKEN"
POLICY_TOKEN = "GUI_RL_POLICY_TOKEN"


@dataclasses.dataclass(frozen=True)
class EvalOptions:
    """Success of a policy on seeds that nothing was trained on.

    Attributes:
      policy: folder with config.json and safetensors (Hugging Face form); or the URL of a policy server, whose token is
        in GUI_RL_POLICY_TOKEN; or `script` or `random`.
      suite: where it is tested.
      tasks: pattern that task ids match, like "shop/*".
      longest: tasks of at most this many subtasks; 0 takes all.
      episodes: (task, seed) pairs a family; its tasks are taken in turn.
      agent: whether the policy acts by itself, or as Manager, Worker, Reflector and Notetaker (`rollout.roles`).
      knowledge: documentation (a file or a folder) that the Manager is told the passage of that tells most about its
        task; with `--agent roles`.
      repeat: times that each pair is played: average@k, pass@k.
      seeds: a split's name, or FIRST:LAST.
      temperature: of sampling; 0 is greedy.
      tools: whether the tasks' tools are offered.
      disturb: what gets in the way (popup, cookies, permission, notification, loading, tick, order, rotate, slider).
      marks: number the elements on the screenshots.
      form: folder whose policy.json and tokenizer a policy server's model has; gui-tiny's where not given.
      server: URL of a running environment server, whose token is in GUI_RL_TOKEN; one is started where not given.
      chance: measure a random policy on the same pairs too.
      keep: keep the episodes as trajectories.
      parallel: episodes at a time.
      out: the run's folder; runs/eval-POLICY-SUITE where not given.
    """

    policy: tyro.conf.Positional[str]
    suite: str = "virtual"
    tasks: str = "*"
    longest: int = 0
    episodes: int = 60
    agent: Literal["single", "roles"] = "single"
    knowledge: Path | None = None
    repeat: int = 1
    seeds: str = "evaluation"
    temperature: float = 1.0
    tools: bool = False
    disturb: tuple[Disturbance, ...] = ()
    marks: bool = False
    form: Path | None = None
    server: str = ""
    chance: bool = True
    keep: bool = False
    parallel: int = 32
    out: Path | None = None


def run(options: EvalOptions) -> dict[str, dict[str, dict[str, Summary]]]:
    """Plays what is not yet played, writes summary.json and returns it: {agent: {kind: {value: summary}}}.

    Raises UserError for a policy, suite, pattern or seed range that does not exist, a folder that holds another
    evaluation, and a server that does not answer.
    """
    seeds = seeds_of(options.seeds)
    if options.agent == "roles" and options.policy in ("script", "random"):
        raise UserError(f"--agent roles needs a policy that speaks for the roles, not {options.policy!r}")
    if options.knowledge is not None and options.agent != "roles":
        raise UserError("--knowledge is told to the Manager: give --agent roles too")
    if not _is_url(options.policy) and options.policy not in ("script", "random"):
        hf.read_config(Path(options.policy))  # a folder that holds none is found out before anything starts
    folder = options.out or Path("runs") / f"eval-{_name(options.policy)}-{options.suite}"
    _claim(folder, options)
    with contextlib.ExitStack() as stack:
        url, token = options.server, os.environ.get(TOKEN, "")
        if not url:
            own = stack.enter_context(running_server(ServerConfig(port=0)))
            url, token = own.url, own.token
        records = asyncio.run(_play(options, seeds, folder, url, token))
    found = {agent: cells(group) for agent, group in records.items()}
    plain = {
        agent: {
            kind: {value: dataclasses.asdict(summary) for value, summary in row.items()} for kind, row in kinds.items()
        }
        for agent, kinds in found.items()
    }
    partial = folder / "summary.json.partial"
    partial.write_text(json.dumps(plain, indent=1) + "\n")
    os.replace(partial, folder / "summary.json")
    return found


def seeds_of(text: str) -> range:
    """The seeds that `--seeds` names."""
    if text in SEEDS:
        return SEEDS[text]
    if match := re.fullmatch(r"(\d+):(\d+)", text):
        first, last = map(int, match.groups())
        if first < last:
            return range(first, last)
    raise UserError(f"--seeds {text!r}: name a split ({', '.join(SEEDS)}) or a range FIRST:LAST with FIRST < LAST")


def _is_url(policy_: str) -> bool:
    return policy_.startswith(("http://", "https://"))


def _name(policy_: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", policy_.rstrip("/").split("/")[-1]).strip("-.") or "policy"


def _claim(folder: Path, options: EvalOptions) -> None:
    """The folder is new, or that of the same evaluation."""
    asked = json.loads(json.dumps(dataclasses.asdict(options), default=str))
    for free in ("server", "parallel", "out", "keep"):
        asked.pop(free)
    path = folder / "config.json"
    if path.is_file():
        if json.loads(path.read_text()) != asked:
            raise UserError(f"{folder} holds an evaluation with other options: choose another with --out, or remove it")
        return
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asked, indent=1) + "\n")


async def _play(options: EvalOptions, seeds: range, folder: Path, url: str, token: str) -> dict[str, list[Record]]:
    async with EnvClient(url, token) as client, agent_for(options) as (name, agent):
        tasks = {
            task.id: task
            for task in await client.tasks(options.suite)
            if fnmatch.fnmatchcase(task.id, options.tasks)
            and (not options.longest or len(task.id.partition("/")[2].split("+")) <= options.longest)
        }
        if not tasks:
            raise UserError(f"no task of the suite {options.suite!r} matches {options.tasks!r}: `gui-rl env tasks`")
        agents: dict[str, Agent] = {name: agent}
        if options.chance and name not in ("random", "script"):
            agents["random"] = RandomAgent(agent.prompts)
        journal = Journal(folder / "records.jsonl")
        for who, acting in agents.items():
            specs = pairs_of(tasks.values(), options, seeds, who)
            left = [spec for spec in specs if spec.id not in journal.done]
            script = who == "script"

            def ended(episode: Episode, who: str = who, copies: dict[str, int] = {s.id: s.copy for s in specs}) -> None:  # noqa: B006
                journal.put(Record.of(episode, tasks[episode.task], who, copies[episode.id]))
                if options.keep:
                    write_trajectory(folder, episode)

            await play_all(
                client, acting, left, parallel=max(options.parallel, options.repeat), script=script,
                keep_final=options.keep, tick=ended,
                lease={"tools": options.tools, "disturb": list(options.disturb), "marks": options.marks},
                deadline_s=EPISODE_S * (2 + len(left) / options.parallel),
            )  # fmt: skip
        return {who: [record for record in journal.records.values() if record.agent == who] for who in agents}


def pairs_of(tasks: Sequence[TaskInfo], options: EvalOptions, seeds: range, agent: str) -> list[Spec]:
    """`episodes` pairs a family, its tasks in turn with a new seed each, every pair `repeat` times."""
    if options.episodes > len(seeds):
        raise UserError(f"--episodes {options.episodes} needs as many seeds; --seeds {options.seeds} has {len(seeds)}")
    families: dict[str, list[str]] = {}
    for task in tasks:
        families.setdefault(task.device, []).append(task.id)
    return [
        Spec(options.suite, ids[number % len(ids)], seeds[number], copy, f"eval-{agent}")
        for ids in families.values()
        for number in range(options.episodes)
        for copy in range(options.repeat)
    ]


class Journal:
    """records.jsonl: scored episodes are done; faults are kept there and played again by the next run."""

    def __init__(self, path: Path):
        self.path, self.records = path, {}
        kept = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.is_file() else []
        if kept and not kept[-1].endswith("\n"):  # killed while it was written
            kept.pop()
            path.write_text("".join(kept), encoding="utf-8")
        for number, line in enumerate(kept, 1):
            try:
                record = Record(**json.loads(line))
            except (ValueError, TypeError) as error:
                raise UserError(f"{path}, line {number}: not a record ({error}); remove it or the folder") from None
            self.records[record.id] = record

    @property
    def done(self) -> set[str]:
        """Ids of the episodes that need not be played again."""
        return {identity for identity, record in self.records.items() if record.scored}

    def put(self, record: Record) -> None:
        """Adds a record for good."""
        self.records[record.id] = record
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(dataclasses.asdict(record)) + "\n")


@contextlib.asynccontextmanager
async def agent_for(options: EvalOptions) -> AsyncIterator[tuple[str, Agent]]:
    """The agent that `policy` names, and what its records call it."""
    sampling, acting = SamplingParams(options.temperature), PolicyAgent
    if options.agent == "roles":
        passages = [] if options.knowledge is None else read_documents(options.knowledge, Counter())
        acting = functools.partial(RolesAgent, knowledge=functools.partial(retrieve, passages))
    if options.policy in ("script", "random"):
        prompts = Prompts(Tokenizer.load("gui-tiny"), TINY_CONTEXT)
        yield options.policy, (ScriptAgent if options.policy == "script" else RandomAgent)(prompts)
    elif _is_url(options.policy):
        form = (Tokenizer.load("gui-tiny"), TINY_CONTEXT) if options.form is None else policy.read_form(options.form)
        async with RemoteSampler(options.policy, os.environ.get(POLICY_TOKEN, "")) as sampler:
            yield "policy", acting(sampler, Prompts(*form), sampling)
    else:
        loaded = policy.load(options.policy)
        engine = Engine(loaded.cfg, loaded.params, loaded.tokenizer, engine_config(loaded.context))
        try:
            yield "policy", acting(engine, Prompts(loaded.tokenizer, loaded.context), sampling)
        finally:
            await engine.close()


def show(found: dict[str, dict[str, dict[str, Summary]]], console: Console | None = None) -> None:
    """Prints the summaries: a row a cell, chance beside every score."""
    table = Table(title="success, 95 % interval")
    for column in (
        "",
        "cell",
        "success",
        "interval",
        "chance",
        "pass@k",
        "progress",
        "TIR",
        "ACS",
        "episodes",
        "faults",
    ):
        table.add_column(column, justify="left" if column in ("", "cell") else "right")
    (agent, kinds), *others = found.items()
    chance = dict(others).get("random", {})
    for kind, value, one in _rows(kinds):
        beside = chance.get(kind, {}).get(value)
        table.add_row(
            kind, value, f"{100 * one.success:.1f}", f"{100 * one.low:.1f}–{100 * one.high:.1f}",
            "" if beside is None else f"{100 * beside.success:.1f}", f"{100 * one.pass_at_k:.1f}",
            f"{100 * one.progress:.1f}", f"{100 * one.tir:.1f}", f"{one.acs:.1f}", str(one.episodes), str(one.faults),
        )  # fmt: skip
    console = console or Console()
    console.print(table)
    whole = kinds["all"].get("all")
    if whole is not None and whole.failures:
        console.print("lost: " + ", ".join(f"{way} {count}" for way, count in whole.failures.items()))
    if whole is not None and whole.parse_errors:
        console.print("no valid call: " + ", ".join(f"{kind} {count}" for kind, count in whole.parse_errors.items()))


def _rows(kinds: dict[str, dict[str, Summary]]) -> Iterator[tuple[str, str, Summary]]:
    for kind, row in kinds.items():
        for value, summary in row.items():
            yield "" if kind == "all" else kind, value, summary
