"""The train step against unpacked, unaccumulated references."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gui_rl.data.packing import Sample, pack
from gui_rl.errors import UserError
from gui_rl.learn import optim
from gui_rl.learn.batch import global_weights, split, with_streams
from gui_rl.learn.losses import LossConfig
from gui_rl.learn.state import abstract_state, init_state, make_mesh
from gui_rl.learn.step import make_scorer, make_train_step, place
from gui_rl.model import forward

ROWS, LENGTH, PATCHES = 8, 48, 32
SGD = optax.sgd(1.0)  # the change of the parameters is the gradient
ALL = ("ce_weight", "pg_weight", "kl_weight")
MIXED = LossConfig(ce_scale=0.7, kl_scale=0.3, kl_estimator="k3")


@pytest.fixture(scope="module")
def mesh():
    return make_mesh(devices=jax.devices()[:1])


@pytest.fixture(scope="module")
def packed(cfg):
    """`packed(samples, rows)`: a batch of static shape."""

    def make(samples, rows=ROWS):
        side, values = cfg.vision.position_side, cfg.vision.patch_values
        return pack(samples, cfg.image_token_id, LENGTH, PATCHES, rows, side=side, patch_dim=values)

    return make


@pytest.fixture(scope="module")
def gradient(cfg, mesh, params):
    """`gradient(batch, config)`: the step's gradient and metrics; one compilation for each config and shape."""
    steps = {}
    start = init_state(cfg, SGD, 0, mesh, params=params)
    copy = jax.jit(lambda tree: jax.tree.map(jnp.copy, tree))

    def run(batch, config=LossConfig()):  # noqa: B008
        if config not in steps:
            steps[config] = make_train_step(cfg, config, SGD, mesh)
        state, metrics = steps[config](copy(start), place(batch, mesh))
        assert int(state.step) == 1
        change = jax.tree.map(lambda a, b: np.asarray(a) - np.asarray(b), params, state.params)
        return change, {name: float(value) for name, value in metrics.items()}

    return run


@pytest.fixture(scope="module")
def score(cfg, mesh, params):
    scorer = make_scorer(cfg, mesh)
    return lambda batch: np.asarray(scorer(params, batch))


def close(a, b, tolerance=2e-6):
    """Equal to within a share of the largest entry of all leaves (at least 1)."""
    scale = max(1.0, *(float(np.abs(leaf).max()) for leaf in jax.tree.leaves(b)))
    for left, right in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(left, right, atol=tolerance * scale)


def concatenate(batches):
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *batches)


def alone(packed, samples):
    """Every branch as a sample of its own, in a row of its own."""
    apart = [
        Sample(f"{sample.id}-{number}", sample.ids, sample.images, (branch,))
        for sample in samples
        for number, branch in enumerate(sample.branches)
    ]
    return concatenate([packed([sample], rows=1) for sample in apart])


def test_packed_branches_train_like_samples_alone(cfg, params, make_samples, packed, gradient):
    """SFT is a filling: many branches in packed rows give the plain mean cross-entropy's gradient of rows of one."""
    samples = make_samples(0, 10, branches=3)
    rows = alone(packed, samples)

    def reference(params):
        hidden = forward.hidden(params, cfg, rows.inputs)
        logp = jax.nn.log_softmax(forward.logits(params, cfg, hidden))
        chosen = jnp.take_along_axis(logp, rows.targets[..., None], axis=-1)[..., 0]
        return -(chosen * rows.ce_weight).sum() / rows.ce_weight.sum()

    value, expected = jax.jit(jax.value_and_grad(reference))(params)
    batch = packed(samples)
    assert batch.inputs.segments.max() > 1 and batch.inputs.branches.max() == 3
    got, metrics = gradient(split(batch, 1))
    np.testing.assert_allclose(metrics["loss"], value, rtol=1e-5)
    assert metrics["loss"] == metrics["ce"] and metrics["pg"] == 0 and metrics["kl"] == 0
    close(got, expected)
    norm = np.sqrt(sum((np.asarray(leaf) ** 2).sum() for leaf in jax.tree.leaves(expected)))
    np.testing.assert_allclose([metrics["grad_norm"], metrics["update_norm"]], norm, rtol=1e-4)


