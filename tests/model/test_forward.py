"""Branches, log-probabilities and the ways of running the layers, each against an independent computation."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import qwen_reference as reference

from gui_rl.model import forward, hf
from gui_rl.model.inputs import ModelInputs
from gui_rl.model.rope import mrope_positions


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    directory = tmp_path_factory.mktemp("checkpoint")
    model = reference.make(directory, tied=True)
    return model, *hf.load(directory)


def trunk_and_branches(item: reference.Sample, branches: list[np.ndarray]) -> ModelInputs:
    """One row: the sample as trunk, then every branch, each with the positions it would have right after the trunk."""
    flat = dataclasses.replace(item, ids=np.concatenate([item.ids, *branches]))
    inputs = reference.pack([[flat]])
    at = len(item.ids)
    for number, branch in enumerate(branches, start=1):
        span = slice(at, at + len(branch))
        alone = np.concatenate([item.ids, branch])
        inputs.branches[0, span] = number
        inputs.positions[0, :, span] = mrope_positions(alone, item.grids, reference.IMAGE)[0][:, len(item.ids) :]
        at = span.stop
    return inputs


def test_trunk_with_two_branches_equals_two_sequences(both):
    model, cfg, params = both
    item = reference.sample(1, 4, [(1, 4, 2)])
    branches = [np.array([3, 14, 15], np.int32), np.array([9, 2, 6, 5], np.int32)]
    ours = reference.our_logits(params, cfg, trunk_and_branches(item, branches))[0]
    at = len(item.ids)
    for branch in branches:
        alone = dataclasses.replace(item, ids=np.concatenate([item.ids, branch]))
        expected = reference.reference_logits(model, alone)
        np.testing.assert_allclose(ours[: len(item.ids)], expected[: len(item.ids)], atol=1e-4, rtol=0)
        np.testing.assert_allclose(ours[at : at + len(branch)], expected[len(item.ids) :], atol=1e-4, rtol=0)
        at += len(branch)


def test_padding_content_changes_nothing(both):
    _, cfg, params = both
    item = reference.sample(2, 4, [(1, 2, 4)])
    clean = reference.pack([[item]])
    dirty = jax.tree.map(np.copy, clean)
    dirty.tokens[clean.segments == 0] = 7
    dirty.patches[clean.patch_segments == 0] = 100.0
    count = len(item.ids)
    first, second = (reference.our_hidden(params, cfg, inputs)[0, :count] for inputs in (clean, dirty))
    np.testing.assert_allclose(first, second, atol=1e-6)


@pytest.fixture(scope="module", params=["dense", "experts"])
def gradients(request, tmp_path_factory):
    """(function of (scan, remat) that gives a gradient to compile, parameters) of three layers, two with DeepStack."""
    directory = tmp_path_factory.mktemp("checkpoint")
    reference.make(directory, tied=True, experts=request.param == "experts", text={"num_hidden_layers": 3})
    cfg, params = hf.load(directory)
    inputs = reference.pack([[reference.sample(3, 3, [(1, 4, 2)])]])
    mask = jnp.asarray(inputs.segments > 0)[..., None]

    def build(scan, remat):
        variant = dataclasses.replace(cfg, scan_layers=scan, remat=remat)

        def loss(params):
            return jnp.sum(jnp.sin(forward.hidden(params, variant, inputs)) * mask)

        return jax.jit(jax.grad(loss))

    return build, params


def test_layers_may_be_scanned_and_recomputed(gradients):
    """However layers are run and whatever they keep, the gradient is the same."""
    build, params = gradients
    expected = build(scan=False, remat="none")(params)
    for scan, remat in [(True, "none"), (False, "dots"), (True, "attention"), (True, "full")]:
        ours = build(scan, remat)(params)
        for grad, wanted in zip(jax.tree.leaves(ours), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(grad, wanted, atol=1e-4 * np.abs(wanted).max(), err_msg=f"{scan} {remat}")


def test_what_is_kept_less_is_computed_more(gradients):
    """The policies in the order of their work, before the compiler sees them."""
    build, params = gradients
    work = [
        build(False, remat).lower(params).cost_analysis()["flops"] for remat in ("none", "dots", "attention", "full")
    ]
    assert work == sorted(set(work)), work


@pytest.mark.parametrize(("levels", "scan"), [((), True), ((), False), ((1,), True)])
def test_other_numbers_of_deepstack_levels(tmp_path, levels, scan):
    model = reference.make(tmp_path, tied=False, deepstack=levels)
    cfg, params = hf.load(tmp_path)
    item = reference.sample(4, 3, [(1, 4, 4)])
    expected = reference.reference_logits(model, item)
    ours = reference.our_logits(params, dataclasses.replace(cfg, scan_layers=scan), reference.pack([[item]]))
    np.testing.assert_allclose(ours[0, : len(item.ids)], expected, atol=1e-4, rtol=0)


def logprob_case(both, batch=3, length=10):
    _, cfg, params = both
    rng = np.random.default_rng(5)
    hidden = jnp.asarray(rng.normal(size=(batch, length, cfg.text.hidden_size)), jnp.float32)
    targets = jnp.asarray(rng.integers(0, reference.VOCAB, (batch, length)), jnp.int32)
    return cfg, params, hidden, targets


@pytest.mark.parametrize(("chunk", "temperature"), [(1, 0.7), (12, 1.0), (1024, 0.7)])
def test_logprobs_and_entropy_equal_the_whole_softmax(both, chunk, temperature):
    cfg, params, hidden, targets = logprob_case(both)

    def whole(params, hidden):
        scaled = jnp.einsum("btd,vd->btv", hidden, params["text"]["embed"]) / temperature
        full = jax.nn.log_softmax(scaled)
        chosen = jnp.sum(jnp.where(targets[..., None] == jnp.arange(reference.VOCAB), full, 0), axis=-1)
        return chosen, -jnp.sum(jnp.exp(full) * full, axis=-1)

    def chunked(params, hidden):
        return forward.token_logprobs(params, cfg, hidden, targets, temperature, chunk=chunk)

    for ours, expected in zip(jax.jit(chunked)(params, hidden), jax.jit(whole)(params, hidden), strict=True):
        assert ours.dtype == jnp.float32
        np.testing.assert_allclose(ours, expected, atol=2e-5)
    weights = np.random.default_rng(6).normal(size=(2, *targets.shape)).astype(np.float32)

    def gradients(function):
        def loss(params, hidden):
            logp, entropy = function(params, hidden)
            return jnp.sum(logp * weights[0] + entropy * weights[1])

        return jax.jit(jax.grad(loss, argnums=(0, 1)))(params, hidden)

    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-4), gradients(chunked), gradients(whole))


def test_no_tensor_of_all_tokens_by_vocabulary(both):
    """R13: neither the forward nor the backward pass holds [tokens, vocabulary] at once."""
    cfg, params, hidden, targets = logprob_case(both, batch=4, length=16)

    def loss(params, hidden):
        logp, entropy = forward.token_logprobs(params, cfg, hidden, targets, chunk=16)
        return jnp.sum(logp) + jnp.sum(entropy)

    program = jax.make_jaxpr(jax.grad(loss, argnums=(0, 1)))(params, hidden)
    sizes = [np.prod(shape) for shape in shapes_with(program.jaxpr, reference.VOCAB)]
    assert sizes and max(sizes) <= max(16 * reference.VOCAB, reference.VOCAB * cfg.text.hidden_size)


def shapes_with(jaxpr, axis: int) -> list[tuple[int, ...]]:
    """Shapes of all values in a program, inner programs included, that have an axis of this size."""
    found = []
    for equation in jaxpr.eqns:
        found += [v.aval.shape for v in equation.outvars if axis in getattr(v.aval, "shape", ())]
        for parameter in equation.params.values():
            for inner in parameter if isinstance(parameter, (tuple, list)) else (parameter,):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    found += shapes_with(inner, axis)
    return found


def test_bfloat16_follows_float32(both):
    _, cfg, params = both
    item = reference.sample(7, 4, [(1, 4, 2)])
    inputs = reference.pack([[item]])
    half = dataclasses.replace(cfg, dtype="bfloat16")
    exact, rough = (reference.our_hidden(params, variant, inputs)[0, : len(item.ids)] for variant in (cfg, half))
    assert rough.dtype == jnp.bfloat16
    assert np.corrcoef(exact.ravel(), np.asarray(rough, np.float32).ravel())[0, 1] > 0.99
    logp, _ = forward.token_logprobs(params, half, rough[None], jnp.zeros((1, len(item.ids)), jnp.int32))
    assert logp.dtype == jnp.float32
