"""Logits and gradients agree with transformers' Qwen3-VL, dense and mixture of experts, on random weights."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import qwen_reference as reference
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gui_rl.model import forward, hf

TOLERANCE = 1e-4
GRADIENT_TOLERANCE = 1e-4  # largest difference over largest value, for every parameter
# bf16 keeps 8 bits: each rounding errs by up to 2^-9 of a value, and a dozen in a row (two layers, two blocks) make a
# few per cent of the logits' spread. The bound is transformers' own error in bf16 with a margin, and never above this.
BF16_LARGEST, BF16_MARGIN = 0.06, 1.5


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """{kind: (transformers' model, our configuration, our parameters)}"""
    found = {}
    for kind in ("tied", "untied", "experts"):
        directory = tmp_path_factory.mktemp("checkpoint")
        model = reference.make(directory, tied=kind == "tied", experts=kind == "experts")
        found[kind] = model, *hf.load(directory)
    return found


CASES = {
    "text only": [[(11, [])]],
    "images": [  # one; three of different sizes; packed rows, with and without
        [(4, [(1, 4, 6)])],
        [(3, [(1, 4, 6), (1, 2, 2), (1, 8, 2)])],
        [(4, [(1, 4, 2)]), (3, [(1, 2, 6)])],
        [(12, [])],
    ],
}


def build(rows):
    return [[reference.sample(10 * r + s, *shape) for s, shape in enumerate(row)] for r, row in enumerate(rows)]


def places(rows):
    """(sample, row, tokens of the row) of every packed sample."""
    for row, samples in enumerate(rows):
        at = 0
        for item in samples:
            yield item, row, slice(at, at + len(item.ids))
            at += len(item.ids)


def compare(model, ours, rows):
    """Every sample of every packed row against transformers on that sample alone."""
    for item, row, span in places(rows):
        expected = reference.reference_logits(model, item)
        np.testing.assert_allclose(ours[row, span], expected, atol=TOLERANCE, rtol=0)
        assert np.abs(expected).max() > 1  # the comparison is of numbers of some size


@pytest.mark.parametrize(
    ("case", "kind"), [(case, kind) for kind in ("tied", "experts") for case in CASES] + [("images", "untied")]
)
def test_logits_equal_transformers(checkpoints, case, kind):
    model, cfg, params = checkpoints[kind]
    assert (cfg.tie_word_embeddings, cfg.text.num_experts) == (kind == "tied", 8 * (kind == "experts"))
    rows = build(CASES[case])
    compare(model, reference.our_logits(params, cfg, reference.pack(rows)), rows)


@st.composite
def models(draw, experts):
    """Settings of a small model: heads, key-value heads, widths, depths, DeepStack levels, experts if there are any."""
    key_heads, per_key, half = draw(st.sampled_from([(1, 1, 4), (1, 3, 8), (2, 2, 4), (3, 1, 8)]))
    layers, depth = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    levels = draw(st.lists(st.integers(0, depth - 1), unique=True, max_size=layers).map(sorted))
    count, chosen = draw(st.sampled_from([(4, 1), (5, 2), (3, 3)])) if experts else (0, 0)
    section = draw(st.sampled_from([[half - 2, 1, 1], [half // 2, half // 4, half - half // 2 - half // 4]]))
    text = {
        "num_hidden_layers": layers,
        "num_key_value_heads": key_heads,
        "num_attention_heads": key_heads * per_key,
        "head_dim": 2 * half,
        "hidden_size": 32,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": section},
    }
    if experts:
        text |= {"num_experts": count, "num_experts_per_tok": chosen, "moe_intermediate_size": 24}
    vision = {"depth": depth, "num_heads": draw(st.sampled_from([1, 2, 4])), "out_hidden_size": 32}
    return {
        "experts": experts,
        "text": text,
        "vision": vision,
        "deepstack": tuple(levels),
        "tied": draw(st.booleans()),
    }


GRIDS = st.lists(st.tuples(st.just(1), st.sampled_from([2, 4]), st.sampled_from([2, 4, 6])), max_size=2)
ROWS = st.lists(st.lists(st.tuples(st.integers(1, 4), GRIDS), min_size=1, max_size=2), min_size=1, max_size=2)


@pytest.mark.parametrize("experts", [False, True])
@settings(max_examples=2, derandomize=True, deadline=None, database=None, phases=[Phase.generate])
@given(data=st.data(), rows=ROWS, scan=st.booleans())
def test_any_small_model_equals_transformers(tmp_path_factory, experts, data, rows, scan):
    """Heads, depths, DeepStack levels, experts, image grids, several images, packing; layers scanned or not: logits,
    the gradient of a cross-entropy, and the errors of bfloat16."""
    directory = tmp_path_factory.mktemp("checkpoint")
    model = reference.make(directory / "values", **data.draw(models(experts)))
    cfg, params = hf.load(directory / "values")
    cfg, rows = dataclasses.replace(cfg, scan_layers=scan), build(rows)
    inputs = reference.pack(rows, length=72, count=96)
    targets = np.random.default_rng(7).integers(0, reference.VOCAB, inputs.tokens.shape)
    logits, gradients = our_gradients(params, cfg, inputs, targets)
    compare(model, logits, rows)
    expected = torch_gradients(model, rows, targets, directory / "gradients")
    assert all(np.abs(layer).max() > 0 for layer in expected["text"]["layers"]["value"])
    assert np.abs(expected["vision"]["patch"]).max() > 0 or not any(item.grids for item, _, _ in places(rows))
    check_gradients(gradients, expected)
    check_bf16(model, directory / "values", reference.our_logits(params, half(cfg), inputs), rows)


def half(cfg):
    return dataclasses.replace(cfg, dtype="bfloat16")


def check_bf16(model, directory, ours, rows):
    """Root of the mean squared error over all tokens, over the logits' standard deviation."""
    # Loaded anew: `to(bfloat16)` would round the rotary frequencies too.
    rough = type(model).from_pretrained(directory, dtype=torch.bfloat16).eval()
    exact, mine, theirs = [], [], []
    for item, row, span in places(rows):
        exact.append(reference.reference_logits(model, item))
        theirs.append(reference.reference_logits(rough, item))
        mine.append(ours[row, span])
    exact, mine, theirs = map(np.concatenate, (exact, mine, theirs))
    error, bound = (float(np.sqrt(np.mean((logits - exact) ** 2)) / exact.std()) for logits in (mine, theirs))
    print(f"our error {error:.4f}, transformers' {bound:.4f}")
    assert error > 1e-4  # bf16 it is
    assert error < min(BF16_MARGIN * bound, BF16_LARGEST), (error, bound)


@functools.partial(jax.jit, static_argnums=1)
def our_gradients(params, cfg, inputs, targets):
    """The logits, and the gradient of the cross-entropy that is summed over all tokens of all samples."""

    def loss(params):
        hidden = forward.hidden(params, cfg, inputs)
        logp, _ = forward.token_logprobs(params, cfg, hidden, targets)
        return -jnp.sum(jnp.where(inputs.segments > 0, logp, 0.0)), forward.logits(params, cfg, hidden)

    gradients, logits = jax.grad(loss, has_aux=True)(params)
    return logits, gradients


def torch_gradients(model, rows, targets, directory):
    """The same of transformers' model, sample by sample. It travels as a checkpoint, through the same name map."""
    model.zero_grad()
    for item, row, span in places(rows):
        wanted = torch.tensor(targets[row, span])
        torch.nn.functional.cross_entropy(reference.torch_logits(model, item), wanted, reduction="sum").backward()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.zeros_like(parameter) if parameter.grad is None else parameter.grad)
    model.save_pretrained(directory)
    model.load_state_dict(state)
    return hf.load(directory)[1]


def check_gradients(ours, expected):
    """Of every parameter, against its own largest entry, or a hundredth of the largest of all: what is much smaller is
    a difference of large numbers (of keys that hardly differ, say), and keeps their rounding."""
    least = 1e-2 * max(np.abs(leaf).max() for leaf in jax.tree.leaves(expected))

    def check(path, grad, wanted):
        worst = np.abs(grad - wanted).max() / max(np.abs(wanted).max(), least)
        assert worst < GRADIENT_TOLERANCE, (jax.tree_util.keystr(path), worst)

    jax.tree_util.tree_map_with_path(check, ours, expected)
