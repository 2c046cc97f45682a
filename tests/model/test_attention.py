"""Attention and its written-out gradient against a plain loop and against automatic differentiation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gui_rl.model import attention


def plain(query, key, value, mask):
    """Textbook attention, one head at a time."""
    heads, groups, dim = query.shape[2], key.shape[2], query.shape[3]
    out = []
    for head in range(heads):
        group = head // (heads // groups)
        scores = jnp.einsum("btd,bsd->bts", query[:, :, head], key[:, :, group]) / dim**0.5
        weights = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), axis=-1)
        out.append(jnp.einsum("bts,bsd->btd", weights, value[:, :, group]))
    return jnp.concatenate(out, axis=-1)


def example(batch=2, length=7, slots=7, heads=4, groups=2, dim=8):
    rng = np.random.default_rng(0)
    shapes = ((batch, length, heads, dim), (batch, slots, groups, dim), (batch, slots, groups, dim))
    query, key, value = (jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in shapes)
    mask = rng.random((batch, length, slots)) < 0.5
    mask[:, :, 0] = True
    return query, key, value, jnp.asarray(mask)


@pytest.mark.parametrize(
    ("shape", "block"), [({}, 7), ({}, 3), ({"slots": 11}, 7), ({"heads": 3, "groups": 3}, 7), ({"groups": 1}, 7)]
)
def test_values_and_gradients(monkeypatch, shape, block):
    monkeypatch.setattr(attention, "QUERY_BLOCK", block)
    query, key, value, mask = example(**shape)

    def value_and_gradients(function):
        def loss(q, k, v):
            out = function(q, k, v, mask)
            return jnp.sum(jnp.sin(3 * out)), out

        grads, out = jax.jit(jax.grad(loss, argnums=(0, 1, 2), has_aux=True))(query, key, value)
        return out, *grads

    for ours, expected in zip(value_and_gradients(attention.attend), value_and_gradients(plain), strict=True):
        np.testing.assert_allclose(ours, expected, atol=2e-5)


def test_a_query_without_keys_is_finite():
    query, key, value, mask = example()

    def loss(q):
        return jnp.sum(attention.attend(q, key, value, jnp.zeros_like(mask)))

    out, grad = jax.jit(jax.value_and_grad(loss))(query)
    assert np.isfinite(out) and np.isfinite(grad).all()


def test_masks_by_enumeration():
    rng = np.random.default_rng(1)
    segments = np.array([[1] * 9 + [2] * 7 + [0] * 4, [1] * 20])
    branches = rng.integers(0, 3, segments.shape)
    causal = np.asarray(attention.causal_mask(segments, branches))
    block = np.asarray(attention.block_mask(segments))
    for row in range(2):
        for q in range(20):
            for k in range(20):
                same = segments[row, q] == segments[row, k] and segments[row, k] > 0
                seen = same and k <= q and branches[row, k] in (0, branches[row, q])
                assert causal[row, q, k] == seen
                assert block[row, q, k] == same
