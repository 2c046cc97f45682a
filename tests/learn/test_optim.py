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


def bfloat(tree):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.bfloat16), tree)


def run(optimizer, params, gradients):
    """Parameters after every update by the given gradients, as the train step applies them."""
    state, out = optimizer.init(params), []

    @jax.jit
    def move(params, state, grads):
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    for grads in gradients:
        params, state = move(params, state, grads)
        out.append(params)
    return out, state


@pytest.fixture(scope="module")
def gradients():
    """Thirty gradients of two parameters."""
    random = np.random.default_rng(3)
    return [{"w": random.normal(1.0, 2.0, (8, 6)).astype(np.float32), "b": random.normal(size=6).astype(np.float32)}
            for _ in range(30)]  # fmt: skip


def test_master_weights_are_the_float32_run_rounded(gradients):
    """Given the same gradients, the copy is bit-equal to training in float32, and the parameters are it, rounded."""
    start = bfloat({"w": np.random.default_rng(0).normal(size=(8, 6)), "b": np.zeros(6)})
    narrow, state = run(optim.master_weights(optim.adamw(1e-3, weight_decay=0.1)), start, gradients)
    wide, _ = run(optim.adamw(1e-3, weight_decay=0.1), optax.tree.cast(start, jnp.float32), gradients)
    for low, high in zip(narrow, wide, strict=True):
        for name in start:
            assert low[name].dtype == jnp.bfloat16
            np.testing.assert_array_equal(low[name], high[name].astype(jnp.bfloat16))
    assert all(jax.tree.leaves(jax.tree.map(np.array_equal, state.master, wide[-1])))


def test_master_weights_follow_a_float32_run_through_its_own_gradients():
    """Linear regression: gradients at the rounded parameters end within bfloat16's precision of the float32 run."""
    random = np.random.default_rng(5)
    x, truth = random.normal(size=(64, 8)).astype(np.float32), random.normal(size=8).astype(np.float32)

    def train(optimizer, dtype):
        params = {"w": jnp.zeros(8, dtype)}
        loss = lambda p: jnp.mean((x @ p["w"].astype(jnp.float32) - x @ truth) ** 2)  # noqa: E731

        def move(carry, _):
            params, state = carry
            updates, state = optimizer.update(jax.grad(loss)(params), state, params)
            return (optax.apply_updates(params, updates), state), None

        (params, _), _ = jax.lax.scan(move, (params, optimizer.init(params)), None, 600)
        return np.asarray(params["w"], np.float32)

    rate = optim.learning_rate(3e-2, 600, 10)
    reference = train(optim.adamw(rate), jnp.float32)
    np.testing.assert_allclose(reference, truth, atol=1e-2)
    np.testing.assert_allclose(train(optim.master_weights(optim.adamw(rate)), jnp.bfloat16), reference, atol=2e-2)
    np.testing.assert_allclose(train(optim.stochastic_rounding(optim.adamw(rate)), jnp.bfloat16), reference, atol=4e-2)


def test_small_updates_are_lost_by_plain_bfloat16_alone():
    """600 updates of 1e-4 ought to move parameters of 1, whose neighbours are 0.0039 and 0.0078 away, by 0.06."""
    start, ones = {"w": jnp.ones(2048, jnp.bfloat16)}, [{"w": np.ones(2048, np.float32)}] * 600
    descent = optax.sgd(1e-4)
    plain, _ = run(descent, start, ones)
    assert (plain[-1]["w"] == 1).all()
    master, _ = run(optim.master_weights(descent), start, ones)
    np.testing.assert_allclose(np.asarray(master[-1]["w"], np.float32), 0.94, atol=0.004)
    chance, _ = run(optim.stochastic_rounding(descent), start, ones)
    value = np.asarray(chance[-1]["w"], np.float32)
    # One parameter walks with a variance of at most 600 * 1e-4 * 0.0039; the mean of 2048 of them is 6 sigma of that.
    np.testing.assert_allclose(value.mean(), 0.94, atol=6 * np.sqrt(600 * 1e-4 * 0.00391 / 2048))
    assert value.std() > 0.005  # each on its own


def test_rounding_by_chance_is_unbiased():
    """20,000 draws of each of 64 numbers: two neighbours only, and a mean within 5 standard errors."""
    random = np.random.default_rng(9)
    x = (random.normal(size=64) * 10.0 ** random.integers(-6, 6, 64)).astype(np.float32)
    draws = np.asarray(jax.vmap(lambda key: optim.round_by_chance(x, key))(jax.random.split(jax.random.key(0), 20_000)))
    draws = draws.astype(np.float64)
    low, high = draws.min(0), draws.max(0)
    assert ((draws == low) | (draws == high)).all() and (low <= x).all() and (x <= high).all()
    assert ((high - low) <= np.abs(x) * 2.0**-7).all()  # neighbours: one unit in the last of 8 bits
    error = (draws.mean(0) - x) / np.maximum((high - low) / 2, 1e-300)
    assert (np.abs(error) < 5 / np.sqrt(20_000)).all()
    assert (high > low).mean() > 0.9
    special = jnp.array([0.0, jnp.inf, -jnp.inf, jnp.nan, 1.5], jnp.float32)
    kept = optim.round_by_chance(special, jax.random.key(1)).astype(jnp.float32)
    np.testing.assert_array_equal(kept, special)


def test_rounding_draws_anew_each_time_and_leaves_float32_exact(gradients):
    start = {"w": jnp.ones((8, 6), jnp.bfloat16), "b": jnp.zeros(6)}
    first, state = run(optim.stochastic_rounding(optim.adamw(1e-3)), start, gradients)
    again, _ = run(optim.stochastic_rounding(optim.adamw(1e-3)), start, gradients)
    other, _ = run(optim.stochastic_rounding(optim.adamw(1e-3), seed=1), start, gradients)
    assert int(state.count) == len(gradients)
    assert all(jax.tree.leaves(jax.tree.map(np.array_equal, first, again)))
    assert not np.array_equal(first[-1]["w"], other[-1]["w"])
    exact, _ = run(optim.adamw(1e-3), optax.tree.cast(start, jnp.float32), gradients)
    np.testing.assert_allclose(first[-1]["b"], exact[-1]["b"], atol=1e-7)
