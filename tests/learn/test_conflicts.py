"""Projection of conflicting gradients, against the algorithm in numpy, and in the train step."""

import jax
import numpy as np
import optax
import pytest

from gui_rl.data.packing import pack
from gui_rl.data.samples import BatchShape, micro_batches
from gui_rl.errors import UserError
from gui_rl.evaluate.diagnostics import Cosines
from gui_rl.learn.batch import split
from gui_rl.learn.buffer import BufferState
from gui_rl.learn.losses import LossConfig
from gui_rl.learn.mrpo import Filled, MRPOConfig
from gui_rl.learn.online import make_update
from gui_rl.learn.optim import project_conflicts
from gui_rl.learn.state import init_state, make_mesh
from gui_rl.learn.step import make_gradient, make_train_step, place

SGD = optax.sgd(1.0)


def surgery(gradients, orders):
    """Algorithm 1 of gradient surgery: every gradient loses what points against each other one, in the given order."""
    total = np.zeros_like(gradients[0])
    for own, order in enumerate(orders):
        mine = gradients[own].copy()
        for other in order:
            if other != own and mine @ gradients[other] < 0:
                mine -= mine @ gradients[other] / (gradients[other] @ gradients[other]) * gradients[other]
        total += mine
    return total


def vectors(tree, *lead):
    return np.concatenate([np.asarray(leaf).reshape(*lead, -1) for leaf in jax.tree.leaves(tree)], axis=-1)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_it_is_gradient_surgery(count):
    random, conflicts = np.random.default_rng(count), 0
    for trial in range(20):
        grads = {"a": random.normal(size=(count, 3)), "b": random.normal(size=(count, 2, 2))}
        grads = {name: leaf.astype(np.float32) for name, leaf in grads.items()}
        key = jax.random.key(trial)
        flat = vectors(grads, count).astype(np.float64)
        orders = [np.asarray(jax.random.permutation(k, count)) for k in jax.random.split(key, count)]
        combined, cosines = project_conflicts(grads, key)
        np.testing.assert_allclose(vectors(combined), surgery(flat, orders), atol=2e-5)
        unit = flat / np.linalg.norm(flat, axis=1, keepdims=True)
        np.testing.assert_allclose(cosines, unit @ unit.T, atol=1e-5)
        conflicts += (np.asarray(cosines) < 0).any()
    assert conflicts > 5


def test_without_a_conflict_it_is_the_sum_and_a_zero_gradient_is_harmless():
    grads = {"a": np.array([[1.0, 0.5, 0.0], [0.2, 1.0, 0.0], [0.0, 0.0, 0.0]], np.float32)}
    combined, cosines = project_conflicts(grads, jax.random.key(0))
    np.testing.assert_allclose(combined["a"], [1.2, 1.5, 0.0], atol=1e-6)
    assert np.isfinite(cosines).all() and (np.asarray(cosines)[2] == 0).all()


def test_two_opposed_families_move_the_policy_only_where_they_do_not_disagree(cfg, params, make_samples):
    """The step's change is the surgery of the families' own gradients; the loss is that of the mixture."""
    side, values = cfg.vision.position_side, cfg.vision.patch_values
    samples = make_samples(1, 6, weighted=("pg_weight",))
    part = pack(samples, cfg.image_token_id, 48, 32, 8, side=side, patch_dim=values)
    random = np.random.default_rng(0).uniform(0.2, 2.0, part.pg_weight.shape).astype(np.float32)
    parts = [part.replace(advantage=np.abs(part.advantage)), part.replace(advantage=-np.abs(part.advantage))]
    parts[1] = parts[1].replace(pg_weight=part.pg_weight * random)  # the same turns, liked here and disliked there
    mesh = make_mesh(devices=jax.devices()[:1])
    weights = [float(part.pg_weight.sum()) for part in parts]
    gradient = make_gradient(cfg, LossConfig(), mesh)
    own = [
        vectors(gradient(params, place(split(part, 1), mesh))).astype(np.float64) * weight / sum(weights)
        for part, weight in zip(parts, weights, strict=True)
    ]
    assert own[0] @ own[1] < 0  # they do conflict
    whole = jax.tree.map(lambda *leaves: np.stack(leaves), *parts)
    states = [init_state(cfg, SGD, 0, mesh, params=params) for _ in range(2)]
    apart, found = make_train_step(cfg, LossConfig(), SGD, mesh, families=2)(states[0], place(whole, mesh))
    mixed, plain = make_train_step(cfg, LossConfig(), SGD, mesh)(states[1], place(whole, mesh))
    change, sum_of_both = (vectors(params).astype(np.float64) - vectors(s.params) for s in (apart, mixed))
    np.testing.assert_allclose(sum_of_both, own[0] + own[1], atol=2e-6)
    np.testing.assert_allclose(change, surgery(own, [[0, 1], [0, 1]]), atol=2e-6)
    np.testing.assert_allclose(found["loss"], plain["loss"], rtol=1e-5)
    cosine = own[0] @ own[1] / np.linalg.norm(own[0]) / np.linalg.norm(own[1])
    np.testing.assert_allclose(found["cosine_0_1"], cosine, atol=1e-4)
    assert found["conflicts"] == 1 and change @ own[0] > -1e-9 and change @ own[1] > -1e-9


def test_a_run_measures_the_cosines_of_each_family_s_latest_samples(cfg, params, make_samples):
    """Families take turns; every second step, once two are known, each one's gradient is that of its own samples."""
    mesh = make_mesh(devices=jax.devices()[:1])
    gradient = make_gradient(cfg, LossConfig(), mesh)
    shape = BatchShape(rows=4, row_length=48, row_patches=32, micro_batches=1)
    config = MRPOConfig(cosines_every=2, epochs=2, shape=shape)
    measure = Cosines(gradient, cfg, config, mesh, ("mobile", "desktop", "web"))
    taken = {
        "web": make_samples(1, 3, weighted=("pg_weight",)), "mobile": make_samples(2, 9, weighted=("pg_weight",)),
        "again": make_samples(3, 2, weighted=("pg_weight",)),
    }  # fmt: skip
    state = init_state(cfg, SGD, 0, mesh, params=params)
    found = []
    for number, (name, family) in enumerate((("web", "web"), ("mobile", "mobile"), ("again", "web"), ("again", "web"))):
        now = state.replace(step=jax.numpy.asarray(2 * number))
        samples = taken[name]
        found.append(measure(now, Filled(samples, [family] * len(samples), BufferState(), {})))
    assert found[0] == found[2] == {}

    def own(samples):
        return gradient(params, place(micro_batches(samples, cfg, shape), mesh))

    for metrics, web in ((found[1], "web"), (found[3], "again")):
        one, other = (vectors(own(taken[name])).astype(np.float64) for name in ("mobile", web))
        cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
        assert metrics["gradient_cosine/all/mobile-web"] == pytest.approx(cosine, abs=1e-5)
        assert {"gradient_cosine/text/layers/0/mobile-web", "gradient_cosine/text/embed/mobile-web"} < set(metrics)
    with pytest.raises(UserError, match="cosines_every"):
        make_update(None, cfg, config, mesh)
