"""What the `gui-rl flywheel` commands share: files of JSON lines, prompts, a server, an annotator, a policy."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gui_rl.errors import UserError
from gui_rl.flywheel.annotator import Annotator, Endpoint, EndpointConfig, Recorded

TOKEN_VARIABLE = "GUI_RL_ENV_TOKEN"


@dataclass(frozen=True)
class ServerOptions:
    """Where the worlds are.

    Attributes:
      url: of an environment server (its token in GUI_RL_ENV_TOKEN); by default one is started for the command.
    """

    url: str = ""


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The documents of a file of JSON lines. Raises UserError."""
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: not a file of JSON lines ({error})") from None


def write_lines(path: Path, documents: list[dict[str, Any]]) -> None:
    """Writes a file of JSON lines, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.writing")
    partial.write_text("".join(json.dumps(d, ensure_ascii=False) + "\n" for d in documents), encoding="utf-8")
    os.replace(partial, path)


def prompts_of(form: Path | None) -> Any:
    """The form of the prompts: that of a policy's folder, else gui-tiny's."""
    from gui_rl.prompt.context import TINY_CONTEXT
    from gui_rl.prompt.tokenizer import Tokenizer
    from gui_rl.rollout.agents import Prompts
    from gui_rl.rollout.policy import read_form

    return Prompts(*read_form(form)) if form is not None else Prompts(Tokenizer.load("gui-tiny"), TINY_CONTEXT)


@contextlib.asynccontextmanager
async def client_of(options: ServerOptions) -> AsyncIterator[Any]:
    """A client of the server that was named, or of one that lives as long as the command."""
    from gui_rl.rollout.env_client import EnvClient

    with server_of(options) as (url, token):
        async with EnvClient(url, token) as client:
            yield client


@contextlib.contextmanager
def server_of(options: ServerOptions) -> Iterator[tuple[str, str]]:
    """(url, token) of the server that was named, or of one that lives as long as the block."""
    from env_servers.server import ServerConfig, running_server

    if options.url:
        yield options.url, os.environ.get(TOKEN_VARIABLE, "")
        return
    with running_server(ServerConfig(port=0)) as server:
        yield server.url, server.token


@contextlib.asynccontextmanager
async def annotator_of(config: EndpointConfig, recorded: Path | None) -> AsyncIterator[Annotator | None]:
    """Kept answers, an endpoint, or nobody."""
    if recorded is not None:
        yield Recorded(recorded)
    elif config.url:
        async with Endpoint(config) as annotator:
            yield annotator
            print(f"{annotator.name}: {annotator.cost}")
    else:
        yield None


@contextlib.asynccontextmanager
async def agent_of(folder: Path | None, temperature: float, prompts: Any) -> AsyncIterator[Any]:
    """The policy of a folder behind an engine of this process, or the tasks' script."""
    from gui_rl.rollout import policy
    from gui_rl.rollout.agents import PolicyAgent, ScriptAgent
    from gui_rl.rollout.engine import Engine, engine_config
    from gui_rl.rollout.sampler import SamplingParams

    if folder is None:
        yield ScriptAgent(prompts)
        return
    loaded = policy.load(folder)
    engine = Engine(loaded.cfg, loaded.params, loaded.tokenizer, engine_config(loaded.context))
    yield PolicyAgent(engine, prompts, SamplingParams(temperature))
    await engine.close()
