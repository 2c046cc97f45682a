"""Optimizers on stacked parameters, and schedules."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import optax.contrib
import pytest

from gui_rl.learn import optim


def test_matrices_go_to_muon_and_the_rest_to_adam(cfg):
    dimensions = optim.matrix_dimensions(cfg)
    flat = jax.tree_util.tree_flatten_with_path(dimensions, is_leaf=lambda x: x is None or hasattr(x, "output_axis"))[0]
    muon = {jax.tree_util.keystr(path, simple=True, separator="/"): value for path, value in flat}
    assert muon["text/layers/query"] == optax.contrib.MuonDimensionNumbers(1, 2)
    assert muon["vision/patch"] == optax.contrib.MuonDimensionNumbers(0, 1)
    assert muon["vision/deepstack/up"] == optax.contrib.MuonDimensionNumbers(1, 2)
    for name in ("text/embed", "vision/positions", "text/norm", "text/layers/mlp_norm", "vision/blocks/qkv_bias"):
        assert muon[name] is None, name
    everything = optim.matrix_dimensions(cfg, adam_axes=())
    assert everything["text"]["embed"] == optax.contrib.MuonDimensionNumbers(0, 1)


def test_muon_orthogonalises_each_layer_by_itself(cfg, params):
    """A stacked matrix is updated as its layers would be, one by one; vectors as by Adam."""
    random = np.random.default_rng(0)
    grads = jax.tree.map(lambda leaf: random.normal(size=leaf.shape).astype(np.float32), params)
    optimizer = optim.muon(cfg, 0.01, 0.003, clip=1e9)
    update = jax.jit(lambda grads, params: optimizer.update(grads, optimizer.init(params), params)[0])
    updates = update(grads, params)
    stacked = np.concatenate([grads["text"]["layers"]["gate"]] * 3) * np.array([1.0, 5.0, 0.1])[:, None, None]

    def single(matrix):
        plain = optax.contrib.muon(0.01)
        return plain.update({"w": matrix}, plain.init({"w": matrix}), {"w": matrix})[0]["w"]

    numbers = {"w": optax.contrib.MuonDimensionNumbers(1, 2)}
    together = optax.contrib.muon(0.01, muon_weight_dimension_numbers=numbers)
    many = jax.jit(lambda w: together.update({"w": w}, together.init({"w": w}), {"w": w})[0]["w"])(jnp.array(stacked))
    one = jax.jit(single)
    for layer in range(3):
        np.testing.assert_allclose(many[layer], one(jnp.array(stacked[layer], jnp.float32)), atol=1e-5)
    np.testing.assert_allclose(updates["text"]["layers"]["gate"][0], one(grads["text"]["layers"]["gate"][0]), atol=1e-5)
    singular = np.linalg.svd(np.asarray(updates["text"]["layers"]["query"][0]), compute_uv=False) / 0.01
    assert singular.min() > 0.3 and singular.max() < 1.5  # Newton-Schulz leaves them near 1
    # The first step of Adam with Nesterov momentum has one size, whatever the gradient's.
    size = 0.003 * (1 + 0.9 * (1 - 0.9) / (1 - 0.9**2))
    np.testing.assert_allclose(updates["text"]["embed"], -size * np.sign(grads["text"]["embed"]), atol=1e-5)


def test_gradients_are_clipped_by_their_global_norm():
    """Adam forgets the size of a single gradient but not the proportion of two: only the larger one is clipped."""
    params = {"a": jnp.zeros(3), "b": jnp.zeros(1)}
    small = {"a": jnp.full(3, 0.3), "b": jnp.full(1, 0.3)}  # norm 0.6
    large = jax.tree.map(lambda leaf: leaf * 100, small)  # norm 60, clipped to 1
    optimizer = optim.adamw(0.1, clip=1.0)
    _, state = optimizer.update(small, optimizer.init(params), params)
    got, _ = optimizer.update(large, state, params)
    reference = optax.adamw(0.1, weight_decay=0.0)
    _, state = reference.update(small, reference.init(params), params)
    expected, _ = reference.update(jax.tree.map(lambda leaf: leaf / 60, large), state, params)
    np.testing.assert_allclose(got["a"], expected["a"], rtol=1e-5)


def test_schedules():
    cosine = optim.learning_rate(1.0, steps=110, warmup=10, end=0.1)
    np.testing.assert_allclose([cosine(0), cosine(5), cosine(10), cosine(60), cosine(110)], [0, 0.5, 1, 0.55, 0.1])
    constant = optim.learning_rate(2.0, steps=50, warmup=4, shape="constant")
    np.testing.assert_allclose([constant(0), constant(2), constant(4), constant(99)], [0, 1, 2, 2])
    with pytest.raises(ValueError, match="linear"):
        optim.learning_rate(1.0, 10, shape="linear")
    with pytest.raises(ValueError, match="warm-up"):
        optim.learning_rate(1.0, 100, warmup=100)
