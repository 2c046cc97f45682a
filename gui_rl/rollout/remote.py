"""The sampler on another machine: prompts go out over HTTP, the ids and log-probabilities that were sampled come back.

In: the URL of a server and its dialect (`gui_rl.rollout.dialects`: ours, vLLM's or SGLang's). Out: a `Sampler`. New
weights are written to a folder that both machines see, and the server is told.
Every request can be sent twice: a draw is a function of the weights and its key, and loading weights again changes
nothing. So a broken connection and a server that is busy are retried; a reply that says no is not.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp

from gui_rl.errors import UserError
from gui_rl.model import hf
from gui_rl.model.config import ModelConfig
from gui_rl.prompt.render import Prompt
from gui_rl.rollout.dialects import Dialect, Ours, data_url
from gui_rl.rollout.sampler import Completion, SamplingParams

_RESENDS = 4
_FIRST_PAUSE_S = 0.2
_BUSY = (429, 502, 503, 504)


class RemoteSampler:
    """A `Sampler` behind a URL; use it as `async with RemoteSampler(url, token) as sampler`.

    Args:
      url: of the server, without `/v1`.
      token: its bearer token.
      dialect: what it speaks.
      model: which of its models; its only one where not given.
      weights: a folder that the server can read (of ours, below one that its `--weights` allows), for
        `update_weights`.
      cfg: of the policy, for `update_weights`.
      timeout_s: of one completion.
    """

    def __init__(
        self,
        url: str,
        token: str = "",
        dialect: Dialect = Ours(),  # noqa: B008 - frozen
        model: str | None = None,
        weights: Path | None = None,
        cfg: ModelConfig | None = None,
        timeout_s: float = 600.0,
    ):
        self.url, self.dialect, self.model = url.rstrip("/"), dialect, model
        self._weights, self._cfg = weights, cfg
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._http: aiohttp.ClientSession | None = None
        self._written: Path | None = None

    async def __aenter__(self) -> RemoteSampler:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        if self._http is not None:
            await self._http.close()
            self._http = None

    async def sample(self, prompts: Sequence[Prompt], params: SamplingParams, keys: Sequence[int]) -> list[Completion]:
        """Completes every prompt.

        Raises UserError for an unreachable server, a wrong token, a request that it refuses, and for a reply without
        ids or log-probabilities, or to other ids than were asked about.
        """
        if self.dialect.named and self.model is None:
            self.model = (await self._ask("GET", "/v1/models"))["data"][0]["id"]
        pairs = zip(prompts, keys, strict=True)
        return list(await asyncio.gather(*(self._complete(prompt, params, key) for prompt, key in pairs)))

    async def score(
        self, prompts: Sequence[Prompt], responses: Sequence[Sequence[int]], temperature: float = 1.0
    ) -> list[list[float]]:
        """Log-probabilities (nats) of every id of given responses, from a server of ours. Raises as `sample` does."""
        if self.model is None:
            self.model = (await self._ask("GET", "/v1/models"))["data"][0]["id"]

        async def one(prompt: Prompt, response: Sequence[int]) -> list[float]:
            images = await asyncio.to_thread(lambda: [data_url(image) for image in prompt.images])
            body = {"model": self.model, "prompt_token_ids": [int(token) for token in prompt.ids], "images": images}
            body |= {"response_token_ids": [int(token) for token in response], "temperature": temperature}
            found = (await self._ask("POST", "/v1/score", body))["logprobs"]
            if len(found) != len(response):
                raise UserError(f"{self.url} gave {len(found)} log-probabilities for {len(response)} ids")
            return found

        return list(await asyncio.gather(*(one(*pair) for pair in zip(prompts, responses, strict=True))))

    async def update_weights(self, params: Any, version: int) -> None:
        """Writes the weights to the shared folder and has the server load them.

        Raises UserError where the sampler was made without such a folder, or the server refuses it.
        """
        folder = (self._weights or Path()).absolute() / f"version-{version}"
        call = self.dialect.load(folder, version)
        if self._weights is None or self._cfg is None or call is None:
            raise UserError(
                f"{self.url}: weights can only be replaced on a `gui-rl policy serve --weights FOLDER` or an SGLang "
                "server, by a sampler with `weights` (a folder that both see; of ours, below FOLDER) and `cfg`"
            )
        await asyncio.to_thread(hf.save, folder, self._cfg, params)
        said = await self._ask("POST", *call)
        if not said.get("success", True):
            raise UserError(f"{self.url} did not load {folder}: {said.get('message', 'no reason given')}")
        earlier, self._written = self._written, folder
        if earlier not in (None, folder):
            await asyncio.to_thread(shutil.rmtree, earlier)

    async def _complete(self, prompt: Prompt, params: SamplingParams, key: int) -> Completion:
        body = await asyncio.to_thread(self.dialect.request, prompt, params, key)  # encodes images: not on the loop
        reply = await self._ask("POST", self.dialect.path, body | ({"model": self.model} if self.dialect.named else {}))
        return self.dialect.completion(prompt, reply, self.url)

    async def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        if self._http is None:  # made where an event loop runs
            connector = aiohttp.TCPConnector(limit=0)
            self._http = aiohttp.ClientSession(connector=connector, timeout=self._timeout, headers=self._headers)
        for attempt in range(_RESENDS + 1):
            pause = _FIRST_PAUSE_S * 2**attempt
            try:
                async with self._http.request(method, self.url + path, json=body) as reply:
                    content = await reply.read()
            except aiohttp.ClientConnectionError as error:
                refusal = f"no policy server answers at {self.url} ({error}): start one with `gui-rl policy serve`"
            except TimeoutError as error:
                raise UserError(f"{self.url} gave no reply in {self._timeout.total:.0f} s") from error
            else:
                if reply.status < 400:
                    return await reply.json()
                refusal = f"{self.url} refuses ({reply.status}): {_message(content)}"
                if reply.status == 401:
                    refusal = f"{self.url} does not accept this token: pass the one that the server was started with"
                if reply.status not in _BUSY:
                    raise UserError(refusal)
                pause = _seconds(reply.headers.get("Retry-After"), pause)
            if attempt < _RESENDS:
                await asyncio.sleep(pause)
        raise UserError(refusal)


def _message(content: bytes) -> str:
    """The words of an error of OpenAI's shape, or what there is."""
    try:
        return json.loads(content)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        return content[:200].decode(errors="replace").replace("\n", " ") or "no reason given"


def _seconds(header: str | None, default: float) -> float:
    try:
        return default if header is None else float(header)
    except ValueError:  # a date
        return default
