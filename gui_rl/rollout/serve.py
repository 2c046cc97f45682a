"""A policy behind HTTP: OpenAI's chat completions over the engine of this process.

In: a policy's folder. Out: a server with

- POST /v1/chat/completions: messages with texts and images (data URLs), or token ids as they are; text out, and on
  request log-probabilities, token ids and server-sent events (`gui_rl.rollout.chat`);
- POST /v1/score: log-probabilities of a given response, for a trainer whose teacher is served here;
- GET /v1/models;
- POST /v1/weights: other weights of the same model, from a folder that the command line allows;
- GET /livez (open).

`seed` and the number of the choice determine a draw, whatever else is in the batch. A stream's events come while the
response is sampled, after every round of the engine.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hmac
import os
import secrets
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any

import tyro
import uvicorn
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException

from gui_rl.errors import UserError
from gui_rl.model import hf
from gui_rl.prompt.render import Prompt
from gui_rl.rollout.chat import ChatRequest, ScoreRequest, Strict, events, read_ids, read_prompt, whole
from gui_rl.rollout.engine import Engine, engine_config
from gui_rl.rollout.policy import Policy, load
from gui_rl.rollout.programs import STOPS
from gui_rl.rollout.sampler import SamplingParams
from gui_rl.rollout.scoring import score

TOKEN_VARIABLE = "GUI_RL_POLICY_TOKEN"


@dataclasses.dataclass(frozen=True)
class ServeConfig:
    """Serve a policy over HTTP.

    Attributes:
      checkpoint: the policy's folder (Hugging Face form; policy.json names its vocabulary and context).
      host: address to bind; the default is reachable from this machine only.
      port: 0 takes a free one; the first line of output says which.
      token: bearer token; from GUI_RL_POLICY_TOKEN, else made up and printed.
      open: no token is needed (for a network that is closed by other means).
      weights: folders below which POST /v1/weights may load from; none refuses all.
      max_tokens: longest response; also what a request without a number gets.
    """

    checkpoint: tyro.conf.Positional[Path]
    host: str = "127.0.0.1"
    port: int = 8780
    token: str = ""
    open: bool = False
    weights: tuple[Path, ...] = ()
    max_tokens: int = 256


class RefusalError(Exception):
    """A request that is answered by an error of OpenAI's shape."""

    def __init__(self, status: int, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.param = status, code, message, param


class WeightsRequest(Strict):
    """Body of POST /v1/weights: a policy's folder on the server's machine, and the version that it becomes."""

    path: Path
    version: int


class Server:
    """The engine, what it serves, and the version of its weights."""

    def __init__(self, policy: Policy, config: ServeConfig, engine: Engine | None = None):
        if not (config.open or config.token):
            raise ValueError("a server that is not open needs a token")
        self.policy, self.config, self.version = policy, config, 0
        self.engine = engine or Engine(
            policy.cfg, policy.params, policy.tokenizer, engine_config(policy.context, config.max_tokens)
        )
        self.started = int(time.time())
        self._loading, self._scoring = asyncio.Lock(), asyncio.Lock()

    async def read(self, body: ChatRequest) -> tuple[Prompt, SamplingParams, list[int]]:
        """The prompt of a request, how it is drawn, and the key of each choice. Raises RefusalError for what cannot be
        completed."""
        if body.model != self.policy.name:
            raise RefusalError(404, "model_not_found", f"this server serves {self.policy.name!r}", "model")
        budget = body.max_completion_tokens or body.max_tokens or self.config.max_tokens
        if budget > self.config.max_tokens:
            raise RefusalError(
                400,
                "max_tokens_too_large",
                f"a response has at most {self.config.max_tokens} tokens here",
                "max_tokens",
            )
        if len(body.stop_token_ids) > STOPS - 1:
            most = f"a request may have {STOPS - 1} end tokens of its own"
            raise RefusalError(400, "too_many_stop_tokens", most, "stop_token_ids")
        prompt = await asyncio.to_thread(self._prompt, body)
        room = min(self.policy.cfg.text.max_position_embeddings, self.engine.config.capacity)
        if len(prompt.ids) + budget > room:
            raise RefusalError(
                400,
                "context_length_exceeded",
                f"{len(prompt.ids)} ids and {budget} to come are over {room}",
                "messages",
            )
        first = secrets.randbits(32) if body.seed is None else body.seed
        params = SamplingParams(body.temperature, budget, tuple(body.stop_token_ids))
        keys = [(first + number) % 2**32 for number in range(body.n)]
        return prompt, params, keys

    def _prompt(self, body: ChatRequest) -> Prompt:
        try:
            return read_prompt(body, self.policy.tokenizer, self.policy.context.thinking)
        except (ValueError, UserError) as error:
            param = "messages" if body.messages is not None else "prompt_token_ids"
            raise RefusalError(400, "invalid_prompt", str(error), param) from error

    async def score(self, body: ScoreRequest) -> tuple[list[float], int]:
        """Nats of every id of a response, and the version of the weights. Raises RefusalError for what cannot be
        scored."""
        if body.model != self.policy.name:
            raise RefusalError(404, "model_not_found", f"this server serves {self.policy.name!r}", "model")
        room = self.policy.cfg.text.max_position_embeddings
        if len(body.prompt_token_ids) + len(body.response_token_ids) > room:
            raise RefusalError(400, "context_length_exceeded", f"prompt and response are over {room} ids")
        if not all(0 <= token < self.policy.tokenizer.vocab_size for token in body.response_token_ids):
            raise RefusalError(400, "invalid_response", "an id is not in the vocabulary", "response_token_ids")

        params, version = self.engine.weights

        def found() -> list[float]:
            prompt = read_ids(body, self.policy.tokenizer)
            return score(params, self.policy.cfg, prompt, body.response_token_ids, body.temperature)

        async with self._scoring:
            try:
                return await asyncio.to_thread(found), version
            except (ValueError, UserError) as error:
                raise RefusalError(400, "invalid_prompt", str(error), "prompt_token_ids") from error

    async def load(self, body: WeightsRequest) -> None:
        """Puts other weights into the engine. Raises RefusalError for a folder that is not allowed, or does not fit."""
        path = body.path.resolve()
        if not any(path.is_relative_to(root.resolve()) for root in self.config.weights):
            raise RefusalError(
                403, "path_not_allowed", f"{path} is below no folder that `--weights` allowed at the start", "path"
            )
        async with self._loading:
            try:
                _, params = await asyncio.to_thread(hf.load, path, self.policy.cfg)
            except UserError as error:
                raise RefusalError(400, "invalid_weights", str(error), "path") from error
            await self.engine.update_weights(params, body.version)
            self.version = body.version


# --- routes ----------------------------------------------------------------------------------------------------------
_bearer = HTTPBearer(auto_error=False)


def _server(request: Request) -> Server:
    return request.app.state.server


Serving = Annotated[Server, Depends(_server)]


async def _allowed(server: Serving, given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]) -> None:
    token = server.config.token.encode()
    if not server.config.open and (given is None or not hmac.compare_digest(given.credentials.encode(), token)):
        raise RefusalError(401, "invalid_api_key", "send the server's token as `Authorization: Bearer TOKEN`")


