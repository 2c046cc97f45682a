"""What servers of policies call things: the bodies that they take, and where their replies hold ids and
log-probabilities.

In: prompts and how they are drawn. Out: requests for `remote.RemoteSampler`, and completions from replies.

- `Ours` (`gui-rl policy serve`): the prompt's ids and images are sent as they are. Images travel as PNG of the resized
  pixels, from which the server's patches are equal to the bit.
- `Vllm` (0.10.2 or newer): takes ids only together with texts, so the prompt is sent as messages; the server returns
  the ids that it made of them (`return_token_ids`).
- `Sglang`: its own `/generate`, which takes ids and images; the ids that it read come back with the prompt's
  log-probabilities.

Anything but the prompt's own ids in a reply is an error: no token is ever trained on that was not sampled from (R7).
"""

from __future__ import annotations

import base64
import dataclasses
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from PIL import Image

from gui_rl.errors import UserError
from gui_rl.prompt.images import MERGE, PATCH, TEMPORAL, ImageInput
from gui_rl.prompt.render import Prompt
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.rollout.sampler import Completion, SamplingParams

NEUTRAL = {"top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
"""What a model's generation_config.json could change, at values that leave the policy's distribution alone (R14)."""


class Dialect(Protocol):
    """One server's words.

    path    where completions are asked for
    named   whether a request names the model
    """

    path: ClassVar[str]
    named: ClassVar[bool]

    def request(self, prompt: Prompt, params: SamplingParams, key: int) -> dict[str, Any]:
        """The body of a completion's request, without the model. Raises UserError for what the server cannot do."""
        ...

    def completion(self, prompt: Prompt, reply: dict[str, Any], url: str) -> Completion:
        """What a reply holds. Raises UserError for one that cannot be trained on."""
        ...

    def load(self, folder: Path, version: int) -> tuple[str, dict[str, Any]] | None:
        """Path and body that have the server load weights from a folder; None where it cannot."""
        ...


class _OpenAI:
    """OpenAI's chat completions, with the ids that vLLM adds to them."""

    path = "/v1/chat/completions"
    named = True

    def _common(self, params: SamplingParams, key: int) -> dict[str, Any]:
        asked = {"logprobs": True, "top_logprobs": 0, "return_token_ids": True}
        stops = {"stop_token_ids": list(params.stop_token_ids)} if params.stop_token_ids else {}
        return {"temperature": params.temperature, "seed": key, "n": 1, **stops, **asked}

    def completion(self, prompt: Prompt, reply: dict[str, Any], url: str) -> Completion:
        """From its one choice."""
        choice = reply["choices"][0]
        ids, entries = choice.get("token_ids"), (choice.get("logprobs") or {}).get("content")
        if ids is None or entries is None or len(ids) != len(entries):
            raise UserError(
                f"{url} gave no token ids with their log-probabilities: it must honour `return_token_ids` and "
                "`logprobs` (vLLM does from 0.10.2 on)"
            )
        check_same(prompt.ids, reply.get("prompt_token_ids") or [], url)
        logprobs = [entry["logprob"] for entry in entries]
        return Completion(ids, logprobs, _reason(choice["finish_reason"], url), self.version(choice))

    def version(self, choice: dict[str, Any]) -> int:
        """The version of the weights that sampled a choice; -1 where the server does not say."""
        return choice.get("policy_version", -1)


@dataclasses.dataclass(frozen=True)
class Ours(_OpenAI):
    """`gui-rl policy serve`."""

    def request(self, prompt: Prompt, params: SamplingParams, key: int) -> dict[str, Any]:
        """Ids and images as they are."""
        images = [data_url(image) for image in prompt.images]
        body = {"prompt_token_ids": prompt.ids, "images": images, "max_tokens": params.max_tokens}
        return body | self._common(params, key)

    def load(self, folder: Path, version: int) -> tuple[str, dict[str, Any]]:
        """From a folder that its `--weights` allows."""
        return "/v1/weights", {"path": str(folder), "version": version}


@dataclasses.dataclass(frozen=True)
class Vllm(_OpenAI):
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
        """Messages."""
        if params.temperature not in (0, 1) and not self.processed_logprobs:
            raise UserError(
                f"temperature {params.temperature}: vLLM gives log-probabilities before the temperature; start it with "
                "--logprobs-mode processed_logprobs and say so (Vllm(processed_logprobs=True)), or sample at 1"
            )
        body = {"messages": messages_of(self.tokenizer, prompt), "max_completion_tokens": params.max_tokens, "top_k": 0}
        return body | NEUTRAL | {"logit_bias": banned(self.tokenizer)} | self._common(params, key)

    def load(self, folder: Path, version: int) -> None:
        """It has no such call."""
        return None


@dataclasses.dataclass(frozen=True)
class Sglang:
    """SGLang's `/generate` (docs.sglang.io, "Sampling Parameters" and "SGLang Native APIs").

    Its log-probabilities are those at the sampling temperature, unless the server was started with
    SGLANG_RETURN_ORIGINAL_LOGPROB: leave that unset. A draw is a function of its key only on a server that was started
    with `--enable-deterministic-inference`.

    Attributes:
      tokenizer: the policy's.
    """

    tokenizer: Tokenizer

    path: ClassVar[str] = "/generate"
    named: ClassVar[bool] = False

    def request(self, prompt: Prompt, params: SamplingParams, key: int) -> dict[str, Any]:
        """Ids and images; the log-probabilities of the prompt too, since its ids come back with them."""
        drawn = {"temperature": params.temperature, "max_new_tokens": params.max_tokens, "top_k": -1, **NEUTRAL}
        drawn |= {"stop_token_ids": [self.tokenizer.eos_id, *params.stop_token_ids], "skip_special_tokens": False}
        drawn |= {"logit_bias": banned(self.tokenizer), "sampling_seed": key, "n": 1}
        body: dict[str, Any] = {"input_ids": prompt.ids, "sampling_params": drawn}
        body |= {"return_logprob": True, "logprob_start_len": 0, "stream": False}
        return body | ({"image_data": [data_url(image) for image in prompt.images]} if prompt.images else {})

    def completion(self, prompt: Prompt, reply: dict[str, Any], url: str) -> Completion:
        """From `meta_info`, whose entries are [log-probability, id, text or null].

        The ids at image positions are the server's own (it hashes images), so that only their number is compared.
        """
        about = reply["meta_info"]
        read, drawn = about.get("input_token_logprobs"), about.get("output_token_logprobs")
        if not read or not drawn or any(entry[0] is None for entry in drawn):
            raise UserError(f"{url} gave no log-probabilities with their token ids: it must honour `return_logprob`")
        image, answered = self.tokenizer.image_id, [entry[1] for entry in read]
        pairs = zip(answered, prompt.ids, strict=False)
        shown = [image if asked == image else token for token, asked in pairs] + answered[len(prompt.ids) :]
        check_same(prompt.ids, shown, url)
        ids = [entry[1] for entry in drawn]
        if reply.get("output_ids", ids) != ids:
            raise UserError(f"{url} gave log-probabilities of other tokens than its `output_ids`")
        version = str(about.get("weight_version", ""))
        reason = _reason(about["finish_reason"]["type"], url)
        return Completion(ids, [entry[0] for entry in drawn], reason, int(version) if version.isdecimal() else -1)

    def load(self, folder: Path, version: int) -> tuple[str, dict[str, Any]]:
        """From any folder that it can read; what it cached under the old weights is dropped."""
        body = {"model_path": str(folder), "weight_version": str(version), "flush_cache": True}
        return "/update_weights_from_disk", body


def banned(tokenizer: Tokenizer) -> dict[str, int]:
    """Tokens that are never sampled (R9), as a bias."""
    return {str(token): -100 for token in sorted(tokenizer.unsampled_ids)}


def _reason(given: str, url: str) -> Any:
    if given not in ("stop", "length"):
        raise UserError(f"{url} ended a response by {given!r}: see the server's output")
    return given


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
