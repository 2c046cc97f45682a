"""The sampler on another machine: prompts go out over HTTP, the ids and log-probabilities that were sampled come back.

In: the URL of a server that speaks OpenAI's chat completions. Out: a `Sampler`. Two dialects:

- `Ours` (`gui-rl policy serve`): the prompt's ids and images are sent as they are. Images travel as PNG of the resized
  pixels, from which the server's patches are equal to the bit. New weights are written to a folder that both machines
  see, and the server is told.
- `Vllm` (0.10.2 or newer): takes ids only together with texts, so the prompt is sent as messages; the server returns
  the ids that it made of them (`return_token_ids`), and anything but the prompt's own ids is an error: no token is ever
  trained on that was not sampled from (R7).

Every request can be sent twice: a draw is a function of the weights and its key, and loading weights again changes
nothing. So a broken connection and a server that is busy are retried; a reply that says no is not.
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import io
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import aiohttp
import numpy as np
from PIL import Image

from gui_rl.errors import UserError
from gui_rl.model import hf
from gui_rl.model.config import ModelConfig
from gui_rl.prompt.images import MERGE, PATCH, TEMPORAL, ImageInput
from gui_rl.prompt.render import Prompt
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.rollout.sampler import Completion, SamplingParams

_RESENDS = 4
_FIRST_PAUSE_S = 0.2
_BUSY = (429, 502, 503, 504)


class Dialect(Protocol):
    """What a server calls things."""

    def request(self, prompt: Prompt, params: SamplingParams, key: int) -> dict[str, Any]:
        """The body of a completion's request, without the model. Raises UserError for what the server cannot do."""
        ...

    def version(self, choice: dict[str, Any]) -> int:
        """The version of the weights that sampled a choice; -1 where the server does not say."""
        ...


@dataclasses.dataclass(frozen=True)
class Ours:
    """`gui-rl policy serve`."""

    def request(self, prompt: Prompt, params: SamplingParams, key: int) -> dict[str, Any]:
        """Ids and images as they are."""
        images = [data_url(image) for image in prompt.images]
        return {"prompt_token_ids": prompt.ids, "images": images, "max_tokens": params.max_tokens}

    def version(self, choice: dict[str, Any]) -> int:
        """As the server says."""
        return choice["policy_version"]


@dataclasses.dataclass(frozen=True)
class Vllm:
    """vLLM's OpenAI server, with the policy's own chat template.

    Attributes:
      tokenizer: the policy's.
      processed_logprobs: the server was started with `--logprobs-mode processed_logprobs`. Its default are
        log-probabilities before the temperature, which are those of the sampling policy at temperatures 1 and 0 only:
        others are refused then.
    """

    tokenizer: Tokenizer
    processed_logprobs: bool = False

    def request(self, prompt: Prompt, params: SamplingParams, key: int) -> dict[str, Any]:
        """Messages; what the model's generation_config.json would change is set to neutral values (R14)."""
        if params.temperature not in (0, 1) and not self.processed_logprobs:
            raise UserError(
                f"temperature {params.temperature}: vLLM gives log-probabilities before the temperature; start it with "
                "--logprobs-mode processed_logprobs and say so (Vllm(processed_logprobs=True)), or sample at 1"
            )
        return {
            "messages": messages_of(self.tokenizer, prompt),
            "max_completion_tokens": params.max_tokens,
            "top_p": 1.0,
            "top_k": 0,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "logit_bias": {str(token): -100 for token in sorted(self.tokenizer.unsampled_ids)},
        }

    def version(self, choice: dict[str, Any]) -> int:
        """vLLM knows of no versions."""
        return -1


