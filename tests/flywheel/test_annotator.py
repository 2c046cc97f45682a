"""Annotators: a real HTTP server that misbehaves, a policy server, exact answers, and recorded ones."""

import asyncio
import contextlib
import dataclasses
import io
import json
import math
import socket
import threading
import time

import jax
import numpy as np
import pytest
import uvicorn
from aiohttp import web
from PIL import Image

from gui_rl.errors import UserError
from gui_rl.flywheel.annotator import (
    AnnotatorError,
    Endpoint,
    EndpointConfig,
    Exact,
    Question,
    Recorded,
    RubbishError,
    ask_json,
)


def png():
    stream = io.BytesIO()
    Image.fromarray(np.zeros((64, 64, 3), np.uint8)).save(stream, "PNG")
    return stream.getvalue()


def answered(text, **usage):
    message = {"role": "assistant", "content": text}
    return web.json_response({"choices": [{"message": message}], "usage": usage})


class Playing:
    """A chat server that gives the replies of a list, one a request (the last for ever), and keeps the requests."""

    def __init__(self, *replies):
        self.replies, self.bodies, self.headers, self.times = list(replies), [], [], []

    async def handle(self, request):
        self.bodies.append(await request.json())
        self.headers.append(request.headers)
        self.times.append(time.monotonic())
        reply = self.replies[0] if len(self.replies) == 1 else self.replies.pop(0)
        return await reply(request) if asyncio.iscoroutinefunction(reply) else reply()

    @contextlib.asynccontextmanager
    async def listening(self):
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/v1/chat/completions", self.handle)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        await runner.cleanup()


def asking(server, folder, questions, **options):
    """(answers or errors, cost) of questions asked at once."""

    async def run():
        async with server.listening() as url:
            config = EndpointConfig(url, "wise", answers=folder, first_pause_s=0.01, **options)
            async with Endpoint(config) as endpoint:
                found = await asyncio.gather(*map(endpoint.ask, questions), return_exceptions=True)
                return found, endpoint.cost

    return asyncio.run(run())


def refused(status, **headers):
    return lambda: web.Response(status=status, text="busy", headers=headers)


async def hang_up(request):
    request.transport.close()
    return web.Response()


QUESTION = Question("judge", "Is it done?", "You are strict.", (png(),), facts={"done": True})


def test_the_request_is_openai_s_and_the_answer_says_who_gave_it(tmp_path, monkeypatch):
    monkeypatch.setenv("WISE_KEY", "secret")
    server = Playing(lambda: answered("yes", prompt_tokens=100, completion_tokens=10))
    (answer,), cost = asking(
        server, tmp_path, [QUESTION], key_variable="WISE_KEY", dollars_in=3.0, dollars_out=15.0, max_tokens=7
    )
    assert answer.text == "yes" and answer.annotator.startswith("wise at http://127.0.0.1")
    (body,) = server.bodies
    assert body["model"] == "wise" and body["max_tokens"] == 7 and body["temperature"] == 0.0
    assert body["messages"][0] == {"role": "system", "content": "You are strict."}
    picture, text = body["messages"][1]["content"]
    assert picture["image_url"]["url"].startswith("data:image/png;base64,") and text["text"] == "Is it done?"
    assert server.headers[0]["Authorization"] == "Bearer secret" and "done" not in json.dumps(body).replace(
        "it done", ""
    )
    assert (cost.tokens_in, cost.tokens_out) == (100, 10) and cost.dollars == pytest.approx(0.00045)


def test_an_answer_is_asked_for_once(tmp_path):
    server = Playing(lambda: answered("yes"))
    found, cost = asking(server, tmp_path, [QUESTION] * 5)
    assert {answer.text for answer in found} == {"yes"} and len(server.bodies) == 1 and cost.kept == 4
    again = Playing(lambda: answered("no"))
    (found,), cost = asking(again, tmp_path, [QUESTION])
    assert found.text == "yes" and not again.bodies and cost.requests == 0
    other = dataclasses.replace(QUESTION, images=())
    (found,), _ = asking(again, tmp_path, [other])
    assert found.text == "no"


def test_busy_and_broken_servers_are_asked_again_with_growing_pauses(tmp_path):
    server = Playing(
        refused(429, **{"Retry-After": "0.3"}), refused(503), hang_up, lambda: web.Response(text="<html>"),
        lambda: answered("at last"),
    )  # fmt: skip
    (answer,), cost = asking(server, tmp_path, [QUESTION])
    assert answer.text == "at last" and cost.requests == 5 and cost.repeats == 4
    assert server.times[1] - server.times[0] >= 0.2


def test_errors_name_what_to_do(tmp_path):
    (error,), _ = asking(Playing(refused(401)), tmp_path, [QUESTION])
    assert isinstance(error, UserError) and "key_variable" in str(error)
    (error,), cost = asking(Playing(refused(400)), tmp_path, [QUESTION])
    assert isinstance(error, AnnotatorError) and cost.requests == 1
    (error,), cost = asking(Playing(refused(500)), tmp_path, [QUESTION], tries=3)
    assert isinstance(error, AnnotatorError) and "3 tries: status 500" in str(error) and cost.requests == 3
    (error,), cost = asking(Playing(lambda: answered(None)), tmp_path, [QUESTION], tries=2)
    assert isinstance(error, AnnotatorError) and "no chat completion" in str(error)
    assert not list(tmp_path.rglob("*.json"))  # nothing of this was kept
    with pytest.raises(UserError, match="NO_SUCH_KEY"):
        asking(Playing(refused(500)), tmp_path, [QUESTION], key_variable="NO_SUCH_KEY")


