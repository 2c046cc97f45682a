"""The policy server and the remote sampler against the engine in this process."""

import asyncio
import base64
import contextlib
import dataclasses
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import jax
import numpy as np
import pytest
import uvicorn
from PIL import Image
from small_policy import small_policy

from env_servers.protocol.actions import Call
from gui_rl.data.packing import Branch, Sample
from gui_rl.errors import UserError
from gui_rl.learn.state import make_mesh
from gui_rl.learn.teachers import LocalTeacher, RemoteTeacher
from gui_rl.model import hf
from gui_rl.model.params import init_params
from gui_rl.prompt.context import TINY_CONTEXT, ContextConfig, HistoryTurn
from gui_rl.prompt.images import prepare
from gui_rl.prompt.render import render, render_messages, response_text
from gui_rl.rollout.dialects import Sglang, Vllm, data_url, messages_of
from gui_rl.rollout.engine import Engine, EngineConfig
from gui_rl.rollout.remote import RemoteSampler
from gui_rl.rollout.sampler import SamplingParams
from gui_rl.rollout.serve import ServeConfig, Server, create_app

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "right"
SHAPES = EngineConfig(row_buckets=(4,))
DRAWS = SamplingParams(1.0, 16)


@pytest.fixture(scope="module")
def policy():
    return small_policy(3)


def pixels(seed, height=160, width=128):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


@pytest.fixture(scope="module")
def prompts(policy):
    """Three prompts of different lengths, families and screenshots."""
    cases = [("mobile", "Star the cup.", (160, 128)), ("desktop", "Select the tree. Open it.", (128, 160))]
    cases.append(("web", "Add the fish to the cart and open the cart.", (128, 160)))
    return [
        render(policy.tokenizer, TINY_CONTEXT, device, (), text, [], prepare(pixels(number, *size)))
        for number, (device, text, size) in enumerate(cases)
    ]


