"""Run by test_sharding.py with eight host devices. Prints one JSON object: for every case, the largest difference of
two steps on a mesh from the same steps on one device, relative to the size of each leaf.

Cases: each preset of sharding rules, one of them with accumulation; adapters; Muon, and float32 master weights over
bfloat16 parameters, given the same gradients; and a checkpoint that is written on one mesh and read on others.
"""

import dataclasses
import functools
import json
import sys
import tempfile

import jax
import numpy as np
import optax
from smallest import build_config, build_samples

from gui_rl.data.packing import pack
from gui_rl.learn import checkpoint, optim
from gui_rl.learn.batch import split
from gui_rl.learn.losses import LossConfig
from gui_rl.learn.state import RULES, abstract_state, init_state, make_mesh, state_shardings
from gui_rl.learn.step import make_train_step, place
from gui_rl.model import lora
from gui_rl.model.params import ShardingRules, abstract_params, init_params

CFG = build_config()
ONE = make_mesh(devices=jax.devices()[:1])
MESHES = {
    "fsdp": make_mesh(fsdp=4, tensor=2),
    "fsdp+tensor": make_mesh(replica=2, fsdp=2, tensor=2),
    "expert": make_mesh(fsdp=2, expert=2, tensor=2),
}
MOMENTUM = optax.sgd(0.1, momentum=0.9)


def steps(cfg, optimizer, mesh, rules, micro_batches, **adapters):
    """The state after two steps, placed as `state_shardings` says, and the metrics of the second."""
    samples = build_samples(0, 14, weighted=("ce_weight", "pg_weight", "kl_weight"))
    batch = pack(samples, cfg.image_token_id, 48, 32, 16, side=4, patch_dim=cfg.vision.patch_values)
    specs = adapters.get("specs")
    state = init_state(cfg, optimizer, 0, mesh, rules, adapters.pop("params", None), specs)
    step = make_train_step(cfg, LossConfig(), optimizer, mesh, rules, **adapters)
    for _ in range(2):
        state, metrics = step(state, place(split(batch, micro_batches), mesh, rules))
    where = state_shardings(cfg, optimizer, mesh, rules, specs)
    for leaf, sharding in zip(jax.tree.leaves(state), jax.tree.leaves(where), strict=True):
        assert leaf.sharding.is_equivalent_to(sharding, leaf.ndim)
    return state, metrics


def worst(many, one) -> float:
    """Largest difference of two trees, relative to the largest entry of each leaf (at least 1)."""
    many, one = jax.device_get((many, one))
    many, one = (jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), tree) for tree in (many, one))
    gaps = jax.tree.map(lambda a, b: float(np.abs(a - b).max() / max(1.0, np.abs(b).max())), many, one)
    return max(jax.tree.leaves(gaps))


def split_leaves(tree) -> int:
    """How many arrays are split over devices."""
    return sum(not leaf.sharding.is_fully_replicated for leaf in jax.tree.leaves(tree))


def presets(found: dict) -> None:
    """Every preset against one device."""
    state, metrics = steps(CFG, MOMENTUM, ONE, ShardingRules(), 1)
    for name, count in (("fsdp", 1), ("fsdp+tensor", 2), ("expert", 1)):
        many, measured = steps(CFG, MOMENTUM, MESHES[name], RULES[name], count)
        found[f"{name}, {count} micro-batches"] = worst((many.params, measured), (state.params, metrics))
        specs = jax.tree.map(lambda leaf: leaf.sharding.spec, (many.params, many.opt_state[0].trace))
        assert specs[0] == specs[1]  # moments live where their parameters do
        tensor = None if name == "fsdp" else "tensor"
        assert specs[0]["text"]["layers"]["gate"] == jax.sharding.PartitionSpec(None, "fsdp", tensor)


def optimizers(found: dict) -> None:
    """Muon, whose orthogonalisation multiplies whole matrices, and master weights: two updates by given gradients."""
    narrow = dataclasses.replace(CFG, param_dtype="bfloat16")
    random = np.random.default_rng(0)
    grads = jax.tree.map(lambda p: random.normal(size=p.shape).astype(np.float32), abstract_params(CFG))
    cases = {
        "muon": (CFG, optim.muon(CFG, 0.01, 0.003)),
        "master weights": (narrow, optim.master_weights(optim.adamw(1e-3))),
    }
    for name, (cfg, optimizer) in cases.items():

        def move(state, grads, optimizer=optimizer):
            updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
            return state.replace(params=optax.apply_updates(state.params, updates), opt_state=opt_state)

        results = []
        for mesh in (ONE, MESHES["fsdp+tensor"]):
            where = state_shardings(cfg, optimizer, mesh, ShardingRules())
            state, step = init_state(cfg, optimizer, 0, mesh), jax.jit(move, out_shardings=where)
            for _ in range(2):
                state = step(state, jax.device_put(grads, where.params))
            results.append(state)
        one, many = results
        found[name] = worst((many.params, many.opt_state), (one.params, one.opt_state))
        moments = {"muon": 1, "master weights": 3}[name]  # at least; the copy and two moments
        assert split_leaves(many.opt_state) >= moments * split_leaves(many.params)


def adapters(found: dict) -> None:
    """Adapters beside a policy that is split over the mesh."""
    specs = lora.specs(CFG, 2, ["text/layers/*"])
    start, results = lora.init(specs, jax.random.key(3)), []
    for mesh in (ONE, MESHES["fsdp+tensor"]):
        policy = init_state(CFG, MOMENTUM, 1, mesh, params=init_params(CFG, jax.random.key(1))).params
        view = functools.partial(lora.merge, scale=2.0)
        state, _ = steps(
            CFG, MOMENTUM, mesh, ShardingRules(), 1, specs=specs, view=view, frozen=policy, params=start
        )  # fmt: skip
        results.append(state)
    gate = results[1].params["text"]["layers"]["gate"]
    assert gate["a"].sharding.spec[1] == "fsdp" and gate["b"].sharding.spec[2] == "tensor"
    found["adapters"] = worst(results[1].params, results[0].params)


def checkpoints(found: dict) -> None:
    """Written on one mesh, read onto others, bit for bit."""
    state = init_state(CFG, MOMENTUM, 5, MESHES["fsdp"], RULES["fsdp"])
    gaps = []
    with tempfile.TemporaryDirectory() as directory:
        checkpoint.save(directory, state, {})
        for mesh, rules in (
            (MESHES["expert"], RULES["expert"]),
            (make_mesh(tensor=2), RULES["fsdp+tensor"]),
            (ONE, None),
        ):
            where = state_shardings(CFG, MOMENTUM, mesh, rules or ShardingRules())
            like = checkpoint.sharded_like(abstract_state(CFG, MOMENTUM), where)
            read = checkpoint.restore(directory, like).state
            for leaf, sharding in zip(jax.tree.leaves(read), jax.tree.leaves(where), strict=True):
                assert leaf.sharding.is_equivalent_to(sharding, leaf.ndim)
            gaps.append(worst((read.params, read.opt_state), (state.params, state.opt_state)))
    found["checkpoint on other meshes"] = max(gaps)


def main() -> None:
    found: dict[str, float] = {}
    for part in (presets, optimizers, adapters, checkpoints):
        part(found)
    print(json.dumps(found))


if __name__ == "__main__":
    sys.exit(main())
