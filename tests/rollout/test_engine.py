"""The engine against the model itself: greedy decoding by full forward passes, and the trainer's log-probabilities."""

import asyncio
import dataclasses
import math

import jax
import numpy as np
import pytest

from gui_rl.data.packing import Branch, Sample, pack
from gui_rl.errors import UserError
from gui_rl.model import forward
from gui_rl.model.config import preset
from gui_rl.model.params import init_params
from gui_rl.prompt.context import TINY_CONTEXT
from gui_rl.prompt.images import prepare
from gui_rl.prompt.render import render
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.rollout import programs
from gui_rl.rollout.engine import Engine, EngineConfig
from gui_rl.rollout.sampler import SamplingParams

MOST = 10


@pytest.fixture(scope="module")
def policy():
    """A small random policy with gui-tiny's vocabulary: (config, parameters, tokenizer)."""
    tokenizer = Tokenizer.load("gui-tiny")
    cfg = preset("gui-tiny")
    text = dataclasses.replace(cfg.text, num_hidden_layers=2, vocab_size=64 * math.ceil(tokenizer.vocab_size / 64))
    vision = dataclasses.replace(cfg.vision, depth=2, deepstack_visual_indexes=(0,))
    cfg = dataclasses.replace(cfg, text=text, vision=vision, image_token_id=tokenizer.image_id)
    return cfg, init_params(cfg, jax.random.key(3)), tokenizer


@pytest.fixture(scope="module")
def prompts(policy):
    """Three prompts of different lengths, families and screenshots."""
    rng = np.random.default_rng(0)
    cases = [("mobile", "Star the cup.", (160, 128)), ("desktop", "Select the tree. Open it.", (128, 160))]
    cases.append(("web", "Add the fish to the cart and open the cart.", (128, 160)))
    return [
        render(policy[2], TINY_CONTEXT, device, (), text, [], prepare(rng.integers(0, 256, (*size, 3), np.uint8)))
        for device, text, size in cases
    ]


def complete(policy, prompts, params, keys, buckets=(4,)):
    async def run():
        engine = Engine(*policy, EngineConfig(row_buckets=buckets))
        try:
            return await engine.sample(prompts, params, keys)
        finally:
            await engine.close()

    return asyncio.run(run())


def trainer_logits(policy, prompt, response):
    """fp32 logits of every response token by one full forward pass."""
    cfg, params, tokenizer = policy
    sample = Sample("reference", prompt.ids, tuple(prompt.images), (Branch(response),))
    batch = pack([sample], tokenizer.image_id, len(prompt.ids) + len(response), 80, side=cfg.vision.position_side)
    hidden = forward.hidden(params, cfg, batch.inputs)
    first = len(prompt.ids) - 1
    return np.array(forward.logits(params, cfg, hidden[0, first : first + len(response)]))


def test_greedy_decoding_is_the_argmax_of_full_forward_passes(policy, prompts):
    tokenizer = policy[2]
    banned = list(tokenizer.unsampled_ids)
    for prompt, done in zip(prompts, complete(policy, prompts, SamplingParams(0.0, MOST), [0, 1, 2]), strict=True):
        logits = trainer_logits(policy, prompt, done.token_ids)
        logits[:, banned] = -np.inf
        logits[:, tokenizer.vocab_size :] = -np.inf
        assert logits.argmax(-1).tolist() == done.token_ids


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_logprobs_are_those_of_the_trainer_at_the_sampling_temperature(policy, prompts, temperature):
    for prompt, done in zip(
        prompts, complete(policy, prompts, SamplingParams(temperature, MOST), [5, 6, 7]), strict=True
    ):
        logits = trainer_logits(policy, prompt, done.token_ids) / temperature
        logp = (
            logits
            - np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1, keepdims=True))
            - logits.max(-1, keepdims=True)
        )
        expected = logp[np.arange(len(done.token_ids)), done.token_ids]
        np.testing.assert_allclose(done.logprobs, expected, atol=2e-4)


def test_a_draw_depends_on_its_key_and_not_on_the_batch(policy, prompts):
    params = SamplingParams(1.0, MOST)
    together = complete(policy, prompts, params, [5, 6, 7])
    alone = complete(policy, prompts[1:2], params, [6])
    assert alone[0].token_ids == together[1].token_ids
    other = complete(policy, prompts[1:2], params, [8])
    assert other[0].token_ids != together[1].token_ids