@contextlib.contextmanager
def listening(app):
    """An app on a socket, in a thread with an event loop of its own: its URL."""
    bound = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
    thread = threading.Thread(target=server.run, args=([bound],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        bound.close()


@pytest.fixture(scope="module")
def allowed(tmp_path_factory):
    """The folder that new weights may come from."""
    return tmp_path_factory.mktemp("weights")


@pytest.fixture(scope="module")
def url(policy, allowed):
    """A policy server."""
    config = ServeConfig(policy.name, token=TOKEN, weights=(allowed,), max_tokens=32)
    engine = Engine(policy.cfg, policy.params, policy.tokenizer, SHAPES)
    with listening(create_app(Server(policy, config, engine))) as url:
        yield url


@pytest.fixture(scope="module")
def local(policy):
    """`local(prompts, params, keys)`: what the engine in this process gives."""

    def sample(prompts, params, keys, weights=None):
        async def run():
            engine = Engine(policy.cfg, policy.params if weights is None else weights, policy.tokenizer, SHAPES)
            try:
                return await engine.sample(prompts, params, keys)
            finally:
                await engine.close()

        return asyncio.run(run())

    return sample


def remotely(url, prompts, params, keys, token=TOKEN, **options):
    async def run():
        async with RemoteSampler(url, token, **options) as sampler:
            return await sampler.sample(prompts, params, keys)

    return asyncio.run(run())


def equal(there, here):
    assert [done.token_ids for done in there] == [done.token_ids for done in here]
    assert [done.finish_reason for done in there] == [done.finish_reason for done in here]
    for a, b in zip(there, here, strict=True):
        np.testing.assert_allclose(a.logprobs, b.logprobs, atol=1e-5)


@pytest.fixture(scope="module")
def ask(url):
    """`ask(body)`: a chat completion, by a client that is not ours."""
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=120) as client:
        yield lambda body, path="/v1/chat/completions": client.post(path, json=body)


def picture(seed=0, form="PNG"):
    out = io.BytesIO()
    Image.fromarray(pixels(seed)).save(out, form)
    return f"data:image/{form.lower()};base64,{base64.b64encode(out.getvalue()).decode()}"


def shown(url):
    return [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]


def chat(**more):
    parts = [{"type": "image_url", "image_url": {"url": picture()}}, {"type": "text", "text": "Where is the cup?"}]
    return {"model": "tiny", "messages": [{"role": "user", "content": parts}], "max_tokens": 16, "seed": 5, **more}


# --- remote and local ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("temperature", [1.0, 0.7, 0.0])
def test_a_remote_sampler_gives_what_the_engine_here_gives(url, local, prompts, temperature):
    params, keys = SamplingParams(temperature, 16), [5, 6, 2**32 - 1]
    equal(remotely(url, prompts, params, keys), local(prompts, params, keys))


def test_a_budget_between_compiled_lengths_gives_the_same_draws(url, local, prompts):
    equal(remotely(url, prompts, SamplingParams(1.0, 5), [1, 2, 3]), local(prompts, SamplingParams(1.0, 5), [1, 2, 3]))


def test_two_clients_at_once_get_their_own(url, local, prompts):
    async def run():
        async with RemoteSampler(url, TOKEN) as one, RemoteSampler(url, TOKEN) as two:
            return await asyncio.gather(
                one.sample(prompts, DRAWS, [1, 2, 3]), two.sample(prompts[::-1], DRAWS, [4, 5, 6])
            )

    one, two = asyncio.run(run())
    equal(one, local(prompts, DRAWS, [1, 2, 3]))
    equal(two, local(prompts[::-1], DRAWS, [4, 5, 6]))


def test_images_travel_to_the_bit(prompts):
    for prompt in prompts:
        (image,) = prompt.images
        back = prepare(base64.b64decode(data_url(image).partition(",")[2]))
        assert back.grid == image.grid and np.array_equal(back.patches, image.patches)


def test_new_weights_are_loaded_by_version_and_older_files_removed(policy, allowed, local, prompts):
    other = small_policy(11).params
    config = ServeConfig(policy.name, token=TOKEN, weights=(allowed,), max_tokens=32)
    engine = Engine(policy.cfg, policy.params, policy.tokenizer, SHAPES)
    folder = allowed / "run"

    async def run(url):
        async with RemoteSampler(url, TOKEN, weights=folder, cfg=policy.cfg) as sampler:
            (before,) = await sampler.sample(prompts[:1], DRAWS, [0])
            await sampler.update_weights(policy.params, 6)
            await sampler.update_weights(other, 7)
            (after,) = await sampler.sample(prompts[:1], DRAWS, [0])
        return before, after

    with listening(create_app(Server(policy, config, engine))) as url:
        before, after = asyncio.run(run(url))
        models = httpx.get(f"{url}/v1/models", headers={"Authorization": f"Bearer {TOKEN}"}).json()
    assert (before.policy_version, after.policy_version) == (0, 7)
    assert models["data"][0]["policy_version"] == 7
    equal([after], local(prompts[:1], DRAWS, [0], weights=other))
    assert [path.name for path in folder.iterdir()] == ["version-7"]


# --- the protocol ----------------------------------------------------------------------------------------------------
def test_a_chat_is_rendered_here_and_answered_with_ids_and_logprobs(ask, local, policy):
    reply = ask(chat(logprobs=True, return_token_ids=True)).json()
    content = [{"type": "image", "image": prepare(pixels(0))}, {"type": "text", "text": "Where is the cup?"}]
    prompt = render_messages(policy.tokenizer, [{"role": "user", "content": content}])
    assert reply["prompt_token_ids"] == prompt.ids
    (expected,) = local([prompt], DRAWS, [5])
    (choice,) = reply["choices"]
    assert choice["token_ids"] == expected.token_ids and choice["finish_reason"] == expected.finish_reason
    entries = choice["logprobs"]["content"]
    np.testing.assert_allclose([entry["logprob"] for entry in entries], expected.logprobs, atol=1e-5)
    assert [entry["bytes"] for entry in entries] == [list(policy.tokenizer.token_bytes(t)) for t in expected.token_ids]
    shown = [token for token in expected.token_ids if token != policy.tokenizer.eos_id]
    assert choice["message"] == {"role": "assistant", "content": policy.tokenizer.decode(shown)}
    count = len(prompt.ids), len(expected.token_ids)
    assert reply["usage"] == {"prompt_tokens": count[0], "completion_tokens": count[1], "total_tokens": sum(count)}


def test_several_choices_are_the_draws_of_successive_seeds(ask):
    several = ask(chat(n=3, return_token_ids=True)).json()["choices"]
    assert [choice["index"] for choice in several] == [0, 1, 2]
    alone = [ask(chat(seed=5 + n, return_token_ids=True)).json()["choices"][0]["token_ids"] for n in range(3)]
    assert [choice["token_ids"] for choice in several] == alone
    assert len({tuple(ids) for ids in alone}) > 1


def test_a_stream_holds_what_the_whole_reply_holds(ask):
    whole = ask(chat(logprobs=True, return_token_ids=True)).json()
    body = chat(logprobs=True, return_token_ids=True, stream=True, stream_options={"include_usage": True})
    reply = ask(body)
    assert reply.headers["content-type"].startswith("text/event-stream")
    lines = [line.removeprefix("data: ") for line in reply.text.split("\n\n") if line]
    assert lines.pop() == "[DONE]"
    chunks = [json.loads(line) for line in lines]
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"} and len({c["id"] for c in chunks}) == 1
    assert chunks[0]["prompt_token_ids"] == whole["prompt_token_ids"] and chunks[-1]["usage"] == whole["usage"]
    parts = [chunk["choices"][0] for chunk in chunks[:-1]]
    (choice,) = whole["choices"]
    assert "".join(part["delta"].get("content", "") for part in parts) == choice["message"]["content"]
    assert [token for part in parts for token in part.get("token_ids", [])] == choice["token_ids"]
    entries = [entry for part in parts for entry in (part.get("logprobs") or {"content": []})["content"]]
    assert entries == choice["logprobs"]["content"]
    assert [part["finish_reason"] for part in parts if part["finish_reason"]] == [choice["finish_reason"]]


def test_an_end_token_of_the_request_ends_it(ask, url, prompts):
    whole = ask(chat(return_token_ids=True)).json()["choices"][0]["token_ids"]
    ended = ask(chat(return_token_ids=True, stop_token_ids=[whole[2]])).json()["choices"][0]
    assert ended["token_ids"] == whole[: whole.index(whole[2]) + 1] and ended["finish_reason"] == "stop"
    (long,) = remotely(url, prompts[:1], DRAWS, [1])
    (short,) = remotely(url, prompts[:1], SamplingParams(1.0, 16, (long.token_ids[1],)), [1])
    assert short.token_ids == long.token_ids[: long.token_ids.index(long.token_ids[1]) + 1]


def test_a_stream_comes_while_the_response_is_sampled(policy, monkeypatch):
    """The engine waits after its second round until the client has read the first one's tokens."""
    seen, rounds = threading.Event(), []
    engine = Engine(policy.cfg, policy.params, policy.tokenizer, dataclasses.replace(SHAPES, stride=2))
    advance = engine._advance

    def gated(weights):
        if len(rounds) == 2:
            assert seen.wait(60), "nothing came while the response was sampled"
        rounds.append(0)
        return advance(weights)

    monkeypatch.setattr(engine, "_advance", gated)
    server = Server(policy, ServeConfig(policy.name, open=True, max_tokens=32), engine)
    body = chat(n=2, return_token_ids=True, stream=True, max_tokens=12)
    tokens = {0: [], 1: []}
    with (
        listening(create_app(server)) as url,
        httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=120) as reply,
    ):
        for line in reply.iter_lines():
            if line.startswith("data: {"):
                (choice,) = json.loads(line.removeprefix("data: "))["choices"]
                tokens[choice["index"]] += choice.get("token_ids", [])
                if all(tokens.values()):
                    seen.set()
    assert len(rounds) > 2 and max(map(len, tokens.values())) > 4