def test_accumulation_is_one_large_batch(make_samples, packed, gradient):
    """Micro-batches of very different weights: only global denominators give the large batch's gradient."""
    parts = [packed(make_samples(seed, count, weighted=ALL), ROWS // 2) for seed, count in ((1, 3), (2, 9))]
    assert parts[1].ce_weight.sum() > 1.8 * parts[0].ce_weight.sum()
    whole = concatenate(parts)
    once, first = gradient(split(whole, 1), MIXED)
    twice, second = gradient(split(whole, 2), MIXED)
    close(once, twice)
    for name, value in first.items():
        np.testing.assert_allclose(second[name], value, rtol=2e-5, atol=1e-6, err_msg=name)


def test_composed_loss_and_metrics_by_hand(make_samples, packed, gradient, score):
    batch = split(packed(make_samples(3, 8, weighted=ALL)), 1)
    logp = score(batch).astype(np.float64)
    ratio = np.exp(logp - batch.behaviour_logp)
    advantage = batch.advantage.astype(np.float64)
    pg = np.maximum(-advantage * ratio, -advantage * np.clip(ratio, 0.8, 1.28))
    pg = np.where(advantage < 0, np.minimum(pg, -10 * advantage), pg)
    delta = batch.teacher_logp - logp
    policy = batch.pg_weight > 0

    def mean(values, weight):
        return (values * weight).sum() / weight.sum()

    expected = {
        "ce": mean(-logp, batch.ce_weight),
        "pg": mean(pg, batch.pg_weight),
        "kl": mean(np.exp(delta) - 1 - delta, batch.kl_weight),
        "ratio_mean": ratio[policy].mean(),
        "ratio_min": ratio[policy].min(),
        "ratio_max": ratio[policy].max(),
        "sampler_kl": (batch.behaviour_logp - logp)[policy].mean(),
        "clip_share": np.where(advantage >= 0, ratio > 1.28, ratio < 0.8)[policy].mean(),
        "agreement_tight": ((ratio >= 0.999) & (ratio <= 1.002))[policy].mean(),
        "agreement_1pct": (np.abs(ratio - 1) <= 0.01)[policy].mean(),
        "agreement_5pct": (np.abs(ratio - 1) <= 0.05)[policy].mean(),
        "weight_ce": batch.ce_weight.sum(),
        "weight_pg": batch.pg_weight.sum(),
        "weight_kl": batch.kl_weight.sum(),
    }
    expected["loss"] = 0.7 * expected["ce"] + expected["pg"] + 0.3 * expected["kl"]
    _, metrics = gradient(batch, MIXED)
    for name, value in expected.items():
        np.testing.assert_allclose(metrics[name], value, rtol=2e-5, atol=1e-6, err_msg=name)
    for name, weight in global_weights(batch)._asdict().items():
        np.testing.assert_allclose(metrics[f"weight_{name}"], weight, rtol=1e-6)


def test_on_policy_ratio_is_one_and_the_gradient_is_reinforce(make_samples, packed, gradient, score):
    batch = split(packed(make_samples(5, 8, weighted=("pg_weight",))), 1)
    batch = with_streams(batch, behaviour_logp=score(batch))
    got, metrics = gradient(batch)
    assert metrics["agreement_tight"] == 1 and metrics["clip_share"] == 0
    np.testing.assert_allclose([metrics["ratio_min"], metrics["ratio_max"]], 1.0, atol=1e-5)
    np.testing.assert_allclose(metrics["sampler_kl"], 0.0, atol=1e-6)
    # Cross-entropy weighted by the advantage is the same sum of -A w logp, over another denominator.
    weight, none = batch.pg_weight * batch.advantage, np.zeros_like(batch.pg_weight)
    reinforce, other = gradient(with_streams(batch, ce_weight=weight, pg_weight=none))
    scale = other["weight_ce"] / batch.pg_weight.sum()
    close(got, jax.tree.map(lambda leaf: leaf * scale, reinforce), 5e-6)


def test_a_teacher_equal_to_the_student_changes_nothing(make_samples, packed, gradient, score):
    batch = split(packed(make_samples(7, 8, weighted=("kl_weight",))), 1)
    got, metrics = gradient(with_streams(batch, teacher_logp=score(batch)))
    assert abs(metrics["kl"]) < 1e-9 and metrics["weight_kl"] > 0
    close(got, jax.tree.map(np.zeros_like, got), 1e-6)


def test_an_empty_batch_changes_nothing(make_samples, packed, gradient):
    got, metrics = gradient(split(packed(make_samples(9, 4, weighted=())), 1))
    close(got, jax.tree.map(np.zeros_like, got), 0)
    assert metrics["loss"] == 0 and metrics["ratio_min"] == 1 and metrics["ratio_max"] == 1
    assert all(np.isfinite(value) for value in metrics.values())


def test_scores_are_log_probabilities_at_the_temperature(cfg, params, mesh, make_samples, packed, score):
    batch = split(packed(make_samples(10, 4)), 1)

    @jax.jit
    def logits(params, inputs):
        return forward.logits(params, cfg, forward.hidden(params, cfg, inputs))

    raw = logits(params, jax.tree.map(lambda leaf: leaf[0], batch.inputs))
    weighted = batch.ce_weight[0] > 0
    hot = make_scorer(cfg, mesh, temperature=2.0)(params, batch)
    for temperature, got in ((1.0, score(batch)), (2.0, np.asarray(hot))):
        logp = np.asarray(jax.nn.log_softmax(raw / temperature))
        expected = np.take_along_axis(logp, batch.targets[0][..., None], axis=-1)[..., 0]
        np.testing.assert_allclose(got[0][weighted], expected[weighted], atol=1e-5)


@pytest.mark.parametrize("wrap", [lambda inner: inner, optim.master_weights, optim.stochastic_rounding])
def test_a_step_on_bfloat16_parameters_keeps_every_dtype(cfg, mesh, make_samples, packed, wrap):
    """The next step then needs no other program, and a checkpoint fits the state it is read into."""
    narrow, optimizer = dataclasses.replace(cfg, param_dtype="bfloat16"), wrap(optim.adamw(1e-3))
    state = abstract_state(narrow, optimizer)
    step = make_train_step(narrow, LossConfig(), optimizer, mesh)
    after, _ = jax.eval_shape(step, state, split(packed(make_samples(0, 4)), 2))
    assert {leaf.dtype.name for leaf in jax.tree.leaves(state.params)} == {"bfloat16"}
    jax.tree.map(
        lambda a, b: pytest.fail(f"{a} became {b}") if (a.shape, a.dtype) != (b.shape, b.dtype) else 0, state, after
    )


@dataclasses.dataclass(frozen=True)
class Chip:
    """A TPU of a slice, as jax describes it."""

    id: int
    coords: tuple[int, int, int]
    slice_index: int = 0
    device_kind: str = "TPU v5"
    platform: str = "tpu"
    core_on_chip: int = 0
    process_index: int = 0


def test_experts_may_split_an_axis_of_the_torus():
    """16 experts on 8 x 8 x 8 chips: the chips that exchange tokens are a box of neighbours."""
    chips = [Chip(n, (n % 8, n // 8 % 8, n // 64)) for n in range(512)]
    mesh = make_mesh(expert=16, devices=chips)
    assert dict(mesh.shape) == {"replica": 1, "fsdp": 32, "expert": 16, "tensor": 1}
    assert set(mesh.devices.flat) == set(chips)
    for group in mesh.devices[0, :, :, 0]:
        sides = [{chip.coords[axis] for chip in group} for axis in range(3)]
        assert np.prod([len(side) for side in sides]) == 16
        assert all(max(side) - min(side) == len(side) - 1 for side in sides)


def test_meshes_that_do_not_fit():
    with pytest.raises(UserError, match="2"):
        make_mesh(devices=[Chip(0, (0, 0, 0)), Chip(1, (0, 0, 0), slice_index=1)])
    one = jax.devices()[:1]
    assert dict(make_mesh(devices=one).shape) == {"replica": 1, "fsdp": 1, "expert": 1, "tensor": 1}
    with pytest.raises(UserError, match="1 devices"):
        make_mesh(fsdp=3, devices=one)
    with pytest.raises(UserError, match="multiply"):
        make_mesh(fsdp=-1, tensor=-1, devices=one)