def test_the_draws_follow_the_softmax(policy, prompts):
    """First tokens of 512 draws of one prompt against its probabilities (chi-square over the likeliest tokens)."""
    keys = list(range(512))
    done = complete(policy, [prompts[0]] * 512, SamplingParams(1.0, 1), keys, buckets=(128,))
    logits = trainer_logits(policy, prompts[0], [0])[0]
    logits[list(policy[2].unsampled_ids)] = -np.inf
    logits[policy[2].vocab_size :] = -np.inf
    p = np.exp(logits - logits.max())
    p /= p.sum()
    top = np.argsort(-p)[:8]
    counts = np.bincount([c.token_ids[0] for c in done], minlength=p.size)
    observed = np.append(counts[top], 512 - counts[top].sum())
    expected = 512 * np.append(p[top], 1 - p[top].sum())
    assert ((observed - expected) ** 2 / expected).sum() < 27.9  # 99.9 % of chi-square with 9 degrees of freedom


def test_a_draw_hits_each_token_as_often_as_its_share():
    """An even grid of the two numbers gives every token its probability; what has no power is never drawn."""
    rng = np.random.default_rng(0)
    powers = np.where(rng.random(23) < 0.4, 0.0, rng.random(23)).astype(np.float32)
    powers[[0, 22]] = 0.0
    side = (np.arange(300) + 0.5) / 300
    uniform = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2).astype(np.float32)
    drawn = np.asarray(programs.draw(np.broadcast_to(powers, (len(uniform), 23)), uniform))
    share = np.bincount(drawn, minlength=23) / len(uniform)
    np.testing.assert_allclose(share, powers / powers.sum(), atol=2 / 300)
    assert not share[powers == 0].any()
    edges = programs.draw(np.broadcast_to(powers, (2, 23)), np.array([[0, 0], [1 - 2**-24] * 2], np.float32))
    assert edges.tolist() == [np.flatnonzero(powers)[0], np.flatnonzero(powers)[-1]]


def test_the_largest_is_the_first_of_equals():
    scores = np.random.default_rng(0).integers(-3, 4, (64, 23)).astype(np.float32)  # many ties
    scores[scores == -3] = -np.inf
    scores[0] = -np.inf
    np.testing.assert_array_equal(programs.largest(scores), scores.argmax(-1))


def test_placeholders_and_turn_marks_are_never_sampled(policy, prompts):
    cfg, params, tokenizer = policy
    image = tokenizer.image_id
    loud = {**params, "text": {**params["text"], "embed": params["text"]["embed"].at[image].mul(50.0)}}
    done = complete((cfg, loud, tokenizer), prompts, SamplingParams(1.0, MOST), [1, 2, 3])
    assert all(not tokenizer.unsampled_ids & set(c.token_ids) for c in done)


def test_a_response_ends_with_the_end_token_or_its_budget(policy, prompts):
    cfg, params, tokenizer = policy
    eager = {**params, "text": {**params["text"], "norm": params["text"]["norm"] * 30}}
    done = complete((cfg, eager, tokenizer), prompts, SamplingParams(1.0, 60), [1, 2, 3])
    for completion in [*done, *complete(policy, prompts, SamplingParams(1.0, 2), [1, 2, 3])]:
        ended = completion.token_ids[-1] == tokenizer.eos_id
        assert completion.finish_reason == ("stop" if ended else "length")
        assert tokenizer.eos_id not in completion.token_ids[:-1]
        assert len(completion.token_ids) == len(completion.logprobs)


def test_new_weights_come_with_their_version_and_programs_are_counted(policy, prompts):
    cfg, params, tokenizer = policy

    async def run():
        engine = Engine(cfg, params, tokenizer, EngineConfig(row_buckets=(4,)))
        (before,) = await engine.sample(prompts[:1], SamplingParams(0.0, MOST), [0])
        other = init_params(cfg, jax.random.key(9))
        await engine.update_weights(other, 7)
        (after,) = await engine.sample(prompts[:1], SamplingParams(0.0, MOST), [0])
        count = engine.compile_count
        await engine.close()
        return before, after, count

    before, after, count = asyncio.run(run())
    assert (before.policy_version, after.policy_version) == (0, 7)
    assert before.logprobs != after.logprobs
    assert count == 4  # encode, prefill, admit, advance