def test_fields_that_change_nothing_are_taken(ask):
    plain = ask(chat(return_token_ids=True)).json()["choices"]
    neutral = {"top_p": 1.0, "top_k": -1, "presence_penalty": 0, "stop": None, "user": "me", "stream_options": None}
    assert ask(chat(return_token_ids=True, **neutral)).json()["choices"] == plain


@pytest.mark.parametrize(
    "body, status, says",
    [
        (chat(top_p=0.9), 400, "top_p=0.9 is not served"),
        (chat(best_of=2), 400, "best_of"),
        (chat(stop_token_ids=[1, 2, 3, 4]), 400, "3 end tokens"),
        (chat(temperature=-1), 400, "temperature"),
        (chat(max_tokens=10_000), 400, "at most 32 tokens"),
        (chat(model="gpt"), 404, "serves 'tiny'"),
        (chat(prompt_token_ids=[1]), 400, "either messages or prompt_token_ids"),
        ({"model": "tiny"}, 400, "either messages or prompt_token_ids"),
        (chat(messages=[{"role": "judge", "content": "?"}]), 400, "messages.0.role"),
        (chat(messages=[{"role": "user", "content": "?"}, {"role": "system", "content": "!"}]), 400, "system"),
        (chat(messages=shown("http://x/a.png")), 400, "nothing is fetched"),
        (chat(messages=shown("data:image/png;base64,QUJD")), 400, "messages[0].content[0].image_url"),
        (chat(messages=shown("data:image/png;base64,Q")), 400, "not base64"),
        (chat(messages=[{"role": "user", "content": "word " * 4200}]), 400, "over 192"),
        ({"model": "tiny", "prompt_token_ids": [10**6]}, 400, "no token has the id 1000000"),
        ({"model": "tiny", "prompt_token_ids": []}, 400, "there are none"),
        ({"model": "tiny", "prompt_token_ids": [1], "images": [picture()]}, 400, "placeholders"),
    ],
)  # fmt: skip
def test_bad_requests_are_refused_in_openai_s_words(ask, body, status, says):
    reply = ask(body)
    error = reply.json()["error"]
    assert reply.status_code == status and says in error["message"]
    assert set(error) == {"message", "type", "param", "code"} and error["type"] == "invalid_request_error"


