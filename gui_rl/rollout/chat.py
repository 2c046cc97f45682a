"""OpenAI's chat completions on the wire: requests in, prompts and replies out. No server and no engine in here.

In: the JSON of a request. Out: `ChatRequest`, the `Prompt` it asks for, and the reply's JSON or server-sent events.

Fields beyond OpenAI's: `return_token_ids` asks for `prompt_token_ids` and each choice's `token_ids` (vLLM's names);
`prompt_token_ids` with `images` (data URLs, one for each run of placeholders) stand in the place of `messages`, so that
ids are never remade (R7); each choice has the `policy_version` that sampled it. Whatever would change the distribution
(top_p, penalties, ...) is refused unless it is neutral (R14), and so is a field that is unknown. Tags that a text of a
message spells stay text (R41).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import codecs
import json
from collections.abc import AsyncIterator, Sequence
from itertools import groupby
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gui_rl.prompt.images import ImageInput, shared
from gui_rl.prompt.render import Prompt, check_placeholders, decode_response, render_messages
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.rollout.sampler import Completion, Piece


class Strict(BaseModel):
    """A part of a request; unknown fields are errors."""

    model_config = ConfigDict(extra="forbid")


class TextPart(Strict):
    """A piece of text."""

    type: Literal["text"]
    text: str


class ImageURL(Strict):
    """Where a picture is: a data URL."""

    url: str
    detail: Literal["auto"] = "auto"


class ImagePart(Strict):
    """A picture."""

    type: Literal["image_url"]
    image_url: ImageURL


class Message(Strict):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | list[Annotated[TextPart | ImagePart, Field(discriminator="type")]]
    tool_call_id: str | None = None  # the chat format does not show it: results stand in the order of their calls


class StreamOptions(Strict):
    """What a stream is to end with."""

    include_usage: bool = False


NEUTRAL: dict[str, tuple[Any, ...]] = {
    "top_p": (1,), "top_k": (-1, 0), "min_p": (0,), "repetition_penalty": (1,), "presence_penalty": (0,),
    "frequency_penalty": (0,), "logit_bias": ({},), "top_logprobs": (0,), "stop": ([],),
    "tool_choice": ("auto", "none"), "response_format": ({"type": "text"},), "user": (),
}  # fmt: skip
"""Fields of other servers and the values that change nothing here; `user` may be anything."""


class ChatRequest(Strict):
    """Body of POST /v1/chat/completions."""

    model: str
    messages: list[Message] | None = None
    prompt_token_ids: list[int] | None = None
    images: list[str] = []
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    temperature: float = Field(1.0, ge=0, le=100)
    n: int = Field(1, ge=1, le=128)
    seed: int | None = Field(None, ge=0, lt=2**32)
    stop_token_ids: list[int] = []
    logprobs: bool = False
    return_token_ids: bool = False
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    tools: list[dict[str, Any]] | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_neutral_fields(cls, body: Any) -> Any:
        if not isinstance(body, dict):
            return body
        given = {name: value for name, value in body.items() if value is not None}  # null is "not given"
        for name, neutral in NEUTRAL.items():
            if name in given and name != "user" and given[name] not in neutral:
                raise ValueError(f"{name}={given[name]!r} is not served: draws are from the policy's own distribution")
        return {name: value for name, value in given.items() if name not in NEUTRAL}

    @model_validator(mode="after")
    def _one_prompt(self) -> ChatRequest:
        if (self.messages is None) == (self.prompt_token_ids is None):
            raise ValueError("give either messages or prompt_token_ids")
        if self.messages is not None and self.images:
            raise ValueError("images go with prompt_token_ids; in messages they are image_url parts")
        return self


class ScoreRequest(Strict):
    """Body of POST /v1/score: a prompt of ids with its images (as in `ChatRequest`), and the response to be scored."""

    model: str
    prompt_token_ids: list[int]
    images: list[str] = []
    response_token_ids: list[int] = Field(min_length=1)
    temperature: float = Field(1.0, gt=0, le=100)


def read_prompt(body: ChatRequest, tokenizer: Tokenizer, thinking: bool) -> Prompt:
    """The prompt of a request. Raises ValueError, or UserError of an image, that names the part."""
    if body.messages is not None:
        messages = [_message(number, message) for number, message in enumerate(body.messages)]
        return render_messages(tokenizer, messages, body.tools, thinking=thinking, sample_id="messages")
    return read_ids(body, tokenizer)


def read_ids(body: ChatRequest | ScoreRequest, tokenizer: Tokenizer) -> Prompt:
    """The prompt of a request that gives its ids. Raises as `read_prompt` does."""
    images = [_image(url, f"images[{number}]") for number, url in enumerate(body.images)]
    return prompt_of(tokenizer, body.prompt_token_ids, images)


def prompt_of(tokenizer: Tokenizer, ids: Sequence[int], images: Sequence[ImageInput]) -> Prompt:
    """A prompt from ids with their placeholders expanded. Raises ValueError for ids that the images do not fit."""
    wrong = [token for token in ids if not 0 <= token < tokenizer.vocab_size]
    if wrong or not ids:
        raise ValueError(f"prompt_token_ids: {f'no token has the id {wrong[0]}' if wrong else 'there are none'}")
    check_placeholders(ids, images, tokenizer.image_id, "prompt_token_ids")
    spans, position = [], 0
    for placeholder, run in groupby(ids, key=lambda token: token == tokenizer.image_id):
        length = len(list(run))
        if placeholder:
            spans.append((position, position + length))
        position += length
    return Prompt(list(ids), list(images), spans, 0)


def _message(number: int, message: Message) -> dict[str, Any]:
    if isinstance(message.content, str):
        return {"role": message.role, "content": message.content}
    parts: list[dict[str, Any]] = []
    for place, part in enumerate(message.content):
        if isinstance(part, TextPart):
            parts.append({"type": "text", "text": part.text})
        else:
            where = f"messages[{number}].content[{place}].image_url"
            parts.append({"type": "image", "image": _image(part.image_url.url, where)})
    if message.role == "assistant":
        if any(part["type"] == "image" for part in parts):
            raise ValueError(f"messages[{number}]: an assistant's content is text")
        return {"role": "assistant", "content": "".join(part["text"] for part in parts)}
    return {"role": message.role, "content": parts}


def _image(url: str, where: str) -> ImageInput:
    """The image of a data URL; nothing is ever fetched."""
    head, comma, data = url.partition(",")
    if not (comma and head.startswith("data:image/") and head.endswith(";base64")):
        raise ValueError(f"{where}: an image is given as data:image/png;base64,...; nothing is fetched")
    try:
        content = base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise ValueError(f"{where}: not base64 ({error})") from error
    return shared(content, name=where)


# --- replies ---------------------------------------------------------------------------------------------------------
def usage(prompt: Prompt, found: Sequence[Completion]) -> dict[str, int]:
    """Tokens in and out."""
    came = sum(len(completion.token_ids) for completion in found)
    return {"prompt_tokens": len(prompt.ids), "completion_tokens": came, "total_tokens": len(prompt.ids) + came}


def token_logprobs(tokenizer: Tokenizer, completion: Completion | Piece) -> dict[str, Any]:
    """OpenAI's `logprobs`: one entry a token, in nats."""
    content = []
    for token, logp in zip(completion.token_ids, completion.logprobs, strict=True):
        raw = list(tokenizer.token_bytes(token))
        content.append({"token": tokenizer.decode([token]), "logprob": logp, "bytes": raw, "top_logprobs": []})
    return {"content": content, "refusal": None}


