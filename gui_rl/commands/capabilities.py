"""`gui-rl flywheel knowledge` and `thoughts`: questions with answers, thoughts and roles, as datasets to train on."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

from gui_rl.commands.parts import ServerOptions, annotator_of, client_of, prompts_of
from gui_rl.errors import UserError
from gui_rl.flywheel.annotator import AnnotatorError, EndpointConfig, RubbishError

if TYPE_CHECKING:
    from gui_rl.data.schema import Episode

AT_A_TIME = 8
"""Episodes that are annotated at a time."""


@dataclass(frozen=True)
class KnowledgeOptions:
    """Questions with answers: from documentation, and about the steps of trajectories.

    Attributes:
      out: dataset to write.
      documents: Markdown, HTML or text file, or a folder of them: questions on passages and pictures, by the annotator.
      device: what the documents' pictures show.
      trajectories: dataset of trajectories: what a step changes, by the annotator, or exactly from the worlds' states,
        and then also what has been done, what is next and which element.
      questions: on a passage or picture, at most.
      annotator: the model that is asked; without a url and recorded answers, trajectories are annotated exactly.
      recorded: folder of an annotator's kept answers, to play them back.
      form: folder of the policy whose vocabulary and context make the prompts; by default gui-tiny's.
      server: where the worlds are.
    """

    out: tyro.conf.Positional[Path]
    documents: Path | None = None
    device: Literal["mobile", "desktop", "web"] = "web"
    trajectories: Path | None = None
    questions: int = 4
    annotator: EndpointConfig = EndpointConfig()
    recorded: Path | None = None
    form: Path | None = None
    server: ServerOptions = field(default_factory=ServerOptions)


@dataclass(frozen=True)
class ThoughtsOptions:
    """Trajectories with a thought at every step, or told in roles.

    Attributes:
      source: dataset of trajectories.
      out: dataset to write.
      roles: what Manager, Worker, Reflector and Notetaker say, an episode for each, in place of thoughts.
      brief: exact thoughts in few words, for small policies; by default where no form is named.
      annotator: the model that thinks; without a url and recorded answers, the worlds' states say what is true.
      recorded: folder of an annotator's kept answers, to play them back.
      form: folder of the policy whose vocabulary and context make the prompts; by default gui-tiny's.
      server: where the worlds are.
    """

    source: tyro.conf.Positional[Path]
    out: tyro.conf.Positional[Path]
    roles: bool = False
    brief: bool | None = None
    annotator: EndpointConfig = EndpointConfig()
    recorded: Path | None = None
    form: Path | None = None
    server: ServerOptions = field(default_factory=ServerOptions)


def knowledge(options: KnowledgeOptions) -> None:
    """See `KnowledgeOptions`."""
    from gui_rl.data.store import EpisodeSource, episode_writer
    from gui_rl.flywheel import knowledge as made
    from gui_rl.flywheel.documents import read_documents

    if options.documents is None and options.trajectories is None:
        raise UserError("name --documents or --trajectories (or both): there is nothing to ask about")
    counts: Counter[str] = Counter()
    passages = read_documents(options.documents, counts) if options.documents is not None else []
    source = EpisodeSource(options.trajectories) if options.trajectories is not None else ()
    prompts = prompts_of(options.form)

    async def run() -> list[made.Pair]:
        pairs: list[made.Pair] = []
        async with _annotating(options, exact=source != ()) as (annotator, client):
            if passages and annotator is None:
                raise UserError(
                    "documents need an annotator: name --annotator.url and --annotator.model, or --recorded"
                )
            if passages:
                pairs += await made.document_pairs(annotator, passages, options.device, counts, options.questions)

            async def one(episode: Episode) -> list[made.Pair]:
                if client is None:
                    return await made.world_pairs(annotator, episode, counts)
                witnessed = await _witnessed(client, episode)
                steps = list(made.step_pairs(witnessed))
                counts["step"] += len(steps)
                return steps + await made.world_pairs(made.EXACT, episode, counts, witnessed)

            await _each(source, one, pairs.extend, counts)
        return pairs

    pairs = asyncio.run(run())
    with episode_writer(options.out) as writer:
        made.write_pairs(pairs, prompts, writer.add, counts)
        for reason in _LEFT_OUT & counts.keys():
            writer.drop(reason, counts[reason])
    _tell(options.out, counts)


def thoughts(options: ThoughtsOptions) -> None:
    """See `ThoughtsOptions`."""
    from gui_rl.data.samples import by_role
    from gui_rl.data.store import EpisodeSource, episode_writer
    from gui_rl.flywheel import role_data
    from gui_rl.flywheel.thoughts import exact, with_thoughts

    source, prompts, counts = EpisodeSource(options.source), prompts_of(options.form), Counter()
    brief = options.form is None if options.brief is None else options.brief

    async def run() -> None:
        async with _annotating(options, exact=True) as (annotator, client):

            async def one(episode: Episode) -> list[Episode]:
                witnessed = None if client is None else await _witnessed(client, episode)
                if options.roles:
                    who = annotator or role_data.EXACT
                    return by_role(await role_data.with_roles(who, episode, prompts, witnessed))
                return [await with_thoughts(annotator or exact(brief), episode, prompts, witnessed)]

            def keep(episodes: list[Episode]) -> None:
                counts["kept"] += 1
                for episode in episodes:
                    writer.add(episode)

            with episode_writer(options.out) as writer:
                await _each(source, one, keep, counts)
                for reason in _LEFT_OUT & counts.keys():
                    writer.drop(reason, counts[reason])

    asyncio.run(run())
    _tell(options.out, counts)


_LEFT_OUT = frozenset(
    (
        *(f"{fault} {kind}" for fault in ("rubbish", "unanswered") for kind in ("qa", "vqa", "world")),
        *("unsaid world", "rubbish", "unanswered", "not the same again", "too long"),
    )
)
"""Counts of what is left out; the card has them too."""


class _Elsewhere(Exception):
    """An episode that the worlds did not play again."""


async def _witnessed(client: Any, episode: Episode) -> Any:
    from gui_rl.flywheel.witness import witness

    try:
        return await witness(client, episode)
    except AnnotatorError as error:
        raise _Elsewhere(str(error)) from error


@contextlib.asynccontextmanager
async def _annotating(options: KnowledgeOptions | ThoughtsOptions, exact: bool) -> Any:
    """(the annotator that was named, a client of the worlds where none was and they are asked)."""
    async with contextlib.AsyncExitStack() as opened:
        annotator = await opened.enter_async_context(annotator_of(options.annotator, options.recorded))
        client = None
        if annotator is None and exact:
            client = await opened.enter_async_context(client_of(options.server))
        yield annotator, client


async def _each(source: Any, one: Callable, keep: Callable[[Any], None], counts: Counter[str]) -> None:
    """`one` of every episode, some at a time, kept in their order; one that fails is counted and named."""
    for first in range(0, len(source), AT_A_TIME):
        episodes = [source[index] for index in range(first, min(first + AT_A_TIME, len(source)))]
        found = await asyncio.gather(*map(one, episodes), return_exceptions=True)
        for result in found:
            match result:
                case _Elsewhere():
                    counts["not the same again"] += 1
                case AnnotatorError():
                    counts["rubbish" if isinstance(result, RubbishError) else "unanswered"] += 1
                case UserError():
                    raise result
                case ValueError():
                    counts["too long"] += 1
                case BaseException():
                    raise result
                case _:
                    keep(result)
                    continue
            print(f"left out: {result}")


def _tell(out: Path, counts: Counter[str]) -> None:
    print(f"{out}: " + ", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
