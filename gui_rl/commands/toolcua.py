"""`gui-rl flywheel tools`: collected trajectories into interleaved GUI-tool ones (ToolCUA, section 2.2)."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tyro

from gui_rl.commands.parts import ServerOptions, annotator_of, client_of, prompts_of, write_lines
from gui_rl.errors import UserError
from gui_rl.flywheel.annotator import EndpointConfig

KEPT = ("tried", "recorded", "redone", "sources", "made", "grounded", "repaired")
"""Last words of the names of counts that say what was kept, not what was dropped."""


@dataclass(frozen=True)
class ToolsOptions:
    """Tool-only, coarser and interleaved trajectories of what was collected, each replayed to its goal.

    Attributes:
      source: dataset of `gui-rl flywheel collect` (played without --tools).
      out: folder to write: all (D_all) and critical (D_critical; the same trajectories, only their changes between GUI
        and tools are samples) as datasets, tools.jsonl (the library).
      variants: interleaved variants tried for each trajectory.
      levels: how often neighbouring tool calls are merged into coarser ones.
      distractors: tools of other apps on offer beside the app's own.
      redo: let the task's script do the GUI steps where the recorded ones miss.
      least, most: steps of a trajectory that is taken.
      balance: of one app at most so many times the trajectories of the app with fewest.
      parallel: trajectories at a time.
      seed: of choices and subsets.
      form: folder of the policy whose vocabulary and context make the prompts; by default gui-tiny's, with room for
        the tools.
      server: where the worlds are.
      annotator: the model that writes tools and tool steps of trajectories whose tools cannot be executed; nothing is
        replayed then. With a url, or with `recorded`, all trajectories are taken that way.
      recorded: folder of an annotator's kept answers, to play them back.
    """

    source: tyro.conf.Positional[Path]
    out: tyro.conf.Positional[Path]
    variants: int = 3
    levels: int = 2
    distractors: int = 0
    redo: bool = True
    least: int = 3
    most: int = 40
    balance: float = 2.0
    parallel: int = 8
    seed: int = 0
    form: Path | None = None
    server: ServerOptions = field(default_factory=ServerOptions)
    annotator: EndpointConfig = EndpointConfig()
    recorded: Path | None = None


def tools(options: ToolsOptions) -> None:
    """See `ToolsOptions`."""
    from env_servers.suites import instantiate
    from gui_rl.data.samples import with_ids
    from gui_rl.data.schema import Episode
    from gui_rl.data.store import EpisodeSource, episode_writer
    from gui_rl.flywheel.interleave import InterleaveConfig, Made, interleave, share_kept
    from gui_rl.flywheel.plans import app_of, choose, critical
    from gui_rl.flywheel.synthesis import synthesise
    from gui_rl.flywheel.tools import Library
    from gui_rl.report.progress import Progress

    if options.out.exists():
        raise UserError(f"{options.out} exists already: choose another folder")
    prompts = prompts_of(options.form)
    if options.form is None:
        prompts = with_room(prompts)
    source = EpisodeSource(options.source)
    episodes = (source[number] for number in range(len(source)))
    chosen, dropped = choose(episodes, options.least, options.most, options.balance, options.seed)
    config = InterleaveConfig(
        options.variants, options.levels, options.distractors, options.redo, options.parallel, seed=options.seed
    )
    library, specs, written = Library(), {}, {}

    async def run() -> Counter[str]:
        async with contextlib.AsyncExitStack() as opened:
            annotator = await opened.enter_async_context(annotator_of(options.annotator, options.recorded))
            every = opened.enter_context(episode_writer(options.out / "all"))
            few = None  # begun with its first trajectory: a dataset of none is an error
            stage = opened.enter_context(opened.enter_context(Progress()).stage("interleave", len(chosen), unit="task"))
            taken = (source[number] for number in chosen)

            def store(episode: Episode) -> None:
                nonlocal few
                every.add(episode)
                if (bounds := critical(episode)) is not None:
                    few = few or opened.enter_context(episode_writer(options.out / "critical"))
                    few.add(bounds)

            def keep(made: Made) -> None:
                episode = made.episode
                store(episode)
                library.add(made.plan, episode)
                specs.update({s.name: s for s in instantiate(episode.suite, episode.task, episode.seed).tools})

            counts: Counter[str] = Counter()
            if annotator is None:
                client = await opened.enter_async_context(client_of(options.server))
                counts = await interleave(client, prompts, taken, keep, config, stage.advance)
            else:
                for episode in taken:
                    made, tools, found = await synthesise(
                        annotator, episode, app_of(episode), options.variants, options.levels, options.seed
                    )
                    counts += found
                    written.update({tool.name: tool for tool in tools})
                    for one in made:
                        store(with_ids(one, prompts.tokenizer, prompts.context))
                    stage.advance()
            for name, count in (counts + dropped).items():
                if name.rpartition("_")[2] not in KEPT:
                    every.drop(name, count)
            return counts

    counts = asyncio.run(run())
    made = [*library.tools(specs), *written.values()]
    write_lines(options.out / "tools.jsonl", [tool.to_dict() for tool in made])
    print(f"{options.out}: from {len(chosen)} of {len(source)} trajectories")
    print("counts: " + ", ".join(f"{count} {name}" for name, count in sorted((counts + dropped).items())))
    sizes = Counter(tool.granularity for tool in made)
    print("tools: " + ", ".join(f"{sizes[name]} {name}" for name in ("fine", "mid", "coarse")))
    for kind in ("tools", "coarse", "interleaved"):
        if counts[f"{kind}_tried"]:
            print(f"{kind}: {share_kept(counts, kind):.1%} of {counts[f'{kind}_tried']} reached the goal and are kept")


def with_room(prompts: Any) -> Any:
    """gui-tiny's form without its limit: a list of tools is longer than that."""
    return dataclasses.replace(prompts, context=dataclasses.replace(prompts.context, max_prompt_tokens=None))
