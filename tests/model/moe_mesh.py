"""Run by test_moe.py with eight host devices: a mixture of experts, and a whole model, on several meshes against one
device. Prints the largest difference of values and gradients.
"""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from small_moe import layer, model

from gui_rl.model import cache, forward, layout, moe
from gui_rl.model.layout import Layout
from gui_rl.model.params import ShardingRules, param_specs, shardings

AXES = ("replica", "fsdp", "expert", "tensor")


def on(*sizes: int, **rules) -> Layout:
    return Layout(Mesh(np.array(jax.devices()).reshape(sizes), AXES), ShardingRules(**rules))


LAYOUTS = [
    on(1, 2, 2, 2),
    on(2, 1, 4, 1),
    on(1, 2, 2, 2, batch=("replica", "fsdp")),  # the devices of an expert axis hold the same tokens
    on(1, 4, 1, 2, experts=None),
    on(1, 1, 4, 2, experts=("expert", "tensor"), mlp=None, heads=None, kv_heads=None, vocab=None),
]


def within(where: Layout | None):
    """Declares the mesh to what is traced within; None declares nothing."""
    return contextlib.nullcontext() if where is None else layout.on_mesh(where.mesh, where.rules)


def largest(ours, expected) -> float:
    return max(float(np.abs(np.asarray(a) - np.asarray(b)).max()) for a, b in zip(ours, expected, strict=True))


def one_layer(tokens: int, layouts: list[Layout]) -> float:
    cfg, p, x = layer(tokens)
    counted = jnp.arange(tokens) < tokens - 2

    def value(p, x, where):
        with within(where):
            out, load = moe.mlp(p, cfg, x, counted)
        return jnp.sum(jnp.sin(3 * out)) + moe.balance_loss(load[None], cfg.num_experts_per_tok), (out, load)

    run = jax.jit(jax.value_and_grad(value, argnums=(0, 1), has_aux=True), static_argnums=2)
    expected = jax.tree.leaves(run(p, x, None))
    return max(largest(jax.tree.leaves(run(p, x, where)), expected) for where in layouts)


def whole_model() -> float:
    cfg, params, inputs = model()

    def value(params, inputs, where):
        with within(where):
            out, balance = forward.hidden_and_balance(params, cfg, inputs)
        return jnp.sum(jnp.sin(out) * (inputs.segments > 0)[..., None]) + balance

    run = jax.jit(jax.value_and_grad(value), static_argnums=2)
    expected = run(params, inputs, None)
    worst = 0.0
    where = LAYOUTS[0]
    placed = jax.device_put(params, shardings(param_specs(cfg), where.mesh, where.rules))
    by_rows = NamedSharding(where.mesh, PartitionSpec(*where.rules.spec(("batch",))))
    for declared in (where, None):  # the second leaves everything to the compiler
        ours = run(placed, jax.device_put(inputs, by_rows), declared)
        worst = max(worst, largest(jax.tree.leaves(ours), jax.tree.leaves(expected)))
    kv = cache.empty(cfg, 3, 4)  # three rows do not divide over the devices

    def decode(params, kv, tokens, active, where):
        with within(where):
            return forward.decode(params, cfg, kv, cache.recent(kv, 1), tokens, active)[0]

    step = jax.jit(decode, static_argnums=4)
    tokens, active = jnp.array([3, 5, 7]), jnp.ones(3, bool)
    alone = step(params, kv, tokens, active, None)
    return max(worst, largest([step(placed, kv, tokens, active, where)], [alone]))


if __name__ == "__main__":
    print(max(one_layer(16, LAYOUTS), one_layer(13, LAYOUTS[:1]), whole_model()))
