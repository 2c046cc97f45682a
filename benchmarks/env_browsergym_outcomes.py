"""The same clicks on the same MiniWoB++ pages and seeds, through ours and through BrowserGym: do they end alike?

25 tasks (the suite `miniwob25`), 20 seeds each. The clicks are our script's where a task has one that BrowserGym's
coordinates can carry out (choose-list's cannot), else the page's elements in turn, the first eight; they are written as
action strings by our codec and played in both. BrowserGym draws the page's own seed from its seed; here its page gets
the seed itself, and pictures of ordinary size, so that both show the same page.

python -m benchmarks.env_browsergym_outcomes
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from dataclasses import dataclass

import tyro

from benchmarks.env_browsergym import side_environment
from benchmarks.record import Figure, write
from env_servers.adapters.browsergym import to_string
from env_servers.browser import find_chromium
from env_servers.errors import UserError
from env_servers.protocol.actions import from_pixels
from env_servers.server import ServerConfig, running_server
from env_servers.suites import miniwob
from gui_rl.rollout.env_client import EnvClient

MOST = 8  # clicks where a task has no script
PEER = """
import json, sys
from types import SimpleNamespace
import playwright.sync_api as sync
from browsergym.core.action.highlevel import HighLevelActionSet
from browsergym.core.env import BrowserEnv
from browsergym.miniwob import all as tasks

chromium, pages = json.loads(sys.argv[1])
launch = sync.BrowserType.launch
sync.BrowserType.launch = lambda self, **options: launch(self, **{**options, "executable_path": chromium})
actions = HighLevelActionSet(["coord", "nav", "chat"]).to_python_code
for line in sys.stdin:
    name, episodes = json.loads(line)
    (made,) = [t for t in vars(tasks).values() if getattr(t, "subdomain", "") == name]

    class Same(made):
        def __init__(self, seed, **more):
            super().__init__(seed=seed, **more)
            self.random = SimpleNamespace(randint=lambda low, high: seed)

        def setup(self, page):
            told = super().setup(page)
            page._bgym_scale_factor = 1.0
            return told

    env = BrowserEnv(Same, {"base_url": pages}, action_mapping=actions, slow_mo=0, pre_observation_delay=0)
    found = []
    for seed, strings in episodes:
        observation, _ = env.reset(seed=seed)
        reward, done, errors = 0, False, []
        for string in strings:
            if done:
                break
            observation, reward, done, _, info = env.step(string)
            errors += [observation["last_action_error"]] if observation["last_action_error"] else []
        raw = info["task_info"]["RAW_REWARD_GLOBAL"] if strings else 0
        found.append({"goal": observation["goal"], "done": bool(done), "raw": raw, "errors": errors})
    env.close()
    print(json.dumps(found), flush=True)
"""


@dataclass(frozen=True)
class Options:
    """seeds: how many of each task, from 0 on. tasks: names without "miniwob/", all 25 if none is given."""

    seeds: int = 20
    tasks: tuple[str, ...] = ()


async def ours(client: EnvClient, name: str, seed: int) -> tuple[list[str], dict[str, object]]:
    """(what was done as action strings, how it ended) of one episode."""
    (session,) = await client.create("miniwob25", f"miniwob/{name}", seed, script=True, marks=True)
    try:
        observation = await session.reset()
        scripted = name in miniwob.SCRIPTS and name != "choose-list"
        boxes = [mark.box for mark in observation.marks]
        strings, done = [], False
        for number in range(MOST):
            if scripted:
                action = (await session.script()).action.model_dump()
            elif number < len(boxes):
                x0, y0, x1, y1 = boxes[number]
                point = from_pixels((x0 + x1) / 2, (y0 + y1) / 2, miniwob.WIDTH, miniwob.HEIGHT)
                action = {"name": "browser_use", "arguments": {"action": "click", "coordinate": [*point]}}
            else:
                break
            strings.append(to_string(action["arguments"], miniwob.WIDTH, miniwob.HEIGHT))
            reply = await session.step(action)
            if done := reply.terminated:
                break
        verdict = await session.evaluate()
        return strings, {"goal": observation.instruction, "done": done, "won": verdict.outcome == "success"}
    finally:
        await session.close()


async def compare(client: EnvClient, options: Options, peer: subprocess.Popen) -> list[Figure]:
    """A figure a task: how many of its seeds ended alike; `note` says which did not."""
    names = options.tasks or miniwob.SMALL_TASKS
    figures, same = [], 0
    for name in names:
        mine = [await ours(client, name, seed) for seed in range(options.seeds)]
        peer.stdin.write(json.dumps([name, [[seed, strings] for seed, (strings, _) in enumerate(mine)]]) + "\n")
        peer.stdin.flush()
        line = await asyncio.to_thread(peer.stdout.readline)
        if not line:
            raise UserError(f"BrowserGym ended at {name}; its own words are above")
        theirs = json.loads(line)
        told = [(m["goal"].split(), m["done"], m["won"]) for _, m in mine]
        heard = [(t["goal"].split(), t["done"], t["done"] and t["raw"] == 1) for t in theirs]
        differ = [seed for seed in range(options.seeds) if told[seed] != heard[seed]]
        alike, won = options.seeds - len(differ), sum(m["won"] for _, m in mine)
        same += alike
        note = f"{won} successes" + "".join(
            f"; seed {k}: {told[k]} and {heard[k]}, {theirs[k]['errors']}" for k in differ
        )
        figures.append(
            Figure(
                f"{name}: seeds that end alike", alike, "episodes", options.seeds, alike / options.seeds, 1.0, note=note
            )
        )
    count = len(names) * options.seeds
    return [Figure("all tasks: seeds that end alike", same, "episodes", count, same / count, 1.0), *figures]


def main(options: Options) -> None:
    """Plays all of it; writes results/env_browsergym_outcomes.json."""
    told = json.dumps([find_chromium(), f"file://{miniwob.folder()}/"])
    command = [side_environment(), "-c", PEER, told]
    with running_server(ServerConfig(port=0)) as server, asyncio.Runner() as runner:
        client = EnvClient(server.url, server.token)
        peer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            figures = runner.run(compare(client, options, peer))
        finally:
            runner.run(client.aclose())
            peer.stdin.close()
            peer.stdout.close()
            peer.kill()
            peer.wait()
    write("env_browsergym_outcomes", figures)


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