def test_an_error_in_a_batch_reaches_its_callers_and_the_engine_goes_on(policy, prompts):
    cfg, params, tokenizer = policy
    broken = dataclasses.replace(prompts[0], ids=[*prompts[0].ids, tokenizer.image_id, 0])

    async def run():
        engine = Engine(cfg, params, tokenizer, EngineConfig(row_buckets=(4,)))
        with pytest.raises(ValueError, match="placeholder"):
            await engine.sample([broken], SamplingParams(0.0, MOST), [0])
        assert engine.compile_count == 0  # before any compute
        (done,) = await engine.sample(prompts[:1], SamplingParams(0.0, MOST), [0])
        await engine.close()
        return done

    assert asyncio.run(run()).token_ids


def run_engine(policy, body, **config):
    """`await body(engine)` with an engine that is closed afterwards."""

    async def run():
        engine = Engine(*policy, EngineConfig(**{"row_buckets": (4,), **config}))
        try:
            return await body(engine)
        finally:
            await engine.close()

    return asyncio.run(run())


def test_a_group_shares_its_prefill_and_a_screenshot_is_encoded_once(policy, prompts):
    longer = dataclasses.replace(prompts[0], ids=[*prompts[0].ids, 9])  # the next turn, on the same screen

    async def body(engine):
        await engine.sample([prompts[0]] * 4, SamplingParams(1.0, MOST), range(4))
        first = engine.prompts_prefilled, engine.images_encoded
        await engine.sample([longer, prompts[1]], SamplingParams(1.0, MOST), range(2))
        second = engine.prompts_prefilled, engine.images_encoded
        await engine.update_weights(policy[1], 0)  # the same version, but weights that it has not encoded with
        await engine.sample([longer], SamplingParams(1.0, MOST), [0])
        return first, second, engine.images_encoded

    first, second, last = run_engine(policy, body)
    assert first == (1, 1) and second == (3, 2) and last == 3


def test_images_make_room_for_new_ones(policy, prompts):
    """Cells for one screenshot only: every prompt evicts the one before it, and the answers stay the same."""
    params = SamplingParams(0.0, MOST)
    expected = [done.token_ids for done in complete(policy, prompts, params, [0, 1, 2])]

    async def body(engine):
        return [done.token_ids for done in await engine.sample(prompts, params, [0, 1, 2])]

    assert run_engine(policy, body, image_cells=prompts[0].images[0].tokens) == expected


def test_prompts_join_while_others_are_decoded(policy, prompts):
    """With two slots, five requests of different lengths: each answer is the one that it has alone."""
    lengths = [3, 30, 7, 1, 12]
    asked = [prompts[n % 3] for n in range(5)]
    alone = [
        complete(policy, asked[n : n + 1], SamplingParams(1.0, most), [n], (2,))[0] for n, most in enumerate(lengths)
    ]

    async def body(engine):
        order = []

        async def one(number):
            (done,) = await engine.sample([asked[number]], SamplingParams(1.0, lengths[number]), [number])
            order.append(number)
            return done

        return await asyncio.gather(*map(one, range(5))), order

    done, order = run_engine(policy, body, row_buckets=(2,), stride=2)
    for mine, other in zip(done, alone, strict=True):
        assert mine.token_ids == other.token_ids
        np.testing.assert_allclose(mine.logprobs, other.logprobs, atol=1e-5)
    assert order.index(0) < order.index(1) and order.index(2) < order.index(1)  # nobody waits for the longest


def test_requests_of_one_round_have_their_own_temperature_and_end(policy, prompts):
    (greedy,) = complete(policy, prompts[:1], SamplingParams(0.0, MOST), [0])
    stop = greedy.token_ids[2]

    async def body(engine):
        asked = [SamplingParams(0.0, MOST), SamplingParams(1.3, MOST), SamplingParams(0.0, MOST, (stop,))]
        return await asyncio.gather(*(engine.sample(prompts[:1], params, [3]) for params in asked))

    (first,), (second,), (third,) = run_engine(policy, body)
    assert first.token_ids == greedy.token_ids != second.token_ids
    assert third.finish_reason == "stop"
    assert third.token_ids == greedy.token_ids[: greedy.token_ids.index(stop) + 1]


