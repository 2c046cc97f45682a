"""`gui-rl flywheel grounding`: grounding data of five kinds, each with its own count, and contact sheets.

In: seeds, datasets, tutorials, judges. Out: a dataset of one-turn episodes (suite `grounding-KIND`), beside it
OUT-KIND.png to look at and OUT-tutorials.jsonl with the question-place pairs.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

from gui_rl.commands.parts import annotator_of, prompts_of, write_lines
from gui_rl.errors import UserError
from gui_rl.flywheel.annotator import EndpointConfig

DROPS = ("given up", "not unique", "repeated", "covers the screen", "click outside the box", "possible", "no answer")
"""Reasons that the dataset's card counts; of the rest the command's last lines tell."""


@dataclass(frozen=True)
class GroundingOptions:
    """Grounding data.

    Attributes:
      out: dataset to write.
      count: synthesised screenshots.
      windows: desktops composed of them.
      queries: queries of a screenshot at most.
      infeasible: queries paired with a screenshot at random, before judges look at them.
      trajectories: datasets whose clicks are mined.
      tutorials: .html, .md, .srt or .vtt files that are mined.
      seed: of the first screenshot.
      judge: a model behind an endpoint that reads the tutorials and is asked about infeasible queries, beside the
        exact reading and the exact judge.
      judges: more models behind the same endpoint; all of them have to agree on what is infeasible.
      recorded: folder of one judge's kept answers, to play them back.
      form: folder of the policy whose vocabulary and context make the prompts; what is over its max_prompt_tokens is
        dropped and counted. By default gui-tiny's, without that limit.
      sheet: queries on a contact sheet; 0 draws none.
    """

    out: tyro.conf.Positional[Path]
    count: int = 20
    windows: int = 4
    queries: int = 4
    infeasible: int = 20
    trajectories: tuple[Path, ...] = ()
    tutorials: tuple[Path, ...] = ()
    seed: int = 0
    judge: EndpointConfig = EndpointConfig()
    judges: tuple[str, ...] = ()
    recorded: Path | None = None
    form: Path | None = None
    sheet: int = 12


def grounding(options: GroundingOptions) -> None:
    """Runs the command."""
    if options.count < 1 or options.windows < 0 or options.queries < 1:
        raise UserError("--count and --queries are at least 1, --windows at least 0")
    if options.judges and not options.judge.url:
        raise UserError("--judges names more models of an endpoint: name it with --judge.url and --judge.model")
    asyncio.run(_run(options))


async def _run(options: GroundingOptions) -> None:
    from env_servers.browser import Browser
    from gui_rl.data.samples import with_ids
    from gui_rl.data.store import EpisodeSource, episode_writer
    from gui_rl.flywheel import mining, pages, shots, windows
    from gui_rl.flywheel.annotator import Exact
    from gui_rl.report.progress import Progress

    prompts, rng = prompts_of(options.form), np.random.default_rng([options.seed, 3])
    context = prompts.context if options.form else dataclasses.replace(prompts.context, max_prompt_tokens=None)
    pairs = [pair for path in options.tutorials for pair in mining.pairs_by_rule(path)]
    sources = [EpisodeSource(path) for path in options.trajectories]
    exact = {"boxes": "exact", "query": "exact"}
    counts: dict[str, Counter] = {kind: Counter() for kind in ("synthesis", "trajectories", "tutorials", "infeasible")}
    kinds: Counter = Counter()
    kept: dict[str, list] = {}
    async with contextlib.AsyncExitStack() as opened:
        judges = [Exact({"infeasible": mining.possible})]
        for model in (options.judge.model, *options.judges):
            config = dataclasses.replace(options.judge, model=model)
            judge = await opened.enter_async_context(annotator_of(config, options.recorded))
            judges += [judge] if judge is not None else []
        writer = opened.enter_context(episode_writer(options.out))

        def put(episode) -> None:
            kind = episode.suite.removeprefix("grounding-")
            try:
                writer.add(with_ids(episode, prompts.tokenizer, context))
            except ValueError:  # with_ids: the screenshot does not fit the form's prompts
                writer.drop(f"{kind}: over the form's max_prompt_tokens")
                return
            kinds.update([f"{kind}/{episode.task}"])
            if len(kept.setdefault(kind, [])) < options.sheet:
                kept[kind].append(episode)

        browser = await opened.enter_async_context(Browser())
        stage = opened.enter_context(opened.enter_context(Progress()).stage("grounding", options.count, unit="screen"))
        made, queries = [], []
        seeds = range(options.seed, options.seed + options.count)
        async for shot in pages.synthesise(browser, seeds, counts["synthesis"]):
            made.append(shot)
            for number, query in enumerate(shots.queries_of(shot, options.queries, rng)):
                queries.append(query)
                put(shots.episode_of("synthesis", shot, query, number, exact))
            stage.advance()
        for number in range(options.windows if made else 0):
            chosen = rng.permutation(len(made))[: int(rng.integers(2, 7))]
            desktop = windows.compose([made[k] for k in chosen], options.seed + number)
            for index, query in enumerate(shots.queries_of(desktop, options.queries, rng)):
                put(shots.episode_of("windows", desktop, query, index, exact))
        for source in sources:
            for episode in mining.mine((source[k] for k in range(len(source))), counts["trajectories"]):
                put(episode)
        for judge in judges[1:]:
            for path in options.tutorials:
                pairs += await mining.pairs_by_annotator(judge, path, counts["tutorials"])
        counts["tutorials"]["pairs"] = len(pairs)
        for episode in mining.located(pairs, made):
            counts["tutorials"]["on a screen"] += 1
            put(episode)
        asked = [queries[k] for k in rng.permutation(len(queries))[: options.infeasible]]
        for episode in await mining.infeasible(made, asked, judges, rng, counts["infeasible"]):
            put(episode)
        for kind, counter in counts.items():
            for reason, count in counter.items():
                if reason in DROPS and (kind, reason) != ("synthesis", "not unique"):  # elements, not queries
                    writer.drop(f"{kind}: {reason}", count)
    for kind, episodes in kept.items():
        shots.contact_sheet(options.out.with_name(f"{options.out.name}-{kind}.png"), episodes)
    if pairs:
        write_lines(
            options.out.with_name(f"{options.out.name}-tutorials.jsonl"), [dataclasses.asdict(p) for p in pairs]
        )
    print(f"{options.out}: " + ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())))
    for kind, counter in counts.items():
        if counter:
            print(f"  {kind}: " + ", ".join(f"{count} {reason}" for reason, count in sorted(counter.items())))
