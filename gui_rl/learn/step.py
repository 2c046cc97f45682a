"""The one train step.

In: a `TrainState` and a `Batch` with a leading micro-batch axis `[A, B, ...]`. Out: the next state and metrics.
1. The denominators of the three weight streams are summed over all micro-batches and all devices.
2. For each micro-batch: hidden states, log-probabilities, its share of the composed loss, and the share's gradient.
3. Shares and gradients are added up (`lax.scan`); nothing is averaged, since the shares are already divided by the
   global denominators. So A micro-batches, or N devices, give what one large batch on one device gives.
4. One update of what is trained. Where families are kept apart, their gradients are summed after what points against
   another family's has been taken out (`optim.project_conflicts`).
SFT, reinforcement learning, distillation and their mixtures differ only in how the batch is filled. What is trained is
the policy itself, or something that gives the policy through a `view`: adapters merged into frozen parameters.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float

from gui_rl.errors import UserError
from gui_rl.learn.batch import Batch, StreamWeights, global_weights
from gui_rl.learn.losses import LossConfig, WeightedMetric, composed, log_ratio
from gui_rl.learn.optim import project_conflicts
from gui_rl.learn.state import TrainState, state_shardings
from gui_rl.model import forward, layout
from gui_rl.model.config import ModelConfig
from gui_rl.model.params import ShardingRules

Metrics = Mapping[str, Float[Array, ""]]
TrainStep = Callable[[TrainState, Batch], tuple[TrainState, Metrics]]
AGREEMENT_BANDS = {"agreement_tight": (0.999, 1.002), "agreement_1pct": (0.99, 1.01), "agreement_5pct": (0.95, 1.05)}
"""Bounds on the trainer/sampler ratio whose share of tokens is reported."""


def make_train_step(
    cfg: ModelConfig,
    loss_config: LossConfig,
    optimizer: optax.GradientTransformation,
    mesh: Mesh,
    rules: ShardingRules | None = None,
    *,
    families: int = 1,
    specs: Any = None,
    view: Callable[[Any, Any], Any] = lambda frozen, trained: trained,
    frozen: Any = None,
    heads: Sequence[Float[Array, "E V"]] = (),
) -> TrainStep:
    """Compiles the train step for a mesh.

    Adapters are trained by `specs=lora.specs(...)`, `view=functools.partial(lora.merge, scale=...)` and the policy's
    parameters as `frozen`, with a state made from the same specs.

    Args:
      cfg: the policy's configuration.
      loss_config: settings of the composed loss.
      optimizer: what turns the gradient into an update.
      mesh: devices, with the axes `(replica, fsdp, expert, tensor)`.
      rules: which logical axis is split over which mesh axis.
      families: above 1, the micro-batches are that many equal runs, one of each family (all zero for a family without
        samples), and conflicting gradients are projected; `cosine_I_J` of every two families' gradients is then a
        metric, as well as `conflicts`, the share of pairs whose cosine is negative.
      specs: of what is trained, where that is not the policy itself.
      view: `(frozen, trained) -> the policy's parameters`, pure; by default the trained ones.
      frozen: parameters that no step changes, placed as they are to be used.
      heads: the teachers' output matrices, for the exact divergence (`LossConfig.kl_estimator` "full"), of any
        width each; they are read at every step.
    Returns:
      A function of `(state, batch)`. It takes over the buffers of `state`. Its metrics are float32 scalars: `loss`;
      `ce`, `pg`, `kl` (each stream's weighted mean, unscaled) and their denominators `weight_ce`, `weight_pg`,
      `weight_kl`; `entropy` (nats, mean over the tokens that have a weight); over policy-gradient tokens
      `ratio_mean`, `ratio_min`, `ratio_max` (trainer over sampler), `clip_share`, `sampler_kl` (mean of behaviour_logp
      - logp) and the agreement shares; `balance`, the experts' load-balancing loss, where there are any; `grad_norm`,
      before any clipping by the optimizer, and `update_norm`.
    """
    rules = ShardingRules() if rules is None else rules
    where = state_shardings(cfg, optimizer, mesh, rules, specs)
    rows = batch_sharding(mesh, rules)
    everywhere = NamedSharding(mesh, PartitionSpec())
    share = _make_share(cfg, loss_config, mesh, rules, bool(heads))

    def step(state: TrainState, batch: Batch, frozen: Any, heads: Any) -> tuple[TrainState, Metrics]:
        weights, parts = global_weights(batch), len(batch.targets)

        def gradient(batch: Batch):
            return accumulate(
                lambda trained, micro: share(view(frozen, trained), heads, micro, weights, parts), state.params, batch
            )

        apart: Metrics = {}
        if families == 1:
            loss, grads, measured = gradient(batch)
        else:
            each = jax.tree.map(lambda leaf: leaf.reshape(families, -1, *leaf.shape[1:]), batch)
            losses, grads, measured = jax.lax.map(gradient, each)
            loss, measured = jnp.sum(losses), jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), measured)
            grads, cosines = project_conflicts(grads, jax.random.fold_in(state.key, state.step))
            pairs = [(i, j) for i in range(families) for j in range(i)]
            apart = {f"cosine_{j}_{i}": cosines[i, j] for i, j in pairs}
            apart["conflicts"] = jnp.mean(jnp.stack([cosines[pair] < 0 for pair in pairs]).astype(jnp.float32))
        updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
        metrics = apart | _finish(measured) | {f"weight_{name}": value for name, value in weights._asdict().items()}
        metrics |= {"loss": loss, "grad_norm": optax.tree.norm(grads), "update_norm": optax.tree.norm(updates)}
        params = optax.apply_updates(state.params, updates)
        # The gradient is float32 whatever the parameters are; an optimizer's state keeps the dtypes it began with.
        opt_state = jax.tree.map(
            lambda new, old: new if new.dtype == old.dtype else new.astype(old.dtype), opt_state, state.opt_state
        )
        return state.replace(step=state.step + 1, params=params, opt_state=opt_state), metrics

    if frozen is None and not heads:
        alone = functools.partial(step, frozen=None, heads=())
        return jax.jit(alone, in_shardings=(where, rows), out_shardings=(where, everywhere), donate_argnums=0)
    beside = jax.jit(step, in_shardings=(where, rows, None, None), out_shardings=(where, everywhere), donate_argnums=0)
    return lambda state, batch: beside(state, batch, frozen, tuple(heads))


def make_gradient(
    cfg: ModelConfig,
    loss_config: LossConfig,
    mesh: Mesh,
    rules: ShardingRules | None = None,
    heads: Sequence[Float[Array, "E V"]] = (),
) -> Callable[[Any, Batch], Any]:
    """Compiles `(params, batch [A, B, ...]) -> the gradient of the composed loss`, float32; no step is taken.

    heads: as in `make_train_step`.
    """
    rules = ShardingRules() if rules is None else rules
    share = _make_share(cfg, loss_config, mesh, rules, bool(heads))

    def gradient(params: Any, batch: Batch, heads: Any) -> Any:
        weights, parts = global_weights(batch), len(batch.targets)
        return accumulate(lambda params, micro: share(params, heads, micro, weights, parts), params, batch)[1]

    compiled = jax.jit(gradient, in_shardings=(None, batch_sharding(mesh, rules), None))
    return lambda params, batch: compiled(params, batch, tuple(heads))


def _make_share(
    cfg: ModelConfig, loss_config: LossConfig, mesh: Mesh, rules: ShardingRules, taught: bool = False
) -> Callable:
    """`(policy's parameters, teachers' heads, micro-batch, denominators, number of micro-batches) -> (share of the
    loss, measured)`. taught: there are heads."""
    exact = loss_config.kl_estimator == "full"
    if exact != taught:
        raise UserError('the KL estimator "full" and the teachers\' heads belong together: give both, or neither')

    def share(params: Any, heads: Any, micro: Batch, weights: StreamWeights, parts: int):
        with layout.on_mesh(mesh, rules):
            hidden, balance = forward.hidden_and_balance(params, cfg, micro.inputs)
            logp, entropy = target_logprobs(params, cfg, hidden, micro, loss_config.temperature, loss_config.chunk)
            divergence = _exact_divergence(params, cfg, hidden, heads, micro, loss_config) if exact else None
        loss, sums = composed(logp, micro, weights, loss_config, divergence)
        sums |= _token_metrics(logp, entropy, micro, loss_config)
        if cfg.text.num_experts:
            loss += cfg.text.router_aux_loss_coef * balance / parts
            sums["balance"] = WeightedMetric(balance, jnp.ones(()))
        return loss, _Measured(sums, *_ratio_range(logp, micro, loss_config))

    return share


def make_scorer(
    cfg: ModelConfig, mesh: Mesh, rules: ShardingRules | None = None, temperature: float = 1.0, chunk: int | None = None
) -> Callable[[Any, Batch], Float[Array, "A B T"]]:
    """Compiles `(params, batch [A, B, ...]) -> logp [A, B, T]`, the log-probabilities of a batch's targets.

    It scores a batch for a teacher (`teacher_logp`) or under the trainer's own parameters (`behaviour_logp`).
    """
    rules = ShardingRules() if rules is None else rules

    def score(params: Any, batch: Batch) -> Float[Array, "A B T"]:
        def one(micro: Batch):
            with layout.on_mesh(mesh, rules):
                hidden = forward.hidden(params, cfg, micro.inputs)
                return target_logprobs(params, cfg, hidden, micro, temperature, chunk)[0]

        return jax.lax.map(one, batch)

    return jax.jit(score, in_shardings=(None, batch_sharding(mesh, rules)))


def target_logprobs(
    params: Any,
    cfg: ModelConfig,
    hidden: Float[Array, "B T D"],
    micro: Batch,
    temperature: float,
    chunk: int | None = None,
) -> tuple[Float[Array, "B T"], Float[Array, "B T"]]:
    """Log-probabilities and entropies of the targets, each shard's rows in chunks of their own: the head is gathered
    once, not once a chunk."""
    name = "embed" if cfg.tie_word_embeddings else "head"

    def score(head: Any, hidden: Array, targets: Array):
        return forward.token_logprobs({"text": {name: head}}, cfg, hidden, targets, temperature, chunk)

    return layout.on_each_shard(score, params["text"][name], hidden, micro.targets)


def _exact_divergence(
    params: Any, cfg: ModelConfig, hidden: Float[Array, "B T D"], heads: Any, micro: Batch, config: LossConfig
) -> Float[Array, "B T"]:
    """The exact reverse KL from the teachers at every position; see `forward.reverse_kl`."""
    name = "embed" if cfg.tie_word_embeddings else "head"

    def score(whole: Any, hidden: Array, theirs: Array, teacher: Array):
        mine, heads = whole
        found = forward.reverse_kl(
            {"text": {name: mine}}, cfg, hidden, heads, theirs, teacher, config.temperature, config.chunk
        )
        return (found,)

    whole = (params["text"][name], heads)
    return layout.on_each_shard(score, whole, hidden, micro.teacher_hidden, micro.teacher)[0]


def accumulate(share: Callable, params: Any, batch: Batch) -> tuple[Float[Array, ""], Any, Any]:
    """Sums the loss shares of the micro-batches of a batch, and their gradients (in float32).

    Args:
      share: `(params, micro_batch) -> (loss share, measured)`.
      params: what to differentiate by.
      batch: `[A, B, ...]`.
    Returns:
      The loss, the gradient in float32, and what was measured, stacked along the micro-batch axis.
    """

    def add(grads: Any, micro: Batch):
        (loss, measured), more = jax.value_and_grad(share, has_aux=True)(params, micro)
        return jax.tree.map(lambda total, g: total + g.astype(total.dtype), grads, more), (loss, measured)

    zeros = jax.tree.map(lambda p: jnp.zeros(p.shape, jnp.float32), params)
    if batch.targets.shape[0] == 1:  # a loop of one turn would only keep the compiler from seeing the whole
        grads, out = add(zeros, jax.tree.map(lambda leaf: leaf[0], batch))
        losses, measured = jax.tree.map(lambda leaf: leaf[None], out)
    else:
        grads, (losses, measured) = jax.lax.scan(add, zeros, batch)
    return jnp.sum(losses), grads, measured


def batch_sharding(mesh: Mesh, rules: ShardingRules) -> NamedSharding:
    """Where a batch `[A, B, ...]` lives: its rows are split over the mesh axes of the logical axis "batch"."""
    return NamedSharding(mesh, PartitionSpec(None, *rules.spec(("batch",))))


def place(batch: Batch, mesh: Mesh, rules: ShardingRules | None = None) -> Batch:
    """Moves a host batch `[A, B, ...]` to the devices; in a multi-process run each process gives its own rows.

    Raises:
      UserError: when the rows cannot be split evenly over the devices.
    """
    sharding = batch_sharding(mesh, ShardingRules() if rules is None else rules)
    rows = batch.targets.shape[1] * jax.process_count()
    try:
        sharding.shard_shape((1, rows))
    except ValueError as error:
        raise UserError(
            f"a micro-batch of {rows} rows cannot be split evenly over the mesh {dict(mesh.shape)}: {error}"
        ) from error
    return jax.tree.map(lambda leaf: jax.make_array_from_process_local_data(sharding, leaf), batch)


def process_rows(batch: Batch) -> Batch:
    """This process's rows of a host batch `[A, B, ...]` that every process has whole: what `place` asks of it."""
    count, mine = jax.process_count(), jax.process_index()
    if batch.targets.shape[1] % count:
        raise UserError(f"{batch.targets.shape[1]} rows cannot be split over {count} processes: change shape.rows")
    return jax.tree.map(lambda leaf: np.split(leaf, count, axis=1)[mine], batch)


class _Measured(NamedTuple):
    """What one micro-batch measures (with a leading axis: what several measured)."""

    sums: dict[str, WeightedMetric]
    ratio_min: Float[Array, "*A"]
    ratio_max: Float[Array, "*A"]


def _finish(measured: _Measured) -> dict[str, Float[Array, ""]]:
    """The metrics of all micro-batches; only here does anything get divided. Without policy tokens the ratio is 1."""
    low, high = jnp.min(measured.ratio_min), jnp.max(measured.ratio_max)
    sums = {name: WeightedMetric(jnp.sum(m.sum), jnp.sum(m.denominator)) for name, m in measured.sums.items()}
    return {name: metric.mean() for name, metric in sums.items()} | {
        "ratio_min": jnp.where(jnp.isfinite(low), low, 1.0),
        "ratio_max": jnp.where(jnp.isfinite(high), high, 1.0),
    }


def _token_metrics(
    logp: Float[Array, "B T"], entropy: Float[Array, "B T"], batch: Batch, config: LossConfig
) -> dict[str, WeightedMetric]:
    """Sums over tokens, each token of the stream counting once whatever its weight."""
    logp, entropy = jax.lax.stop_gradient((logp, entropy))
    weighted = (batch.ce_weight != 0) | (batch.pg_weight != 0) | (batch.kl_weight != 0)
    policy = (batch.pg_weight != 0).astype(jnp.float32)
    ratio = jnp.exp(log_ratio(logp, batch.behaviour_logp, config.log_ratio_clamp))
    clipped = jnp.where(batch.advantage >= 0, ratio > 1 + config.clip_high, ratio < 1 - config.clip_low)
    shares = {name: (ratio >= low) & (ratio <= high) for name, (low, high) in AGREEMENT_BANDS.items()}
    return {
        "entropy": WeightedMetric.of(entropy, weighted.astype(jnp.float32)),
        "ratio_mean": WeightedMetric.of(ratio, policy),
        "clip_share": WeightedMetric.of(clipped.astype(jnp.float32), policy),
        "sampler_kl": WeightedMetric.of(batch.behaviour_logp - logp, policy),
    } | {name: WeightedMetric.of(inside.astype(jnp.float32), policy) for name, inside in shares.items()}


def _ratio_range(
    logp: Float[Array, "B T"], batch: Batch, config: LossConfig
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Smallest and largest trainer/sampler ratio over policy-gradient tokens; infinite where there are none."""
    policy = batch.pg_weight != 0
    ratio = jnp.exp(log_ratio(jax.lax.stop_gradient(logp), batch.behaviour_logp, config.log_ratio_clamp))
    return jnp.min(jnp.where(policy, ratio, jnp.inf)), jnp.max(jnp.where(policy, ratio, -jnp.inf))
