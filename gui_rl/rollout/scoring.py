"""Log-probabilities of given responses: what a policy server gives a trainer for which its policy is the teacher.

In: a prompt and the ids of a response, whoever sampled it. Out: the log-probability of every id.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gui_rl.data.packing import Branch, Sample, pack
from gui_rl.model import forward
from gui_rl.model.config import ModelConfig
from gui_rl.prompt.render import Prompt

LENGTH, PATCHES = 192, 160
"""Smallest row, in tokens and image patches; both doubled as often as needed: few shapes are compiled."""


@functools.partial(jax.jit, static_argnums=1)
def _logp(params: Any, cfg: ModelConfig, inputs: Any, targets: jax.Array, temperature: jax.Array) -> jax.Array:
    return forward.token_logprobs(params, cfg, forward.hidden(params, cfg, inputs), targets, temperature)[0]


def score(
    params: Any, cfg: ModelConfig, prompt: Prompt, response: Sequence[int], temperature: float = 1.0
) -> list[float]:
    """Nats of each id of `response` after `prompt`, at the temperature. Raises PackingError for ids that do not fit."""
    sample = Sample("scored", np.asarray(prompt.ids, np.int32), tuple(prompt.images), (Branch(response),))
    length, patches = LENGTH, PATCHES
    while sample.tokens > length or sample.patches > patches:
        length, patches = 2 * length, 2 * patches
    batch = pack(
        [sample], cfg.image_token_id, length, patches, rows=1, merge=cfg.vision.spatial_merge_size,
        side=cfg.vision.position_side, patch_dim=cfg.vision.patch_values,
    )  # fmt: skip
    found = np.asarray(_logp(params, cfg, batch.inputs, batch.targets, jnp.float32(temperature)))[0]
    first = sample.ids.size - 1  # where the response's first token is predicted
    return found[first : first + len(response)].tolist()
