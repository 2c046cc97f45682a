"""A run of the loop without a browser: simulated environments, and an agent whose responses are functions of the
episode's id and the turn. What it says does not depend on the weights, so that two runs can be compared bit by bit."""

import dataclasses
import functools
import hashlib

import jax
import numpy as np
import optax
from smallest import build_config

from gui_rl.learn.online import loss_config, make_update
from gui_rl.learn.state import init_state, make_mesh
from gui_rl.learn.step import make_train_step
from gui_rl.prompt.context import TINY_CONTEXT
from gui_rl.prompt.render import Prompt
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.rollout.agents import Prompts, Reply

IMAGE = 40
OPTIMIZER = optax.sgd(0.05, momentum=0.9)
TASKS = {family: [("simulated", f"{family}/{n}") for n in range(6)] for family in ("mobile", "desktop", "web")}


def policy_config():
    """The smallest policy, with the patches of real screenshots."""
    cfg = build_config()
    return dataclasses.replace(cfg, vision=dataclasses.replace(cfg.vision, patch_size=16))


class Scripted:
    """Agent and sampler in one: its version is that of the weights it was given last."""

    source = "policy"
    prompts = Prompts(Tokenizer.load("gui-tiny"), TINY_CONTEXT)

    def __init__(self):
        self.sampler, self.version, self.weights = self, -1, []

    async def update_weights(self, params, version):
        self.version = version
        self.weights.append((params, version))

    async def act(self, view):
        random = np.random.default_rng(
            int.from_bytes(hashlib.sha256(f"{view.episode}/{len(view.history)}".encode()).digest()[:8], "big")
        )
        ids = [1, *[IMAGE] * view.screenshot.tokens, 2 + len(view.history) % 8]
        prompt = Prompt(ids, [view.screenshot], [(1, 1 + view.screenshot.tokens)], 0)
        said = random.integers(0, 39, int(random.integers(2, 5))).tolist()
        logp = random.uniform(-4, -3, len(said))
        return Reply(str(said), prompt, said, logp, policy_version=self.version)


@functools.cache
def _step(loss, families):
    """Compiled once for all tests."""
    return make_train_step(policy_config(), loss, OPTIMIZER, make_mesh(devices=jax.devices()[:1]), families=families)


def learner(config):
    """(state, update) of the smallest policy on one device."""
    cfg, mesh = policy_config(), make_mesh(devices=jax.devices()[:1])
    families = tuple(TASKS) if config.phases == "project" else ()
    update = make_update(_step(loss_config(config), len(families) or 1), cfg, config, mesh, families=families)
    return init_state(cfg, OPTIMIZER, 0, mesh), update
