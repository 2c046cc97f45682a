"""Server processes as children: how one is started and greeted, and a `Worker` that is started again when it ends.

In: a `ServerConfig`. Out: a process that serves on a port of its own, ends with its parent (its standard input closes)
and has said where it is. A worker that ends, or does not answer for `SILENT_S`, is replaced; its sessions go with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import sys
import time
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp

from .errors import UserError
from .logs import say

if TYPE_CHECKING:
    from .routes import ServerConfig

TOKEN_VARIABLE = "GUI_RL_ENV_TOKEN"
GREETING = "gui-rl environment server at "
START_S = 60.0
HEALTH_EVERY_S = 2.0
SILENT_S = 30.0  # without an answer to /livez
PAUSES_S = (0.1, 30.0)  # between starts of a worker that ends at once: the first, doubled each time, and the longest
HEALTHY_AFTER_S = 20.0


def command(config: ServerConfig) -> list[str]:
    """The command line of a server process with this configuration (the token goes by `environment`)."""
    words = [sys.executable, "-m", "env_servers.server"]
    for field in dataclasses.fields(config):
        value, option = getattr(config, field.name), field.name.replace("_", "-")
        if value != field.default:
            given = value if isinstance(value, tuple) else (value,)
            words += [f"--{option}"] if value is True else [f"--{option}", *map(str, given)]
    return words


def environment(token: str) -> dict[str, str]:
    """The environment of a server process: this package is importable, the token is known."""
    root = str(Path(__file__).resolve().parents[1])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, TOKEN_VARIABLE: token, "PYTHONPATH": os.pathsep.join(paths)}


def greeted(line: str) -> str | None:
    """The URL in a server's first line of output; None if it is something else."""
    return line.removeprefix(GREETING).strip() if line.startswith(GREETING) else None


class Worker:
    """One server process behind the front. url: where it serves, None while it does not. restarts: how often it had to
    be started again."""

    def __init__(self, config: ServerConfig, http: aiohttp.ClientSession) -> None:
        self.index, self.url, self.restarts = config.worker, None, 0
        self._command, self._environment = command(dataclasses.replace(config, token="")), environment(config.token)
        self._http, self._ending = http, False
        self._process: Process | None = None

    async def start(self) -> None:
        """Start the process and wait until it serves; raises UserError if it does not."""
        self._process = await asyncio.create_subprocess_exec(
            *self._command, env=self._environment, stdin=PIPE, stdout=PIPE, start_new_session=True
        )  # Ctrl-C is for the front alone, which ends its workers
        line = b""
        with contextlib.suppress(TimeoutError):
            line = await asyncio.wait_for(self._process.stdout.readline(), START_S)
        self.url = greeted(line.decode(errors="replace"))
        if self.url is None:
            await self.kill()
            raise UserError(f"worker {self.index} of the environment server did not start: its reason is above")

    async def keep(self) -> None:
        """Start the process again whenever it ends, until `drain` or `end` is called; then until it has ended."""
        pause, longest = PAUSES_S
        while True:
            born = time.monotonic()
            if self.url:
                await self._watch()
                self.url = None
            if self._ending:
                return
            self.restarts += 1
            say("error", "worker ended; it is started again", worker=self.index, code=self._process.returncode)
            pause = PAUSES_S[0] if time.monotonic() - born > HEALTHY_AFTER_S else min(2 * pause, longest)
            await asyncio.sleep(pause)
            with contextlib.suppress(UserError):
                await self.start()

    async def _watch(self) -> None:
        """Returns when the process has ended; ends one that has been silent for too long."""
        heard = time.monotonic()
        while True:
            try:
                await asyncio.wait_for(self._process.wait(), HEALTH_EVERY_S)
                return
            except TimeoutError:
                if await self._answers():
                    heard = time.monotonic()
                elif time.monotonic() - heard > SILENT_S:
                    say("error", "worker does not answer; it is killed", worker=self.index)
                    await self.kill()

    async def _answers(self) -> bool:
        try:
            async with self._http.get(f"{self.url}/livez", timeout=aiohttp.ClientTimeout(SILENT_S / 2)) as reply:
                return reply.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    def drain(self) -> None:
        """Let the worker's episodes end, and then the worker; `keep` returns when it has."""
        self._ending = True
        self._signal("terminate")

    async def end(self, patience_s: float = 20.0) -> None:
        """End the worker now, with everything that it holds."""
        self._ending = True
        if self._process is None:
            return
        with contextlib.suppress(OSError, RuntimeError):
            self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), patience_s)
        except TimeoutError:
            await self.kill()

    async def kill(self) -> None:
        """Ends it at once, and waits until it is gone."""
        self._signal("kill")
        await self._process.wait()

    def _signal(self, name: str) -> None:
        with contextlib.suppress(ProcessLookupError):
            if self._process is not None and self._process.returncode is None:
                getattr(self._process, name)()
