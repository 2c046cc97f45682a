"""Annotators: whoever answers a question about a screen, a step or a task.

In: a `Question`. Out: an `Answer`, which says who gave it. Three forms behind one protocol:

- `Endpoint`: a model behind any server that speaks OpenAI's chat completions; answers are kept on disk by question,
  requests are limited in rate and number at a time, repeated with growing pauses, and their cost is counted.
- `Exact`: functions of the world's state (`Question.facts`), true by construction; it refuses what it has no function
  for.
- `Recorded`: the kept answers of an endpoint, played back; a question that was never asked is an error.

An answer that is not what was asked for is rubbish: `ask_json` asks once more and then raises RubbishError, which
whoever asked counts as a drop.
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import hashlib
import json
import os
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import aiohttp

from gui_rl.errors import UserError

T = TypeVar("T")
_BUSY = (408, 409, 425, 429, 500, 502, 503, 504)
_FENCE = re.compile(r"^```\w*\s*\n(.*?)\n?```\s*$", re.DOTALL)


class AnnotatorError(Exception):
    """A question that got no answer; the message says which and why."""


class RubbishError(AnnotatorError):
    """An answer that is not what was asked for."""


@dataclasses.dataclass(frozen=True)
class Question:
    """What is asked.

    Attributes:
      purpose: kind of question, e.g. "judge"; an `Exact` annotator has a function for each that it knows.
      text: the question itself.
      system: who the annotator is to be.
      images: PNG bytes, in the order in which the text speaks of them.
      facts: what the world knows about it; for `Exact` alone, never sent anywhere.
      attempt: tells a repeated question from the first.
    """

    purpose: str
    text: str
    system: str = ""
    images: Sequence[bytes] = ()
    facts: Any = dataclasses.field(default=None, compare=False)
    attempt: int = 0

    @property
    def key(self) -> str:
        """Name of the question: equal for equal words, images and attempts."""
        parts = [self.purpose, self.text, self.system, self.attempt]
        parts += [hashlib.sha256(image).hexdigest() for image in self.images]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@dataclasses.dataclass(frozen=True)
class Answer:
    """A text and who gave it."""

    text: str
    annotator: str


class Annotator(Protocol):
    """Anything that answers; `name` goes into every record that it had a part in."""

    name: str

    async def ask(self, question: Question) -> Answer:
        """The answer. Raises AnnotatorError where there is none, UserError for what the user can put right."""
        ...


async def ask_json(annotator: Annotator, question: Question, read: Callable[[Any], T], tries: int = 2) -> T:
    """The answer as JSON, turned into what was asked for by `read` (which raises ValueError, KeyError or TypeError).

    Raises RubbishError when `tries` answers were no such thing.
    """
    for attempt in range(tries):
        answer = await annotator.ask(dataclasses.replace(question, attempt=question.attempt + attempt))
        try:
            fenced = _FENCE.match(answer.text.strip())
            return read(json.loads(fenced[1] if fenced else answer.text))
        except (ValueError, KeyError, TypeError) as error:
            reason = f"{answer.annotator} answered {question.purpose} with {answer.text[:80]!r}: {error}"
    raise RubbishError(f"{reason} ({tries} tries)")


class Exact:
    """Answers from the world's state: `functions[purpose](facts)` gives the text, or a value that becomes JSON."""

    name = "exact"

    def __init__(self, functions: Mapping[str, Callable[[Any], Any]]):
        self._functions = dict(functions)

    async def ask(self, question: Question) -> Answer:
        """See `Annotator`."""
        if question.purpose not in self._functions or question.facts is None:
            raise AnnotatorError(f"nothing is known exactly about {question.purpose!r} here: use an endpoint for it")
        value = self._functions[question.purpose](question.facts)
        return Answer(value if isinstance(value, str) else json.dumps(value), self.name)


class Recorded:
    """Plays back what an `Endpoint` kept in its folder."""

    def __init__(self, folder: str | Path):
        self._folder = Path(folder)
        names = [json.loads(path.read_text())["annotator"] for path in sorted(self._folder.glob("*.json"))[:1]]
        if not names:
            raise UserError(f"{self._folder} holds no recorded answers: name the folder of an endpoint's answers")
        self.name = f"recorded {names[0]}"

    async def ask(self, question: Question) -> Answer:
        """See `Annotator`."""
        path = self._folder / f"{question.key}.json"
        if not path.is_file():
            raise AnnotatorError(f"{self._folder} holds no answer to this {question.purpose}: {question.text[:80]!r}")
        return Answer(json.loads(path.read_text())["text"], self.name)


@dataclasses.dataclass(frozen=True)
class EndpointConfig:
    """A model behind OpenAI's chat completions.

    Attributes:
      url: of the server, without `/chat/completions`, e.g. `http://127.0.0.1:8000/v1`.
      model: its name there.
      key_variable: environment variable that holds the key; "" sends none.
      answers: folder where answers are kept.
      a_minute, at_a_time: limits of requests.
      tries: how often a request is sent at most.
      first_pause_s: before it is sent again, doubled each time; a server's Retry-After counts if it is longer.
      timeout_s: of one request.
      temperature, max_tokens: of an answer; a repeated question is asked at temperature 1 at least.
      dollars_in, dollars_out: price of a million tokens.
      most_dollars: no further question is sent once this much was spent; 0 sets no limit.
    """

    url: str = ""
    model: str = ""
    key_variable: str = ""
    answers: Path = Path("annotations")
    a_minute: float = 600.0
    at_a_time: int = 8
    tries: int = 6
    first_pause_s: float = 1.0
    timeout_s: float = 120.0
    temperature: float = 0.0
    max_tokens: int = 1024
    dollars_in: float = 0.0
    dollars_out: float = 0.0
    most_dollars: float = 0.0