def test_rate_and_budget(tmp_path):
    questions = [Question("q", str(number)) for number in range(6)]
    server = Playing(lambda: answered("yes", prompt_tokens=10**6))
    asking(server, tmp_path / "a", questions, a_minute=1200)
    gaps = np.diff(sorted(server.times))
    assert gaps.sum() >= 0.2  # five gaps of 50 ms, less what a request takes to arrive
    found, cost = asking(server, tmp_path / "b", questions, dollars_in=1.0, most_dollars=2.5, at_a_time=1)
    spent = [answer for answer in found if not isinstance(answer, Exception)]
    assert len(spent) >= 3 and cost.dollars == len(spent)


def test_rubbish_is_asked_for_once_more_and_then_an_error(tmp_path):
    def read(value):
        if not isinstance(value["done"], bool):
            raise ValueError("done is true or false")
        return value["done"]

    def ask(server):
        async def run():
            async with server.listening() as url:
                config = EndpointConfig(url, "wise", answers=tmp_path / str(id(server)))
                async with Endpoint(config) as endpoint:
                    return await ask_json(endpoint, QUESTION, read)

        return asyncio.run(run())

    assert ask(Playing(lambda: answered("hm"), lambda: answered('```json\n{"done": false}\n```'))) is False
    repeated = Playing(lambda: answered('{"done": 1}'))
    with pytest.raises(RubbishError, match="wise .* judge .*2 tries"):
        ask(repeated)
    assert [body["temperature"] for body in repeated.bodies] == [0.0, 1.0]


def test_exact_answers_come_from_the_facts_alone():
    exact = Exact({"judge": lambda facts: {"done": facts["done"]}})
    assert asyncio.run(ask_json(exact, QUESTION, lambda value: value["done"])) is True
    assert asyncio.run(exact.ask(QUESTION)).annotator == "exact"
    for question in (Question("taste", "Is it nice?", facts={}), Question("judge", "?")):
        with pytest.raises(AnnotatorError, match="exactly"):
            asyncio.run(exact.ask(question))


def test_what_was_kept_can_be_played_back(tmp_path):
    asking(Playing(lambda: answered("yes")), tmp_path, [QUESTION])
    recorded = Recorded(tmp_path / "wise")
    answer = asyncio.run(recorded.ask(QUESTION))
    assert answer.text == "yes" and answer.annotator.startswith("recorded wise at")
    with pytest.raises(AnnotatorError, match="no answer"):
        asyncio.run(recorded.ask(Question("judge", "Another.")))
    with pytest.raises(UserError, match="recorded answers"):
        Recorded(tmp_path / "nowhere")


@contextlib.contextmanager
def policy_server():
    """`gui-rl policy serve`'s app with a small random policy, on a socket."""
    from gui_rl.model.config import preset
    from gui_rl.model.params import init_params
    from gui_rl.prompt.context import TINY_CONTEXT
    from gui_rl.prompt.tokenizer import Tokenizer
    from gui_rl.rollout.engine import Engine, EngineConfig
    from gui_rl.rollout.policy import Policy
    from gui_rl.rollout.serve import ServeConfig, Server, create_app

    tokenizer, cfg = Tokenizer.load("gui-tiny"), preset("gui-tiny")
    text = dataclasses.replace(cfg.text, num_hidden_layers=1, vocab_size=64 * math.ceil(tokenizer.vocab_size / 64))
    vision = dataclasses.replace(cfg.vision, depth=1, deepstack_visual_indexes=(0,))
    cfg = dataclasses.replace(cfg, text=text, vision=vision, image_token_id=tokenizer.image_id)
    policy = Policy(
        "tiny", cfg, jax.jit(init_params, static_argnums=0)(cfg, jax.random.key(0)), tokenizer, TINY_CONTEXT
    )
    engine = Engine(policy.cfg, policy.params, policy.tokenizer, EngineConfig(row_buckets=(4,)))
    app = create_app(Server(policy, ServeConfig(policy.name, token="right", max_tokens=16), engine))
    bound = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=server.run, args=([bound],))
    thread.start()
    yield f"http://127.0.0.1:{bound.getsockname()[1]}/v1"
    server.should_exit = True
    thread.join()


def test_a_policy_server_is_an_endpoint(tmp_path, monkeypatch):
    monkeypatch.setenv("POLICY_TOKEN", "right")

    async def run(url):
        config = EndpointConfig(url, "tiny", "POLICY_TOKEN", tmp_path, max_tokens=8)
        async with Endpoint(config) as endpoint:
            answer = await endpoint.ask(QUESTION)
            return answer, endpoint.cost

    with policy_server() as url:
        answer, cost = asyncio.run(run(url))
    assert answer.annotator == f"tiny at {url}" and cost.tokens_in > 4 and 0 < cost.tokens_out <= 8