def test_a_body_that_is_no_json_and_an_unknown_path(url):
    headers = {"Authorization": f"Bearer {TOKEN}"}
    reply = httpx.post(f"{url}/v1/chat/completions", content=b"{", headers=headers)
    assert reply.status_code == 400 and reply.json()["error"]["code"] == "invalid_request"
    reply = httpx.get(f"{url}/v1/nothing", headers=headers)
    assert reply.status_code == 404 and reply.json()["error"]["code"] == "not_found"


@pytest.mark.parametrize("path", ["/v1/models", "/v1/chat/completions", "/v1/weights"])
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}])
def test_nothing_without_the_token(url, path, headers):
    reply = httpx.request("GET" if path == "/v1/models" else "POST", url + path, headers=headers, json=None)
    assert reply.status_code == 401 and reply.json()["error"]["code"] == "invalid_api_key"
    assert httpx.get(f"{url}/livez").status_code == 200


def test_weights_come_from_allowed_folders_alone_and_must_fit(policy, allowed, ask, tmp_path):
    outside = tmp_path / "policy"
    hf.save(outside, policy.cfg, policy.params)
    for path in (outside, allowed / ".." / outside.parent.name / "policy", "/etc"):
        reply = ask({"path": str(path), "version": 1}, "/v1/weights")
        assert reply.status_code == 403 and reply.json()["error"]["code"] == "path_not_allowed"
    (allowed / "link").symlink_to(outside)
    assert ask({"path": str(allowed / "link"), "version": 1}, "/v1/weights").status_code == 403
    reply = ask({"path": str(allowed / "none"), "version": 1}, "/v1/weights")
    assert reply.status_code == 400 and "no checkpoint directory" in reply.json()["error"]["message"]
    wider = dataclasses.replace(policy.cfg, text=dataclasses.replace(policy.cfg.text, intermediate_size=96))
    hf.save(allowed / "wider", wider, init_params(wider, jax.random.key(0)))
    reply = ask({"path": str(allowed / "wider"), "version": 1}, "/v1/weights")
    assert reply.status_code == 400 and "intermediate_size is 96" in reply.json()["error"]["message"]
    shutil.rmtree(allowed / "wider")


