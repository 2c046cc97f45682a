"""A policy small enough to be made in a second, for the tests of what serves and loads policies."""

import dataclasses
import math

import jax

from gui_rl.model.config import preset
from gui_rl.model.params import init_params
from gui_rl.prompt.context import TINY_CONTEXT
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.rollout.policy import Policy


def small_policy(seed: int) -> Policy:
    """A small random policy with gui-tiny's vocabulary."""
    tokenizer, cfg = Tokenizer.load("gui-tiny"), preset("gui-tiny")
    text = dataclasses.replace(cfg.text, num_hidden_layers=1, vocab_size=64 * math.ceil(tokenizer.vocab_size / 64))
    vision = dataclasses.replace(cfg.vision, depth=1, deepstack_visual_indexes=(0,))
    ids = {"image_token_id": tokenizer.image_id, "video_token_id": tokenizer.video_id}
    cfg = dataclasses.replace(cfg, text=text, vision=vision, **ids)
    params = jax.jit(init_params, static_argnums=0)(cfg, jax.random.key(seed))
    return Policy("tiny", cfg, params, tokenizer, TINY_CONTEXT)
