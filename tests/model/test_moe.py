"""Mixtures of experts: the grouped path against every expert on every token, many devices against one, the balance loss
against transformers."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small_moe
import torch
from transformers.models.qwen3_vl_moe.modeling_qwen3_vl_moe import load_balancing_loss_func

from gui_rl.model import forward, moe

HERE = Path(__file__).resolve().parent


def shifted(p, experts):
    """The same layer with a router that prefers some experts for every token whose first value is positive."""
    strong = np.zeros(p["router"].shape, np.float32)
    strong[0, experts] = 50.0
    return {**p, "router": p["router"] + strong}


@functools.partial(jax.jit, static_argnums=(2, 3))
def value_and_grads(p, x, cfg, grouped):
    """((a sum, (output, load)), gradients by parameters and input)"""

    def value(p, x):
        out, load = moe.mlp(p, cfg, x, jnp.ones(len(x), bool), grouped=grouped)
        return jnp.sum(jnp.sin(3 * out)), (out, load)

    return jax.value_and_grad(value, argnums=(0, 1), has_aux=True)(p, x)


@pytest.mark.parametrize("crowded", [(), (0, 3, 7), (2,)])
def test_grouped_equals_every_expert_on_every_token(crowded):
    """Values and gradients, also where all tokens crowd into the same experts and others get none."""
    cfg, p, x = small_moe.layer(24)
    if crowded:
        p, x = shifted(p, list(crowded)), x.at[:, 0].set(jnp.abs(x[:, 0]) + 1)

    (_, (out, load)), grads = value_and_grads(p, x, cfg, True)
    (_, (expected, _)), expected_grads = value_and_grads(p, x, cfg, False)
    np.testing.assert_allclose(out, expected, atol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4), grads, expected_grads)
    assert np.abs(expected).max() > 0.01
    assert load[0].sum() == 24 * cfg.num_experts_per_tok
    for expert in crowded:
        assert load[0][expert] == 24


def test_one_expert_for_every_token_is_a_dense_layer():
    """With as many experts a token as there are experts and equal experts, the mixture is that one expert."""
    cfg, p, x = small_moe.layer(6)
    p = {name: value if name == "router" else value.at[:].set(value[0]) for name, value in p.items()}
    gate, up, down = (p[name][0] for name in ("experts_gate", "experts_up", "experts_down"))
    (_, (out, _)), _ = value_and_grads(p, x, cfg, True)
    np.testing.assert_allclose(out, (jax.nn.silu(x @ gate) * (x @ up)) @ down, atol=1e-5)


def test_balance_loss_equals_transformers():
    """Two layers, padding left out; also the gradient by the router."""
    cfg, p, x = small_moe.layer(20)
    counted = jnp.arange(20) < 15
    routers = [p["router"], p["router"][::-1] * 3]

    def ours(routers):
        loads = [moe.mlp({**p, "router": router}, cfg, x, counted)[1] for router in routers]
        return moe.balance_loss(jnp.stack(loads), cfg.num_experts_per_tok)

    loss, grads = jax.jit(jax.value_and_grad(ours))(routers)
    theirs = [torch.tensor(np.asarray(router), requires_grad=True) for router in routers]
    logits = tuple(torch.tensor(np.asarray(x)) @ router for router in theirs)
    mask = torch.tensor(np.asarray(counted))[None].int()
    expected = load_balancing_loss_func(logits, cfg.num_experts, cfg.num_experts_per_tok, mask)
    expected.backward()
    assert float(loss) == pytest.approx(expected.item(), rel=1e-5)
    assert float(loss) > cfg.num_experts_per_tok
    for grad, router in zip(grads, theirs, strict=True):
        np.testing.assert_allclose(grad, router.grad.numpy(), atol=1e-6)


def test_even_load_has_the_smallest_balance_loss():
    even = jnp.stack([jnp.full(8, 15.0), jnp.full(8, 5.0)])
    assert float(moe.balance_loss(even[None], 3)) == pytest.approx(3)


def test_padding_and_dense_models_do_not_count():
    cfg, params, inputs = small_moe.model()
    balance = jax.jit(lambda inputs: forward.hidden_and_balance(params, cfg, inputs)[1])
    other = inputs.replace(tokens=np.where(inputs.segments > 0, inputs.tokens, 5))
    assert float(balance(inputs)) == pytest.approx(float(balance(other)), rel=1e-6)
    assert float(balance(inputs)) > 1


def test_several_devices_equal_one():
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=8"
    path = os.pathsep.join([str(HERE), str(HERE.parents[1])])
    env = {**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, HERE / "moe_mesh.py"], env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert float(done.stdout) < 2e-4
