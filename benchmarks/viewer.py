"""The trajectory viewer on ten thousand episodes: time to open, and time of a step, in Chromium.

    python -m benchmarks.viewer [--episodes 10000]

"open" is from the address to the first episode drawn with its picture; "step" from the key to the next picture drawn.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import statistics
import tempfile
import threading
import time
from pathlib import Path

from aiohttp import web
from PIL import Image
from playwright.sync_api import sync_playwright

from benchmarks.record import Figure, write
from env_servers.browser import find_chromium
from gui_rl.data.schema import Episode, Turn
from gui_rl.data.trajectory_files import write_trajectory
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.report.viewer import Viewer

DRAWN = """(step) => new Promise((done) => {
  const look = () => {
    const picture = document.getElementById("picture");
    if (document.getElementById("step").textContent.startsWith(step) && picture.complete && picture.naturalWidth) {
      requestAnimationFrame(() => done());
    } else setTimeout(look, 1);
  };
  look();
})"""


def make(run: Path, episodes: int) -> None:
    """`episodes` episodes of six turns with pictures of 1280x800."""
    pictures = []
    for k in range(6):
        file = io.BytesIO()
        Image.linear_gradient("L").resize((1280, 800)).point(lambda v, k=k: (v * (k + 1)) % 256).save(file, "PNG")
        pictures.append(file.getvalue())
    call = {"name": "browser_use", "arguments": {"action": "click", "coordinate": [500, 250]}}
    for number in range(episodes):
        shown = pictures if number < 50 else [b""] * 6  # the list does not look at pictures
        turns = [
            Turn(k, data, response_ids=range(40), behaviour_logp=[-0.1] * 40, action=call, conclusion=f"Step {k}.")
            for k, data in enumerate(shown)
        ]
        task, outcome = f"shop/task{number % 40}", ("success", "fail", "step_limit")[number % 3]
        write_trajectory(
            run, Episode(f"e{number}", "virtual", task, number // 8, "web", "Do it.", (1280, 800), turns, outcome)
        )


def serve(run: Path) -> tuple[str, float]:
    """(address, seconds that the list took to read)."""
    began = time.perf_counter()
    viewer = Viewer(run, Tokenizer.load("gui-tiny"))
    seconds = time.perf_counter() - began
    loop, ready, found = asyncio.new_event_loop(), threading.Event(), []

    async def start() -> None:
        runner = web.AppRunner(viewer.app("token"))
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        found.append(f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}")
        ready.set()

    threading.Thread(target=lambda: (loop.run_until_complete(start()), loop.run_forever()), daemon=True).start()
    ready.wait()
    return found[0], seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=10_000)
    episodes = parser.parse_args().episodes
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        make(Path(folder), episodes)
        address, seconds = serve(Path(folder))
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        opened, steps = [], []
        for _ in range(5):
            page = browser.new_context(viewport={"width": 1400, "height": 900}).new_page()
            began = time.perf_counter()
            page.goto(f"{address}/?token=token")
            page.evaluate(DRAWN, "step 1 ")
            opened.append(1e3 * (time.perf_counter() - began))
            for number in range(2, 7):
                began = time.perf_counter()
                page.keyboard.press("ArrowRight")
                page.evaluate(DRAWN, f"step {number} ")
                steps.append(1e3 * (time.perf_counter() - began))
            page.context.close()
        browser.close()
    write(
        "viewer",
        [
            Figure(f"read the list of {episodes} episodes", 1e3 * seconds, "ms"),
            Figure(f"open {episodes} episodes", statistics.median(opened), "ms", runs={"ours": opened}),
            Figure("step", statistics.median(steps), "ms", runs={"ours": steps}),
        ],
    )


if __name__ == "__main__":
    main()
