"""Runs an environment server: `serve` in this process, `running_server` as a child of it.

In: a `ServerConfig` (also as command line: `python -m env_servers.server --port 0`). Out: a server on a socket. Its
first line of output is `gui-rl environment server at URL`, printed once it accepts requests. SIGTERM drains it: no new
sessions (/readyz says so), running episodes have `drain_s` to end, then everything goes, its browser with it. SIGINT
ends it at once, and so does the end of standard input (`while_stdin_open`).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import ipaddress
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

import tyro
import uvicorn
import uvloop

from .adapters import register
from .browser import find_chromium
from .children import GREETING, START_S, TOKEN_VARIABLE, command, environment, greeted
from .errors import UserError
from .front import serve_front
from .leases import Leases
from .logs import write_to_stderr
from .routes import ServerConfig, create_app

__all__ = ["RunningServer", "ServerConfig", "create_app", "main", "running_server", "serve"]

_LAST_REQUESTS_S = 5  # for requests in flight when the server ends


class _Server(uvicorn.Server):
    """uvicorn that says where it is, once it accepts requests, and lets episodes end after SIGTERM."""

    def __init__(self, config: uvicorn.Config, lines: list[str], store: Leases, drain_s: float) -> None:
        super().__init__(config)
        self._lines, self._store, self._drain_s = lines, store, drain_s
        self._draining: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        if self.started:
            print(*self._lines, sep="\n", flush=True)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if sig == signal.SIGTERM and self.started and self._draining is None and not self.should_exit:
            self._loop.call_soon_threadsafe(self._begin_to_drain)
        else:
            super().handle_exit(sig, frame)

    def _begin_to_drain(self) -> None:
        self._draining = self._draining or asyncio.create_task(self._drain())

    async def _drain(self) -> None:
        await self._store.drain(self._drain_s)
        self.should_exit = True


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(
            socket.IPPROTO_TCP, socket.TCP_NODELAY, 1
        )  # else a reply may wait 40 ms for an acknowledgement
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(512)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"cannot listen on {host}:{port} ({reason}); choose another with --port, or --port 0") from None
    return bound


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def serve(config: ServerConfig | None = None) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises UserError for a port in use, a missing browser, or a door that is open to other machines.
    """
    config = config or ServerConfig()
    if config.open and not _loopback(config.host):
        raise UserError(
            f"--open lets anybody in, and {config.host} can be reached from outside: leave it out and choose a token "
            f"with {TOKEN_VARIABLE}, or listen on 127.0.0.1"
        )
    if config.suite and config.workers > 1:
        raise UserError(
            "a world's slots belong to one process: leave out --workers, or serve it on a server of its own"
        )
    for located in config.suite:
        register(located)
    find_chromium()
    named = {"worker": config.worker} if config.workers == 1 else {}
    write_to_stderr(config.log_level, **named)
    token = config.token or os.environ.get(TOKEN_VARIABLE, "")
    made_up = not (token or config.open)
    config = dataclasses.replace(config, token=token or ("" if config.open else secrets.token_urlsafe(24)))
    bound = _bind(config.host, config.port)
    host = f"[{config.host}]" if ":" in config.host else config.host
    lines = [f"{GREETING}http://{host}:{bound.getsockname()[1]}"]
    if made_up:
        lines.append(f"token: {config.token} (set {TOKEN_VARIABLE} to choose one)")
    if config.while_stdin_open:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(serve_front(config, bound, lines) if config.workers > 1 else _run(config, bound, lines))
        except KeyboardInterrupt:
            pass  # all has ended already, and the signal is raised again
        finally:
            bound.close()


async def _run(config: ServerConfig, bound: socket.socket, lines: list[str]) -> None:
    app = create_app(config)
    settings = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=_LAST_REQUESTS_S,
        timeout_keep_alive=75,
    )
    server = _Server(settings, lines, app.state.store, config.drain_s)
    with contextlib.suppress(SystemExit):  # uvicorn's way to say that the start failed
        await server.serve([bound])
    if not server.started:
        raise app.state.why_not or UserError("the environment server could not start; the reason is above")


def _end_with_stdin() -> None:
    while os.read(0, 4096):  # not sys.stdin, whose lock this thread would still hold when the interpreter ends
        pass
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(30)  # far more than an end takes: the signal came before anyone listened for it, or is ignored
    os._exit(1)


@dataclass(frozen=True)
class RunningServer:
    """A server in a child process."""

    url: str
    token: str
    pid: int


@contextlib.contextmanager
def running_server(config: ServerConfig | None = None) -> Iterator[RunningServer]:
    """A server in a process of its own for as long as the block lasts; it also ends if this process is killed.

    On a free port unless `config` names one. Raises UserError with the server's own words if it does not start.
    """
    config = config or ServerConfig(port=0)
    token = config.token or secrets.token_urlsafe(24)
    config = dataclasses.replace(config, token="", while_stdin_open=True)
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(
            command(config),
            env=environment(token),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        try:
            yield RunningServer(_url_of(child, errors), token, child.pid)
        finally:
            _end(child)


def _url_of(child: subprocess.Popen, errors: tempfile.TemporaryFile) -> str:
    watchdog = threading.Timer(START_S, child.kill)
    watchdog.start()
    try:
        line = child.stdout.readline()
    finally:
        watchdog.cancel()
    if url := greeted(line):
        return url
    child.wait()
    errors.seek(0)
    words = errors.read().decode(errors="replace").strip().splitlines() or [f"exit code {child.returncode}"]
    reason = next((line for line in words if line.startswith("error: ")), words[-1])
    raise UserError(f"the environment server did not start: {reason.removeprefix('error: ')}")


def _end(child: subprocess.Popen) -> None:
    with contextlib.suppress(OSError):
        child.stdin.close()
    try:
        child.wait(30)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    child.stdout.close()


def main() -> None:
    """Command line: `python -m env_servers.server --help`."""
    try:
        serve(tyro.cli(ServerConfig, prog="env_servers.server", description="Serve environments over HTTP."))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
