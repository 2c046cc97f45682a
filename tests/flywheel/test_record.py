"""A person at the page, played by a real browser: what is pressed, dragged and typed there becomes a trajectory."""

import asyncio
import dataclasses

import aiohttp
import pytest
from playwright.async_api import async_playwright

from env_servers.server import running_server
from env_servers.suites.virtual import registry
from gui_rl.data.samples import with_ids
from gui_rl.data.store import EpisodeSource, write_episodes
from gui_rl.flywheel.collect import Item
from gui_rl.flywheel.record import record
from gui_rl.flywheel.tasks import MadeTask
from gui_rl.prompt.context import TINY_CONTEXT
from gui_rl.prompt.parse import parse_response
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.rollout.env_client import EnvClient

TASKS = ("orders/delete+order", "files/move", "files/copy", "shop/find", "shop/scroll", "orders/missing")


def item(task, seed):
    app = registry[task.split("/")[0]]
    path = tuple(task.split("/")[1].split("+"))
    slots = app.slots(seed, path, app.initial(seed))
    texts = tuple(app.by_id[name].text.format(**slots) for name in path)
    return Item(
        MadeTask(app.name, app.device, path, slots, texts, " ".join(texts), suite="virtual", task=task, seed=seed)
    )


class Person:
    """Does on the page what the script does in a session of its own beside it, with mouse, wheel and keyboard."""

    def __init__(self, page):
        self.page, self.pressed = page, None

    async def do(self, call):
        given, action = call.arguments, call.arguments["action"]
        steps = int(await self.page.locator("body").get_attribute("data-steps"))
        self.pressed, held = given.get("coordinate", self.pressed), self.pressed
        if action == "mouse_move":
            return
        if action in ("swipe", "left_click_drag"):
            start, end = (
                (given["coordinate"], given["coordinate2"]) if action == "swipe" else (held, given["coordinate"])
            )
            await self.page.mouse.move(*await self.at(start))
            await self.page.mouse.down()
            await self.page.mouse.move(*await self.at(end), steps=4)
            await self.page.mouse.up()
        elif "coordinate" in given and action not in ("scroll", "type"):
            await self.page.select_option("#mode", action)
            if action == "select":
                await self.page.fill("#text", given["option"])
            await self.page.mouse.click(*await self.at(given["coordinate"]))
        elif action in ("type", "answer"):
            await self.page.fill("#text", given["text"])
            await self.page.click(f"#{action}")
        elif action == "scroll":
            await self.page.hover("#screen")
            up = given.get("direction") == "up" or given.get("pixels", -1) > 0
            await self.page.mouse.wheel(0, -100 if up else 100)
        elif action == "key":
            await self.page.fill("#key", " ".join(given["keys"]))
            await self.page.click("#press")
        elif action == "system_button":
            await self.page.get_by_role("button", name=given["button"], exact=True).click()
        else:
            assert action == "terminate", action
            await self.page.click(f"#{given['status']}")
        await self.page.wait_for_function(
            "before => document.body.dataset.steps > before && document.body.dataset.state !== 'busy'", arg=steps
        )

    async def at(self, place):
        box = await self.page.locator("#screen").bounding_box()
        return box["x"] + box["width"] * place[0] / 1000, box["y"] + box["height"] * place[1] / 1000


async def demonstrate(client, page, task):
    address = asyncio.get_running_loop().create_future()
    recording = asyncio.create_task(record(client, task, say=address.set_result, linger_s=0.0))
    (beside,) = await client.create("virtual", task.task.task, task.task.seed, script=True)
    await beside.reset()
    await page.goto(await address)
    await page.wait_for_function("() => document.body.dataset.state === 'ready'")
    assert await page.text_content("#instruction") == task.instruction
    person, calls = Person(page), []
    while not calls or calls[-1].arguments["action"] != "terminate":
        move = await beside.script()
        calls.append(move.action)
        await beside.step(move.action.model_dump())
        await person.do(move.action)
    await beside.close()
    return await recording, calls


@pytest.fixture(scope="module")
def server(chromium):
    with running_server() as server:
        yield server


