"""The sampler in this process: prompts that wait together are prefilled and decoded together, under one jit.

1. `sample` puts its prompts into a queue and waits. A worker takes whatever is waiting, at most the largest bucket.
2. Distinct prompts become right-padded rows, one a row; rows and lengths are rounded up to buckets so that the number
   of compiled programs stays small (`compile_count`, R12). Members of a group that see the same screen share a row.
3. One program prefills the rows; another gives every request a copy of its prompt's row and decodes until each has its
   end token or its budget is used.
Image placeholders and the other control tokens that a response cannot hold are never sampled (R9); the log-probability
that is reported is the full softmax's, which is what the trainer computes.
While one batch is on the device, episodes whose turn is over act in their environments and queue up for the next one.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from gui_rl.data.packing import Branch, Sample, pack
from gui_rl.model import cache, forward
from gui_rl.model.config import ModelConfig
from gui_rl.model.inputs import ModelInputs
from gui_rl.prompt.render import Prompt
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.rollout.sampler import Completion, SamplingParams


@dataclasses.dataclass(frozen=True)
class EngineConfig:
    """Static shapes of the engine.

    Attributes:
      row_buckets: numbers of rows that programs are compiled for; the largest is the biggest batch.
      length_multiple: prompt lengths are rounded up to a multiple of it.
      patch_multiple: patches a row are rounded up to a multiple of it.
      gather_s: how long the worker waits for more prompts once it has one, seconds.
    """

    row_buckets: tuple[int, ...] = (8, 16, 32)
    length_multiple: int = 32
    patch_multiple: int = 80
    gather_s: float = 0.004


@dataclasses.dataclass
class _Request:
    prompt: Prompt
    params: SamplingParams
    key: int
    future: asyncio.Future


class Engine:
    """Continuous batching of whole responses on the local devices.

    Attributes:
      compile_count: programs compiled so far.
      tokens_sampled, busy_s: totals, for rates.
    """

    def __init__(
        self, cfg: ModelConfig, params, tokenizer: Tokenizer, config: EngineConfig | None = None, version: int = 0
    ):
        self.cfg, self.tokenizer, self.config = cfg, tokenizer, config or EngineConfig()
        self._params, self._version = params, version
        banned = np.zeros(cfg.text.vocab_size, bool)
        banned[list(tokenizer.unsampled_ids)] = True
        banned[tokenizer.vocab_size :] = True  # rows of the embedding that stand for no token
        self._banned = jnp.asarray(banned)
        self._shapes: set[tuple] = set()
        self._queue: asyncio.Queue[_Request] | None = None
        self._worker: asyncio.Task | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = ThreadPoolExecutor(1, "engine")
        self.tokens_sampled, self.busy_s = 0, 0.0

    @property
    def compile_count(self) -> int:
        """Programs compiled so far, one a combination of buckets."""
        return len(self._shapes)

    async def sample(self, prompts: Sequence[Prompt], params: SamplingParams, keys: Sequence[int]) -> list[Completion]:
        """Completes every prompt; the draws of prompt i depend on `keys[i]` alone."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # a new event loop: the old one's worker died with it
            self._loop, self._queue = loop, asyncio.Queue()
            self._worker = loop.create_task(self._work(self._queue))
        requests = [_Request(p, params, k, loop.create_future()) for p, k in zip(prompts, keys, strict=True)]
        for request in requests:
            self._queue.put_nowait(request)
        return list(await asyncio.gather(*(request.future for request in requests)))

    async def update_weights(self, params, version: int) -> None:
        """Uses `params` for every batch that starts from now on."""
        self._params, self._version = params, version

    async def close(self) -> None:
        """Stops the worker; requests that still wait are cancelled."""
        if self._worker is not None and self._loop is asyncio.get_running_loop():
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)
        self._loop = self._worker = None

    async def _work(self, queue: asyncio.Queue[_Request]) -> None:
        largest = self.config.row_buckets[-1]
        held: list[_Request] = []
        while True:
            waiting = held or [await queue.get()]
            await asyncio.sleep(self.config.gather_s)
            while len(waiting) < largest and not queue.empty():
                waiting.append(queue.get_nowait())
            batch = [request for request in waiting if request.params == waiting[0].params]
            held = [request for request in waiting if request.params != waiting[0].params]
            params, version = self._params, self._version
            try:
                run = functools.partial(self._run, params, version, batch)
                completions = await asyncio.get_running_loop().run_in_executor(self._thread, run)
            except Exception as error:  # the callers get it; the worker lives on
                for request in batch:
                    if not request.future.done():
                        request.future.set_exception(error)
                continue
            for request, completion in zip(batch, completions, strict=True):
                if not request.future.done():
                    request.future.set_result(completion)

    def _bucket(self, count: int) -> int:
        return next(size for size in self.config.row_buckets if size >= count)

    def _run(self, params, version: int, batch: list[_Request]) -> list[Completion]:
        started = time.perf_counter()
        sampling = batch[0].params
        owner, distinct = _shared([request.prompt for request in batch])
        prompts, rows = self._bucket(len(distinct)), self._bucket(len(batch))
        length = _round_up(max(len(prompt.ids) for prompt in distinct), self.config.length_multiple)
        most = max(sum(len(image.patches) for image in prompt.images) for prompt in distinct)
        patches = _round_up(max(most, 1), self.config.patch_multiple)
        inputs = prompt_inputs(distinct, self.cfg, self.tokenizer.image_id, prompts, length, patches)
        padding = [0] * (rows - len(batch))
        keys = np.array([request.key for request in batch] + padding, np.uint32)
        capacity = length + sampling.max_tokens
        self._shapes |= {("prefill", prompts, length, patches, capacity), ("respond", prompts, rows, capacity)}
        hidden, kv = prefill(params, self.cfg, inputs, capacity)
        tokens, logps, counts = respond(
            params,
            hidden,
            kv,
            np.array(owner + padding, np.int32),
            keys,
            self._banned,
            np.float32(sampling.temperature),
            np.arange(rows) < len(batch),
            cfg=self.cfg,
            eos_id=self.tokenizer.eos_id,
            max_tokens=sampling.max_tokens,
        )
        tokens, logps, counts = np.asarray(tokens), np.asarray(logps), np.asarray(counts)
        completions = []
        for row in range(len(batch)):
            ids = tokens[row, : counts[row]].tolist()
            reason = "stop" if ids and ids[-1] == self.tokenizer.eos_id else "length"
            completions.append(Completion(ids, logps[row, : counts[row]].tolist(), reason, version))
        self.tokens_sampled += int(counts[: len(batch)].sum())
        self.busy_s += time.perf_counter() - started
        return completions


