"""Prefill and decode give the logits that transformers gives for the whole sequence."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import qwen_reference as reference

from gui_rl.model import cache, forward, hf
from gui_rl.rollout import programs


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    directory = tmp_path_factory.mktemp("checkpoint")
    model = reference.make(directory, tied=False)
    return model, *hf.load(directory)


PROMPTS = [(1, 4, [(1, 4, 2)]), (2, 9, []), (3, 3, [(1, 2, 2), (1, 2, 6)])]
CONTINUATION = np.array([[5, 8, 13, 21], [1, 2, 3, 4], [40, 41, 42, 43]], np.int32)


def prefilled(cfg, params, capacity):
    prompts = [reference.sample(*prompt) for prompt in PROMPTS]
    inputs = reference.pack([[item] for item in prompts])
    return prompts, *reference.our_prefill(params, cfg, inputs, capacity)


@pytest.mark.parametrize("scan", [True, False])
def test_decoding_equals_the_whole_sequence(both, scan):
    model, cfg, params = both
    cfg = dataclasses.replace(cfg, scan_layers=scan)
    prompts, last, kv = prefilled(cfg, params, capacity=44)
    whole = [
        reference.reference_logits(model, dataclasses.replace(item, ids=np.concatenate([item.ids, more])))
        for item, more in zip(prompts, CONTINUATION, strict=True)
    ]
    start = [len(item.ids) for item in prompts]

    def check(hidden, row, token):
        expected = whole[row][start[row] + token - 1]
        np.testing.assert_allclose(reference.our_head(params, cfg, hidden)[row], expected, atol=1e-4, rtol=0)

    for row in range(3):
        check(last, row, 0)
    done = np.zeros(3, int)
    for active in ([1, 1, 1], [1, 0, 1], [0, 1, 0], [0, 1, 1], [1, 1, 0], [1, 1, 1]):
        active = np.array(active, bool) & (done < 4)
        tokens = CONTINUATION[np.arange(3), np.minimum(done, 3)]
        hidden, kv = reference.our_decode(params, cfg, kv, tokens, active)
        done += active
        for row in np.flatnonzero(active):
            check(hidden, row, done[row])
        np.testing.assert_array_equal(kv.lengths, start + done)


@pytest.mark.parametrize("layers", ["scanned", "unrolled", "apart"])
def test_steps_may_be_settled_together(both, layers):
    """Three steps before the cache is settled, near its end, one row leaving after the first."""
    model, cfg, params = both
    cfg = dataclasses.replace(cfg, scan_layers=layers == "scanned")
    prompts, _, kv = prefilled(cfg, params, capacity=40)
    start = np.array([len(item.ids) for item in prompts])
    room = start.max() + 3  # the longest row is then full
    kv = kv.replace(key=kv.key[..., :room, :], value=kv.value[..., :room, :])
    decoder = programs.for_decoding(params) if layers == "apart" else params
    step = jax.jit(forward.decode, static_argnums=1)
    read = cache.apart(kv) if layers == "apart" else kv
    recent, stepwise, active = cache.recent(read, 3), kv, np.ones(3, bool)
    for number in range(3):
        tokens = CONTINUATION[:, number]
        hidden, recent = step(decoder, cfg, read, recent, tokens, active)
        expected, stepwise = reference.our_decode(params, cfg, stepwise, tokens, active)
        np.testing.assert_allclose(hidden[active], expected[active], atol=1e-5)
        active = active & (np.arange(3) != 1)
    whole = np.concatenate([prompts[2].ids, CONTINUATION[2, :3]])
    last = reference.reference_logits(model, dataclasses.replace(prompts[2], ids=whole))[-1]
    np.testing.assert_allclose(reference.our_head(params, cfg, hidden)[2], last, atol=1e-4, rtol=0)
    settled = cache.settle(kv, recent)
    np.testing.assert_array_equal(settled.lengths, start + [3, 1, 3])
    np.testing.assert_array_equal(settled.positions, stepwise.positions)
    for row, length in enumerate(settled.lengths):
        for ours, theirs in ((settled.key, stepwise.key), (settled.value, stepwise.value)):
            np.testing.assert_allclose(ours[:, row, :, :length], theirs[:, row, :, :length], atol=1e-5)


@pytest.mark.parametrize("scan", [True, False])
def test_extending_a_cache_equals_the_whole_sequence(both, scan):
    """Rows of which the cache holds different parts: text before an image, half an image, an image and some text."""
    model, cfg, params = both
    cfg = dataclasses.replace(cfg, scan_layers=scan)
    prompts = [reference.sample(*prompt) for prompt in PROMPTS]
    inputs = reference.pack([[item] for item in prompts])
    lengths, held = np.array([len(item.ids) for item in prompts]), np.array([3, 5, 9])
    begun = inputs.replace(segments=np.where(np.arange(40) < held[:, None], inputs.segments, 0))
    _, kv = reference.our_prefill(params, cfg, begun, 44)
    np.testing.assert_array_equal(kv.lengths, held)

    def tail(leaf, row):
        rest = leaf[row][..., held[row] : lengths[row]]
        return np.pad(rest, [(0, 0)] * (rest.ndim - 1) + [(0, 30 - rest.shape[-1])])

    names = ("tokens", "positions", "segments", "branches", "visual_index")
    rest = inputs.replace(**{n: np.stack([tail(getattr(inputs, n), row) for row in range(3)]) for n in names})
    visual = forward.encode_images(params, cfg, inputs)
    last, kv = jax.jit(forward.extend, static_argnums=1)(params, cfg, kv, rest, visual)
    np.testing.assert_array_equal(kv.lengths, lengths)
    for row, item in enumerate(prompts):
        expected = reference.reference_logits(model, item)[-1]
        np.testing.assert_allclose(reference.our_head(params, cfg, last)[row], expected, atol=1e-4, rtol=0)
        np.testing.assert_array_equal(kv.positions[row], inputs.positions[row][:, : lengths[row]].max() + 1)


def test_a_full_row_stays_as_it_is(both):
    _, cfg, params = both
    _, _, kv = prefilled(cfg, params, capacity=44)
    kv = kv.replace(lengths=kv.lengths.at[1].set(44))
    _, after = reference.our_decode(params, cfg, kv, CONTINUATION[:, 0], np.ones(3, bool))
    np.testing.assert_array_equal(after.lengths - kv.lengths, [1, 0, 1])
    np.testing.assert_array_equal(after.positions - kv.positions, [1, 0, 1])
    np.testing.assert_array_equal(after.key[:, 1], kv.key[:, 1])
    np.testing.assert_array_equal(after.value[:, 1], kv.value[:, 1])
    with pytest.raises(ValueError, match="cannot hold rows"):
        prefilled(cfg, params, capacity=10)


def test_rows_may_be_repeated_and_replaced(both):
    """A group of rollouts shares one prefill; a finished row makes room for another prompt."""
    _, cfg, params = both
    _, _, kv = prefilled(cfg, params, capacity=44)
    group = cache.insert(cache.empty(cfg, 4, 44), jnp.array([0, 1, 3]), cache.take(kv, jnp.array([2, 2, 0])))
    group = cache.insert(group, jnp.array([9]), cache.take(kv, jnp.array([1])))  # beyond the last row: ignored
    np.testing.assert_array_equal(group.lengths, np.asarray(kv.lengths)[[2, 2, 0, 0]] * [1, 1, 0, 1])
    tokens, active = np.array([5, 8, 0, 13], np.int32), np.array([1, 1, 0, 1], bool)
    hidden, _ = reference.our_decode(params, cfg, group, tokens, active)
    for row, (source, token) in {0: (2, 5), 1: (2, 8), 3: (0, 13)}.items():
        alone, _ = reference.our_decode(
            params, cfg, cache.take(kv, jnp.array([source])), np.array([token], np.int32), np.ones(1, bool)
        )
        np.testing.assert_allclose(hidden[row], alone[0], atol=1e-5)


def test_images_may_be_encoded_once(both):
    _, cfg, params = both
    inputs = reference.pack([[reference.sample(*PROMPTS[0])]])
    visual = jax.jit(forward.encode_images, static_argnums=1)(params, cfg, inputs)
    last, kv = reference.our_prefill(params, cfg, inputs, 40)
    again, kv_again = jax.jit(forward.prefill_from_features, static_argnums=(1, 4))(params, cfg, inputs, visual, 40)
    np.testing.assert_allclose(last, again, atol=1e-5)
    np.testing.assert_allclose(kv.key, kv_again.key, atol=1e-5)
