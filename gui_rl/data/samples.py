"""Stored turns to training samples, and samples to the micro-batches of one step.

In: `Episode`s. Out: a `Batch` `[A, B, ...]` of static shape. A turn is a sample: its stored prompt ids are the trunk,
its stored response ids the one branch; only the screenshots are decoded anew.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np

from gui_rl.data.batch import Batch, split
from gui_rl.data.packing import Branch, Sample, assign_rows, pack
from gui_rl.data.schema import Episode
from gui_rl.model.config import ModelConfig
from gui_rl.prompt.images import prepare


@dataclasses.dataclass(frozen=True)
class BatchShape:
    """Static shape of a step's batch.

    Attributes:
      rows: rows of a micro-batch (B).
      row_length, row_patches: tokens and image patches in a row; both doubled as often as the longest sample needs it.
      micro_batches: micro-batches of a step (A); doubled as often as a step's samples need it: few shapes occur.
    """

    rows: int = 16
    row_length: int = 192
    row_patches: int = 160
    micro_batches: int = 2


def turn_sample(episode: Episode, index: int, **streams: np.ndarray | float) -> Sample:
    """The sample of one turn; `streams` are the per-token fields of its `Branch`, e.g. `ce_weight=1.0`."""
    turn = episode.turns[index]
    images = tuple(prepare(episode.turns[number].screenshot) for number in turn.image_turns)
    return Sample(f"{episode.id} turn {index}", turn.prompt_ids, images, (Branch(turn.response_ids, **streams),))


def family_batches(
    samples: Sequence[Sample], families: Sequence[str], names: Sequence[str], cfg: ModelConfig, shape: BatchShape
) -> Batch:
    """Micro-batches of each family by itself, one family after the other: `[len(names) * A, B, ...]`.

    Args:
      samples: of a step, at least one.
      families: of each sample.
      names: the families, in order; one without samples gets micro-batches of padding.
      cfg, shape: as for `micro_batches`; all families get the largest shape that one of them needs.
    """
    parts = [[s for s, family in zip(samples, families, strict=True) if family == name] for name in names]
    found = [micro_batches(part, cfg, shape) for part in parts if part]
    shape = dataclasses.replace(
        shape,
        row_length=max(batch.targets.shape[2] for batch in found),
        row_patches=max(batch.inputs.patches.shape[2] for batch in found),
        micro_batches=max(batch.targets.shape[0] for batch in found),
    )
    batches = [micro_batches(part, cfg, shape) if part else None for part in parts]
    padding = jax.tree.map(np.zeros_like, next(batch for batch in batches if batch is not None))
    whole = [padding if batch is None else batch for batch in batches]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *whole)


def micro_batches(samples: Sequence[Sample], cfg: ModelConfig, shape: BatchShape) -> Batch:
    """Packs all samples of a step into `[A, B, ...]`; rows that stay empty have weight 0.

    Raises:
      PackingError: with the sample's id, for one that contradicts itself.
    """
    longest = max(sample.tokens for sample in samples)
    while longest > shape.row_length or max(sample.patches for sample in samples) > shape.row_patches:
        shape = dataclasses.replace(shape, row_length=2 * shape.row_length, row_patches=2 * shape.row_patches)
    needed = assign_rows(samples, shape.row_length, shape.row_patches).rows
    count = shape.micro_batches
    while count * shape.rows < needed:
        count *= 2
    batch = pack(
        samples, cfg.image_token_id, shape.row_length, shape.row_patches, rows=count * shape.rows,
        merge=cfg.vision.spatial_merge_size, side=cfg.vision.position_side,
    )  # fmt: skip
    return split(batch, count)
