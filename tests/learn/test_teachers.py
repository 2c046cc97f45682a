"""Teachers: marks as computed directly, the exact divergence as the closed form, routing, teacher = student."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gui_rl.data.packing import PackingError, pack
from gui_rl.data.samples import BatchShape, micro_batches
from gui_rl.errors import UserError
from gui_rl.learn.losses import LossConfig
from gui_rl.learn.state import init_state, make_mesh
from gui_rl.learn.step import make_train_step, place
from gui_rl.learn.teachers import LocalTeacher, route, teach
from gui_rl.model import forward
from gui_rl.model.params import init_params

SHAPE = BatchShape(rows=2, row_length=24, row_patches=16, micro_batches=1)


@pytest.fixture(scope="module")
def mesh():
    return make_mesh()


@pytest.fixture(scope="module")
def others(cfg):
    """Parameters of two teachers."""
    return [jax.jit(init_params, static_argnums=0)(cfg, jax.random.key(seed)) for seed in (7, 8)]


@pytest.fixture
def samples(make_samples):
    return make_samples(3, 5, weighted=("kl_weight",))


def logits_of(cfg, params, sample):
    """fp32 logits where each token of the response is predicted, computed for the sample alone."""
    batch = pack(
        [sample],
        cfg.image_token_id,
        sample.tokens,
        16,
        side=cfg.vision.position_side,
        patch_dim=cfg.vision.patch_values,
    )
    hidden = forward.hidden(params, cfg, jax.tree.map(jnp.asarray, batch.inputs))
    first = sample.ids.size - 1
    return forward.logits(params, cfg, hidden[0, first : first + sample.branches[0].ids.size])


def test_marks_are_the_teachers_log_probabilities(cfg, mesh, others, samples):
    taught = teach(samples, ["a", "b", "a", "b", "b"], ["g"] * 5, {
        name: LocalTeacher(cfg, params, mesh, shape=SHAPE) for name, params in zip("ab", others, strict=True)
    })  # fmt: skip
    for sample, mine, who in zip(samples, taught, (0, 1, 0, 1, 1), strict=True):
        (branch,) = mine.branches
        expected = jax.nn.log_softmax(logits_of(cfg, others[who], sample))[np.arange(branch.ids.size), branch.ids]
        np.testing.assert_allclose(branch.teacher_logp, expected, atol=2e-5)
        assert branch.teacher == who and branch.teacher_hidden is None
        np.testing.assert_array_equal(branch.kl_weight, sample.branches[0].kl_weight)


def step_on(cfg, mesh, params, samples, heads=(), **config):
    optimizer = optax.sgd(1.0)
    step = make_train_step(cfg, LossConfig(**config), optimizer, mesh, heads=heads)
    state = init_state(cfg, optimizer, 0, mesh, params=jax.tree.map(jnp.copy, params))
    batch = place(micro_batches(samples, cfg, SHAPE), mesh)
    return step(state, batch)


def test_the_exact_divergence_is_the_closed_form(cfg, mesh, params, others, samples):
    teachers = {
        name: LocalTeacher(cfg, theirs, mesh, shape=SHAPE, exact=True)
        for name, theirs in zip("ab", others, strict=True)
    }
    platforms, owners = ["a", "b", "b", "a", "a"], (0, 1, 1, 0, 0)
    taught = teach(samples, platforms, ["g"] * 5, teachers)
    heads = [teacher.head for teacher in teachers.values()]
    after, metrics = step_on(cfg, mesh, params, taught, heads, kl_estimator="full")

    def expected(params):
        total, weight = 0.0, 0.0
        for sample, who in zip(samples, owners, strict=True):
            kl = forward.full_reverse_kl(logits_of(cfg, params, sample), logits_of(cfg, others[who], sample))
            total += jnp.sum(kl * sample.branches[0].kl_weight)
            weight += jnp.sum(sample.branches[0].kl_weight)
        return total / weight

    value, gradient = jax.value_and_grad(expected)(params)
    assert float(metrics["loss"]) == pytest.approx(float(value), rel=1e-4)
    moved = jax.tree.map(lambda old, new: old - new, params, after.params)
    for (path, want), got in zip(jax.tree_util.tree_leaves_with_path(gradient), jax.tree.leaves(moved), strict=True):
        np.testing.assert_allclose(got, want, atol=2e-5, err_msg=jax.tree_util.keystr(path))


def test_a_teacher_that_is_the_student_teaches_nothing(cfg, mesh, params, samples):
    teacher = LocalTeacher(cfg, params, mesh, shape=SHAPE, exact=True)
    taught = teach(samples, ["a"] * 5, ["g"] * 5, {"a": teacher})
    before = jax.tree.map(np.asarray, params)
    after, metrics = step_on(cfg, mesh, params, taught, [teacher.head], kl_estimator="full")
    assert abs(float(metrics["kl"])) < 1e-6
    for old, new in zip(jax.tree.leaves(before), jax.tree.leaves(after.params), strict=True):
        np.testing.assert_allclose(new, old, atol=1e-6)


def test_routing():
    assert route(["mobile", "desktop"], "mobile", "platform") == "mobile"
    with pytest.raises(UserError, match="platform 'mobile-phone'"):
        route(["mobile", "desktop"], "mobile-phone", "platform")
    drawn = {route(["a", "b", "c"], "x", "random", group=f"g{n}") for n in range(40)}
    assert drawn == {"a", "b", "c"}
    assert route(["a", "b"], "x", "random", "g1", 3) == route(["b", "a"], "y", "random", "g1", 3)  # one for a group
    assert route(["all"], "web", "unified") == "all"
    for names, routing in ((["a", "b"], "unified"), ([], "platform"), (["a"], "by chance")):
        with pytest.raises(UserError):
            route(names, "a", routing)


def test_what_does_not_fit_together_is_refused(cfg, mesh, params, samples):
    with pytest.raises(UserError, match="heads"):
        make_train_step(cfg, LossConfig(kl_estimator="full"), optax.sgd(1.0), mesh)
    with pytest.raises(ValueError, match="place is the loss"):
        LossConfig(kl_estimator="full", kl_placement="advantage")
    (branch,) = samples[0].branches
    states = np.zeros((branch.ids.size, 32), np.float32)
    half = dataclasses.replace(samples[0], branches=(dataclasses.replace(branch, teacher_hidden=states),))
    with pytest.raises(PackingError, match="all or none"):
        micro_batches([half, samples[1]], cfg, SHAPE)
    with pytest.raises(PackingError, match="teacher states"):
        dataclasses.replace(branch, teacher_hidden=states[:-1])
