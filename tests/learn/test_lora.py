"""Low-rank adapters: specs from the model's, the merge against explicit products, and training with a frozen policy."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gui_rl.data.packing import pack
from gui_rl.errors import UserError
from gui_rl.learn import checkpoint, optim
from gui_rl.learn.batch import split
from gui_rl.learn.losses import LossConfig
from gui_rl.learn.state import abstract_state, init_state, make_mesh, state_shardings
from gui_rl.learn.step import make_scorer, make_train_step, place
from gui_rl.model import lora
from gui_rl.model.params import ShardingRules, abstract_params, map_specs

RANK, SCALE = 3, 2.0
TARGETS = ("text/layers/*", "vision/blocks/qkv")


@pytest.fixture(scope="module")
def mesh():
    return make_mesh(devices=jax.devices()[:1])


@pytest.fixture(scope="module")
def specs(cfg):
    return lora.specs(cfg, RANK, TARGETS)


@pytest.fixture(scope="module")
def batch(cfg, make_samples):
    side, values = cfg.vision.position_side, cfg.vision.patch_values
    return split(pack(make_samples(0, 8), cfg.image_token_id, 48, 32, 8, side=side, patch_dim=values), 2)


@pytest.fixture(scope="module")
def drawn(specs):
    """Adapters with both factors away from zero."""
    random = np.random.default_rng(4)
    return jax.tree.map(lambda a: np.float32(0.2 * random.normal(size=a.shape)), lora.init(specs, jax.random.key(0)))


def names(tree):
    return {
        jax.tree_util.keystr(path, simple=True, separator="/") for path, _ in jax.tree_util.tree_leaves_with_path(tree)
    }


def test_specs_follow_the_matrices_they_adapt(cfg, specs):
    matrices = ("query", "key", "value", "output", "gate", "up", "down")
    adapted = {f"text/layers/{name}" for name in matrices} | {"vision/blocks/qkv"}
    assert names(lora.init(specs, jax.random.key(0))) == {f"{name}/{part}" for name in adapted for part in "ab"}
    gate = specs["text"]["layers"]["gate"]
    layers, width, hidden = 1, cfg.text.hidden_size, cfg.text.intermediate_size
    assert gate["a"].shape == (layers, width, RANK) and gate["b"].shape == (layers, RANK, hidden)
    assert ShardingRules().spec(gate["a"].logical_axes) == jax.sharding.PartitionSpec(None, "fsdp", None)
    assert ShardingRules().spec(gate["b"].logical_axes) == jax.sharding.PartitionSpec(None, None, "tensor")
    assert gate["a"].hf_name == "base_model.model.model.language_model.layers.{}.mlp.gate_proj.lora_A.weight"


@pytest.mark.parametrize("targets", [("text/layers/*", "text/layers/norms"), ("text/norm",), ("text/embed",), ()])
def test_a_pattern_without_a_matrix_is_an_error_that_names_the_matrices(cfg, targets):
    with pytest.raises(UserError, match="text/layers/query, .*vision/blocks/qkv"):
        lora.specs(cfg, RANK, targets)


def test_the_rank_is_at_least_one(cfg):
    with pytest.raises(UserError, match="rank must be at least 1, not 0"):
        lora.specs(cfg, 0, TARGETS)


def test_initial_adapters_change_nothing(params, specs):
    adapters = lora.init(specs, jax.random.key(7))
    merged = lora.merge(params, adapters, SCALE)
    assert all(jax.tree.leaves(jax.tree.map(np.array_equal, merged, params)))
    a = np.asarray(adapters["text"]["layers"]["down"]["a"])
    assert abs(a.std() * np.sqrt(a.shape[1]) - 1) < 0.2  # 144 draws


def test_the_merge_is_a_product_for_every_layer(params, drawn):
    merged = lora.merge(params, drawn, SCALE)
    adapter, before = drawn["text"]["layers"]["up"], np.asarray(params["text"]["layers"]["up"], np.float64)
    for layer in range(before.shape[0]):
        update = adapter["a"][layer].astype(np.float64) @ adapter["b"][layer].astype(np.float64)
        np.testing.assert_allclose(merged["text"]["layers"]["up"][layer], before[layer] + SCALE * update, atol=1e-6)
    assert merged["text"]["embed"] is params["text"]["embed"]
    bfloat = lora.merge(jax.tree.map(lambda p: p.astype(jnp.bfloat16), params), drawn, SCALE)
    assert all(leaf.dtype == jnp.bfloat16 for leaf in jax.tree.leaves(bfloat))


@pytest.mark.parametrize("experts", [0, 4])
def test_any_subset_of_the_matrices_may_be_adapted(cfg, experts):
    """Random subsets, each matrix alone among them: what has an adapter changes, and nothing else."""
    more = {"num_experts": experts, "num_experts_per_tok": 2, "moe_intermediate_size": 8} if experts else {}
    cfg = dataclasses.replace(cfg, text=dataclasses.replace(cfg.text, **more))
    random = np.random.default_rng(3)
    params = jax.tree.map(lambda p: random.normal(size=p.shape).astype(np.float32), abstract_params(cfg))
    every = sorted({path.rpartition("/")[0] for path in names(lora.specs(cfg, 1, ["*"]))})
    assert len(every) == (17 if experts else 16) and ("text/layers/experts_down" in every) == bool(experts)
    subsets = [[path] for path in every] + [random.permutation(every)[: random.integers(1, 9)] for _ in range(8)]
    for chosen in subsets:
        specs = lora.specs(cfg, 2, list(chosen))
        adapters = map_specs(lambda _, spec: random.normal(size=spec.shape).astype(np.float32), specs)
        merged = lora.merge(params, adapters, SCALE)
        changed = jax.tree.map(lambda a, b: not np.array_equal(a, b), merged, params)
        found = jax.tree_util.tree_leaves_with_path(changed)
        assert {jax.tree_util.keystr(path, simple=True, separator="/") for path, moved in found if moved} == set(chosen)


def test_experts_have_adapters_of_their_own():
    """The merge treats every leading axis as a stack: layers, and experts in them."""
    random = np.random.default_rng(1)
    weight, a, b = (
        random.normal(size=shape).astype(np.float32) for shape in ((2, 3, 4, 5), (2, 3, 4, 1), (2, 3, 1, 5))
    )
    merged = lora.merge({"up": weight}, {"up": {"a": a, "b": b}}, 0.5)["up"]
    np.testing.assert_allclose(merged[1, 2], weight[1, 2] + 0.5 * np.outer(a[1, 2], b[1, 2]), atol=1e-6)


def adapt(cfg, optimizer, mesh, specs, adapters, params):
    state = init_state(cfg, optimizer, 0, mesh, params=adapters, specs=specs)
    view = functools.partial(lora.merge, scale=SCALE)
    step = make_train_step(cfg, LossConfig(), optimizer, mesh, specs=specs, view=view, frozen=params)
    return state, step


def test_a_step_moves_the_adapters_as_the_chain_rule_says(cfg, mesh, params, specs, drawn, batch):
    """Against the dense gradient G of the merged policy: dL/dA = scale G B^T, dL/dB = scale A^T G."""
    sgd = optax.sgd(1.0)
    merged = lora.merge(params, drawn, SCALE)
    before = jax.tree.map(np.array, params)
    dense = init_state(cfg, sgd, 0, mesh, params=merged)
    moved, expected = make_train_step(cfg, LossConfig(), sgd, mesh)(dense, place(batch, mesh))
    gradient = jax.tree.map(lambda a, b: np.asarray(a) - np.asarray(b), merged, moved.params)
    state, step = adapt(cfg, sgd, mesh, specs, drawn, params)
    state, metrics = step(state, place(batch, mesh))
    np.testing.assert_allclose(metrics["loss"], expected["loss"], rtol=1e-6)
    assert names(state.params) == names(drawn)  # nothing else is trained
    for where in (("text", "layers", "query"), ("text", "layers", "down"), ("vision", "blocks", "qkv")):
        adapter, change, full = drawn, state.params, gradient
        for name in where:
            adapter, change, full = adapter[name], change[name], full[name]
        transposed = [np.swapaxes(adapter[part], -1, -2) for part in "ab"]
        np.testing.assert_allclose(
            adapter["a"] - change["a"], SCALE * full @ transposed[1], atol=2e-6, err_msg=str(where)
        )
        np.testing.assert_allclose(
            adapter["b"] - change["b"], SCALE * transposed[0] @ full, atol=2e-6, err_msg=str(where)
        )
    assert all(jax.tree.leaves(jax.tree.map(np.array_equal, params, before)))  # frozen


def test_training_merging_and_restoring(cfg, mesh, params, specs, batch, tmp_path):
    """Adapters lower the loss; merged weights score like the adapted policy; a checkpoint holds the adapters alone."""
    optimizer = optim.adamw(1e-2)
    state, step = adapt(cfg, optimizer, mesh, specs, lora.init(specs, jax.random.key(2)), params)
    losses = []
    for _ in range(12):
        state, metrics = step(state, place(batch, mesh))
        losses.append(float(metrics["loss"]))
    assert losses[-1] < 0.9 * losses[0]
    scorer = make_scorer(cfg, mesh)
    logp = np.asarray(scorer(lora.merge(params, state.params, SCALE), batch))
    weight = batch.ce_weight
    _, again = step(jax.tree.map(jnp.copy, state), place(batch, mesh))
    np.testing.assert_allclose(-(logp * weight).sum() / weight.sum(), again["loss"], rtol=1e-5)

    checkpoint.save(tmp_path, state, {})
    where = state_shardings(cfg, optimizer, mesh, ShardingRules(), specs)
    like = checkpoint.sharded_like(abstract_state(cfg, optimizer, specs), where)
    restored = checkpoint.restore(tmp_path, like).state
    unwrap = lambda s: jax.tree.leaves((s.params, s.opt_state, s.step))  # noqa: E731
    assert all(np.array_equal(a, b) for a, b in zip(unwrap(restored), unwrap(state), strict=True))
    size = lambda tree: sum(leaf.nbytes for leaf in jax.tree.leaves(tree))  # noqa: E731
    assert size(restored) < size(params)


def test_what_is_trained_beside_the_policy_needs_values(cfg, mesh, specs):
    with pytest.raises(ValueError, match="lora.init"):
        init_state(cfg, optax.sgd(1.0), 0, mesh, specs=specs)
