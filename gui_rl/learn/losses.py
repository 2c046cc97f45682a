"""Losses as pure functions of per-token arrays, and the one composed loss.

In: log-probabilities (nats) under the current policy, the behaviour policy and the teacher; advantages; weights.
Out: per-token losses, their weighted sums (`WeightedMetric`: divided once, after every reduction), and
`composed`, in which each of the three streams has its own global denominator:

    loss = ce_scale * sum(ce_weight * CE) / sum(ce_weight)
         + sum(pg_weight * PG) / sum(pg_weight)
         + kl_scale * sum(kl_weight * KL) / sum(kl_weight)
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gui_rl.data.batch import Batch
from gui_rl.learn.batch import StreamWeights

Estimator = Literal["k1", "k2", "k3", "full"]
Placement = Literal["loss", "advantage", "ratio"]
Anchor = Literal["behaviour", "current"]
LOG_RATIO_CLAMP = 20.0


@flax.struct.dataclass
class WeightedMetric:
    """A sum and its denominator. Metrics of several micro-batches or devices are added, and only then divided."""

    sum: Float[Array, ""]
    denominator: Float[Array, ""]

    @classmethod
    def of(cls, values: Float[Array, "*S"], weight: Float[Array, "*S"]) -> WeightedMetric:
        """Weighted sum of `values`; where the weight is 0 the value is ignored, even if it is not finite."""
        return cls(jnp.sum(jnp.where(weight != 0, values * weight, 0.0)), jnp.sum(weight))

    def __add__(self, other: WeightedMetric) -> WeightedMetric:
        return WeightedMetric(self.sum + other.sum, self.denominator + other.denominator)

    def mean(self) -> Float[Array, ""]:
        """`sum / denominator`, and 0 for an empty stream."""
        return safe_divide(self.sum, self.denominator)


@dataclasses.dataclass(frozen=True)
class LossConfig:
    """Settings of the composed loss.

    Attributes:
      ce_scale: factor of the cross-entropy stream.
      clip_low, clip_high: the ratio is clipped to `[1 - clip_low, 1 + clip_high]` (UI-MOPD table 6: 0.2 and 0.28).
      dual_clip: bound on `-A r` where the advantage is negative, in units of `-A` (C = 10).
      log_ratio_clamp: bound on log-ratios before they are exponentiated.
      anchor: what the ratio is taken against. "behaviour": the policy that sampled, so that clipping bounds the whole
        step. "current": the policy before this step (ratio 1 with one step a batch); the difference to the sampler is
        then corrected by detached importance weights.
      importance_max: truncation of those weights, per token.
      kl_scale: factor of the teacher stream (UI-MOPD: 0.01).
      kl_estimator, kl_placement: see `kl`. The default is a true reverse KL; k3 in the loss is UI-MOPD's recipe, whose
        gradient is the forward KL's. "full" (in the loss) is exact over the vocabulary; it needs a batch with the
        teacher's hidden states, and the teachers' heads (`make_train_step`).
      temperature: sampling temperature; the same here as in the sampler.
      chunk: tokens of a shard for which the vocabulary's logits exist at one time; None: `forward.LOGITS` of them.
    """

    ce_scale: float = 1.0
    clip_low: float = 0.2
    clip_high: float = 0.28
    dual_clip: float = 10.0
    log_ratio_clamp: float = LOG_RATIO_CLAMP
    anchor: Anchor = "behaviour"
    importance_max: float = 2.0
    kl_scale: float = 1.0
    kl_estimator: Estimator = "k2"
    kl_placement: Placement = "loss"
    temperature: float = 1.0
    chunk: int | None = None

    def __post_init__(self):
        check_kl_choice(self.kl_estimator, self.kl_placement)
        if self.anchor not in ("behaviour", "current"):
            raise ValueError(f"unknown anchor {self.anchor!r}: choose 'behaviour' or 'current'")
        if not 0 <= self.clip_low < 1 or self.clip_high < 0 or self.dual_clip <= 1:
            raise ValueError("clipping needs 0 <= clip_low < 1, clip_high >= 0 and dual_clip > 1")
        if self.temperature <= 0:
            raise ValueError(f"temperature must be positive, not {self.temperature}")


def safe_divide(numerator: Float[Array, "*S"], denominator: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """`numerator / denominator`, and 0 where the denominator is 0."""
    return jnp.where(denominator != 0, numerator / jnp.where(denominator != 0, denominator, 1.0), 0.0)


def log_ratio(
    logp: Float[Array, "*S"], other: Float[Array, "*S"], clamp: float = LOG_RATIO_CLAMP
) -> Float[Array, "*S"]:
    """`logp - other`, clamped to `[-clamp, clamp]`."""
    return jnp.clip(logp - other, -clamp, clamp)


def cross_entropy(logp: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """Per-token negative log-likelihood (nats) of the targets."""
    return -logp


def policy_gradient(
    logp: Float[Array, "*S"],
    behaviour_logp: Float[Array, "*S"],
    advantage: Float[Array, "*S"],
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual_clip: float = 10.0,
    log_ratio_clamp: float = LOG_RATIO_CLAMP,
) -> Float[Array, "*S"]:
    """Clipped surrogate per token, `max(-A r, -A clip(r, 1 - clip_low, 1 + clip_high))` with `r = exp(logp - old)`.

    Where the advantage is negative it is also bounded by `-A dual_clip` (PPO; dual clip of Ye et al. 2020; the
    asymmetric bounds of DAPO as used by UI-MOPD, table 6).
    """
    ratio = jnp.exp(log_ratio(logp, behaviour_logp, log_ratio_clamp))
    loss = jnp.maximum(-advantage * ratio, -advantage * jnp.clip(ratio, 1.0 - clip_low, 1.0 + clip_high))
    return jnp.where(advantage < 0, jnp.minimum(loss, -advantage * dual_clip), loss)


def importance_weights(
    logp: Float[Array, "*S"], behaviour_logp: Float[Array, "*S"], maximum: float = 2.0
) -> Float[Array, "*S"]:
    """Detached per-token importance weights `min(exp(logp - behaviour), maximum)` of trainer over sampler."""
    return jax.lax.stop_gradient(jnp.minimum(jnp.exp(log_ratio(logp, behaviour_logp)), maximum))


def check_kl_choice(estimator: str, placement: str) -> None:
    """Raises a ValueError for unknown names and for choices that do not give a divergence's gradient."""
    if estimator not in ("k1", "k2", "k3", "full"):
        raise ValueError(f"unknown KL estimator {estimator!r}: choose 'k1', 'k2', 'k3' or 'full'")
    if placement not in ("loss", "advantage", "ratio"):
        raise ValueError(f"unknown KL placement {placement!r}: choose 'loss', 'advantage' or 'ratio'")
    if (estimator, placement) == ("k1", "loss"):
        raise ValueError(
            "k1 in the loss has zero expected gradient and would teach nothing: use k2 in the loss or k1 as an "
            "advantage for the reverse KL (k3 in the loss gives the forward KL's gradient)"
        )
    if estimator == "full" and placement != "loss":
        raise ValueError("the full KL is no estimate: its place is the loss")
    if (estimator, placement) == ("k2", "ratio"):
        raise ValueError("k2 times the ratio estimates neither KL: use k1 or k3 with the ratio, or k2 in the loss")


