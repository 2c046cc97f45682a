"""Run by test_sharding.py, twice at once: train steps of two processes with one device each, joined by gloo, against
the same steps on the first one's device alone. The first prints one JSON object: for a dense model split by `fsdp` and
for a mixture of experts split by `expert`, the largest difference of parameters and metrics.

    two_processes.py PROCESS PORT
"""

import dataclasses
import json
import sys

import jax
import numpy as np
import optax
from conftest import build_config, build_samples
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding, PartitionSpec

from gui_rl.data.batch import split
from gui_rl.data.packing import pack
from gui_rl.learn.losses import LossConfig
from gui_rl.learn.state import RULES, init_state, make_mesh
from gui_rl.learn.step import make_train_step, place

ROWS = 8
STREAMS = ("ce_weight", "pg_weight", "kl_weight")


def experts(cfg):
    """The same model with four experts, of which a token is sent to two."""
    more = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "router_aux_loss_coef": 0.1}
    return dataclasses.replace(cfg, text=dataclasses.replace(cfg.text, **more))


def steps(cfg, mesh, rules, batch):
    """Parameters and metrics after two steps of two micro-batches, on the host."""
    optimizer = optax.sgd(0.1, momentum=0.9)  # Adam would divide gradients that are nothing but rounding by themselves
    state = init_state(cfg, optimizer, 0, mesh, rules)
    step = make_train_step(cfg, LossConfig(), optimizer, mesh, rules)
    for _ in range(2):
        state, metrics = step(state, place(batch, mesh, rules))
    whole = jax.jit(lambda tree: tree, out_shardings=NamedSharding(mesh, PartitionSpec()))((state.params, metrics))
    return jax.tree.map(lambda leaf: np.asarray(leaf.addressable_data(0)), whole)


def main(process: int, port: str) -> None:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=process)
    assert (jax.process_count(), jax.device_count(), jax.local_device_count()) == (2, 2, 1)
    found = {}
    for name, cfg in (("fsdp", build_config()), ("expert", experts(build_config()))):
        samples = build_samples(0, 14, weighted=STREAMS)
        packed = pack(samples, cfg.image_token_id, 48, 32, ROWS, side=4, patch_dim=cfg.vision.patch_values)
        batch = split(packed, 2)
        own = slice(process * ROWS // 4, (process + 1) * ROWS // 4)  # of a micro-batch's rows
        mesh = make_mesh(**{"fsdp": 1, name: 2})
        many = steps(cfg, mesh, RULES[name], jax.tree.map(lambda leaf, own=own: leaf[:, own], batch))
        if process == 0:
            one = steps(cfg, make_mesh(devices=jax.local_devices()), RULES[name], batch)
            gaps = jax.tree.map(lambda a, b: float(np.abs(a - b).max() / max(1.0, np.abs(b).max())), many, one)
            found[name] = max(jax.tree.leaves(gaps))
    multihost_utils.sync_global_devices("done")
    if process == 0:
        print(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
