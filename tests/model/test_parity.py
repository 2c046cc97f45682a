"""Logits and gradients agree with transformers' Qwen3-VL, dense and mixture of experts, on random weights."""

import dataclasses

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
    "one image": [[(4, [(1, 4, 6)])]],
    "three images of different sizes": [[(3, [(1, 4, 6), (1, 2, 2), (1, 8, 2)])]],
    "packed rows": [[(4, [(1, 4, 2)]), (3, [(1, 2, 6)])], [(12, [])]],
}


def build(rows):
    return [[reference.sample(10 * r + s, *shape) for s, shape in enumerate(row)] for r, row in enumerate(rows)]


def compare(model, ours, rows):
    """Every sample of every packed row against transformers on that sample alone."""
    for row, samples in enumerate(rows):
        at = 0
        for item in samples:
            expected = reference.reference_logits(model, item)
            np.testing.assert_allclose(ours[row, at : at + len(item.ids)], expected, atol=TOLERANCE, rtol=0)
            assert np.abs(expected).max() > 1  # the comparison is of numbers of some size
            at += len(item.ids)


@pytest.mark.parametrize(
    ("case", "kind"), [(case, kind) for kind in ("tied", "experts") for case in CASES] + [("one image", "untied")]
)
def test_logits_equal_transformers(checkpoints, case, kind):
    model, cfg, params = checkpoints[kind]
    assert (cfg.tie_word_embeddings, cfg.text.num_experts) == (kind == "tied", 8 * (kind == "experts"))
    rows = build(CASES[case])
    compare(model, reference.our_logits(params, cfg, reference.pack(rows)), rows)


@st.composite
def models(draw):
    """Settings of a small model: heads, key-value heads, widths, depths, DeepStack levels, experts."""
    key_heads, per_key, half = draw(st.sampled_from([(1, 1, 4), (1, 3, 8), (2, 2, 4), (3, 1, 8)]))
    layers, depth = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    levels = draw(st.lists(st.integers(0, depth - 1), unique=True, max_size=layers).map(sorted))
    experts, chosen = draw(st.sampled_from([(0, 0), (4, 1), (5, 2), (3, 3)]))
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
        text |= {"num_experts": experts, "num_experts_per_tok": chosen, "moe_intermediate_size": 20}
    vision = {"depth": depth, "num_heads": draw(st.sampled_from([1, 2, 4])), "out_hidden_size": 32}
    return {
        "experts": experts > 0,
        "text": text,
        "vision": vision,
        "deepstack": tuple(levels),
        "tied": draw(st.booleans()),
    }


GRIDS = st.lists(st.tuples(st.just(1), st.sampled_from([2, 4]), st.sampled_from([2, 4, 6])), max_size=2)
ROWS = st.lists(st.lists(st.tuples(st.integers(1, 4), GRIDS), min_size=1, max_size=2), min_size=1, max_size=2)


@settings(max_examples=4, derandomize=True, deadline=None, database=None, phases=[Phase.generate])
@given(shape=models(), rows=ROWS, scan=st.booleans())
def test_any_small_model_equals_transformers(tmp_path_factory, shape, rows, scan):
    """Heads, depths, DeepStack levels, experts, image grids, several images, packing; layers scanned or not."""
    directory = tmp_path_factory.mktemp("checkpoint")
    model = reference.make(directory, **shape)
    cfg, params = hf.load(directory)
    cfg, rows = dataclasses.replace(cfg, scan_layers=scan), build(rows)
    hidden = reference.our_hidden(params, cfg, reference.pack(rows, length=72, count=96))
    compare(model, np.asarray(forward.logits(params, cfg, hidden)), rows)


@pytest.mark.parametrize("kind", ["untied", "experts"])
def test_bf16_errs_no_more_than_transformers_does(checkpoints, kind, tmp_path):
    model, cfg, params = checkpoints[kind]
    item = reference.sample(5, 6, [(1, 4, 6)])
    exact = reference.reference_logits(model, item)
    half = dataclasses.replace(cfg, dtype="bfloat16")
    ours = reference.our_logits(params, half, reference.pack([[item]]))[0, : len(item.ids)]
    model.save_pretrained(tmp_path)  # and loaded anew: `to(bfloat16)` would round the rotary frequencies too
    theirs = reference.reference_logits(type(model).from_pretrained(tmp_path, dtype=torch.bfloat16).eval(), item)

    def error(logits):
        """Root of the mean squared error, over the logits' standard deviation."""
        return float(np.sqrt(np.mean((logits - exact) ** 2)) / exact.std())

    print(f"{kind}: our error {error(ours):.4f}, transformers' {error(theirs):.4f}")
    assert error(ours) > 1e-4  # bf16 it is
    assert error(ours) < min(BF16_MARGIN * error(theirs), BF16_LARGEST), (error(ours), error(theirs))


@pytest.mark.parametrize("kind", ["tied", "experts"])
def test_gradients_equal_those_of_torch(checkpoints, kind, tmp_path):
    """Cross-entropy over a row with an image. torch's gradients travel as a checkpoint, through the same name map."""
    model, cfg, params = checkpoints[kind]
    item = reference.sample(6, 5, [(1, 4, 4)])
    count = len(item.ids)
    targets = np.random.default_rng(7).integers(0, reference.VOCAB, count)
    model.zero_grad()
    torch.nn.functional.cross_entropy(reference.torch_logits(model, item), torch.tensor(targets)).backward()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.zeros_like(parameter) if parameter.grad is None else parameter.grad)
    model.save_pretrained(tmp_path)
    model.load_state_dict(state)
    _, expected = hf.load(tmp_path)
    inputs = reference.pack([[item]])

    def loss(params):
        hidden = forward.hidden(params, cfg, inputs)
        padded = jnp.zeros(inputs.tokens.shape, jnp.int32).at[0, :count].set(targets)
        logp, _ = forward.token_logprobs(params, cfg, hidden, padded)
        return -jnp.mean(logp[0, :count])

    ours = jax.jit(jax.grad(loss), compiler_options=reference.QUICK)(params)

    def check(path, grad, wanted):
        size = np.abs(wanted).max()
        assert size > 0, path
        worst = np.abs(grad - wanted).max() / size
        assert worst < GRADIENT_TOLERANCE, (jax.tree_util.keystr(path), worst)

    jax.tree_util.tree_map_with_path(check, ours, expected)