class RemoteSampler:
    """A `Sampler` behind a URL; use it as `async with RemoteSampler(url, token) as sampler`.

    Args:
      url: of the server, without `/v1`.
      token: its bearer token.
      dialect: what it speaks.
      model: which of its models; its only one where not given.
      weights: a folder below one that the server's `--weights` allows, for `update_weights`.
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
        if self.model is None:
            self.model = (await self._ask("GET", "/v1/models"))["data"][0]["id"]
        pairs = zip(prompts, keys, strict=True)
        return list(await asyncio.gather(*(self._complete(prompt, params, key) for prompt, key in pairs)))

    async def update_weights(self, params: Any, version: int) -> None:
        """Writes the weights to the shared folder and has the server load them.

        Raises UserError where the sampler was made without such a folder, or the server refuses it.
        """
        if self._weights is None or self._cfg is None or not isinstance(self.dialect, Ours):
            raise UserError(
                f"{self.url}: weights can only be replaced on a `gui-rl policy serve --weights FOLDER`, by a sampler "
                "with `weights` (a folder below that one) and `cfg`"
            )
        folder = (self._weights / f"version-{version}").absolute()
        await asyncio.to_thread(hf.save, folder, self._cfg, params)
        await self._ask("POST", "/v1/weights", {"path": str(folder), "version": version})
        earlier, self._written = self._written, folder
        if earlier not in (None, folder):
            await asyncio.to_thread(shutil.rmtree, earlier)

    async def _complete(self, prompt: Prompt, params: SamplingParams, key: int) -> Completion:
        body = await asyncio.to_thread(self.dialect.request, prompt, params, key)  # encodes images: not on the loop
        body |= {"model": self.model, "temperature": params.temperature, "seed": key, "n": 1}
        reply = await self._ask(
            "POST", "/v1/chat/completions", body | {"logprobs": True, "top_logprobs": 0, "return_token_ids": True}
        )
        choice = reply["choices"][0]
        ids, entries = choice.get("token_ids"), (choice.get("logprobs") or {}).get("content")
        if ids is None or entries is None or len(ids) != len(entries):
            raise UserError(
                f"{self.url} gave no token ids with their log-probabilities: it must honour `return_token_ids` and "
                "`logprobs` (vLLM does from 0.10.2 on)"
            )
        check_same(prompt.ids, reply.get("prompt_token_ids") or [], self.url)
        if choice["finish_reason"] not in ("stop", "length"):
            raise UserError(f"{self.url} ended a response by {choice['finish_reason']!r}: see the server's output")
        logprobs = [entry["logprob"] for entry in entries]
        return Completion(ids, logprobs, choice["finish_reason"], self.dialect.version(choice))

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


def check_same(asked: Sequence[int], answered: Sequence[int], url: str) -> None:
    """Raises UserError unless the server completed exactly the ids that it was asked about."""
    if list(asked) == list(answered):
        return
    pairs = zip(asked, answered, strict=False)
    place = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(asked), len(answered)))
    raise UserError(
        f"{url} completed other token ids than the prompt's: {len(answered)} for {len(asked)}, different from number "
        f"{place} on. Its chat template, vocabulary or image limits are not the policy's"
    )


def messages_of(tokenizer: Tokenizer, prompt: Prompt) -> list[dict[str, Any]]:
    """The chat whose rendering a prompt is: its turns as messages with text and image parts.

    Control tokens inside a turn become their names: a server that reads them as control tokens gives the same ids.
    """
    start, end = tokenizer.control("<|im_start|>"), tokenizer.eos_id
    opens, closes = tokenizer.control("<|vision_start|>"), tokenizer.control("<|vision_end|>")
    heads = [place for place, token in enumerate(prompt.ids) if token == start]
    images, messages = iter(prompt.images), []
    for head in heads[:-1]:  # the last one opens the response
        ids = prompt.ids[head + 1 : prompt.ids.index(end, head)]
        parts, text = [], []
        for token in [*ids, opens]:
            if token == opens:  # what stands before an image, or before the end
                if text:
                    parts.append({"type": "text", "text": tokenizer.decode(text)})
                text = []
            elif token == closes:
                parts.append({"type": "image_url", "image_url": {"url": data_url(next(images))}})
            elif token != tokenizer.image_id:
                text.append(token)
        role, _, first = parts[0]["text"].partition("\n")
        parts = [{"type": "text", "text": first}, *parts[1:]] if first else parts[1:]
        plain = role != "user" or not any(part["type"] == "image_url" for part in parts)
        messages.append({"role": role, "content": "".join(part["text"] for part in parts) if plain else parts})
    return messages


def data_url(image: ImageInput) -> str:
    """The pixels of an image as a PNG data URL, from which `prepare` makes the same patches.

    Raises ValueError for an image of several frames.
    """
    frames, height, width = image.grid
    if frames != 1:
        raise ValueError(f"an image has one frame, not {frames}")
    rows = image.patches.reshape(height // MERGE, width // MERGE, MERGE, MERGE, 3, TEMPORAL, PATCH, PATCH)
    still = rows[:, :, :, :, :, 0].transpose(0, 2, 5, 1, 3, 6, 4)  # (block y, y in block, y, block x, x in block, x, c)
    pixels = still.reshape(height * PATCH, width * PATCH, 3)
    out = io.BytesIO()
    Image.fromarray(np.rint((pixels + 1) * 127.5).astype(np.uint8)).save(out, "PNG", compress_level=1)
    return f"data:image/png;base64,{base64.b64encode(out.getvalue()).decode()}"


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
