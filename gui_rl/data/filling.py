"""Rows filled to the brim: batches of one static shape from a stream of samples of any length, with few empty places.

In: a `Feed`'s stream of `Sample`s. Out: host batches `[rows, row_length]` with `row_patches` patches a row.
1. Samples are drawn until they would fill the batch one and a half times over.
2. The oldest is placed first, so that none waits for ever; then the others, the largest first, each into the fullest
   row that has room for its tokens and for its patches. A sample's size is the larger of its shares of the two.
3. What found no place waits for the next batch.
The result is a function of the stream alone; what waits is part of the feed's state.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gui_rl.data.batch import Batch
from gui_rl.data.packing import PackingError, RowPlan, Sample, check, pack
from gui_rl.data.samples import BatchShape
from gui_rl.errors import UserError
from gui_rl.model.config import ModelConfig

_log = logging.getLogger(__name__)
DRAWN = 1.5


def fill(
    samples: Sequence[Sample], row_length: int, row_patches: int, rows: int
) -> tuple[RowPlan, list[int], list[int]]:
    """(places, indices of the samples that were placed, indices of those that wait), the first sample placed at once.

    Every sample must fit in an empty row.
    """
    size = [max(s.tokens / row_length, s.patches / row_patches if row_patches else 0.0) for s in samples]
    order = sorted(range(len(samples)), key=lambda i: (i != 0, -size[i], i))
    left = np.tile(np.array([[row_length, row_patches]]), (rows, 1))
    placed, waiting, where = [], [], []
    for index in order:
        need = np.array([samples[index].tokens, samples[index].patches])
        room = (left >= need).all(axis=1)
        if not room.any():
            waiting.append(index)
            continue
        row = int(np.where(room, left[:, 0], row_length + 1).argmin())
        placed.append(index)
        where.append((row, row_length - left[row, 0], row_patches - left[row, 1]))
        left[row] -= need
    table = np.array(where, np.int64).reshape(-1, 3)
    return RowPlan(table[:, 0], table[:, 1], table[:, 2], rows), placed, sorted(waiting)


class Filler:
    """`pipeline.Take` of filled rows; `real` is the share of tokens that are not padding, over all batches so far.

    A sample that is longer than a row, or contradicts itself, is left out, counted in `left_out` and named in the log.
    """

    def __init__(self, cfg: ModelConfig, shape: BatchShape):
        self.cfg, self.shape = cfg, shape
        self.rows = shape.rows * shape.micro_batches
        self.tokens = self.places = self.left_out = 0

    @property
    def real(self) -> float:
        """Share of real tokens."""
        return self.tokens / max(self.places, 1)

    def __call__(self, items: Iterator[tuple[int, Any]], kept: list[tuple[int, Any]]) -> tuple[Batch, list]:
        """The next batch `[rows * micro_batches, row_length]`, and what waits for the one after."""
        chosen, plan, waiting = self.choose(items, kept)
        batch = pack(
            chosen, self.cfg.image_token_id, self.shape.row_length, self.shape.row_patches, rows=self.rows, plan=plan,
            merge=self.cfg.vision.spatial_merge_size, side=self.cfg.vision.position_side,
        )  # fmt: skip
        return batch, waiting

    def choose(
        self, items: Iterator[tuple[int, Any]], kept: list[tuple[int, Any]]
    ) -> tuple[list[Sample], RowPlan, list[tuple[int, Any]]]:
        """(samples of the next batch, where they go, what waits). Raises StopIteration where there is none."""
        shape, pool = self.shape, list(kept)
        tokens, patches = sum(s.tokens for _, s in pool), sum(s.patches for _, s in pool)
        length, most_patches = self.rows * shape.row_length, self.rows * shape.row_patches
        while tokens < DRAWN * length and (not most_patches or patches < DRAWN * most_patches):
            place, sample = next(items, (0, None))
            if sample is None:
                break
            if fault := self._fault(sample):
                self._leave_out(fault)
                continue
            pool.append((place, sample))
            tokens, patches = tokens + sample.tokens, patches + sample.patches
        if not pool:
            raise StopIteration
        plan, placed, waiting = fill([s for _, s in pool], shape.row_length, shape.row_patches, self.rows)
        chosen = [pool[index][1] for index in placed]
        self.tokens += sum(sample.tokens for sample in chosen)
        self.places += length
        return chosen, plan, [pool[index] for index in waiting]

    def _fault(self, sample: Sample) -> str:
        length, patches = self.shape.row_length, self.shape.row_patches
        if sample.tokens > length or sample.patches > patches:
            return (
                f"sample {sample.id}: {sample.tokens} tokens and {sample.patches} patches are more than a row's "
                f"{length} and {patches}; give longer rows"
            )
        try:
            check(sample, self.cfg.image_token_id, self.cfg.vision.spatial_merge_size)
        except PackingError as error:
            return str(error)
        return ""

    def _leave_out(self, fault: str) -> None:
        self.left_out += 1
        _log.warning("left out: %s", fault)
        if self.left_out > 100 and self.left_out * self.shape.row_length > self.tokens:
            raise UserError(f"{fault} ({self.left_out} samples were left out so far)")
