"""Runs an environment server: `serve` in this process, `running_server` as a child of it.

In: a `ServerConfig` (also as command line: `python -m env_servers.server --port 0`). Out: a server on a socket. Its
first line of output is `gui-rl environment server at URL`, printed once it accepts requests; SIGTERM ends it after the
requests in flight, its browser with it.
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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import tyro
import uvicorn

from .browser import find_chromium
from .errors import UserError
from .routes import ServerConfig, create_app

__all__ = ["RunningServer", "ServerConfig", "create_app", "main", "running_server", "serve"]

TOKEN_VARIABLE = "GUI_RL_ENV_TOKEN"
_GREETING = "gui-rl environment server at "
_START_S = 60.0


class _Server(uvicorn.Server):
    """uvicorn that says where it is, once it accepts requests."""

    def __init__(self, config: uvicorn.Config, lines: list[str]) -> None:
        super().__init__(config)
        self._lines = lines

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            print(*self._lines, sep="\n", flush=True)


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
    find_chromium()
    token = config.token or os.environ.get(TOKEN_VARIABLE, "")
    made_up = not (token or config.open)
    config = dataclasses.replace(config, token=token or ("" if config.open else secrets.token_urlsafe(24)))
    bound = _bind(config.host, config.port)
    host = f"[{config.host}]" if ":" in config.host else config.host
    lines = [f"{_GREETING}http://{host}:{bound.getsockname()[1]}"]
    if made_up:
        lines.append(f"token: {config.token} (set {TOKEN_VARIABLE} to choose one)")
    if config.while_stdin_open:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    settings = uvicorn.Config(
        create_app(config),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=max(1, round(config.drain_s)),
        timeout_keep_alive=75,
    )
    try:
        asyncio.run(_run(_Server(settings, lines), bound))
    except KeyboardInterrupt:
        pass  # uvicorn has drained already and raises the signal again
    finally:
        bound.close()


async def _run(server: _Server, bound: socket.socket) -> None:
    await server.serve([bound])
    if not server.started:
        raise UserError("the environment server could not start; the reason is above")


def _end_with_stdin() -> None:
    while sys.stdin.buffer.read(4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


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
    root = str(Path(__file__).resolve().parents[1])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, TOKEN_VARIABLE: token, "PYTHONPATH": os.pathsep.join(paths)}
    config = dataclasses.replace(config, token="", while_stdin_open=True)
    command = [sys.executable, "-m", "env_servers.server", *_arguments(config)]
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        try:
            yield RunningServer(_url_of(child, errors), token, child.pid)
        finally:
            _end(child, config.drain_s)


def _arguments(config: ServerConfig) -> list[str]:
    out = []
    for field in dataclasses.fields(config):
        value, option = getattr(config, field.name), field.name.replace("_", "-")
        if value != field.default:
            out += [f"--{option}"] if value is True else [f"--{option}", str(value)]
    return out


def _url_of(child: subprocess.Popen, errors: tempfile.TemporaryFile) -> str:
    watchdog = threading.Timer(_START_S, child.kill)
    watchdog.start()
    try:
        line = child.stdout.readline()
    finally:
        watchdog.cancel()
    if line.startswith(_GREETING):
        return line.removeprefix(_GREETING).strip()
    child.wait()
    errors.seek(0)
    words = errors.read().decode(errors="replace").strip().splitlines()
    raise UserError(f"the environment server did not start: {words[-1] if words else f'exit code {child.returncode}'}")


def _end(child: subprocess.Popen, patience_s: float) -> None:
    child.terminate()
    try:
        child.wait(patience_s + 20)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    for pipe in (child.stdin, child.stdout):
        with contextlib.suppress(OSError):
            pipe.close()


def main() -> None:
    """Command line: `python -m env_servers.server --help`."""
    try:
        serve(tyro.cli(ServerConfig, prog="env_servers.server", description="Serve environments over HTTP."))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
