"""`gui-rl flywheel import` and `export`: public trajectories into a dataset, and a dataset into their forms."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro

from gui_rl.commands.parts import annotator_of, prompts_of
from gui_rl.flywheel.annotator import EndpointConfig


@dataclass(frozen=True)
class ImportOptions:
    """Public trajectories into a dataset, cleaned by UI-MOPD's rules.

    Attributes:
      kind: the form of the source.
      source: its folder (unigui), JSON-lines file (agentnet), file or folder (androidcontrol).
      out: dataset to write.
      form: folder of the policy whose vocabulary and context make the prompts; by default gui-tiny's.
      judge: the model that checks that every sub-task is done; without a url the source's own word counts.
      recorded: folder of a judge's kept answers, to play them back.
      quiet: do not print a line for each trajectory that is dropped.
    """

    kind: tyro.conf.Positional[Literal["unigui", "agentnet", "androidcontrol"]]
    source: tyro.conf.Positional[Path]
    out: tyro.conf.Positional[Path]
    form: Path | None = None
    judge: EndpointConfig = EndpointConfig()
    recorded: Path | None = None
    quiet: bool = False


@dataclass(frozen=True)
class ExportOptions:
    """A dataset into a public form.

    Attributes:
      kind: the form to write.
      source: dataset.
      out: folder (unigui) or JSON-lines file (agentnet) to write.
    """

    kind: tyro.conf.Positional[Literal["unigui", "agentnet"]]
    source: tyro.conf.Positional[Path]
    out: tyro.conf.Positional[Path]


def import_(options: ImportOptions) -> None:
    """See `ImportOptions`."""
    from gui_rl.data.importers import agentnet, androidcontrol, import_all, unigui
    from gui_rl.data.samples import with_ids
    from gui_rl.data.schema import Episode
    from gui_rl.data.store import episode_writer
    from gui_rl.flywheel.annotator import AnnotatorError
    from gui_rl.flywheel.judge import verified

    readers = {"unigui": unigui.read, "agentnet": agentnet.read, "androidcontrol": androidcontrol.read}
    prompts = prompts_of(options.form)

    async def run() -> Any:
        loop = asyncio.get_running_loop()
        async with annotator_of(options.judge, options.recorded) as judge:
            with episode_writer(options.out) as writer:
                extra: dict[str, int] = {}

                def keep(episode: Episode) -> None:
                    reason = ""
                    try:
                        if judge is not None:
                            done = asyncio.run_coroutine_threadsafe(verified(judge, episode), loop).result()
                            reason = "" if done else "sub-tasks not done"
                            episode = done or episode
                        if not reason:
                            writer.add(with_ids(episode, prompts.tokenizer, prompts.context))
                    except AnnotatorError as error:
                        reason = "no verdict"
                        say(f"{reason}: {episode.id}: {error}")
                    except ValueError as error:
                        reason = "prompt too long"
                        say(f"{reason}: {error}")
                    if reason:
                        extra[reason] = extra.get(reason, 0) + 1

                def say(line: str) -> None:
                    if not options.quiet:
                        print(f"dropped: {line}")

                counts = await asyncio.to_thread(import_all, readers[options.kind](options.source), keep, say)
                counts.update(extra)
                counts["kept"] -= sum(extra.values())
                for reason, count in counts.items():
                    if reason not in ("kept", "steps"):
                        writer.drop(reason, count)
                return counts

    counts = asyncio.run(run())
    print(f"{options.out}: " + ", ".join(f"{count} {name}" for name, count in sorted(counts.items())))


def export(options: ExportOptions) -> None:
    """See `ExportOptions`."""
    from gui_rl.data.importers import agentnet, unigui
    from gui_rl.data.store import EpisodeSource

    source = EpisodeSource(options.source)
    write = {"unigui": unigui.export, "agentnet": agentnet.export}[options.kind]
    counts = write((source[index] for index in range(len(source))), options.out)
    print(f"{options.out}: " + ", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
