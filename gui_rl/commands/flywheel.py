"""The `gui-rl flywheel` commands.

gui-rl flywheel tasks                 tasks from a graph (a file, or a virtual app), as JSON lines
gui-rl flywheel collect TASKS OUT     play them by script or policy; keep, cut, repair
gui-rl flywheel record OUT            demonstrate a task, or the next one of a queue, in a browser page
gui-rl flywheel tools FROM OUT        collected trajectories into interleaved GUI-tool ones (ToolCUA)
gui-rl flywheel knowledge OUT         questions with answers, from documentation and from trajectories
gui-rl flywheel thoughts FROM OUT     a thought at every step of trajectories, or what four roles say (--roles)
gui-rl flywheel grounding OUT         screenshots with queries: synthesised, composed, mined, infeasible
gui-rl flywheel import KIND FROM OUT  Uni-GUI, AgentNet or AndroidControl into a dataset
gui-rl flywheel export KIND FROM OUT  a dataset into the form of Uni-GUI or AgentNet
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import tyro
import yaml

from env_servers.suites.suite import SEEDS
from gui_rl.commands import capabilities, datasets, grounding, toolcua
from gui_rl.commands.parts import (
    ServerOptions,
    agent_of,
    annotator_of,
    client_of,
    prompts_of,
    read_lines,
    write_lines,
)
from gui_rl.errors import UserError
from gui_rl.flywheel.annotator import Endpoint, EndpointConfig

Parse = Callable[[Any, Sequence[str], str], Any]


@dataclass(frozen=True)
class TasksOptions:
    """Tasks from a graph of subtasks.

    Attributes:
      app: a virtual app, whose tasks a server can play.
      graph: a YAML or JSON file instead, with entity tables of its own (see gui_rl.flywheel.tasks).
      out: JSON-lines file to write; it must not exist.
      count: tasks.
      longest: subtasks of a task at most.
      seed: of paths and templates.
      seeds: which worlds the tasks are played in.
      show: print the app's graph as a file and stop.
      rewrite: the model that puts instructions into other words; without a url, templates do.
    """

    app: str = ""
    graph: Path | None = None
    out: Path = Path("tasks.jsonl")
    count: int = 100
    longest: int = 3
    seed: int = 0
    seeds: Literal["train", "pretrain", "evaluation"] = "train"
    show: bool = False
    rewrite: EndpointConfig = EndpointConfig()


@dataclass(frozen=True)
class CollectOptions:
    """Play tasks and keep what is right.

    Attributes:
      tasks: JSON lines of `gui-rl flywheel tasks`, or a queue for people.
      out: dataset to write.
      policy: folder of the policy that acts; by default the task's script does.
      form: folder of the policy whose vocabulary and context make the script's prompts; by default gui-tiny's.
      temperature: of the policy.
      attempts: of a task, or of what remains of it, before it goes to people.
      parallel: sessions at a time.
      cut: where an unsolved trajectory ends: the paper's t* (last), or where its prefix was complete (first).
      tools: offer the apps' tools too.
      people: queue of what stays unsolved; it is added to.
      judge: the model that says which sub-tasks are done, instead of the world's predicates.
      recorded: folder of a judge's kept answers, to play them back.
      server: where the worlds are.
    """

    tasks: tyro.conf.Positional[Path]
    out: tyro.conf.Positional[Path]
    policy: Path | None = None
    form: Path | None = None
    temperature: float = 1.0
    attempts: int = 3
    parallel: int = 16
    cut: Literal["last", "first"] = "last"
    tools: bool = False
    people: Path = Path("people.jsonl")
    judge: EndpointConfig = EndpointConfig()
    recorded: Path | None = None
    server: ServerOptions = field(default_factory=ServerOptions)


@dataclass(frozen=True)
class RecordOptions:
    """Demonstrate tasks in a browser page.

    Attributes:
      out: dataset to write.
      suite, task, seed: what is to be done,
      queue: or a queue for people, whose tasks come one after the other; it stays as it is.
      count: demonstrations at most.
      form: folder of the policy whose vocabulary and context make the prompts; by default gui-tiny's.
      port: of the page; 0 takes a free one.
      server: where the worlds are.
    """

    out: tyro.conf.Positional[Path]
    suite: str = "virtual"
    task: str = ""
    seed: int = 0
    queue: Path | None = None
    count: int = 1
    form: Path | None = None
    port: int = 0
    server: ServerOptions = field(default_factory=ServerOptions)


def main(arguments: list[str], parse: Parse) -> None:
    """Runs one of the commands."""
    commands = {
        "tasks": (TasksOptions, _tasks),
        "collect": (CollectOptions, _collect),
        "record": (RecordOptions, _record),
        "tools": (toolcua.ToolsOptions, toolcua.tools),
        "knowledge": (capabilities.KnowledgeOptions, capabilities.knowledge),
        "thoughts": (capabilities.ThoughtsOptions, capabilities.thoughts),
        "grounding": (grounding.GroundingOptions, grounding.grounding),
        "import": (datasets.ImportOptions, datasets.import_),
        "export": (datasets.ExportOptions, datasets.export),
    }
    name, *rest = arguments or [""]
    if name not in commands:
        raise UserError(f"`gui-rl flywheel` needs one of {', '.join(commands)}, not {name!r}")
    options, run = commands[name]
    given = parse(options, rest, f"flywheel {name}")
    try:
        run(given)
    except OSError as error:  # a disk without room, a folder that may not be written
        raise UserError(f"flywheel {name}: {error.filename or 'a file'}: {error.strerror or error}") from error


def _tasks(options: TasksOptions) -> None:
    from env_servers.suites.virtual import registry
    from gui_rl.flywheel import tasks

    if bool(options.app) == (options.graph is not None):
        raise UserError(f"give --graph FILE, or --app with one of {', '.join(registry)}")
    if options.app and options.app not in registry:
        raise UserError(f"no app is called {options.app!r}: there are {', '.join(registry)}")
    if options.show and options.app:
        print(yaml.safe_dump(tasks.graph_of(registry[options.app]).to_document(), sort_keys=False), end="")
        return
    if options.out.exists():
        raise UserError(f"{options.out} exists already: choose another name with --out")
    if options.graph is not None:
        made = tasks.make_tasks(tasks.read_graph(options.graph), options.count, options.longest, options.seed)
    else:
        app = registry[options.app]
        made = tasks.app_tasks(app, "virtual", options.count, options.longest, options.seed, SEEDS[options.seeds])
    if options.rewrite.url:

        async def rewrite() -> list[tasks.MadeTask]:
            async with Endpoint(options.rewrite) as annotator:
                done, rubbish = await tasks.rewrite_all(annotator, made)
                print(f"{rubbish} of {len(done)} answers were rubbish; cost: {annotator.cost}")
                return done

        made = asyncio.run(rewrite())
    write_lines(options.out, [task.to_dict() for task in made])
    paths = {task.path for task in made}
    print(f"{options.out}: {len(made)} tasks on {len(paths)} paths")


def _collect(options: CollectOptions) -> None:
    from gui_rl.data.store import episode_writer
    from gui_rl.flywheel.collect import CollectConfig, Item, collect
    from gui_rl.report.progress import Progress

    items = [Item.from_dict(line if "task" in line and isinstance(line["task"], dict) else {"task": line})
             for line in read_lines(options.tasks)]  # fmt: skip
    config = CollectConfig(
        options.attempts, options.parallel, options.cut, script=options.policy is None, tools=options.tools
    )

    async def run() -> Any:
        prompts = prompts_of(options.policy or options.form)
        async with contextlib.AsyncExitStack() as opened:
            client = await opened.enter_async_context(client_of(options.server))
            judge = await opened.enter_async_context(annotator_of(options.judge, options.recorded))
            agent = await opened.enter_async_context(agent_of(options.policy, options.temperature, prompts))
            writer = opened.enter_context(episode_writer(options.out))
            stage = opened.enter_context(opened.enter_context(Progress()).stage("collect", len(items), unit="episode"))
            return await collect(
                client, agent, items, writer.add, config, judge=judge, people=options.people,
                tick=lambda episode: stage.advance(),
            )  # fmt: skip

    counts = asyncio.run(run())
    print(f"{options.out}: " + ", ".join(f"{count} {name}" for name, count in sorted(counts.items())))


def _record(options: RecordOptions) -> None:
    from env_servers.suites import instantiate
    from gui_rl.data.samples import with_ids
    from gui_rl.data.store import episode_writer
    from gui_rl.flywheel.collect import Item
    from gui_rl.flywheel.record import record
    from gui_rl.flywheel.tasks import MadeTask

    if options.queue is not None:
        items = [Item.from_dict(line) for line in read_lines(options.queue)][: options.count]
    elif options.task:
        made = instantiate(options.suite, options.task, options.seed)
        texts = getattr(made, "subtask_texts", (made.instruction,))
        task = MadeTask(
            options.task.split("/")[0], made.task.device, texts, {}, texts, made.instruction, "the suite",
            options.suite, options.task, options.seed,
        )  # fmt: skip
        items = [Item(task)] * options.count
    else:
        raise UserError("name a --task of the suite (`gui-rl env tasks` lists them), or a --queue of tasks for people")
    prompts = prompts_of(options.form)

    async def run() -> int:
        stored = 0
        async with client_of(options.server) as client:
            with episode_writer(options.out) as writer:
                for item in items:
                    print(f"{item.instruction}  ({item.task.task}, seed {item.task.seed})")
                    episode = await record(client, item, options.port, lambda url: print(f"open {url}", flush=True))
                    if episode.success:
                        writer.add(with_ids(episode, prompts.tokenizer, prompts.context))
                        stored += 1
                    else:
                        writer.drop(episode.outcome)
                    print(f"{episode.outcome}: {len(episode.turns)} steps")
        return stored

    print(f"{options.out}: {asyncio.run(run())} demonstrations")
