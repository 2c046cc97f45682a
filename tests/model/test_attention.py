"""Attention and its written-out gradient against a plain loop and against automatic differentiation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gui_rl.errors import UserError
from gui_rl.learn.state import make_mesh
from gui_rl.model import attention, layout
from gui_rl.model.params import ShardingRules


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
    causal = np.asarray(attention.causal_mask(segments, branches).rows())
    block = np.asarray(attention.block_mask(segments).rows())
    for row in range(2):
        for q in range(20):
            for k in range(20):
                same = segments[row, q] == segments[row, k] and segments[row, k] > 0
                seen = same and k <= q and branches[row, k] in (0, branches[row, q])
                assert causal[row, q, k] == seen
                assert block[row, q, k] == same
    part = np.asarray(attention.causal_mask(segments, branches).rows(16, 8))
    np.testing.assert_array_equal(part[:, :4], causal[:, 16:])
    assert not part[:, 4:].any()  # queries past the end of the row


def packed(length, heads, groups, dim, branches=1, seed=3):
    """Queries, keys, values and a causal visibility of a packed row, a row of one sample, and padding at the end."""
    rng = np.random.default_rng(seed)
    query, key, value = (
        jnp.asarray(rng.normal(size=(2, length, n, dim)), jnp.float32) for n in (heads, groups, groups)
    )
    cut, end = length // 3, length - length // 8
    segments = np.zeros((2, length), np.int32)
    segments[0, :cut], segments[0, cut:end], segments[1, :end] = 1, 2, 1
    numbers = np.zeros((2, length), np.int32)
    for branch in range(branches):  # after the trunk of the first row's second sample
        start = cut + 40 + 30 * branch
        numbers[0, start : end if branch == branches - 1 else start + 30] = branch + 1
    return query, key, value, attention.causal_mask(jnp.asarray(segments), jnp.asarray(numbers))


def outcome(query, key, value, mask, kernel):
    """Values at tokens that are no padding, and the gradients of a function of them, by one kernel."""
    mesh = make_mesh(devices=jax.devices()[:1])
    real = (mask.segments > 0)[:, :, None]

    def loss(q, k, v):
        with layout.on_mesh(mesh, ShardingRules(), kernel):
            out = jnp.where(real, attention.attend(q, k, v, mask), 0.0)
        return jnp.sum(jnp.sin(3 * out)), out

    grads, out = jax.jit(jax.grad(loss, argnums=(0, 1, 2), has_aux=True))(query, key, value)
    return out, *grads


@pytest.mark.parametrize("branches", [1, 3])
@pytest.mark.parametrize(("heads", "groups", "dim"), [(4, 2, 128), (2, 2, 72)])
def test_splash_equals_the_reference(heads, groups, dim, branches):
    query, key, value, mask = packed(330, heads, groups, dim, branches)
    assert bool(mask.simple()) == (branches == 1)
    splash, reference = (outcome(query, key, value, mask, kernel) for kernel in ("splash", "xla"))
    for ours, expected in zip(splash, reference, strict=True):
        np.testing.assert_allclose(ours, expected, atol=2e-5)


class Elsewhere(layout.Layout):
    """A layout on a TPU, or on another platform that is not here."""

    platform = "tpu"


class OnGpu(Elsewhere):
    platform = "gpu"


class OnCpu(Elsewhere):
    platform = "cpu"


@pytest.mark.parametrize(
    ("changed", "kernel", "why"),
    [
        ({}, "splash", ""),
        ({"platform": "gpu"}, "cudnn", ""),
        ({"platform": "cpu"}, "xla", "no kernel for cpu"),
        ({"kernel": "xla"}, "xla", "asked for"),
        ({"layout": None}, "xla", "did not say"),
        ({"mask": jnp.ones((2, 512, 512), bool)}, "xla", "array"),
        ({"length": 128}, "xla", "shorter than 256"),
        ({"platform": "gpu", "dtype": jnp.float32}, "xla", "float32"),
        ({"platform": "gpu", "dim": 60}, "xla", "60"),
        ({"platform": "gpu", "length": 513}, "xla", "513"),
        ({"length": 513, "dim": 60, "dtype": jnp.float32}, "splash", ""),
        ({"heads": 3}, "xla", "3 heads"),
        ({"rows": 3}, "xla", "3 batch"),
    ],
)
def test_the_choice_of_a_kernel(changed, kernel, why):
    settings = {"rows": 4, "length": 512, "heads": 4, "dim": 128, "dtype": jnp.bfloat16} | changed
    query, key = (
        jax.ShapeDtypeStruct((settings["rows"], settings["length"], heads, settings["dim"]), settings["dtype"])
        for heads in (settings["heads"], 2)
    )
    mesh = jax.sharding.AbstractMesh((1, 2, 1, 2), ("replica", "fsdp", "expert", "tensor"))
    kinds = {"tpu": Elsewhere, "gpu": OnGpu, "cpu": OnCpu}
    where = kinds[settings.get("platform", "tpu")](mesh, ShardingRules(), settings.get("kernel", "auto"))
    where = settings.get("layout", where)
    mask = settings.get("mask", attention.block_mask(jnp.ones((4, 8), jnp.int32)))
    chosen, reason = attention.choose(where, query, key, mask)
    assert chosen == kernel and why in reason and bool(reason) == (kernel == "xla")


def test_an_unknown_kernel_is_refused():
    with pytest.raises(UserError, match="flash.*splash"):
        with layout.on_mesh(make_mesh(), ShardingRules(), "flash"):
            pass


def test_splash_sees_a_whole_image():
    query, key, value, mask = packed(256, 2, 2, 64)
    mask = attention.block_mask(mask.segments)
    splash, reference = (outcome(query, key, value, mask, kernel) for kernel in ("splash", "xla"))
    for ours, expected in zip(splash, reference, strict=True):
        np.testing.assert_allclose(ours, expected, atol=2e-5)
