"""Losses against golden cases, closed forms and enumeration of a small categorical."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gui_rl.learn import losses
from gui_rl.model import forward


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def test_policy_gradient_golden(golden):
    cases = golden("policy_loss")

    @jax.jit
    def loss_and_gradient(logp, old, advantage, mask, clipping):
        def loss(logp):
            per_token = losses.policy_gradient(logp, old, advantage, *clipping)
            return losses.WeightedMetric.of(per_token, mask).mean()

        return jax.value_and_grad(loss)(logp)

    for case in cases:
        arrays = [np.array(case[name]) for name in ("logp", "behaviour_logp", "advantage", "mask")]
        rows, columns = arrays[0].shape
        padded = [np.pad(array, ((0, 4 - rows), (0, 8 - columns))) for array in arrays]
        clipping = case["clip_low"], case["clip_high"], case["dual_clip"]
        value, gradient = loss_and_gradient(*padded, clipping)
        np.testing.assert_allclose(value, case["expect_loss"], atol=1e-6)
        np.testing.assert_allclose(gradient[:rows, :columns], case["expect_grad_logp"], atol=1e-6)
        assert not gradient[rows:].any() and not gradient[:, columns:].any()
    assert len(cases) == 8


def test_dual_clip_only_where_the_advantage_is_negative():
    logp, old = jnp.log(jnp.array([20.0, 20.0])), jnp.zeros(2)
    loss = losses.policy_gradient(logp, old, jnp.array([-1.0, 1.0]), 0.2, 0.28, 10.0)
    np.testing.assert_allclose(loss, [10.0, -1.28])


def test_log_ratio_is_clamped_before_it_is_exponentiated():
    loss = losses.policy_gradient(jnp.array([0.0]), jnp.array([-1e4]), jnp.array([-1.0]), dual_clip=1e30)
    np.testing.assert_allclose(loss, np.exp(20.0), rtol=1e-12)
    assert losses.importance_weights(jnp.zeros(1), jnp.array([-1e4]))[0] == 2.0


def padded(logits):
    """Logits with further tokens of probability 0, so that all cases have one shape."""
    return np.pad(logits, (0, 8 - len(logits)), constant_values=-1e9)


def expected_gradients(cases, per_token):
    """For each case: the sum over the vocabulary of p(token) times the gradient of the per-token loss, and the sum of
    the losses. p itself is not differentiated."""

    @jax.jit
    def value_and_gradient(student, teacher):
        probability, teacher = jax.nn.softmax(student), jax.nn.log_softmax(teacher)
        return jax.value_and_grad(lambda x: jnp.sum(probability * per_token(jax.nn.log_softmax(x), teacher)))(student)

    for case in cases:
        size = len(case["student_logits"])
        value, gradient = value_and_gradient(padded(case["student_logits"]), padded(case["teacher_logits"]))
        yield case, value, gradient[:size]


def as_advantage(logp, teacher):
    signal = losses.kl(logp, teacher, "k1", "advantage")
    return losses.policy_gradient(logp, jax.lax.stop_gradient(logp), signal)


def with_ratio(estimator):
    return lambda logp, teacher: losses.kl(logp, teacher, estimator, "ratio", jax.lax.stop_gradient(logp))


@pytest.mark.parametrize(
    ("per_token", "gradient"),
    [
        (lambda logp, teacher: losses.kl(logp, teacher, "k2", "loss"), "expect_expected_grad_of_k2_loss"),
        (lambda logp, teacher: losses.kl(logp, teacher, "k2", "loss"), "expect_grad_reverse_kl"),
        (lambda logp, teacher: losses.kl(logp, teacher, "k3", "loss"), "expect_expected_grad_of_k3_loss"),
        (lambda logp, teacher: losses.kl(logp, teacher, "k3", "loss"), "expect_grad_forward_kl"),
        (as_advantage, "expect_grad_reverse_kl"),
        (with_ratio("k1"), "expect_grad_reverse_kl"),
        (with_ratio("k3"), "expect_grad_reverse_kl"),
    ],
)
def test_expected_gradients_of_kl_choices(golden, per_token, gradient):
    for case, _, got in expected_gradients(golden("kl_estimators"), per_token):
        np.testing.assert_allclose(got, case[gradient], atol=1e-6)


@pytest.mark.parametrize(("estimator", "placement"), [("k3", "loss"), ("k1", "ratio"), ("k3", "ratio")])
def test_kl_values_golden(golden, estimator, placement):
    def per_token(logp, teacher):
        return losses.kl(logp, teacher, estimator, placement, jax.lax.stop_gradient(logp))

    for case, value, _ in expected_gradients(golden("kl_estimators"), per_token):
        np.testing.assert_allclose(value, case["expect_reverse_kl"], atol=1e-6)


def test_full_vocabulary_kl_golden(golden):
    full = jax.jit(jax.value_and_grad(forward.full_reverse_kl))
    for case in golden("kl_estimators"):
        student, teacher = padded(case["student_logits"]), padded(case["teacher_logits"])
        value, gradient = full(student, teacher)
        np.testing.assert_allclose(value, case["expect_reverse_kl"], atol=1e-6)
        expected = case["expect_grad_reverse_kl"]
        np.testing.assert_allclose(gradient[: len(expected)], expected, atol=1e-6)
        np.testing.assert_allclose(full(teacher, student)[0], case["expect_forward_kl"], atol=1e-6)


def test_k1_in_the_loss_teaches_nothing_and_is_refused(golden):
    for case, _, zero in expected_gradients(golden("kl_estimators"), lambda logp, teacher: logp - teacher):
        np.testing.assert_allclose(zero, case["expect_expected_grad_of_k1_loss"], atol=1e-6)
    with pytest.raises(ValueError, match="zero expected gradient"):
        losses.kl(jnp.zeros(1), jnp.zeros(1), "k1", "loss")
    with pytest.raises(ValueError, match="zero expected gradient"):
        losses.LossConfig(kl_estimator="k1", kl_placement="loss")


@pytest.mark.parametrize(
    ("estimator", "placement", "match"),
    [("k4", "loss", "k4"), ("k2", "nowhere", "nowhere"), ("k2", "ratio", "neither"), ("k1", "ratio", "behaviour_logp")],
)
def test_kl_refusals(estimator, placement, match):
    with pytest.raises(ValueError, match=match):
        losses.kl(jnp.zeros(1), jnp.zeros(1), estimator, placement)


@pytest.mark.parametrize("estimator", ["k2", "k3"])
def test_teacher_equal_to_student_gives_no_loss_and_no_gradient(estimator):
    logp = jnp.array([-0.1, -2.0, -30.0])
    value, gradient = jax.value_and_grad(lambda x: losses.kl(x, logp, estimator, "loss").sum())(logp)
    assert value == 0 and not gradient.any()


def test_papers_recipe_is_k3_in_the_loss_and_the_default_is_a_reverse_kl():
    assert (losses.PAPER_MOPD.kl_estimator, losses.PAPER_MOPD.kl_placement) == ("k3", "loss")
    assert losses.PAPER_MOPD.kl_scale == 0.01
    default = losses.LossConfig()
    assert (default.kl_estimator, default.kl_placement) == ("k2", "loss")


@pytest.mark.parametrize(
    "wrong", [{"anchor": "sampler"}, {"clip_low": 1.0}, {"dual_clip": 1.0}, {"temperature": 0.0}, {"clip_high": -0.1}]
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(ValueError):
        losses.LossConfig(**wrong)


def test_weighted_metrics_divide_once():
    first = losses.WeightedMetric.of(jnp.array([1.0, 3.0]), jnp.array([1.0, 1.0]))
    second = losses.WeightedMetric.of(jnp.array([10.0, jnp.nan]), jnp.array([2.0, 0.0]))
    assert (first + second).mean() == (1 + 3 + 20) / 4  # a mean of means would be 6
    assert losses.WeightedMetric.of(jnp.ones(2), jnp.zeros(2)).mean() == 0