def test_demonstrations_are_trajectories_like_any_other(server, chromium, tmp_path):
    async def run():
        async with EnvClient(server.url, server.token) as client, async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = await browser.new_page(viewport={"width": 1400, "height": 900})
            made = [await demonstrate(client, page, item(task, 30 + k)) for k, task in enumerate(TASKS)]
            await browser.close()
            return made

    made = asyncio.run(run())
    for task, (episode, calls) in zip(TASKS, made, strict=True):
        assert episode.outcome == "success", (task, [turn.action for turn in episode.turns], calls)
        assert episode.source == "human" and episode.task == task
        assert [turn.index for turn in episode.turns] == list(range(len(episode.turns)))
        # a drag is two steps of a person: to where it begins, and on to where it ends
        theirs = [turn for turn in episode.turns if turn.action["arguments"]["action"] != "mouse_move"]
        wanted = [call for call in calls if call.arguments["action"] != "mouse_move"]
        assert [turn.action["arguments"]["action"] for turn in theirs] == [c.arguments["action"] for c in wanted]
        for turn, call in zip(theirs, wanted, strict=True):
            for name in ("coordinate", "coordinate2"):
                if name in call.arguments and call.arguments["action"] != "scroll":
                    gap = [
                        abs(a - b) for a, b in zip(turn.action["arguments"][name], call.arguments[name], strict=True)
                    ]
                    assert max(gap) <= 2
            assert parse_response(turn.text, episode.device).call.to_json() == turn.action
            assert turn.screenshot.startswith(b"\x89PNG") and turn.conclusion
    actions = {turn.action["arguments"]["action"] for episode, _ in made for turn in episode.turns}
    assert {"left_click_drag", "type", "scroll", "terminate", "click"} <= actions
    tokenizer = Tokenizer.load("gui-tiny")
    write_episodes(tmp_path / "data", [with_ids(episode, tokenizer, TINY_CONTEXT) for episode, _ in made])
    stored = EpisodeSource(tmp_path / "data")
    assert [stored[k].source for k in range(len(stored))] == ["human"] * len(TASKS) and stored[0].turns[0].response_ids


def test_the_page_is_closed_to_others_and_to_what_is_no_action(server):
    async def run():
        async with EnvClient(server.url, server.token) as client, aiohttp.ClientSession() as http:
            address = asyncio.get_running_loop().create_future()
            recording = asyncio.create_task(
                record(client, item("orders/star", 3), say=address.set_result, linger_s=0.0)
            )
            url, _, token = (await address).partition("?token=")
            found = {}

            async def ask(name, path, body=None, headers=None):
                given = {"Authorization": f"Bearer {token}"} | (headers or {})
                method = http.post if body is not None else http.get
                async with method(url + path, headers=given, **({"json": body} if body is not None else {})) as reply:
                    found[name] = (reply.status, await reply.text())

            await ask("no token", "state", headers={"Authorization": ""})
            await ask("wrong token", "", headers={"Authorization": "Bearer x"})
            await ask("other host", "state", headers={"Host": "evil.example:80"})
            await ask("not json", "act", body="x")
            await ask("nothing", "act", body={"actions": []})
            await ask("no action", "act", body={"actions": [{"action": "fly"}]})
            await ask("off", "act", body={"actions": [{"action": "click", "coordinate": [1, 2000]}]})
            await ask("state", "state")
            await ask("page", "")
            await ask(
                "end",
                "act",
                body={"actions": [{"action": "terminate", "status": "failure"}], "sentence": "I  give\nup."},
            )
            return found, await recording

    found, episode = asyncio.run(run())
    assert {name: status for name, (status, _) in found.items()} == {
        "no token": 401, "wrong token": 401, "other host": 403, "not json": 400, "nothing": 400, "no action": 400,
        "off": 400, "state": 200, "page": 200, "end": 200,
    }  # fmt: skip
    assert "unknown_action" in found["no action"][1] and "out_of_range" in found["off"][1]
    assert episode.outcome == "fail" and len(episode.turns) == 1 and episode.turns[0].conclusion == "I give up."


def test_what_remains_of_a_task_is_demonstrated_from_there(server):
    """The queue's prefix is replayed before the page opens."""
    from gui_rl.flywheel.collect import Done

    async def run():
        async with EnvClient(server.url, server.token) as client:
            whole = item("orders/delete+order", 31)
            (beside,) = await client.create("virtual", whole.task.task, whole.task.seed, script=True)
            await beside.reset()
            prefix, reached = [], 0
            while not reached:
                move = (await beside.script()).action.model_dump()
                reply = await beside.step(move)
                prefix.append(Done(move, None, reply.observation.state_hash))
                reached = int((await beside.record()).steps[-1].held[0])
            rest = dataclasses.replace(whole, reached=1, prefix=tuple(prefix))
            address = asyncio.get_running_loop().create_future()
            recording = asyncio.create_task(record(client, rest, say=address.set_result, linger_s=0.0))
            url, _, token = (await address).partition("?token=")
            async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as http:
                state = await (await http.get(url + "state")).json()
                last = None
                while last != "terminate":
                    move = (await beside.script()).action
                    last = move.arguments["action"]
                    await beside.step(move.model_dump())
                    await http.post(url + "act", json={"actions": [move.arguments]})
            return rest, state, await recording

    rest, state, episode = asyncio.run(run())
    assert state["instruction"] == rest.instruction == rest.task.subtasks[1]
    assert episode.success and episode.total == 1 and episode.progress == 1 and episode.instruction == rest.instruction
