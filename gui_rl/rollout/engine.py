"""The sampler in this process: continuous batching over a static key-value cache.

1. `sample` puts its prompts into a queue and waits. In every round a worker takes what waits, as far as slots are free.
2. Screenshots that it has not seen under the present weights are encoded, each once, however many prompts show it.
3. Distinct prompts are prefilled, each once: members of a group that see the same screen share it. A prompt that begins
   like what a slot still holds (the turn before, in a context that grows) goes on from there.
4. All slots decode a few tokens; those that ended are handed out and are free in the next round.
Rows, lengths and patches are rounded up to buckets, so that the number of compiled programs is small and fixed once
each bucket has been used (`compile_count`, R12). Image placeholders and the other control tokens that a response cannot
hold are never sampled (R9). New weights are used from the next round on, also in the middle of a response: its
completion says which tokens were sampled under which version. While one round is on the device, episodes whose turn is
over act in their environments and queue up for the next one.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax.numpy as jnp
import numpy as np

from gui_rl.data.packing import Branch, Sample, check, pack
from gui_rl.errors import UserError
from gui_rl.model.config import ModelConfig
from gui_rl.model.inputs import ModelInputs
from gui_rl.prompt.context import ContextConfig
from gui_rl.prompt.images import ImageInput
from gui_rl.prompt.render import Prompt
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.rollout import programs
from gui_rl.rollout.kept import ImageCells, Prefix, longest_match, shown, tails
from gui_rl.rollout.requests import Request, shared, version_spans
from gui_rl.rollout.sampler import Completion, Piece, SamplingParams

DEFAULT_PROMPT_TOKENS = 8192
"""Room for a prompt in a context that states no limit."""


@dataclasses.dataclass(frozen=True)
class EngineConfig:
    """Static shapes of the engine.

    Attributes:
      row_buckets: numbers of rows that programs are compiled for; the largest is the number of slots.
      capacity: tokens of a prompt and its response together.
      image_cells: visual tokens that are kept; those of the images used longest ago make room.
      length_multiple, patch_multiple: prompt lengths and patches an image are rounded up to multiples of these.
      stride: tokens that a round decodes at most before it lets waiting prompts in.
      reuse: share of a prompt that a slot must hold already for the prompt to go on from there. Above 1 nothing is
        kept: better where every prompt begins with its own screenshot, since fewer rows then decode.
      gather_s: how long an idle worker waits for more prompts once it has one, seconds.
    """

    row_buckets: tuple[int, ...] = (8, 16, 32)
    capacity: int = 192
    image_cells: int = 2048
    length_multiple: int = 32
    patch_multiple: int = 80
    stride: int = 16
    reuse: float = 0.5
    gather_s: float = 0.004


def engine_config(context: ContextConfig, max_tokens: int = SamplingParams().max_tokens) -> EngineConfig:
    """An engine for prompts in this context with responses of up to `max_tokens`.

    Nothing is kept for later prompts where each begins with a screenshot of its own.
    """
    longest = context.max_prompt_tokens or DEFAULT_PROMPT_TOKENS
    return EngineConfig(capacity=_round_up(longest + max_tokens, 64), reuse=0.5 if context.history_turns else 2.0)


class Engine:
    """Continuous batching on the local devices.

    Attributes:
      compile_count: programs compiled so far.
      tokens_sampled, images_encoded, prompts_prefilled, tokens_prefilled, busy_s: totals, for rates.
    """

    def __init__(
        self, cfg: ModelConfig, params, tokenizer: Tokenizer, config: EngineConfig | None = None, version: int = 0
    ):
        self.cfg, self.tokenizer, self.config = cfg, tokenizer, config or EngineConfig()
        self.weights = (params, version)  # of the rounds that start from now on
        self._decoding: tuple | None = None  # the weights that decode, and their form for it
        banned = np.zeros(cfg.text.vocab_size, bool)
        banned[list(tokenizer.unsampled_ids)] = True
        banned[tokenizer.vocab_size :] = True  # rows of the embedding that stand for no token
        self._banned = jnp.asarray(banned)
        self._shapes: set[tuple] = set()
        self._queue: asyncio.Queue[Request] | None = None
        self._worker: asyncio.Task | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = ThreadPoolExecutor(1, "engine")
        self.tokens_sampled = self.images_encoded = self.prompts_prefilled = self.tokens_prefilled = 0
        self.busy_s = 0.0
        self._clear()

    def _clear(self) -> None:
        """All slots free, no image kept."""
        rows = self.config.row_buckets[-1]
        self._slots = programs.empty_slots(self.cfg, rows, self.config.capacity)
        self._free, self._held = list(range(rows)), {}
        self._prefixes: dict[int, Prefix] = {}
        self._images = ImageCells(self.config.image_cells)
        self._features = programs.empty_features(self.cfg, self.config.image_cells)
        self._encoded_with = self.weights

    @property
    def compile_count(self) -> int:
        """Programs compiled so far, one a combination of buckets."""
        return len(self._shapes)

    async def sample(self, prompts: Sequence[Prompt], params: SamplingParams, keys: Sequence[int]) -> list[Completion]:
        """Completes every prompt; the draws of prompt i depend on `keys[i]` alone.

        Raises UserError for a prompt that the cache cannot hold, or too many end tokens.
        """
        self._check(prompts, params)
        requests = [self._begin(prompt, params, key) for prompt, key in zip(prompts, keys, strict=True)]
        return list(await asyncio.gather(*(request.future for request in requests)))

    async def stream(self, prompt: Prompt, params: SamplingParams, key: int) -> AsyncIterator[Piece | Completion]:
        """Like `sample` for one prompt: what every round adds, as soon as it is there, and then the whole.

        The pieces together hold all tokens. Raises UserError, at the first step, where `sample` does.
        """
        self._check([prompt], params)
        request = self._begin(prompt, params, key, asyncio.Queue())
        request.future.add_done_callback(lambda _: request.pieces.put_nowait(None))
        try:
            while (piece := await request.pieces.get()) is not None:
                yield piece
            done = request.future.result()
            yield Piece(done.token_ids[request.given :], done.logprobs[request.given :])
            yield done
        finally:
            request.future.cancel()

    def _begin(
        self, prompt: Prompt, params: SamplingParams, key: int, pieces: asyncio.Queue[Piece] | None = None
    ) -> Request:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # a new event loop: the old one's worker died with it
            self._loop, self._queue = loop, asyncio.Queue()
            self._clear()
            self._worker = loop.create_task(self._work(self._queue))
        request = Request(prompt, params, key, loop.create_future(), pieces=pieces)
        self._queue.put_nowait(request)
        return request

    async def update_weights(self, params, version: int) -> None:
        """Uses `params` for every round that starts from now on."""
        self.weights = (params, version)

    async def close(self) -> None:
        """Stops the worker; requests that still wait are cancelled."""
        if self._worker is not None and self._loop is asyncio.get_running_loop():
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)
        self._loop = self._worker = None

    def _check(self, prompts: Sequence[Prompt], params: SamplingParams) -> None:
        longest = max((len(prompt.ids) for prompt in prompts), default=0)
        if longest + params.max_tokens > self.config.capacity:
            raise UserError(
                f"a prompt of {longest} tokens and a response of up to {params.max_tokens} do not fit into the "
                f"sampler's {self.config.capacity}: raise EngineConfig.capacity, or shorten the context"
            )
        visual = max((sum(image.tokens for image in prompt.images) for prompt in prompts), default=0)
        if visual > self.config.image_cells:
            raise UserError(
                f"a prompt shows {visual} visual tokens, the sampler keeps {self.config.image_cells}: "
                "raise EngineConfig.image_cells"
            )
        if len(params.stop_token_ids) > programs.STOPS - 1:
            raise UserError(
                f"a request may have {programs.STOPS - 1} end tokens of its own, not {params.stop_token_ids}"
            )

    async def _work(self, queue: asyncio.Queue[Request]) -> None:
        loop = asyncio.get_running_loop()
        waiting: deque[Request] = deque()
        while True:
            if not waiting and not self._held:
                waiting.append(await queue.get())
                await asyncio.sleep(self.config.gather_s)
            while not queue.empty():
                waiting.append(queue.get_nowait())
            new = [waiting.popleft() for _ in range(min(len(waiting), len(self._free)))]
            run = functools.partial(self._round, self.weights, new)
            for request, outcome in await loop.run_in_executor(self._thread, run):
                if request.future.done():
                    continue
                if isinstance(outcome, Piece):
                    request.pieces.put_nowait(outcome)
                elif isinstance(outcome, Completion):
                    request.future.set_result(outcome)
                else:
                    request.future.set_exception(outcome)

    def _round(self, weights: tuple, new: list[Request]) -> list[tuple[Request, Piece | Completion | Exception]]:
        """Takes new requests in and decodes a few tokens; what has ended, with its completion or its error."""
        started = time.perf_counter()
        out: list[tuple[Request, Piece | Completion | Exception]] = []
        params, version = weights
        if weights is not self._encoded_with:  # what other weights saw is of no use
            self._images, self._encoded_with = ImageCells(self.config.image_cells), weights
        good = []
        for request in new:
            try:
                check(self._sample_of(request.prompt), self.tokenizer.image_id, self.cfg.vision.spatial_merge_size)
                good.append(request)
            except Exception as error:  # a prompt that contradicts itself is its own caller's affair
                out.append((request, error))
        try:
            self._admit(weights, good)
            out += self._advance(weights)
        except Exception as error:  # the device's state is lost: all callers get it, the worker lives on
            out += [(request, error) for request in {*good, *self._held.values()}]
            self._clear()
        self.busy_s += time.perf_counter() - started
        return out

    def _admit(self, weights: tuple, new: list[Request]) -> None:
        """In portions: those that go on from a slot before others take it, and no more than the cells have images."""
        while new:
            matches = [(request, *self._match(request.prompt, weights)) for request in new]
            begun = [match for match in matches if match[2]]
            images: dict[ImageInput, None] = {}
            portion: list[tuple[Request, int, int]] = []
            for request, slot, matched in begun or matches:
                more = [image for image in shown(request.prompt, matched) if image not in images]
                if portion and sum(image.tokens for image in [*images, *more]) > self.config.image_cells:
                    break
                images.update(dict.fromkeys(more))
                portion.append((request, slot, matched))
            self._encode(weights[0], list(images))
            self._admit_portion(weights, portion)
            taken = {id(request) for request, _, _ in portion}
            new = [request for request in new if id(request) not in taken]

    def _match(self, prompt: Prompt, weights: tuple) -> tuple[int, int]:
        """(slot, tokens) that a prompt goes on from; (0, 0) to start anew."""
        if self.config.reuse > 1:
            return 0, 0
        slot, tokens = longest_match(Prefix.of(prompt, weights), self._prefixes.items())
        return (slot, tokens) if tokens >= self.config.reuse * len(prompt.ids) else (0, 0)

    def _admit_portion(self, weights: tuple, new: list[tuple[Request, int, int]]) -> None:
        config, params = self.config, weights[0]
        owner, distinct = shared(new)
        prompts, rows = self._bucket(len(distinct)), self._bucket(len(new))
        visual = max(sum(image.tokens for image in prompt.images) for prompt, _, _ in distinct)
        cells = np.zeros((prompts, _round_up(visual, config.patch_multiple // 4)), np.int32)
        source, matched = np.zeros(prompts, np.int32), np.zeros(prompts, np.int32)
        for row, (prompt, slot, tokens) in enumerate(distinct):
            source[row], matched[row] = slot, tokens
            seen, at = set(map(id, shown(prompt, tokens))), 0
            for image in prompt.images:
                if id(image) in seen:
                    cells[row, at : at + image.tokens] = self._images.cells(image)
                at += image.tokens
        length = self._length(max(len(prompt.ids) for prompt, _, _ in distinct))
        inputs = self._pack([self._sample_of(prompt) for prompt, _, _ in distinct], prompts, length, 0)
        if matched.any():
            length = self._length(max(len(prompt.ids) - tokens for prompt, _, tokens in distinct))
            inputs = tails(inputs, matched, length)
            self._shapes.add(("extend", prompts, length, cells.shape[1]))
            hidden, kv = programs.extend(
                params, self._features, self._slots.kv, source, matched, inputs, cells, cfg=self.cfg
            )
        else:
            self._shapes.add(("prefill", prompts, length, cells.shape[1]))
            hidden, kv = programs.prefill(params, self._features, inputs, cells, cfg=self.cfg, capacity=config.capacity)
        self._shapes.add(("admit", prompts, rows))
        self.prompts_prefilled += len(distinct)
        self.tokens_prefilled += sum(len(prompt.ids) - tokens for prompt, _, tokens in distinct)
        slots = np.full(rows, config.row_buckets[-1], np.int32)  # beyond the last: nowhere
        budget, keys = np.zeros(rows, np.int32), np.zeros(rows, np.uint32)
        temperature, stops = np.zeros(rows, np.float32), np.full((rows, programs.STOPS), -1, np.int32)
        for row, (request, begun, tokens) in enumerate(new):
            slots[row] = slot = self._free_slot(begun if tokens else None)
            self._held[slot] = request
            self._keep(slot, Prefix.of(request.prompt, weights))
            budget[row], keys[row] = request.params.max_tokens, request.key
            temperature[row] = request.params.temperature
            ends = (self.tokenizer.eos_id, *request.params.stop_token_ids)
            stops[row, : len(ends)] = ends
        owners = np.array(owner + [0] * (rows - len(new)), np.int32)
        self._slots = programs.admit(self._slots, hidden, kv, owners, slots, budget, keys, temperature, stops)

    def _keep(self, slot: int, prefix: Prefix) -> None:
        if self.config.reuse <= 1:
            self._prefixes[slot] = prefix

    def _free_slot(self, begun: int | None) -> int:
        """The slot that is gone on from, where it is free; else the first that holds nothing of use; else the first."""
        self._free.sort()
        idle = begun if begun in self._free else next((s for s in self._free if s not in self._prefixes), self._free[0])
        self._free.remove(idle)
        return idle

    def _encode(self, params, images: list[ImageInput]) -> None:
        """Encodes the images that are not kept, as many at a time as the largest bucket has rows."""
        missing = self._images.claim(images)
        most = self.config.row_buckets[-1]
        for part in (missing[at : at + most] for at in range(0, len(missing), most)):
            rows = self._bucket(len(part))
            patches = _round_up(max(len(image.patches) for image in part), self.config.patch_multiple)
            image_id = self.tokenizer.image_id
            samples = [Sample("image", [image_id] * i.tokens, (i,), (Branch([0]),)) for i in part]
            cells = np.full((rows, patches // 4), self.config.image_cells, np.int32)
            for row, image in enumerate(part):
                cells[row, : image.tokens] = self._images.cells(image)
            inputs = self._pack(samples, rows, patches // 4 + 1, patches)
            self._shapes.add(("encode", rows, patches))
            self._features = programs.encode(params, self._features, inputs, cells, cfg=self.cfg)
            self.images_encoded += len(part)

    def _advance(self, weights: tuple) -> list[tuple[Request, Piece | Completion]]:
        if not self._held:
            return []
        _, version = weights
        rows = self._bucket(max(self._held) + 1)
        self._shapes.add(("advance", rows))
        self._slots = programs.advance(
            self._for_decoding(weights), self._slots, self._banned, cfg=self.cfg, rows=rows, stride=self.config.stride
        )
        counts, active = np.asarray(self._slots.counts), np.asarray(self._slots.active)
        ended = [slot for slot in self._held if not active[slot]]
        for slot, request in self._held.items():
            request.spans.append((version, int(counts[slot])))
        streamed = [slot for slot, request in self._held.items() if request.pieces is not None and active[slot]]
        if not ended and not streamed:
            return []
        tokens, logps = np.asarray(self._slots.tokens), np.asarray(self._slots.logps)
        out = []
        for slot in streamed:
            request, count = self._held[slot], int(counts[slot])
            new = slice(request.given, count)
            request.given = count
            out.append((request, Piece(tokens[slot, new].tolist(), logps[slot, new].tolist())))
        for slot in ended:
            request = self._held.pop(slot)
            self._free.append(slot)
            ids = tokens[slot, : counts[slot]].tolist()
            begun = self._prefixes.pop(slot, None)
            if begun is not None and begun.weights is weights:  # all by the same weights; the last token is not held
                self._keep(slot, Prefix.of(request.prompt, weights, ids[:-1]))
            stopped = ids[-1] in (self.tokenizer.eos_id, *request.params.stop_token_ids)
            versions = tuple(version_spans(request.spans))
            reason = "stop" if stopped else "length"
            done = Completion(ids, logps[slot, : counts[slot]].tolist(), reason, versions[0][0], versions)
            out.append((request, done))
            self.tokens_sampled += len(ids)
        return out

    def _for_decoding(self, weights: tuple) -> Any:
        if self._decoding is None or self._decoding[0] is not weights:
            self._decoding = None  # frees the old form before the new one is made
            self._decoding = weights, programs.for_decoding(weights[0])
        return self._decoding[1]

    def _length(self, tokens: int) -> int:
        return min(_round_up(tokens, self.config.length_multiple), self.config.capacity)

    def _bucket(self, count: int) -> int:
        return next(size for size in self.config.row_buckets if size >= count)

    def _sample_of(self, prompt: Prompt) -> Sample:
        return Sample("prompt", prompt.ids[:-1], tuple(prompt.images), (Branch(prompt.ids[-1:]),))

    def _pack(self, samples: list[Sample], rows: int, length: int, patches: int) -> ModelInputs:
        """Right-padded rows, one sample a row (host, numpy); rows past the samples repeat the first.

        Patches are left out where there are none to be: the images are encoded already.
        """
        vision = self.cfg.vision
        return pack(
            samples + [samples[0]] * (rows - len(samples)), self.tokenizer.image_id, length, patches, rows=rows,
            merge=vision.spatial_merge_size, side=vision.position_side, one_per_row=True,
        ).inputs  # fmt: skip


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
