"""Steps a second of one session against BrowserGym, on the same MiniWoB++ page in the same run.

A step is a click at a point, the screenshot of the settled page, and its state. Ours goes over HTTP to a server in
another process; BrowserGym is called in its own process. It is measured as it comes (with the pauses that it makes for
MiniWoB++: 100 ms a Playwright call, 500 ms before an observation) and once more with every pause set to nothing.

BrowserGym is installed into a virtual environment below .cache/ on the first run, and drives the system's Chromium.

python -m benchmarks.env_browsergym
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import subprocess
import venv
from collections.abc import Iterator
from pathlib import Path

from benchmarks.record import Figure, alternate, rate_figure, seconds, write
from env_servers.browser import find_chromium
from env_servers.errors import UserError
from env_servers.server import ServerConfig, running_server
from env_servers.suites import miniwob
from gui_rl.rollout.env_client import EnvClient, Session

PACKAGES = ("browsergym-core==0.14.3", "browsergym-miniwob==0.14.3")
FOLDER = Path(__file__).resolve().parents[1] / ".cache" / "browsergym"
TASK, SEED = "enter-text", 0
STEPS, RUNS, BAR = 10, 5, 10.0
PEER = """
import json, sys, time
import playwright.sync_api as sync
from browsergym.core.action.highlevel import HighLevelActionSet
from browsergym.core.env import BrowserEnv
from browsergym.miniwob import all as tasks

chromium, pages, task, paused = json.loads(sys.argv[1])
launch = sync.BrowserType.launch
sync.BrowserType.launch = lambda self, **options: launch(self, **{**options, "executable_path": chromium})
(made,) = [t for t in vars(tasks).values() if getattr(t, "subdomain", "") == task]
pauses = {} if paused else {"slow_mo": 0, "pre_observation_delay": 0}
actions = HighLevelActionSet(["coord"]).to_python_code
env = BrowserEnv(made, {"base_url": pages}, action_mapping=actions, **pauses)
observation, _ = env.reset(seed=0)
print("ready", flush=True)
for line in sys.stdin:
    started = time.perf_counter()
    for _ in range(int(line)):
        observation, reward, terminated, truncated, info = env.step("mouse_click(60, 100)")
        assert observation["screenshot"].size and not terminated and not observation["last_action_error"]
    print(time.perf_counter() - started, flush=True)
env.close()
"""


def side_environment() -> Path:
    """Python of the virtual environment with BrowserGym; UserError where it cannot be installed."""
    python, done = FOLDER / "bin" / "python", FOLDER / "complete"
    if not done.exists() or done.read_text() != " ".join(PACKAGES):
        venv.create(FOLDER, with_pip=True, clear=True)
        installed = subprocess.run(
            [python, "-m", "pip", "install", "--quiet", *PACKAGES], capture_output=True, text=True
        )
        if installed.returncode:
            raise UserError(f"BrowserGym cannot be installed: {installed.stderr.strip().splitlines()[-1]}")
        done.write_text(" ".join(PACKAGES))
    return python


class Peer:
    """BrowserGym in its own process. `paused`: with the pauses that it comes with."""

    def __init__(self, python: Path, paused: bool) -> None:
        told = json.dumps([find_chromium(), f"file://{miniwob.folder()}/", TASK, paused])
        self.process = subprocess.Popen(
            [python, "-c", PEER, told], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._line()

    def _line(self) -> str:
        line = self.process.stdout.readline()
        if not line:
            raise UserError("BrowserGym ended; its own words are above")
        return line

    def play(self) -> float:
        """Seconds of `STEPS` steps."""
        self.process.stdin.write(f"{STEPS}\n")
        self.process.stdin.flush()
        return float(self._line())

    def close(self) -> None:
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


@contextlib.contextmanager
def ours() -> Iterator[tuple[asyncio.Runner, Session]]:
    """A session on a server of its own."""
    with running_server(ServerConfig(port=0)) as server, asyncio.Runner() as runner:
        client = EnvClient(server.url, server.token)
        (session,) = runner.run(client.create("miniwob", f"miniwob/{TASK}", SEED))
        try:
            yield runner, session
        finally:
            runner.run(client.aclose())


async def steps(session: Session) -> None:
    """`STEPS` clicks into the page, none of which ends the episode."""
    click = {"name": "browser_use", "arguments": {"action": "click", "coordinate": [250, 330]}}
    for _ in range(STEPS):
        reply = await session.step(click)
        if reply.error or reply.terminated or not reply.observation.screenshot or not reply.observation.state_hash:
            raise RuntimeError(f"a step went wrong: {reply.error}")


def main() -> None:
    """Measures both; writes results/env_browsergym.json."""
    python = side_environment()
    figures: list[Figure] = []
    with ours() as (runner, session):

        def mine() -> float:
            runner.run(session.reset())
            return seconds(lambda: runner.run(steps(session)))

        for what, paused, bar in (("as it comes", True, BAR), ("with every pause set to nothing", False, None)):
            peer = Peer(python, paused)
            try:
                times = alternate(mine, peer.play, RUNS)
            finally:
                peer.close()
            figure = rate_figure(f"MiniWoB++ {TASK}, one session, BrowserGym {what}", "steps/s", STEPS, *times, bar)
            figures.append(dataclasses.replace(figure, note=f"click, settled screenshot, state; {' '.join(PACKAGES)}"))
    write("env_browsergym", figures)


if __name__ == "__main__":
    main()