def test_weights_that_change_in_the_middle_of_a_response_are_told(policy, prompts):
    async def body(engine):
        asked = asyncio.create_task(engine.sample(prompts[:1], SamplingParams(1.0, 60), [4]))
        while not any(request.spans for request in engine._held.values()):
            await asyncio.sleep(0.001)
        await engine.update_weights(init_params(policy[0], jax.random.key(9)), 5)
        return (await asked)[0]

    quiet = {**policy[1], "text": {**policy[1]["text"], "norm": policy[1]["text"]["norm"] * 0.1}}  # ends late
    done = run_engine((policy[0], quiet, policy[2]), body, stride=1)
    assert [version for version, _ in done.spans] == [0, 5] and done.policy_version == 0
    assert sum(count for _, count in done.spans) == len(done.token_ids)


@pytest.fixture
def compilations():
    """A list that grows with every program that jax compiles."""
    seen = []

    def listen(event, seconds, **_):
        if event == "/jax/core/compile/backend_compile_duration":
            seen.append(seconds)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield seen
    jax.monitoring.unregister_event_duration_listener(listen)


def test_nothing_is_compiled_once_every_bucket_was_used(policy, prompts, compilations):
    async def body(engine):
        for count in (1, 2, 3, 4):
            for owner in ([0] * count, list(range(count))):
                await engine.sample([prompts[o % 3] for o in owner], SamplingParams(1.0, 4), range(count))
        warm = engine.compile_count, len(compilations)
        rng = np.random.default_rng(0)
        for number in range(6):
            chosen = [prompts[n] for n in rng.integers(0, 3, rng.integers(1, 9))]
            await engine.sample(chosen, SamplingParams(1.0, 6), range(number, number + len(chosen)))
        return warm, (engine.compile_count, len(compilations))

    warm, after = run_engine(policy, body, length_multiple=128)
    assert warm == after and warm[1] > 0  # jax agrees that nothing was compiled, and does count


def test_what_the_cache_cannot_hold_is_refused_before_any_compute(policy, prompts):
    async def body(engine):
        with pytest.raises(UserError, match=r"prompt of \d+ tokens and a response of up to 300.*capacity"):
            await engine.sample(prompts[:1], SamplingParams(1.0, 300), [0])
        with pytest.raises(UserError, match="end tokens"):
            await engine.sample(prompts[:1], SamplingParams(1.0, 3, (1, 2, 3, 4)), [0])
        assert engine.compile_count == 0

    run_engine(policy, body)


def grown(prompt, response, image, tokenizer):
    """The next turn of a context that keeps everything: the prompt, its answer, another screenshot."""
    ids = [*prompt.ids, *response, 7, 8]
    span = (len(ids), len(ids) + image.tokens)
    ids += [tokenizer.image_id] * image.tokens + [9, 10, 11]
    return dataclasses.replace(prompt, ids=ids, images=[*prompt.images, image], image_spans=[*prompt.image_spans, span])


def test_a_growing_context_goes_on_from_the_turn_before(policy, prompts):
    """Three turns of a group of two that part after the first: the same answers as without any reuse, less prefill."""

    async def play(engine):
        async def one(number):
            prompt, out = prompts[0], []
            for turn in range(3):
                (done,) = await engine.sample([prompt], SamplingParams(1.0, 6), [10 * number + turn])
                out.append(done)
                prompt = grown(prompt, done.token_ids, prompts[1 + (number + turn) % 2].images[0], policy[2])
            return out

        return [done for turns in await asyncio.gather(one(0), one(1)) for done in turns], engine.tokens_prefilled

    with_reuse, few = run_engine(policy, play, capacity=256)
    without, many = run_engine(policy, play, capacity=256, reuse=2.0)
    for mine, other in zip(with_reuse, without, strict=True):
        assert mine.token_ids == other.token_ids
        np.testing.assert_allclose(mine.logprobs, other.logprobs, atol=1e-4)
    assert few < 0.65 * many


def test_new_weights_do_not_go_on_from_what_the_old_ones_left(policy, prompts):
    async def body(engine):
        (done,) = await engine.sample(prompts[:1], SamplingParams(1.0, 6), [0])
        longer = grown(prompts[0], done.token_ids, prompts[1].images[0], policy[2])
        await engine.update_weights(init_params(policy[0], jax.random.key(9)), 1)
        before = engine.tokens_prefilled
        await engine.sample([longer], SamplingParams(1.0, 6), [0])
        return engine.tokens_prefilled - before, len(longer.ids)

    prefilled, whole = run_engine(policy, body)
    assert prefilled == whole