def whole(head: dict, body: ChatRequest, tokenizer: Tokenizer, prompt: Prompt, found: Sequence[Completion]) -> dict:
    """A chat completion."""
    choices = []
    for index, completion in enumerate(found):
        choice: dict[str, Any] = {
            "index": index,
            "message": {"role": "assistant", "content": decode_response(tokenizer, completion.token_ids)},
            "finish_reason": completion.finish_reason,
            "logprobs": token_logprobs(tokenizer, completion) if body.logprobs else None,
            "policy_version": completion.policy_version,
        }
        if body.return_token_ids:
            choice["token_ids"] = completion.token_ids
        choices.append(choice)
    ids = {"prompt_token_ids": prompt.ids} if body.return_token_ids else {}
    return {**head, "object": "chat.completion", "choices": choices, "usage": usage(prompt, found), **ids}


async def events(
    head: dict, body: ChatRequest, tokenizer: Tokenizer, prompt: Prompt, streams: Sequence[AsyncIterator]
) -> AsyncIterator[str]:
    """The same as server-sent events: a token each, as the choices' streams give them, then the end of each choice,
    then the usage where asked for."""
    head = {**head, "object": "chat.completion.chunk"}

    def event(choices: list[dict], **more: Any) -> str:
        return f"data: {json.dumps({**head, 'choices': choices, **more}, ensure_ascii=False)}\n\n"

    for index in range(len(streams)):
        first = {"index": index, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
        yield event([first], **({"prompt_token_ids": prompt.ids} if body.return_token_ids and not index else {}))
    # a character may be spread over several tokens
    texts = [codecs.getincrementaldecoder("utf-8")("replace") for _ in streams]
    found = []
    async for index, part in _together(streams):
        if isinstance(part, Piece):
            entries = token_logprobs(tokenizer, part)["content"]
            for token, entry in zip(part.token_ids, entries, strict=True):
                piece = "" if token == tokenizer.eos_id else texts[index].decode(tokenizer.token_bytes(token))
                choice: dict[str, Any] = {"index": index, "delta": {"content": piece}, "finish_reason": None}
                if body.logprobs:
                    choice["logprobs"] = {"content": [entry], "refusal": None}
                if body.return_token_ids:
                    choice["token_ids"] = [token]
                yield event([choice])
            continue
        found.append(part)
        rest = texts[index].decode(b"", final=True)
        yield event([{
            "index": index, "delta": {"content": rest} if rest else {}, "finish_reason": part.finish_reason,
            "policy_version": part.policy_version,
        }])  # fmt: skip
    if body.stream_options.include_usage:
        yield event([], usage=usage(prompt, found))
    yield "data: [DONE]\n\n"


async def _together(streams: Sequence[AsyncIterator]) -> AsyncIterator[tuple[int, Any]]:
    """(number of the stream, its item), in the order in which they come. An error of one ends all."""
    waiting = {asyncio.ensure_future(anext(stream)): index for index, stream in enumerate(streams)}
    try:
        while waiting:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in sorted(done, key=waiting.get):
                index = waiting.pop(task)
                try:
                    item = task.result()
                except StopAsyncIteration:
                    continue
                yield index, item
                waiting[asyncio.ensure_future(anext(streams[index]))] = index
    finally:
        for task in waiting:
            task.cancel()
