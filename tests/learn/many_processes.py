"""Run by test_processes.py. Prints one JSON object.

`many_processes.py step COUNT INDEX PORT`: MRPO steps of COUNT processes joined by gloo, each of which packs the whole
batch and places its own rows; process 0 prints what they come to. COUNT 1 is the reference.
`many_processes.py meshes`: weights of a trainer's mesh moved to a sampler's mesh of other devices, where they sample.
"""

import asyncio
import dataclasses
import json
import sys

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

jax.config.update("jax_platforms", "cpu")
if sys.argv[1] == "step" and int(sys.argv[2]) > 1:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{sys.argv[4]}", int(sys.argv[2]), int(sys.argv[3]))

from scripted import OPTIMIZER, TASKS, Scripted, policy_config  # noqa: E402

from gui_rl.data.samples import BatchShape  # noqa: E402
from gui_rl.learn.buffer import BufferState  # noqa: E402
from gui_rl.learn.online import MRPOConfig, fill, loss_config, make_update  # noqa: E402
from gui_rl.learn.state import RULES, init_state, make_mesh, make_mover  # noqa: E402
from gui_rl.learn.step import make_train_step  # noqa: E402
from gui_rl.rollout.episode import Places  # noqa: E402
from gui_rl.rollout.groups import Ticket, play_pool  # noqa: E402
from gui_rl.rollout.simulated import SimulatedClient, Simulation  # noqa: E402


def one_step() -> None:
    """Two updates on the pools of three tasks, of a dense model split by `fsdp` and of a mixture of experts split by
    `expert`."""
    shape = BatchShape(rows=8, row_length=64, row_patches=96, micro_batches=2)
    config = MRPOConfig(group=4, oversample=2, shape=shape, max_lag=1)

    async def pools():
        places, client = Places(24), SimulatedClient(Simulation(mean_s=0.0, shortest=2, longest=4))
        tickets = [Ticket(*TASKS["web"][n], n) for n in range(3)]
        return await asyncio.gather(*(play_pool(client, Scripted(), ticket, 8, places) for ticket in tickets))

    filled = fill(asyncio.run(pools()), BufferState(), config, 0)

    def updated(cfg, mesh, rules) -> dict:
        """Parameters, metrics, and how many parameters are spread over the mesh."""
        step = make_train_step(cfg, loss_config(config), OPTIMIZER, mesh, rules)
        update = make_update(step, cfg, config, mesh)
        state = init_state(cfg, OPTIMIZER, 0, mesh, rules)
        for _ in range(2):
            state, metrics = update(state, filled)
        whole = jax.jit(lambda tree: tree, out_shardings=NamedSharding(mesh, PartitionSpec()))(state.params)
        params = [np.asarray(leaf.addressable_data(0)).ravel().tolist() for leaf in jax.tree.leaves(whole)]
        split = sum(not leaf.sharding.is_fully_replicated for leaf in jax.tree.leaves(state.params))
        return {"params": params, "metrics": metrics, "split": split}

    more = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "router_aux_loss_coef": 0.1}
    dense = policy_config()
    experts = dataclasses.replace(dense, text=dataclasses.replace(dense.text, **more))
    found = {}
    for name, cfg in (("fsdp", dense), ("expert", experts)):
        found[name] = updated(cfg, make_mesh(**{"fsdp": 1, name: jax.device_count()}), RULES[name])
    if jax.process_index() == 0:
        print(json.dumps({"samples": len(filled.samples), **found}))


def meshes() -> None:
    """Trained on four devices, sampled on two others; the same tokens as on one device, after every move."""
    from gui_rl.model.config import preset
    from gui_rl.model.params import ShardingRules
    from gui_rl.prompt.context import TINY_CONTEXT
    from gui_rl.prompt.images import prepare
    from gui_rl.prompt.render import render
    from gui_rl.prompt.tokenizer import Tokenizer
    from gui_rl.rollout.engine import Engine, EngineConfig
    from gui_rl.rollout.sampler import SamplingParams

    tokenizer, cfg = Tokenizer.load("gui-tiny"), preset("gui-tiny")
    text = dataclasses.replace(cfg.text, num_hidden_layers=1, vocab_size=64 * -(-tokenizer.vocab_size // 64))
    vision = dataclasses.replace(cfg.vision, depth=1, deepstack_visual_indexes=(0,))
    cfg = dataclasses.replace(cfg, text=text, vision=vision, image_token_id=tokenizer.image_id)
    train, sample = (
        make_mesh(fsdp=4, devices=jax.devices()[:4]),
        make_mesh(tensor=2, fsdp=1, devices=jax.devices()[4:6]),
    )
    move = make_mover(cfg, sample, ShardingRules())
    picture = prepare(np.random.default_rng(0).integers(0, 256, (128, 160, 3), np.uint8))
    prompts = [render(tokenizer, TINY_CONTEXT, "web", (), text, [], picture) for text in ("Add it.", "Open the cart.")]

    async def complete(params: list) -> list:
        engine, out = Engine(cfg, params[0], tokenizer, EngineConfig(row_buckets=(2,))), []
        for version, weights in enumerate(params):
            await engine.update_weights(weights, version)
            out += await engine.sample(prompts, SamplingParams(1.0, 8), [version, version + 7])
        await engine.close()
        return out

    states = [init_state(cfg, OPTIMIZER, seed, train) for seed in (1, 2)]
    alone = [jax.device_get(state.params) for state in states]
    moved = [move(state.params) for state in states]
    for state in states:  # the trainer goes on with its buffers
        jax.tree.map(lambda leaf: leaf.delete(), state.params)
    where = {device.id for leaf in jax.tree.leaves(moved) for device in leaf.sharding.device_set}
    split = sum(not leaf.sharding.is_fully_replicated for leaf in jax.tree.leaves(moved[0]))
    mine, other = asyncio.run(complete(moved)), asyncio.run(complete(alone))
    gap = max(abs(a - b) for m, o in zip(mine, other, strict=True) for a, b in zip(m.logprobs, o.logprobs, strict=True))
    same = [
        m.token_ids == o.token_ids and m.policy_version == o.policy_version for m, o in zip(mine, other, strict=True)
    ]
    print(json.dumps({"devices": sorted(where), "split": split, "same": same, "gap": gap}))


if __name__ == "__main__":
    one_step() if sys.argv[1] == "step" else meshes()
