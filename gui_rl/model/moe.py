"""Mixture of experts: the feed-forward part of a decoder layer, where a router sends every token to a few experts.

In: normalised activations of a layer. Out: what its experts add, and how the load was spread over them.
1. The router's logits become probabilities over all experts (fp32); a token goes to the `num_experts_per_tok` most
   probable ones, whose probabilities are scaled to sum to 1 and weigh their results.
2. Tokens are sorted by expert, and each expert multiplies its own run of rows (`jax.lax.ragged_dot`). No token is
   dropped, whatever the load.
3. On a mesh, each device holds some experts (`expert`) and a part of their width (`tensor`). The tokens of the devices
   that share the experts are gathered, each device works on the rows that went to its own experts, and the results are
   summed and scattered back to where the tokens came from.
Reference: Qwen3-VL-MoE in transformers (`Qwen3VLMoeTextSparseMoeBlock`, `load_balancing_loss_func`).
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import PartitionSpec
from jaxtyping import Array, Bool, Float, Int

from gui_rl.model import layout
from gui_rl.model.config import TextConfig
from gui_rl.model.params import mesh_axes


class Routing(NamedTuple):
    """Where tokens go: the chosen experts and their weights (sum 1 a token), and the probabilities of all experts."""

    chosen: Int[Array, "N k"]
    weights: Float[Array, "N k"]
    probabilities: Float[Array, "N E"]


def mlp(
    p: Any,
    cfg: TextConfig,
    x: Float[Array, "N D"],
    counted: Bool[Array, " N"],
    grouped: bool = True,
) -> tuple[Float[Array, "N D"], Float[Array, "2 E"]]:
    """What the experts of one layer add to `x`, and the load: assignments and summed probabilities of each expert over
    the `counted` tokens (fp32; see `balance_loss`).

    `grouped=False` is the reference for tests: every expert computes every token. Where no mesh is declared
    (`layout.on_mesh`), one device, or the compiler, takes it all.
    """
    with jax.named_scope("router"):
        routing = route(x, p["router"], cfg.num_experts_per_tok)
        load = _load(routing, counted)
    matrices = [p[name].astype(x.dtype) for name in ("experts_gate", "experts_up", "experts_down")]
    with jax.named_scope("experts"):
        if not grouped:
            return _every_expert(x, routing, *matrices), load
        where = layout.current()
        if where is None or where.mesh.size == 1:
            return _own_experts(x, routing.chosen, routing.weights, *matrices, first=0).astype(x.dtype), load
        return _across_devices(x, routing, matrices, where), load


def route(x: Float[Array, "N D"], router: Float[Array, "D E"], count: int) -> Routing:
    """The `count` most probable experts of every token; logits are accumulated and normalised in fp32."""
    logits = jnp.einsum("nd,de->ne", x, router.astype(x.dtype), preferred_element_type=jnp.float32)
    probabilities = jax.nn.softmax(logits, axis=-1)
    top, chosen = jax.lax.top_k(probabilities, count)
    weights = (top / jnp.sum(top, axis=-1, keepdims=True)).astype(x.dtype)
    return Routing(chosen, weights, probabilities)


def balance_loss(load: Float[Array, "L 2 E"], count: int) -> Float[Array, ""]:
    """E * sum over experts of (share of tokens assigned) * (mean probability), over all layers and counted tokens.

    `count` (experts a token) where the load is even and at least that otherwise. Only probabilities carry a gradient.
    Source: Switch Transformers (arXiv 2101.03961), equations 4 to 6, as transformers extends them to several experts.
    """
    assigned, probability = jnp.sum(load, axis=0)
    tokens = jnp.maximum(jnp.sum(assigned) / count, 1.0)
    return load.shape[-1] * jnp.sum(jax.lax.stop_gradient(assigned / tokens) * probability / tokens)


def _load(routing: Routing, counted: Bool[Array, " N"]) -> Float[Array, "2 E"]:
    weight = counted.astype(jnp.float32)
    zeros = jnp.zeros(routing.probabilities.shape[-1], jnp.float32)
    assigned = zeros.at[routing.chosen].add(weight[:, None])
    return jnp.stack([assigned, weight @ routing.probabilities])


def _every_expert(x: Array, routing: Routing, gate: Array, up: Array, down: Array) -> Float[Array, "N D"]:
    inner = jax.nn.silu(jnp.einsum("nd,edf->enf", x, gate)) * jnp.einsum("nd,edf->enf", x, up)
    share = jax.nn.one_hot(routing.chosen, gate.shape[0], dtype=x.dtype) * routing.weights[..., None]
    return jnp.einsum("enf,efd,nke->nd", inner, down, share)


def _own_experts(
    x: Float[Array, "N D"],
    chosen: Int[Array, "N k"],
    weights: Float[Array, "N k"],
    gate: Float[Array, "e D F"],
    up: Float[Array, "e D F"],
    down: Float[Array, "e F D"],
    first: int | Int[Array, ""],
) -> Float[Array, "N D"]:
    """The part (fp32) that experts first, first + 1, ... contribute; assignments to others are sorted to the end."""
    tokens, count = chosen.shape
    expert = chosen.reshape(-1) - first
    own = (expert >= 0) & (expert < gate.shape[0])
    expert = jnp.where(own, expert, gate.shape[0])
    order = jnp.argsort(expert, stable=True)
    sizes = jnp.zeros(gate.shape[0], jnp.int32).at[expert].add(1, mode="drop")
    rows = x[order // count]
    inner = jax.nn.silu(_by_expert(rows, gate, sizes)) * _by_expert(rows, up, sizes)
    out = _by_expert(inner, down, sizes)
    back = out.at[jnp.argsort(order)].get(unique_indices=True)
    back = jnp.where(own[:, None], back, 0).reshape(tokens, count, -1)  # what is beyond the groups has no meaning
    return jnp.einsum("nkd,nk->nd", back, weights, preferred_element_type=jnp.float32)


def _by_expert(rows: Float[Array, "R i"], matrices: Float[Array, "e i o"], sizes: Int[Array, " e"]) -> Array:
    return checkpoint_name(jax.lax.ragged_dot(rows, matrices, sizes), "experts")


def _across_devices(
    x: Float[Array, "N D"], routing: Routing, matrices: list[Array], where: layout.Layout
) -> Float[Array, "N D"]:
    mesh, rules = where.mesh, where.rules
    batch, experts, width = (mesh_axes(axes) for axes in (rules.batch, rules.experts, rules.mlp))
    shared = tuple(axis for axis in (*experts, *width) if axis in batch)  # tokens differ over these axes
    rest = tuple(axis for axis in (*experts, *width) if axis not in batch)
    into = rules.spec(("experts", "embed", "mlp"))
    out_of = rules.spec(("experts", "mlp", "embed"))
    by_rows = PartitionSpec(batch or None, None)

    @partial(jax.shard_map, mesh=mesh, in_specs=(*[by_rows] * 3, into, into, out_of), out_specs=by_rows)
    def exchange(x: Array, chosen: Array, weights: Array, gate: Array, up: Array, down: Array) -> Array:
        gate, up = (_gather(matrix, mesh_axes(rules.embed), 1) for matrix in (gate, up))
        down = _gather(down, mesh_axes(rules.embed), 2)
        x, chosen, weights = (_gather(part, shared, 0) for part in (x, chosen, weights))
        # From here on devices differ in what they do with x. Said outright: taking rows of it does not imply it, and
        # its gradient would then be one device's share instead of their sum.
        x = jax.lax.pcast(x, rest, to="varying") if rest else x
        first = jax.lax.axis_index(experts) * gate.shape[0] if experts else 0
        out = _own_experts(x, chosen, weights, gate, up, down, first)
        out = jax.lax.psum(out, rest) if rest else out
        out = jax.lax.psum_scatter(out, shared, scatter_dimension=0, tiled=True) if shared else out
        return out.astype(x.dtype)

    missing = -x.shape[0] % where.ways(
        "batch"
    )  # a few tokens (of a decoding step, say) need not divide over the devices
    parts = (jnp.pad(part, ((0, missing), (0, 0))) for part in (x, routing.chosen, routing.weights))
    return exchange(*parts, *matrices)[: x.shape[0]]


def _gather(x: Array, axes: tuple[str, ...], dimension: int) -> Array:
    return jax.lax.all_gather(x, axes, axis=dimension, tiled=True) if axes else x