def test_a_closed_server_needs_a_token(policy):
    with pytest.raises(ValueError, match="token"):
        Server(policy, ServeConfig(policy.name), Engine(policy.cfg, policy.params, policy.tokenizer))


def test_the_command_serves_a_folder_until_it_is_told_to_stop(policy, tmp_path):
    hf.save(tmp_path / "mine", policy.cfg, policy.params)
    command = [sys.executable, "-m", "gui_rl.cli", "policy", "serve", str(tmp_path / "mine"), "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "GUI_RL_POLICY_TOKEN": TOKEN}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        url = process.stdout.readline().removeprefix("gui-rl policy server at ").strip()
        assert url.startswith("http://127.0.0.1:")
        models = httpx.get(f"{url}/v1/models", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60).json()
        assert [model["id"] for model in models["data"]] == ["mine"]
        process.send_signal(signal.SIGTERM)
        assert TOKEN not in process.stdout.read()
        process.wait(60)


# --- the client's errors, and the other dialect ----------------------------------------------------------------------
class Replies:
    """An app that answers requests with what a list holds, in order, and keeps the bodies."""

    def __init__(self, *replies):
        self.replies, self.bodies, self.paths = list(replies), [], []

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
        self.bodies.append(json.loads(body) if body else None)
        self.paths.append(scope["path"])
        status, reply, *headers = self.replies.pop(0)
        head = [(b"content-type", b"application/json"), *headers]
        await send({"type": "http.response.start", "status": status, "headers": head})
        await send({"type": "http.response.body", "body": json.dumps(reply).encode()})


def completion(prompt, ids=(7, 8), logprobs=(-0.5, -0.25), reason="stop", **more):
    content = [{"token": "", "logprob": logp, "bytes": None, "top_logprobs": []} for logp in logprobs]
    choice = {"index": 0, "message": {"role": "assistant", "content": ""}, "finish_reason": reason}
    choice |= {"token_ids": list(ids), "logprobs": {"content": content}}
    return {"prompt_token_ids": prompt.ids, "choices": [choice], **more}


def test_a_busy_server_is_asked_again_and_a_refusal_is_not(policy, prompts):
    dialect = Vllm(policy.tokenizer)
    busy = (503, {"error": {"message": "loading"}}, (b"retry-after", b"0"))
    app = Replies(busy, busy, (200, completion(prompts[0])))
    with listening(app) as url:
        (done,) = remotely(url, prompts[:1], DRAWS, [9], dialect=dialect, model="m")
    assert done.token_ids == [7, 8] and done.logprobs == [-0.5, -0.25] and done.policy_version == -1
    assert len(app.bodies) == 3 and app.bodies[0] == app.bodies[2]  # the same draw
    app = Replies((400, {"error": {"message": "no such thing"}}))
    with listening(app) as url, pytest.raises(UserError, match=r"refuses \(400\): no such thing"):
        remotely(url, prompts[:1], DRAWS, [9], dialect=dialect, model="m")
    assert len(app.bodies) == 1


def test_vllm_is_asked_for_the_policy_s_own_distribution(policy, prompts):
    app = Replies((200, {"data": [{"id": "served"}]}), (200, completion(prompts[1])))
    with listening(app) as url:
        remotely(url, prompts[1:2], SamplingParams(1.0, 9), [4], dialect=Vllm(policy.tokenizer))
    body = app.bodies[1]
    expected = {"model": "served", "seed": 4, "temperature": 1.0, "max_completion_tokens": 9, "n": 1, "top_p": 1.0}
    expected |= {"top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "logprobs": True, "return_token_ids": True}
    assert expected.items() <= body.items()
    assert {int(token) for token in body["logit_bias"]} == policy.tokenizer.unsampled_ids
    roles = [message["role"] for message in body["messages"]]
    assert roles == ["system", "user"] and isinstance(body["messages"][0]["content"], str)


@pytest.mark.parametrize(
    "change, says",
    [
        ({"prompt_token_ids": None}, "other token ids"),
        ({"prompt_token_ids": [1, 2]}, "2 for .* different from number 0 on"),
        ({"choices": [{"index": 0, "finish_reason": "stop", "token_ids": None}]}, "return_token_ids"),
    ],
)
def test_replies_that_cannot_be_trained_on_are_errors(policy, prompts, change, says):
    with listening(Replies((200, {**completion(prompts[0]), **change}))) as url, pytest.raises(UserError, match=says):
        remotely(url, prompts[:1], DRAWS, [0], dialect=Vllm(policy.tokenizer), model="m")


def test_what_vllm_cannot_give_is_refused_before_it_is_asked(policy, prompts):
    app = Replies()
    with listening(app) as url:
        with pytest.raises(UserError, match="processed_logprobs"):
            remotely(url, prompts[:1], SamplingParams(0.7), [0], dialect=Vllm(policy.tokenizer), model="m")
        with pytest.raises(UserError, match="weights can only be replaced"):
            asyncio.run(RemoteSampler(url, TOKEN, Vllm(policy.tokenizer)).update_weights({}, 1))
    assert not app.bodies


def sglang_reply(prompt, image_id, **change):
    """The documented shape; ids at image positions are hashes of the image."""
    read = [[None if n == 0 else -0.1, 10**6 + n if token == image_id else token, None]
            for n, token in enumerate(prompt.ids)]  # fmt: skip
    about = {"id": "a1", "finish_reason": {"type": "stop", "matched": 2}, "prompt_tokens": len(prompt.ids)}
    about |= {"completion_tokens": 2, "cached_tokens": 0, "weight_version": "7", "e2e_latency": 0.1}
    about |= {"input_token_logprobs": read, "output_token_logprobs": [[-0.5, 7, None], [-0.25, 2, None]]}
    return {"text": "x", "output_ids": [7, 2], "meta_info": about | change}


def test_sglang_is_asked_by_ids_and_images(policy, prompts):
    tokenizer, prompt = policy.tokenizer, prompts[1]
    app = Replies((200, sglang_reply(prompt, tokenizer.image_id)))
    with listening(app) as url:
        (done,) = remotely(url, [prompt], SamplingParams(0.7, 9, (5,)), [4], dialect=Sglang(tokenizer))
    assert (done.token_ids, done.logprobs, done.finish_reason) == ([7, 2], [-0.5, -0.25], "stop")
    assert done.policy_version == 7 and app.paths == ["/generate"]
    (body,) = app.bodies
    drawn = body.pop("sampling_params")
    (image,) = body.pop("image_data")
    assert np.array_equal(prepare(base64.b64decode(image.partition(",")[2])).patches, prompt.images[0].patches)
    assert body == {"input_ids": prompt.ids, "return_logprob": True, "logprob_start_len": 0, "stream": False}
    neutral = {"top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}
    neutral |= {"presence_penalty": 0.0, "frequency_penalty": 0.0}
    assert {int(token) for token in drawn.pop("logit_bias")} == tokenizer.unsampled_ids
    expected = {"temperature": 0.7, "max_new_tokens": 9, "stop_token_ids": [tokenizer.eos_id, 5], "sampling_seed": 4}
    assert drawn == {**expected, **neutral, "skip_special_tokens": False, "n": 1}


@pytest.mark.parametrize(
    "change, says",
    [
        ({"input_token_logprobs": [[None, 1, None], [-1.0, 2, None]]}, "2 for .* different from number"),
        ({"input_token_logprobs": None}, "return_logprob"),
        ({"output_token_logprobs": [[None, 7, None], [-0.25, 2, None]]}, "return_logprob"),
        ({"output_token_logprobs": [[-0.5, 8, None], [-0.25, 2, None]]}, "other tokens than its `output_ids`"),
        ({"finish_reason": {"type": "abort", "message": "gone"}}, "ended a response by 'abort'"),
    ],
)
def test_what_sglang_says_must_be_fit_to_train_on(policy, prompts, change, says):
    reply = sglang_reply(prompts[0], policy.tokenizer.image_id, **change)
    with listening(Replies((200, reply))) as url, pytest.raises(UserError, match=says):
        remotely(url, prompts[:1], DRAWS, [0], dialect=Sglang(policy.tokenizer))


def test_sglang_loads_new_weights_from_the_shared_folder(policy, tmp_path):
    app = Replies((200, {"success": True, "message": ""}), (200, {"success": False, "message": "no such layer"}))

    async def run(url):
        dialect = Sglang(policy.tokenizer)
        async with RemoteSampler(url, dialect=dialect, weights=tmp_path, cfg=policy.cfg) as sampler:
            await sampler.update_weights(policy.params, 3)
            with pytest.raises(UserError, match="did not load .*version-4: no such layer"):
                await sampler.update_weights(policy.params, 4)

    with listening(app) as url:
        asyncio.run(run(url))
    assert app.paths == ["/update_weights_from_disk"] * 2
    path = str(tmp_path / "version-3")
    assert app.bodies[0] == {"model_path": path, "weight_version": "3", "flush_cache": True}
    hf.load(path)


def test_wrong_tokens_and_absent_servers_are_said(url, prompts):
    with pytest.raises(UserError, match="does not accept this token"):
        remotely(url, prompts[:1], DRAWS, [0], token="wrong")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    with pytest.raises(UserError, match="gui-rl policy serve"):
        remotely(f"http://127.0.0.1:{free}", prompts[:1], DRAWS, [0])


def test_messages_are_the_turns_of_a_prompt(policy):
    """Rendered again by the chat format, they give the prompt's ids: with history, thoughts of control tags and all."""
    tokenizer = policy.tokenizer
    shots = [prepare(pixels(n)) for n in range(2)]
    response = response_text("Tap it.", Call("mobile_use", {"action": "click", "coordinate": [500, 500]}))
    turn = HistoryTurn(shots[0], response, None, "Tap it.")
    context = ContextConfig(history_turns=2)
    prompt = render(tokenizer, context, "mobile", (), "Star the cup.", [turn], shots[1])
    messages = messages_of(tokenizer, prompt)
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user"]
    assert messages[2]["content"] == response

    # A template that knows only marks and texts, and reads tags as control tokens (as Qwen's does):
    text = ""
    for message in messages:
        parts = message["content"]
        parts = [{"type": "text", "text": parts}] if isinstance(parts, str) else parts
        shown = [
            "<|vision_start|><|image_pad|><|vision_end|>" if "text" not in part else part["text"] for part in parts
        ]
        text += f"<|im_start|>{message['role']}\n{''.join(shown)}<|im_end|>\n"
    ids = []
    images = iter(prompt.images)
    for token in tokenizer.encode_template(text + "<|im_start|>assistant\n"):
        ids += [token] * (next(images).tokens if token == tokenizer.image_id else 1)
    assert ids == prompt.ids


def test_a_teacher_behind_the_server_marks_as_one_in_this_process(policy, url, prompts):
    """The same log-probabilities over HTTP, at the student's temperature; what cannot be scored is refused."""
    samples = [
        Sample(f"s{number}", np.asarray(prompt.ids), tuple(prompt.images), (Branch(ids),))
        for number, (prompt, ids) in enumerate(zip(prompts, ([5, 9, 30], [7], [3, 2, 200, 11, 4]), strict=True))
    ]
    there = RemoteTeacher(url, TOKEN, temperature=0.7).mark(samples)
    here = LocalTeacher(policy.cfg, policy.params, make_mesh(devices=jax.devices()[:1]), temperature=0.7).mark(samples)
    for sample, far, near in zip(samples, there, here, strict=True):
        assert far.logp.shape == sample.branches[0].ids.shape
        np.testing.assert_allclose(far.logp, near.logp, atol=1e-4)
    with pytest.raises(UserError, match="token"):
        RemoteTeacher(url, "wrong").mark(samples)
    beyond = dataclasses.replace(samples[0], branches=(Branch([10**6]),))
    with pytest.raises(UserError, match="not in the vocabulary"):
        RemoteTeacher(url, TOKEN).mark([beyond])