general = APIRouter()
routes = APIRouter(prefix="/v1", dependencies=[Depends(_allowed)])


@general.get("/livez")
async def livez() -> dict[str, str]:
    """The process answers."""
    return {"status": "alive"}


@routes.get("/models")
async def models(server: Serving) -> dict[str, Any]:
    """The one model there is."""
    model = {"id": server.policy.name, "object": "model", "created": server.started, "owned_by": "gui_rl"}
    room = server.policy.cfg.text.max_position_embeddings
    return {"object": "list", "data": [{**model, "max_model_len": room, "policy_version": server.version}]}


@routes.post("/chat/completions", response_model=None)
async def chat(body: ChatRequest, server: Serving) -> JSONResponse | StreamingResponse:
    """Complete a chat, or a prompt of token ids."""
    prompt, params, keys = await server.read(body)
    head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": server.policy.name}
    about = head, body, server.policy.tokenizer, prompt
    if body.stream:
        streams = [server.engine.stream(prompt, params, key) for key in keys]
        return StreamingResponse(events(*about, streams), media_type="text/event-stream")
    return JSONResponse(whole(*about, await server.engine.sample([prompt] * body.n, params, keys)))


@routes.post("/score")
async def scored(body: ScoreRequest, server: Serving) -> dict[str, Any]:
    """Log-probabilities (nats) of `response_token_ids`, and the version of the weights."""
    logprobs, version = await server.score(body)
    return {"logprobs": logprobs, "policy_version": version}


