"""Teachers of on-policy distillation, and which of them teaches what (UI-MOPD, section 3.3).

In: samples of the student's own responses, and the platform of each. Out: the same samples with the teacher's
log-probability of every response token, or with its hidden states, from which the train step takes the exact
divergence over the whole vocabulary. A teacher only ever sees the samples that are routed to it.

    routing      who teaches a sample of platform d
    "platform"   the teacher called d (UI-MOPD)
    "random"     any teacher, drawn for the sample's group (ablation)
    "unified"    the one teacher there is (baseline)

`Teaching` holds the settings of a run; `make_teach` is what `online.make_update` calls before an update.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

import jax
import numpy as np
from jaxtyping import Array, Float

from gui_rl.data.batch import Batch, split
from gui_rl.data.packing import Sample, pack
from gui_rl.data.samples import BatchShape
from gui_rl.errors import UserError
from gui_rl.learn.losses import PAPER_MOPD, Estimator, Placement, check_kl_choice, kl
from gui_rl.learn.step import batch_sharding, place, target_logprobs
from gui_rl.model import forward, layout
from gui_rl.model.config import ModelConfig
from gui_rl.model.params import ShardingRules
from gui_rl.prompt.render import Prompt
from gui_rl.rollout.remote import RemoteSampler

Routing = Literal["platform", "random", "unified"]
ROUTINGS: tuple[Routing, ...] = ("platform", "random", "unified")


@dataclasses.dataclass(frozen=True)
class Teaching:
    """How teachers enter a run (UI-MOPD, sections 3.2 to 3.4). The default is the true reverse KL, exact over the whole
    vocabulary; it needs local teachers with `exact`. Teachers behind a server give log-probabilities: `SAMPLED`.

    Attributes:
      routing: which teacher teaches what; see the module.
      scale: coefficient of the divergence.
      estimator, placement: see `losses.kl`.
      threshold: tau of the adaptive mask: a group whose mean reward exceeds it is not taught. The paper does not state
        tau. None: every group is taught.
      seed: of random routing.
    """

    routing: Routing = "platform"
    scale: float = 1.0
    estimator: Estimator = "full"
    placement: Placement = "loss"
    threshold: float | None = 0.5
    seed: int = 0

    def __post_init__(self):
        try:
            check_kl_choice(self.estimator, self.placement)
        except ValueError as error:
            raise UserError(f"teaching: {error}") from error
        if self.routing not in ROUTINGS:
            raise UserError(f"teaching.routing: unknown {self.routing!r}: choose one of {', '.join(ROUTINGS)}")
        if self.scale < 0:
            raise UserError(f"teaching.scale must not be negative, not {self.scale}")


PAPER = Teaching(scale=PAPER_MOPD.kl_scale, estimator=PAPER_MOPD.kl_estimator, placement=PAPER_MOPD.kl_placement)
"""As published: k3 in the loss at 0.01 (table 6), whose gradient is the forward KL's."""
SAMPLED = Teaching(estimator="k2")
"""The true reverse KL from the log-probabilities of the sampled tokens alone."""


@dataclasses.dataclass(frozen=True)
class Marked:
    """What a teacher says of one sample's response: `logp` (nats) of every token, and, for the exact divergence, its
    `hidden` states there."""

    logp: Float[np.ndarray, " N"]
    hidden: Float[np.ndarray, "N E"] | None = None


class Teacher(Protocol):
    """Anything that can mark responses."""

    def mark(self, samples: Sequence[Sample]) -> list[Marked]:
        """One `Marked` a sample, in order; every sample has one branch."""
        ...


