"""Teachers of on-policy distillation, and which of them teaches what (UI-MOPD, section 3.3).

In: samples of the student's own responses, and the platform of each. Out: the same samples with the teacher's
log-probability of every response token, or with its hidden states, from which the train step takes the exact
divergence over the whole vocabulary. A teacher only ever sees the samples that are routed to it.

    routing      who teaches a sample of platform d
    "platform"   the teacher called d (UI-MOPD)
    "random"     any teacher, drawn for the sample's group (ablation)
    "unified"    the one teacher there is (baseline)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import jax
import numpy as np
from jaxtyping import Array, Float

from gui_rl.data.batch import Batch, split
from gui_rl.data.packing import Sample, pack
from gui_rl.data.samples import BatchShape
from gui_rl.errors import UserError
from gui_rl.learn.step import batch_sharding, make_scorer, place
from gui_rl.model import forward, layout
from gui_rl.model.config import ModelConfig
from gui_rl.model.params import ShardingRules

Routing = Literal["platform", "random", "unified"]
ROUTINGS: tuple[Routing, ...] = ("platform", "random", "unified")


@dataclasses.dataclass(frozen=True)
class Marked:
    """What a teacher says of one sample's response: `logp` of every token, or its `hidden` states there."""

    logp: Float[np.ndarray, " N"] | None = None
    hidden: Float[np.ndarray, "N E"] | None = None


class Teacher(Protocol):
    """Anything that can mark responses."""

    def mark(self, samples: Sequence[Sample]) -> list[Marked]:
        """One `Marked` a sample, in order; every sample has one branch."""
        ...


class LocalTeacher:
    """A policy on its own mesh.

    Args:
      cfg, params: the teacher; its vocabulary is the student's.
      mesh, rules: where it runs; its parameters are placed there by the caller.
      shape: rows of a scored micro-batch; a few shapes occur (`samples.micro_batches`).
      exact: give hidden states, for the exact divergence, instead of log-probabilities.
      temperature: that the student samples at.
    """

    def __init__(
        self,
        cfg: ModelConfig,
        params: Any,
        mesh: Any,
        rules: ShardingRules | None = None,
        shape: BatchShape = BatchShape(),  # noqa: B008 - frozen
        *,
        exact: bool = False,
        temperature: float = 1.0,
    ):
        self.cfg, self.params, self.mesh, self.shape, self.exact = cfg, params, mesh, shape, exact
        self.rules = ShardingRules() if rules is None else rules
        self._score = _make_states(cfg, mesh, self.rules) if exact else make_scorer(cfg, mesh, self.rules, temperature)

    @property
    def head(self) -> Float[Array, "E V"]:
        """Its output matrix, for `make_train_step(heads=...)`."""
        text = self.params["text"]
        return text["embed"].T if self.cfg.tie_word_embeddings else text["head"]

    def mark(self, samples: Sequence[Sample]) -> list[Marked]:
        """See `Teacher`. One sample stands alone in its row, so that its place is known."""
        length, patches = self.shape.row_length, self.shape.row_patches
        longest, widest = max(sample.tokens for sample in samples), max(sample.patches for sample in samples)
        while longest > length or widest > patches:
            length, patches = 2 * length, 2 * patches
        count = 1
        while count * self.shape.rows < len(samples):
            count *= 2
        batch = pack(
            samples, self.cfg.image_token_id, length, patches, rows=count * self.shape.rows,
            merge=self.cfg.vision.spatial_merge_size, side=self.cfg.vision.position_side,
            patch_dim=self.cfg.vision.patch_values, one_per_row=True,
        )  # fmt: skip
        found = np.asarray(self._score(self.params, place(split(batch, count), self.mesh, self.rules)))
        rows = found.reshape(count * self.shape.rows, length, *found.shape[3:])
        marked = []
        for row, sample in zip(rows, samples, strict=False):
            first = sample.ids.size - 1  # where the response's first token is predicted
            there = row[first : first + sample.branches[0].ids.size]
            marked.append(Marked(hidden=there) if self.exact else Marked(logp=there))
        return marked


def _make_states(cfg: ModelConfig, mesh: Any, rules: ShardingRules):
    """Compiles `(params, batch [A, B, ...]) -> hidden states [A, B, T, E]`."""

    def states(params: Any, batch: Batch) -> Float[Array, "A B T E"]:
        def one(micro: Batch):
            with layout.on_mesh(mesh, rules):
                return forward.hidden(params, cfg, micro.inputs)

        return jax.lax.map(one, batch)

    return jax.jit(states, in_shardings=(None, batch_sharding(mesh, rules)))


def route(teachers: Sequence[str], platform: str, routing: Routing, group: str = "", seed: int = 0) -> str:
    """The teacher of a sample of `platform` in `group`.

    Raises UserError for a platform without a teacher (R21: never by substring), "unified" with several teachers, an
    unknown routing, or no teacher.
    """
    if not teachers:
        raise UserError("there is no teacher: name at least one")
    if routing == "platform":
        if platform not in teachers:
            raise UserError(f"no teacher for the platform {platform!r}: there are {', '.join(sorted(teachers))}")
        return platform
    if routing == "random":
        names = sorted(teachers)
        return names[int(np.random.default_rng([seed, *group.encode()]).integers(len(names)))]
    if routing == "unified":
        if len(teachers) != 1:
            raise UserError(f"unified routing needs one teacher, not {', '.join(sorted(teachers))}")
        return next(iter(teachers))
    raise UserError(f"unknown routing {routing!r}: choose one of {', '.join(ROUTINGS)}")


def teach(
    samples: Sequence[Sample],
    platforms: Sequence[str],
    groups: Sequence[str],
    teachers: Mapping[str, Teacher],
    routing: Routing = "platform",
    seed: int = 0,
) -> list[Sample]:
    """The samples with their teachers' marks; the teachers' order in `teachers` numbers them in `Branch.teacher`.

    Args:
      samples: one response each.
      platforms, groups: of each sample.
      teachers: by name.
      routing: see the module.
      seed: of random routing.
    """
    names = list(teachers)
    chosen = [route(names, platform, routing, group, seed) for platform, group in zip(platforms, groups, strict=True)]
    taught: list[Sample | None] = [None] * len(samples)
    for number, name in enumerate(names):
        mine = [index for index, who in enumerate(chosen) if who == name]
        if not mine:
            continue
        for index, marked in zip(mine, teachers[name].mark([samples[index] for index in mine]), strict=True):
            (branch,) = samples[index].branches
            changes = {"teacher": number, "teacher_hidden": marked.hidden}
            if marked.logp is not None:
                changes["teacher_logp"] = marked.logp
            taught[index] = dataclasses.replace(samples[index], branches=(dataclasses.replace(branch, **changes),))
    return taught