@routes.post("/weights")
async def weights(body: WeightsRequest, server: Serving) -> dict[str, int]:
    """Load other weights; completions begun before keep their version. Sending it twice is the same as once."""
    await server.load(body)
    return {"version": server.version}


def create_app(server: Server) -> FastAPI:
    """The app."""

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await server.engine.close()

    app = FastAPI(title="gui_rl policy server", version="1", lifespan=lifespan, redoc_url=None)
    app.state.server = server
    app.include_router(general)
    app.include_router(routes)
    _say_errors(app)
    return app


def _say_errors(app: FastAPI) -> None:
    """Every error leaves in OpenAI's shape."""

    def error(status: int, code: str, message: str, param: str | None = None) -> JSONResponse:
        kind = "invalid_request_error" if status < 500 else "server_error"
        headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
        body = {"message": message, "type": kind, "param": param, "code": code}
        return JSONResponse({"error": body}, status, headers)

    @app.exception_handler(RefusalError)
    async def refusal(_: Request, given: RefusalError) -> JSONResponse:
        return error(given.status, given.code, given.message, given.param)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, given: RequestValidationError) -> JSONResponse:
        places = [(".".join(str(part) for part in each["loc"][1:]), each["msg"]) for each in given.errors()]
        message = "; ".join(f"{place}: {text}" if place else text for place, text in places)
        return error(400, "invalid_request", message, places[0][0] or None)

    @app.exception_handler(HTTPException)
    async def http(request: Request, given: HTTPException) -> JSONResponse:
        code = {404: "not_found", 405: "method_not_allowed"}.get(given.status_code, "http_error")
        return error(given.status_code, code, f"{request.method} {request.url.path}: {given.detail}")

    @app.exception_handler(Exception)
    async def unforeseen(_: Request, given: Exception) -> JSONResponse:
        return error(500, "internal_error", f"{type(given).__name__}: {given}")


def serve(config: ServeConfig) -> None:
    """Serves until SIGTERM or SIGINT. Raises UserError for a folder without a policy or a port in use."""
    policy = load(config.checkpoint)
    token = config.token or os.environ.get(TOKEN_VARIABLE, "")
    made_up = not (token or config.open)
    token = secrets.token_urlsafe(24) if made_up else token
    server = Server(policy, dataclasses.replace(config, token=token))
    try:
        bound = socket.create_server((config.host, config.port), backlog=512)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"cannot listen on {config.host}:{config.port} ({reason}); choose another --port") from None
    with bound:
        print(f"gui-rl policy server at http://{config.host}:{bound.getsockname()[1]}", flush=True)
        if made_up:
            print(f"token: {token} (set {TOKEN_VARIABLE} to choose one)", flush=True)
        with contextlib.suppress(KeyboardInterrupt):  # uvicorn has drained already and raises the signal again
            uvicorn.Server(uvicorn.Config(create_app(server), log_level="warning", access_log=False)).run([bound])