class LocalTeacher:
    """A policy on its own mesh, of any size.

    Args:
      cfg, params: the teacher; its vocabulary is the student's.
      mesh, rules: where it runs; its parameters are placed there by the caller.
      shape: rows of a scored micro-batch; a few shapes occur (`samples.micro_batches`).
      exact: give hidden states too, for the exact divergence.
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
        self._score = _make_marks(cfg, mesh, self.rules, temperature, exact)

    @property
    def width(self) -> int:
        """Of the hidden states that it gives; 0 where it gives none."""
        return self.cfg.text.hidden_size if self.exact else 0

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
        placed = place(split(batch, count), self.mesh, self.rules)
        rows = [self._rows(found) for found in self._score(self.params, placed)]
        logp, hidden = rows if self.exact else (*rows, [None] * len(rows[0]))
        marked = []
        for row, states, sample in zip(logp, hidden, samples, strict=False):
            first = sample.ids.size - 1  # where the response's first token is predicted
            there = slice(first, first + sample.branches[0].ids.size)
            marked.append(Marked(row[there], None if states is None else states[there]))
        return marked

    @staticmethod
    def _rows(found: Array) -> np.ndarray:
        """`[A, B, ...]` on the devices to `[A * B, ...]` here."""
        return np.asarray(found).reshape(-1, *found.shape[2:])


@dataclasses.dataclass(frozen=True)
class RemoteTeacher:
    """A policy behind `gui-rl policy serve`: log-probabilities over HTTP.

    Attributes:
      url, token: of the server.
      temperature: that the student samples at.
    """

    url: str
    token: str = ""
    temperature: float = 1.0

    def mark(self, samples: Sequence[Sample]) -> list[Marked]:
        """See `Teacher`. Raises UserError for a server that is not there or refuses. Not inside an event loop: an
        update runs in a thread of its own."""

        async def ask() -> list[list[float]]:
            prompts = [Prompt(sample.ids.tolist(), list(sample.images), [], 0) for sample in samples]
            responses = [sample.branches[0].ids.tolist() for sample in samples]
            async with RemoteSampler(self.url, self.token) as server:
                return await server.score(prompts, responses, self.temperature)

        return [Marked(np.asarray(logp, np.float32)) for logp in asyncio.run(ask())]


@functools.cache
def _make_marks(cfg: ModelConfig, mesh: Any, rules: ShardingRules, temperature: float, exact: bool):
    """Compiles `(params, batch [A, B, ...]) -> (logp [A, B, T],)`, and where `exact` the hidden states
    `[A, B, T, E]`; once for all teachers of one size."""

    def marks(params: Any, batch: Batch) -> tuple[Array, ...]:
        def one(micro: Batch):
            with layout.on_mesh(mesh, rules):
                hidden = forward.hidden(params, cfg, micro.inputs)
                logp = target_logprobs(params, cfg, hidden, micro, temperature)[0]
            return (logp, hidden) if exact else (logp,)

        return jax.lax.map(one, batch)

    return jax.jit(marks, in_shardings=(None, batch_sharding(mesh, rules)))


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
    widest = max((getattr(teacher, "width", 0) for teacher in teachers.values()), default=0)
    chosen = [route(names, platform, routing, group, seed) for platform, group in zip(platforms, groups, strict=True)]
    taught: list[Sample | None] = [None] * len(samples)
    for number, name in enumerate(names):
        mine = [index for index, who in enumerate(chosen) if who == name]
        if not mine:
            continue
        for index, marked in zip(mine, teachers[name].mark([samples[index] for index in mine]), strict=True):
            (branch,) = samples[index].branches
            states = marked.hidden
            if states is not None:  # one batch holds those of all teachers
                states = np.pad(states, ((0, 0), (0, widest - states.shape[1])))
            changes = {"teacher": number, "teacher_logp": marked.logp, "teacher_hidden": states}
            taught[index] = dataclasses.replace(samples[index], branches=(dataclasses.replace(branch, **changes),))
    return taught


class Told(Protocol):
    """What `make_teach` reads and replaces; `mrpo.Filled` is one."""

    samples: list[Sample]
    families: list[str]
    groups: Sequence[str]
    metrics: dict[str, float]

    def _replace(self, **changes: Any) -> Any: ...


def make_teach(teachers: Mapping[str, Teacher], config: Teaching) -> Callable[[Told], Any]:
    """The step between `mrpo.fill` and the update: routed teachers mark every sample.

    To the metrics it adds `kl/NAME` for each teacher: the mean of k3 over the tokens that it marked, an unbiased
    estimate of the reverse KL, nats a token, whatever the loss is.

    Args:
      teachers: by name; for the routing "platform" the platforms' names. Their order is that of the train step's heads.
      config: settings.
    Raises:
      UserError: for routing "unified" without exactly one teacher, or for the exact divergence with a teacher that is
        not local and exact.
    """
    if config.routing == "unified":
        route(list(teachers), "", "unified")
    if config.estimator == "full":
        for name, teacher in teachers.items():
            if not getattr(teacher, "exact", False):
                raise UserError(
                    f"teacher {name!r} gives log-probabilities only: make it a LocalTeacher with exact=True, or choose "
                    "another teaching.estimator (k2)"
                )

    def taught(filled: Told) -> Any:
        samples = teach(filled.samples, filled.families, filled.groups, teachers, config.routing, config.seed)
        branches = [branch for sample in samples for branch in sample.branches]
        told = {}
        for number, name in enumerate(teachers):
            mine = [branch for branch in branches if branch.teacher == number]
            if mine:
                pairs = [np.concatenate([getattr(b, key) for b in mine]) for key in ("behaviour_logp", "teacher_logp")]
                told[f"kl/{name}"] = float(np.mean(kl(*pairs, estimator="k3")))
                told[f"kl_tokens/{name}"] = float(pairs[0].size)
        return filled._replace(samples=samples, metrics={**filled.metrics, **told})

    return taught