def kl(
    logp: Float[Array, "*S"],
    teacher_logp: Float[Array, "*S"],
    estimator: Estimator = "k2",
    placement: Placement = "loss",
    behaviour_logp: Float[Array, "*S"] | None = None,
    clamp: float = LOG_RATIO_CLAMP,
) -> Float[Array, "*S"]:
    """Per-token divergence from the teacher, for tokens sampled from the student (Schulman's estimators).

    With `d = teacher_logp - logp`: k1 = -d, k2 = d^2 / 2, k3 = exp(d) - 1 - d. The placement decides what it teaches:

    | placement | returned | expected gradient, on policy |
    |---|---|---|
    | "loss" | k, to be minimised | k2: reverse KL(student, teacher); k3: forward KL(teacher, student); k1: none |
    | "advantage" | -k without gradient, to be added to (or used as) an advantage | k1: reverse KL |
    | "ratio" | k times the differentiable ratio exp(logp - behaviour_logp), to be minimised | k1, k3: reverse KL |

    Raises:
      ValueError: for k1 in the loss, k2 with the ratio, the ratio without `behaviour_logp`, or unknown names.
    """
    check_kl_choice(estimator, placement)
    if estimator == "full":
        raise ValueError("the full KL is not a function of one token: see `forward.reverse_kl`")
    delta = log_ratio(teacher_logp, logp, clamp)
    value = {"k1": lambda: -delta, "k2": lambda: 0.5 * delta**2, "k3": lambda: jnp.expm1(delta) - delta}[estimator]()
    if placement == "advantage":
        return -jax.lax.stop_gradient(value)
    if placement == "loss":
        return value
    if behaviour_logp is None:
        raise ValueError("the KL placement 'ratio' needs behaviour_logp, the log-probabilities of the sampler")
    return value * jnp.exp(log_ratio(logp, behaviour_logp, clamp))


