"""Run by test_sharding.py with four host devices: two steps on several meshes, and the largest relative difference."""

import sys

import jax
import numpy as np
from conftest import build_config, build_samples

from gui_rl.data.packing import pack
from gui_rl.learn import optim
from gui_rl.learn.batch import split
from gui_rl.learn.losses import LossConfig
from gui_rl.learn.state import init_state, make_mesh, state_shardings
from gui_rl.learn.step import make_train_step, place
from gui_rl.model.params import ShardingRules

MESHES = {"one": None, "fsdp and tensor": {"fsdp": 2, "tensor": 2}, "replica and fsdp": {"replica": 2, "fsdp": 2}}


def main() -> None:
    assert jax.device_count() == 4, jax.devices()
    cfg = build_config()
    samples = build_samples(0, 14, weighted=("ce_weight", "pg_weight", "kl_weight"))
    batch = split(pack(samples, cfg.image_token_id, 48, 32, 8, side=4, patch_dim=cfg.vision.patch_values), 2)
    optimizer = optim.muon(cfg, 0.01, 0.003)
    results = {}
    for name, sizes in MESHES.items():
        mesh = make_mesh(devices=jax.devices()[:1]) if sizes is None else make_mesh(**{"fsdp": 1, **sizes})
        state = init_state(cfg, optimizer, 0, mesh)
        where = state_shardings(cfg, optimizer, mesh, ShardingRules())
        step = make_train_step(cfg, LossConfig(), optimizer, mesh)
        for _ in range(2):
            state, metrics = step(state, place(batch, mesh))
        for leaf, sharding in zip(jax.tree.leaves(state), jax.tree.leaves(where), strict=True):
            assert leaf.sharding.is_equivalent_to(sharding, leaf.ndim)
        results[name] = jax.device_get((state.params, metrics))
        if sizes is not None:
            moments = [leaf for leaf in jax.tree.leaves(state.opt_state) if leaf.ndim > 1]
            assert moments and all(not leaf.sharding.is_fully_replicated for leaf in moments if leaf.shape[-1] >= 32)
            worst = jax.tree.map(
                lambda a, b: np.abs(a - b).max() / max(1.0, np.abs(b).max()), results[name], results["one"]
            )
            print(name, float(max(jax.tree.leaves(worst))))


if __name__ == "__main__":
    sys.exit(main())
