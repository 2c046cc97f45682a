"""Run by test_sharding.py with eight host devices: two steps on one device, and on a mesh of two replicas by two (fsdp)
by two (tensor). Prints the largest difference between the results, relative to the size of each leaf.
"""

import sys

import jax
import numpy as np
import optax
from conftest import build_config, build_samples

from gui_rl.data.packing import pack
from gui_rl.learn.batch import split
from gui_rl.learn.losses import LossConfig
from gui_rl.learn.state import init_state, make_mesh, state_shardings
from gui_rl.learn.step import make_train_step, place
from gui_rl.model.params import ShardingRules


def main() -> None:
    cfg, optimizer = build_config(), optax.sgd(0.1, momentum=0.9)
    samples = build_samples(0, 14, weighted=("ce_weight", "pg_weight", "kl_weight"))
    batch = split(pack(samples, cfg.image_token_id, 48, 32, 8, side=4, patch_dim=cfg.vision.patch_values), 2)
    results = []
    for mesh in (make_mesh(devices=jax.devices()[:1]), make_mesh(replica=2, fsdp=2, tensor=2)):
        state = init_state(cfg, optimizer, 0, mesh)
        where = state_shardings(cfg, optimizer, mesh, ShardingRules())
        step = make_train_step(cfg, LossConfig(), optimizer, mesh)
        for _ in range(2):
            state, metrics = step(state, place(batch, mesh))
        for leaf, sharding in zip(jax.tree.leaves(state), jax.tree.leaves(where), strict=True):
            assert leaf.sharding.is_equivalent_to(sharding, leaf.ndim)
        specs = jax.tree.map(lambda leaf: leaf.sharding.spec, (state.params, state.opt_state[0].trace))
        assert specs[0] == specs[1]  # moments live where their parameters do
        results.append(jax.device_get((state.params, metrics)))
    assert specs[0]["text"]["layers"]["gate"] == jax.sharding.PartitionSpec(None, "fsdp", "tensor")
    one, many = results
    worst = jax.tree.map(lambda a, b: np.abs(a - b).max() / max(1.0, np.abs(b).max()), many, one)
    print(float(max(jax.tree.leaves(worst))))


if __name__ == "__main__":
    sys.exit(main())
