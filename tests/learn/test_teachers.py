"""Teachers: marks as computed directly, the exact divergence as the closed form, routing, teacher = student."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gui_rl.data.packing import PackingError, pack
from gui_rl.data.samples import BatchShape, micro_batches
from gui_rl.errors import UserError
from gui_rl.learn.buffer import BufferState
from gui_rl.learn.losses import LossConfig
from gui_rl.learn.online import Filled, MRPOConfig, loss_config, make_update
from gui_rl.learn.state import init_state, make_mesh
from gui_rl.learn.step import make_train_step, place
from gui_rl.learn.teachers import PAPER, SAMPLED, LocalTeacher, Teaching, make_teach, route, teach
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


@functools.partial(jax.jit, static_argnums=0)
def row_logits(cfg, params, inputs):
    """Compiled once a model: every sample stands alone in a row of one length."""
    return forward.logits(params, cfg, forward.hidden(params, cfg, inputs)[0])


def logits_of(cfg, params, sample):
    """fp32 logits where each token of the response is predicted, computed for the sample alone."""
    length, patches, side = SHAPE.row_length, SHAPE.row_patches, cfg.vision.position_side
    batch = pack([sample], cfg.image_token_id, length, patches, side=side, patch_dim=cfg.vision.patch_values)
    first = sample.ids.size - 1
    logits = row_logits(cfg, params, jax.tree.map(jnp.asarray, batch.inputs))
    return logits[first : first + sample.branches[0].ids.size]


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


def test_exact_teachers_of_different_widths_teach_in_one_run(cfg, mesh, params, others, samples):
    """The narrower one's hidden states are padded: every sample still has the divergence from its own teacher."""
    wide = dataclasses.replace(
        cfg,
        text=dataclasses.replace(cfg.text, hidden_size=48, intermediate_size=64, num_attention_heads=3),
        vision=dataclasses.replace(cfg.vision, out_hidden_size=48),
    )
    theirs = {"a": (cfg, others[0]), "b": (wide, jax.jit(init_params, static_argnums=0)(wide, jax.random.key(9)))}
    teachers = {name: LocalTeacher(c, p, mesh, shape=SHAPE, exact=True) for name, (c, p) in theirs.items()}
    heads = [teacher.head for teacher in teachers.values()]
    assert [head.shape for head in heads] == [(32, 48), (48, 48)]
    platforms = ["a", "b", "b", "a", "a"]
    for teaching in ({"a": teachers["a"]}, teachers):  # alone there is nothing to pad
        mine = [s for s, name in zip(samples, platforms, strict=True) if name in teaching]
        names = [name for name in platforms if name in teaching]
        taught = teach(mine, names, ["g"] * len(mine), teaching)
        _, metrics = step_on(cfg, mesh, params, taught, heads[: len(teaching)], kl_estimator="full")
        total = weight = 0.0
        for sample, name in zip(mine, names, strict=True):
            kl = forward.full_reverse_kl(logits_of(cfg, params, sample), logits_of(*theirs[name], sample))
            total += jnp.sum(kl * sample.branches[0].kl_weight)
            weight += jnp.sum(sample.branches[0].kl_weight)
        assert float(metrics["kl"]) == pytest.approx(float(total / weight), rel=1e-4)


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


def filled(samples, families):
    groups = [f"g{number // 2}" for number in range(len(samples))]
    return Filled(samples, families, BufferState(), {"success": 0.25}, groups)


def test_taught_updates_are_the_routed_divergences(cfg, mesh, params, others, make_samples):
    """The whole of stage 2 after the rollouts: three teachers, `make_update`, exact and sampled, one closed form."""
    samples = make_samples(5, 4, weighted=("kl_weight", "pg_weight"))
    families = ["mobile", "desktop", "web", "mobile"]
    three = dict(zip(("desktop", "mobile", "web"), [*others, params], strict=True))
    for teaching in (Teaching(threshold=None), SAMPLED, PAPER):
        exact = teaching.estimator == "full"
        teachers = {n: LocalTeacher(cfg, p, mesh, shape=SHAPE, exact=exact) for n, p in three.items()}
        config = MRPOConfig(teaching=teaching, shape=SHAPE)
        optimizer = optax.sgd(0.1)
        heads = [teacher.head for teacher in teachers.values()] if exact else ()
        step = make_train_step(cfg, loss_config(config), optimizer, mesh, heads=heads)
        update = make_update(step, cfg, config, mesh, teach=make_teach(teachers, teaching))
        state = init_state(cfg, optimizer, 0, mesh, params=jax.tree.map(jnp.copy, params))
        state, metrics = update(state, filled(samples, families))
        assert int(state.step) == 1 and metrics["success"] == 0.25
        total = weight = 0.0
        k3 = {name: [] for name in three}
        for sample, name in zip(samples, families, strict=True):
            (branch,) = sample.branches
            mine, theirs = (logits_of(cfg, p, sample) for p in (params, three[name]))
            there = np.arange(branch.ids.size), branch.ids
            logp, other = (np.asarray(jax.nn.log_softmax(logits)[there]) for logits in (mine, theirs))
            k3[name].append(np.exp(other - branch.behaviour_logp) - 1 - (other - branch.behaviour_logp))
            stale = np.minimum(np.exp(logp - branch.behaviour_logp), 2.0)  # importance of samples that may be stale
            value = {
                "full": np.asarray(forward.full_reverse_kl(mine, theirs)),
                "k2": stale * (other - logp) ** 2 / 2,
                "k3": stale * (np.exp(other - logp) - 1 - (other - logp)),
            }[teaching.estimator]
            total += (value * (stale if exact else 1) * branch.kl_weight).sum()
            weight += branch.kl_weight.sum()
        if not exact:
            assert metrics["kl"] == pytest.approx(total / weight, rel=1e-3)
        assert metrics["weight_kl"] == pytest.approx(weight, rel=1e-5)
        for name, values in k3.items():
            assert metrics[f"kl/{name}"] == pytest.approx(np.concatenate(values).mean(), rel=1e-3)


def test_arms_are_settings(cfg, mesh, params, others, samples):
    """Random routing is by group, a unified teacher teaches every platform; without states none is exact."""
    local = {n: LocalTeacher(cfg, p, mesh, shape=SHAPE) for n, p in zip("ab", others, strict=True)}
    taught = make_teach(local, Teaching(routing="random", estimator="k2"))(filled(samples, ["web"] * 5))
    numbers = [sample.branches[0].teacher for sample in taught.samples]
    assert numbers[0] == numbers[1] and numbers[2] == numbers[3]
    one = make_teach({"all": local["a"]}, Teaching(routing="unified", estimator="k2"))
    assert "kl/all" in one(filled(samples, ["web", "mobile", "web", "desktop", "web"])).metrics
    with pytest.raises(UserError, match="unified routing needs one teacher"):
        make_teach(local, Teaching(routing="unified", estimator="k2"))
    with pytest.raises(UserError, match="log-probabilities only"):
        make_teach(local, Teaching())
    for wrong in ({"routing": "some"}, {"estimator": "k1"}, {"scale": -1.0}):
        with pytest.raises(UserError, match="teaching"):
            Teaching(**wrong)
    with pytest.raises(UserError, match="no teacher for the platform 'web'"):
        make_teach(local, SAMPLED)(filled(samples, ["web"] * 5))