def _shared(prompts: Sequence[Prompt]) -> tuple[list[int], list[Prompt]]:
    """The distinct prompts (equal ids and the same images), and for every prompt which of them it is."""
    numbers: dict[tuple, int] = {}
    distinct, owner = [], []
    for prompt in prompts:
        number = numbers.setdefault((tuple(prompt.ids), *map(id, prompt.images)), len(distinct))
        if number == len(distinct):
            distinct.append(prompt)
        owner.append(number)
    return owner, distinct


def prompt_inputs(
    prompts: Sequence[Prompt], cfg: ModelConfig, image_token_id: int, rows: int, length: int, patches: int
) -> ModelInputs:
    """Right-padded rows `[rows, length]`, one prompt a row (host, numpy); rows past the prompts repeat the first."""
    padded = list(prompts) + [prompts[0]] * (rows - len(prompts))
    samples = [
        Sample(f"prompt {n}", prompt.ids[:-1], tuple(prompt.images), (Branch(prompt.ids[-1:]),))
        for n, prompt in enumerate(padded)
    ]
    vision = cfg.vision
    return pack(
        samples,
        image_token_id,
        length,
        patches,
        rows=rows,
        merge=vision.spatial_merge_size,
        side=round(vision.num_position_embeddings**0.5),
        one_per_row=True,
    ).inputs


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


prefill = jax.jit(forward.prefill, static_argnames=("cfg", "capacity"))


@functools.partial(jax.jit, static_argnames=("cfg", "eos_id", "max_tokens"))
def respond(
    params,
    hidden: Float[Array, "P D"],
    kv: cache.KVCache,
    owner: Int[Array, " B"],
    keys: Int[Array, " B"],
    banned: Bool[Array, " V"],
    temperature: Float[Array, ""],
    wanted: Bool[Array, " B"],
    *,
    cfg: ModelConfig,
    eos_id: int,
    max_tokens: int,
) -> tuple[Int[Array, "B N"], Float[Array, "B N"], Int[Array, " B"]]:
    """Samples a response for every wanted row: (tokens, log-probabilities in nats, lengths), N = `max_tokens`.

    Row b answers the prefilled prompt `owner[b]`.
    """
    hidden, kv = hidden[owner], cache.take(kv, owner)
    rows = owner.shape[0]
    row_keys = jax.vmap(jax.random.key)(keys)
    greedy = temperature <= 0
    scale = jnp.where(greedy, 1.0, temperature)

    def draw(hidden, index):
        scores = forward.logits(params, cfg, hidden).astype(jnp.float32) / scale
        allowed = jnp.where(banned, -jnp.inf, scores)
        noise = jax.vmap(lambda key: jax.random.gumbel(jax.random.fold_in(key, index), banned.shape))(row_keys)
        token = jnp.argmax(allowed + jnp.where(greedy, 0.0, noise), -1).astype(jnp.int32)
        logp = jnp.take_along_axis(scores, token[:, None], -1)[:, 0] - jax.nn.logsumexp(scores, -1)
        return token, logp

    def step(carry):
        index, hidden, kv, active, tokens, logps, counts = carry
        token, logp = draw(hidden, index)
        tokens = tokens.at[:, index].set(jnp.where(active, token, 0))
        logps = logps.at[:, index].set(jnp.where(active, logp, 0.0))
        counts = counts + active
        active = active & (token != eos_id)
        hidden, kv = forward.decode(params, cfg, kv, token, active)
        return index + 1, hidden, kv, active, tokens, logps, counts

    carry = (
        jnp.int32(0),
        hidden,
        kv,
        wanted,
        jnp.zeros((rows, max_tokens), jnp.int32),
        jnp.zeros((rows, max_tokens), jnp.float32),
        jnp.zeros(rows, jnp.int32),
    )
    carry = jax.lax.while_loop(lambda c: (c[0] < max_tokens) & c[3].any(), step, carry)
    return carry[4], carry[5], carry[6]