@dataclasses.dataclass
class Cost:
    """What an endpoint was asked for, and what that cost."""

    requests: int = 0
    kept: int = 0
    repeats: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    dollars: float = 0.0


class Endpoint:
    """See `EndpointConfig`; use it as `async with Endpoint(config) as annotator`. `cost` counts since it was made."""

    def __init__(self, config: EndpointConfig):
        self.config, self.cost = config, Cost()
        self.name = f"{config.model} at {config.url}"
        self.folder = config.answers / re.sub(r"[^\w.-]+", "_", config.model)
        self._gate = asyncio.Semaphore(config.at_a_time)
        self._next = 0.0
        self._same: dict[str, asyncio.Lock] = {}

    async def __aenter__(self) -> Endpoint:
        if not (self.config.url and self.config.model):
            raise UserError("an annotator needs url and model")
        key = os.environ.get(self.config.key_variable, "") if self.config.key_variable else ""
        if self.config.key_variable and not key:
            raise UserError(
                f"the environment variable {self.config.key_variable} is empty: put the endpoint's key there"
            )
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        timeout = aiohttp.ClientTimeout(total=self.config.timeout_s)
        self._http = aiohttp.ClientSession(headers=headers, timeout=timeout)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    async def ask(self, question: Question) -> Answer:
        """See `Annotator`. Equal questions are sent once, also when they are asked at the same time."""
        path = self.folder / f"{question.key}.json"
        async with self._same.setdefault(question.key, asyncio.Lock()):
            if path.is_file():
                self.cost.kept += 1
                return Answer(json.loads(path.read_text())["text"], self.name)
            if 0 < self.config.most_dollars <= self.cost.dollars:
                raise UserError(
                    f"{self.name}: {self.cost.dollars:.2f} dollars are spent; raise most_dollars to go on (what was "
                    "answered so far is kept)"
                )
            async with self._gate:
                text, usage = await self._sent(question)
            document = {"annotator": self.name, "purpose": question.purpose, "text": text, "usage": usage}
            self.folder.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(".partial")
            partial.write_text(json.dumps(document | {"question": question.text}, indent=1))
            os.replace(partial, path)
            return Answer(text, self.name)

    async def _sent(self, question: Question) -> tuple[str, dict[str, int]]:
        config, pause, reason = self.config, self.config.first_pause_s, ""
        for number in range(config.tries):
            if number:
                self.cost.repeats += 1
                await asyncio.sleep(pause * random.uniform(0.75, 1.25))
                pause *= 2
            await self._turn()
            self.cost.requests += 1
            try:
                async with self._http.post(
                    f"{config.url.rstrip('/')}/chat/completions", json=self._body(question)
                ) as r:
                    content = await r.text()
                    if r.status == 200:
                        return self._read(content)
                    reason = f"status {r.status}: {content[:200]}"
                    if r.status in (401, 403, 404):
                        raise UserError(f"{self.name} refuses: {reason}; check url, model and key_variable")
                    if r.status not in _BUSY:
                        raise AnnotatorError(f"{self.name} refuses this {question.purpose}: {reason}")
                    after = r.headers.get("Retry-After", "")
                    pause = max(pause, float(after)) if after.replace(".", "", 1).isdigit() else pause
            except (aiohttp.ClientError, TimeoutError) as error:
                reason = repr(error)
            except (ValueError, KeyError, IndexError, TypeError) as error:
                reason = f"a reply that is no chat completion ({error!r})"
        raise AnnotatorError(f"{self.name} gave no answer to this {question.purpose} in {config.tries} tries: {reason}")

    async def _turn(self) -> None:
        """Waits until the rate allows another request."""
        now = time.monotonic()
        self._next = max(self._next, now) + 60.0 / self.config.a_minute
        await asyncio.sleep(self._next - 60.0 / self.config.a_minute - now)

    def _body(self, question: Question) -> dict[str, Any]:
        urls = ("data:image/png;base64," + base64.b64encode(image).decode() for image in question.images)
        content = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
        messages = [{"role": "system", "content": question.system}] if question.system else []
        messages.append({"role": "user", "content": [*content, {"type": "text", "text": question.text}]})
        temperature = max(self.config.temperature, 1.0 if question.attempt else 0.0)
        limits = {"temperature": temperature, "max_tokens": self.config.max_tokens}
        return {"model": self.config.model, "messages": messages, **limits}

    def _read(self, content: str) -> tuple[str, dict[str, int]]:
        document = json.loads(content)
        text = document["choices"][0]["message"]["content"]
        if not isinstance(text, str):
            raise TypeError("its content is no text")
        usage = {name: int(count) for name, count in (document.get("usage") or {}).items() if isinstance(count, int)}
        tokens_in, tokens_out = usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)
        self.cost.tokens_in += tokens_in
        self.cost.tokens_out += tokens_out
        self.cost.dollars += (tokens_in * self.config.dollars_in + tokens_out * self.config.dollars_out) / 1e6
        return text, usage
