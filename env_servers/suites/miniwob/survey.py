"""Finds out about every page of the package what pages.json says: does it start, and does an episode leave a trace.

In: the installed package and a browser. Out: pages.json (`python -m env_servers.suites.miniwob.survey`). A page is left
out if it throws while it starts. It is loaded afresh for every episode if it uses timers of its own, or if, after an
episode full of random input, the next one differs in state or pixels from the same one on a fresh document.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import random
import re
from pathlib import Path

from ...browser import Browser, PageError, Screen, View
from ...inputs import perform
from . import HEIGHT, WIDTH, PageKind, folder, page_kind

EPISODES = 3  # that are played before and compared after
INPUTS = 8  # of one episode
AT_ONCE = 4
_TIMERS = re.compile(r"\b(setTimeout|setInterval|requestAnimationFrame)\b")


async def begin(screen: Screen, seed: int) -> View:
    """The first view of an episode."""
    await screen.load({"seed": seed, "mode": "train"})
    return await screen.view()


async def mess(screen: Screen, rng: random.Random) -> None:
    """Random input of every kind: clicks on elements and elsewhere, drags, words, scrolling."""
    for _ in range(INPUTS):
        elements = await screen.elements()
        if elements and rng.random() < 0.7:
            x0, y0, x1, y1 = rng.choice(elements)["box"]
            place = [min(1000, round(500 * (x0 + x1) / WIDTH)), min(1000, round(500 * (y0 + y1) / HEIGHT))]
        else:
            place = [rng.randint(0, 1000), rng.randint(240, 1000)]
        action = rng.choice(("click", "click", "click", "type", "scroll", "left_click_drag"))
        given = {"click": {}, "type": {"text": "word"}, "scroll": {"direction": rng.choice(("up", "down"))}}
        device = "desktop" if action == "left_click_drag" else "web"
        await perform(screen, device, {"action": action, "coordinate": place, **given.get(action, {})})
        await screen.state()


async def leaves_traces(browser: Browser, kind: PageKind) -> bool:
    """Whether an episode on a used document is ever another than on a fresh one."""
    used, fresh = await browser.lease(kind), await browser.lease(dataclasses.replace(kind, reload=True))
    try:
        for seed in range(EPISODES):
            await begin(used, 1000 + seed)
            await mess(used, random.Random(f"{kind.name} {seed}"))
            left, right = await begin(used, seed), await begin(fresh, seed)
            if (left.state, left.png) != (right.state, right.png):
                return True
        return False
    finally:
        used.usable = False  # of no further use to anybody
        await browser.release(used)
        await browser.release(fresh)


async def look_at(browser: Browser, name: str) -> dict | str:
    """The page's entry in pages.json, or why it is left out."""
    kind = page_kind(name, reload=False)
    screen = await browser.lease(kind)
    thrown: list[str] = []
    screen.page.on("pageerror", lambda error: thrown.append(str(error).splitlines()[0]))
    try:
        for seed in range(3):
            await begin(screen, seed)
    except PageError as error:
        thrown.append(str(error))
    finally:
        screen.usable = False
        await browser.release(screen)
    if thrown:
        return f"it throws while it starts: {thrown[0]}"
    own = _TIMERS.search((folder() / f"{name}.html").read_text(encoding="utf-8", errors="replace"))
    return {"reload": bool(own) or await leaves_traces(browser, kind)}


async def survey() -> dict[str, dict]:
    """Entries for every page of the package."""
    names = sorted(path.stem for path in folder().glob("*.html"))
    gate = asyncio.Semaphore(AT_ONCE)
    async with Browser() as browser:

        async def one(name: str) -> dict | str:
            async with gate:
                entry = await look_at(browser, name)
                print(f"{name}: {entry}", flush=True)
                return entry

        found = dict(zip(names, await asyncio.gather(*map(one, names)), strict=True))
    return {
        "pages": {name: entry for name, entry in found.items() if isinstance(entry, dict)},
        "left_out": {name: entry for name, entry in found.items() if isinstance(entry, str)},
    }


def main() -> None:
    """Writes pages.json and says what is in it."""
    found = asyncio.run(survey())
    (Path(__file__).parent / "pages.json").write_text(json.dumps(found, indent=1) + "\n")
    reloaded = sum(entry["reload"] for entry in found["pages"].values())
    print(f"{len(found['pages'])} pages, {reloaded} of them loaded afresh; left out: {found['left_out'] or 'none'}")


if __name__ == "__main__":
    main()
