"""The composed loss as a function of log-probabilities alone."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from gui_rl.learn.batch import STREAMS, Batch, global_weights, with_streams
from gui_rl.learn.losses import LossConfig, composed, policy_gradient

WEIGHTS = STREAMS[:3]
SHAPE = (3, 5)
BEHAVIOUR, CURRENT = LossConfig(), LossConfig(anchor="current")


@pytest.fixture
def batch():
    random = np.random.default_rng(0)
    streams = {name: random.uniform(-4, -1, SHAPE).astype(np.float32) for name in STREAMS}
    streams |= {name: random.uniform(0, 2, SHAPE).astype(np.float32) for name in WEIGHTS}
    streams["advantage"] = random.normal(size=SHAPE).astype(np.float32)
    return Batch(inputs=None, targets=np.zeros(SHAPE, np.int32), **streams)


@pytest.fixture
def logp(batch):
    return batch.behaviour_logp + np.random.default_rng(1).uniform(-1.5, 1.5, SHAPE).astype(np.float32)


def only(batch, stream):
    return with_streams(batch, **{name: np.zeros(SHAPE, np.float32) for name in WEIGHTS if name != stream})


@functools.partial(jax.jit, static_argnums=3)
def compiled_gradient(logp, batch, weights, config):
    return jax.grad(lambda x: composed(x, batch, weights, config)[0])(logp)


def gradient(logp, batch, config):
    return compiled_gradient(logp, batch, global_weights(batch), config)


def test_streams_do_not_touch_one_another(batch, logp):
    parts = [gradient(logp, only(batch, stream), BEHAVIOUR) for stream in WEIGHTS]
    np.testing.assert_allclose(gradient(logp, batch, BEHAVIOUR), sum(parts), atol=1e-6)
    whole = composed(logp, batch, global_weights(batch), BEHAVIOUR)[1]
    for stream, name in zip(WEIGHTS, ("ce", "pg", "kl"), strict=True):
        single = composed(logp, only(batch, stream), global_weights(batch), BEHAVIOUR)[1]
        assert single[name].mean() == whole[name].mean()


def test_shares_of_parts_add_up_to_the_whole(batch, logp):
    weights = global_weights(batch)
    whole = composed(logp, batch, weights, BEHAVIOUR)[0]
    rows = [composed(logp[r], jax.tree.map(lambda x, r=r: x[r], batch), weights, BEHAVIOUR)[0] for r in range(3)]
    np.testing.assert_allclose(sum(rows), whole, rtol=1e-6)


def test_anchor_current_is_reinforce_with_truncated_importance(batch, logp):
    policy = only(batch, "pg_weight")
    importance = np.minimum(np.exp(logp - batch.behaviour_logp), 2.0)
    assert (importance == 2.0).any() and (importance < 1.0).any()
    expected = -importance * batch.advantage * batch.pg_weight / batch.pg_weight.sum()
    np.testing.assert_allclose(gradient(logp, policy, CURRENT), expected, atol=1e-6)


def test_both_anchors_agree_on_policy(batch, logp):
    policy = with_streams(only(batch, "pg_weight"), behaviour_logp=logp)
    np.testing.assert_allclose(gradient(logp, policy, BEHAVIOUR), gradient(logp, policy, CURRENT), atol=1e-7)


def test_kl_as_an_advantage_is_the_policy_gradient_of_minus_k1(batch, logp):
    config = LossConfig(kl_estimator="k1", kl_placement="advantage", kl_scale=0.5)
    distil, signal = only(batch, "kl_weight"), batch.teacher_logp - logp

    def reference(x):
        per_token = policy_gradient(x, batch.behaviour_logp, signal)
        return 0.5 * (per_token * batch.kl_weight).sum() / batch.kl_weight.sum()

    np.testing.assert_allclose(gradient(logp, distil, config), jax.grad(reference)(logp), atol=1e-6)


@pytest.mark.parametrize("anchor", ["behaviour", "current"])
def test_kl_with_the_ratio_uses_the_samplers_ratio(batch, logp, anchor):
    config = LossConfig(kl_estimator="k3", kl_placement="ratio", anchor=anchor)
    delta = batch.teacher_logp - logp
    ratio = np.exp(logp - batch.behaviour_logp)
    k3 = np.exp(delta) - 1 - delta
    expected = ratio * (k3 + 1 - np.exp(delta)) * batch.kl_weight / batch.kl_weight.sum()
    np.testing.assert_allclose(gradient(logp, only(batch, "kl_weight"), config), expected, rtol=1e-4, atol=1e-6)


def test_scales_multiply_their_own_stream(batch, logp):
    doubled = dataclasses.replace(BEHAVIOUR, ce_scale=2.0, kl_scale=3.0)
    plain = {stream: gradient(logp, only(batch, stream), BEHAVIOUR) for stream in WEIGHTS}
    expected = 2 * plain["ce_weight"] + plain["pg_weight"] + 3 * plain["kl_weight"]
    np.testing.assert_allclose(gradient(logp, batch, doubled), expected, rtol=1e-5, atol=1e-6)