def composed(
    logp: Float[Array, "B T"],
    batch: Batch,
    weights: StreamWeights,
    config: LossConfig,
    divergence: Float[Array, "B T"] | None = None,
) -> tuple[Float[Array, ""], dict[str, WeightedMetric]]:
    """This micro-batch's share of the composed loss: shares add up to the loss of the whole batch.

    Args:
      logp: log-probability of each target under the current policy.
      batch: one micro-batch.
      weights: the streams' denominators over *all* micro-batches and devices (`global_weights`).
      config: the loss's settings.
      divergence: the exact reverse KL at each position, for the estimator "full" and no other.
    Returns:
      The share, and per-stream sums `ce`, `pg`, `kl` (unscaled), whose denominators are this micro-batch's own.
    """
    clipping = (config.clip_low, config.clip_high, config.dual_clip, config.log_ratio_clamp)
    if config.anchor == "current":
        old = jax.lax.stop_gradient(logp)
        importance = importance_weights(logp, batch.behaviour_logp, config.importance_max)
    else:
        old, importance = batch.behaviour_logp, 1.0
    if config.kl_estimator != "full":
        divergence = kl(
            logp,
            batch.teacher_logp,
            config.kl_estimator,
            config.kl_placement,
            batch.behaviour_logp,
            config.log_ratio_clamp,
        )
        if config.kl_placement == "advantage":
            divergence = policy_gradient(logp, old, divergence, *clipping)
        if config.kl_placement != "ratio":  # the differentiable ratio is itself the correction to the sampler
            divergence = importance * divergence
    ce = cross_entropy(logp)
    pg = importance * policy_gradient(logp, old, batch.advantage, *clipping)
    sums = {
        "ce": WeightedMetric.of(ce, batch.ce_weight),
        "pg": WeightedMetric.of(pg, batch.pg_weight),
        "kl": WeightedMetric.of(divergence, batch.kl_weight),
    }
    loss = (
        config.ce_scale * safe_divide(sums["ce"].sum, weights.ce)
        + safe_divide(sums["pg"].sum, weights.pg)
        + config.kl_scale * safe_divide(sums["kl"].sum, weights.kl)
    )
    return loss, sums


PAPER_MOPD = LossConfig(kl_scale=0.01, kl_estimator="k3", kl_placement="loss")
"""UI-MOPD as published: k3 in the loss, coefficient 0.01."""
