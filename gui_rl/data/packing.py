"""Packing: samples of any length into rows of one static shape.

In: `Sample`s (a trunk of token ids with its images, and the branches that answer it). Out: a host `Batch` (numpy).
1. Every sample is measured and checked; `assign_rows` puts them into rows, the longest first (first-fit decreasing).
2. In its row a sample is `trunk, branch 1, branch 2, ...` under one segment id; a branch sees the trunk and itself, and
   its rotary positions continue from the trunk's, so the branches of one screenshot are answered side by side.
3. Images of a row follow one another in the patch axis, each under a segment id of its own.
The per-token arrays of a branch weigh the prediction of that very token, which is made one position earlier: a branch's
first token is predicted by the trunk's last position.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from gui_rl.data.batch import STREAMS, Batch
from gui_rl.model.inputs import ModelInputs
from gui_rl.model.rope import mrope_positions
from gui_rl.model.vision import vision_indices
from gui_rl.prompt.images import ImageInput

TEACHER = ("teacher_hidden", "teacher")


class PackingError(ValueError):
    """A sample that cannot be packed; the message starts with its id."""


@dataclasses.dataclass(frozen=True, eq=False)
class Branch:
    """One answer to a trunk. Arrays are per token of `ids`; a single number stands for the same at every token.

    teacher_hidden, teacher: as in `Batch`; all branches of a batch have the former, or none has.
    """

    ids: Int[np.ndarray, " N"]
    ce_weight: Float[np.ndarray, " N"] | float = 0.0
    pg_weight: Float[np.ndarray, " N"] | float = 0.0
    kl_weight: Float[np.ndarray, " N"] | float = 0.0
    advantage: Float[np.ndarray, " N"] | float = 0.0
    behaviour_logp: Float[np.ndarray, " N"] | float = 0.0
    teacher_logp: Float[np.ndarray, " N"] | float = 0.0
    teacher_hidden: Float[np.ndarray, "N E"] | None = None
    teacher: int = 0

    def __post_init__(self):
        ids = np.asarray(self.ids, np.int32)
        if ids.ndim != 1 or not ids.size:
            raise PackingError(f"a branch needs a flat, non-empty list of token ids, not shape {ids.shape}")
        object.__setattr__(self, "ids", ids)
        for name in STREAMS:
            value = getattr(self, name)
            if isinstance(value, (int, float)):
                value = np.full(ids.shape, value, np.float32)
            else:
                value = np.asarray(value, np.float32)
                if value.shape != ids.shape:
                    raise PackingError(f"{name} has shape {value.shape} for a branch of {ids.size} tokens")
            object.__setattr__(self, name, value)
        if self.teacher_hidden is not None and len(self.teacher_hidden) != ids.size:
            raise PackingError(f"{len(self.teacher_hidden)} teacher states for a branch of {ids.size} tokens")


@dataclasses.dataclass(frozen=True, eq=False)
class Sample:
    """A trunk (prompt) with its images and one or more branches (responses).

    Attributes:
      id: names the sample in errors.
      ids: the trunk's token ids, with every image placeholder already expanded to one per visual token.
      images: the images, in the order of their placeholders.
      branches: the answers; they do not see one another. With more than one, the first token of each must have weight
        0, since the trunk's last position can predict only one token.
    """

    id: str
    ids: Int[np.ndarray, " N"]
    images: tuple[ImageInput, ...]
    branches: tuple[Branch, ...]

    def __post_init__(self):
        object.__setattr__(self, "ids", np.asarray(self.ids, np.int32))

    @property
    def tokens(self) -> int:
        """Length in the row: the trunk and all branches."""
        return self.ids.size + sum(branch.ids.size for branch in self.branches)

    @property
    def patches(self) -> int:
        """Number of image patches."""
        return sum(image.patches.shape[0] for image in self.images)


@dataclasses.dataclass(frozen=True)
class RowPlan:
    """Which sample goes to which row, and where (all in the order of the samples)."""

    row: Int[np.ndarray, " S"]
    token_start: Int[np.ndarray, " S"]
    patch_start: Int[np.ndarray, " S"]
    rows: int


def assign_rows(samples: Sequence[Sample], row_length: int, row_patches: int, rows: int | None = None) -> RowPlan:
    """First-fit decreasing by tokens; equal lengths keep their order, so the plan is a function of the samples.

    Raises:
      PackingError: for a sample that is longer than a row, or that finds no place in the `rows` there are.
    """
    tokens = np.fromiter((sample.tokens for sample in samples), np.int64, len(samples))
    patches = np.fromiter((sample.patches for sample in samples), np.int64, len(samples))
    row, token_start, patch_start = (np.zeros(len(samples), np.int64) for _ in range(3))
    free: list[tuple[int, int]] = []
    for index in np.argsort(-tokens, kind="stable"):
        need, need_patches = int(tokens[index]), int(patches[index])
        if need > row_length or need_patches > row_patches:
            raise PackingError(
                f"sample {samples[index].id}: {need} tokens and {need_patches} patches do not fit in a row of "
                f"{row_length} tokens and {row_patches} patches; raise row_length or row_patches, or drop the sample"
            )
        place = next((r for r, (t, p) in enumerate(free) if t >= need and p >= need_patches), None)
        if place is None:
            if rows is not None and len(free) == rows:
                raise PackingError(
                    f"sample {samples[index].id}: no room in {rows} rows of {row_length} tokens and {row_patches} "
                    f"patches for these {len(samples)} samples; give more rows or fewer samples"
                )
            place = len(free)
            free.append((row_length, row_patches))
        left, left_patches = free[place]
        row[index], token_start[index], patch_start[index] = place, row_length - left, row_patches - left_patches
        free[place] = (left - need, left_patches - need_patches)
    return RowPlan(row, token_start, patch_start, rows if rows is not None else max(len(free), 1))


def _one_per_row(samples: Sequence[Sample], row_length: int, row_patches: int, rows: int | None = None) -> RowPlan:
    """Sample i at the start of row i; checked like `assign_rows`."""
    for sample in samples:
        assign_rows([sample], row_length, row_patches or sample.patches, 1)
    if rows is not None and len(samples) > rows:
        raise PackingError(f"sample {samples[rows].id}: {len(samples)} samples for {rows} rows of one sample each")
    start = np.zeros(len(samples), np.int64)
    return RowPlan(np.arange(len(samples)), start, start, len(samples) if rows is None else rows)


def pack(
    samples: Sequence[Sample],
    image_token_id: int,
    row_length: int,
    row_patches: int,
    rows: int | None = None,
    merge: int = 2,
    side: int = 16,
    patch_dim: int = 1536,
    one_per_row: bool = False,
    plan: RowPlan | None = None,
) -> Batch:
    """Packs samples into a batch of rows `[B, T = row_length]` with `P = row_patches` patches each.

    Args:
      samples: what to pack; the order decides nothing but ties.
      image_token_id: id of the image placeholder.
      row_length: tokens in a row.
      row_patches: patches in a row, a multiple of `merge ** 2`; 0 leaves the patches out (their features are known).
      rows: number of rows; `None` takes as many as are needed (a new shape, hence a new compilation, each time).
      merge: side of the square of patches that becomes one visual token.
      side: side of the learned position-embedding table of the vision encoder.
      patch_dim: values in a patch.
      one_per_row: sample i alone in row i, in the order given (for sampling), instead of packing.
      plan: where every sample goes, where that is known already.
    Raises:
      PackingError: with the sample's id, when a sample does not fit, its placeholders are not as many as its visual
        tokens, a placeholder stands in a branch, or several branches weigh their first tokens.
    """
    if row_patches % merge**2:
        raise PackingError(f"row_patches must be a multiple of {merge**2} (the merge of {merge} by {merge} patches)")
    if not samples:
        raise PackingError("there are no samples to pack")
    masks = [sample.ids == image_token_id for sample in samples]
    for sample in samples:
        check(sample, image_token_id, merge)
    if plan is None:
        plan = (_one_per_row if one_per_row else assign_rows)(samples, row_length, row_patches, rows)
    tokens = _token_arrays(samples, masks, plan, row_length, merge)
    shown = samples if row_patches else [dataclasses.replace(sample, images=()) for sample in samples]
    patches = _patch_arrays(shown, plan, row_patches, merge, side, patch_dim)
    streams = {name: tokens.pop(name) for name in ("targets", *STREAMS, *TEACHER) if name in tokens}
    return Batch(inputs=ModelInputs(**tokens, **patches), **streams)


def check(sample: Sample, image_token_id: int, merge: int = 2) -> None:
    """Raises a PackingError for a sample that contradicts itself."""
    where = f"sample {sample.id}: "
    if not sample.ids.size or not sample.branches:
        raise PackingError(where + "a sample needs a non-empty trunk and at least one branch")
    for image in sample.images:
        if image.patches.shape[0] != np.prod(image.grid):
            raise PackingError(where + f"an image has {image.patches.shape[0]} patches but the grid {image.grid}")
    expected, found = sample.patches // merge**2, int(np.count_nonzero(sample.ids == image_token_id))
    if expected != found:
        raise PackingError(
            where + f"{found} image placeholders for {expected} visual tokens: expand each placeholder exactly once "
            "and never cut a prompt inside an image"
        )
    several = len(sample.branches) > 1
    for number, branch in enumerate(sample.branches):
        if several and (branch.ce_weight[0] or branch.pg_weight[0] or branch.kl_weight[0]):
            raise PackingError(
                where + f"branch {number} weighs its first token, which only a sample with one branch can predict; "
                "let every branch begin with a token of weight 0"
            )
        if (branch.ids == image_token_id).any():
            raise PackingError(where + f"branch {number} holds an image placeholder; images belong to the trunk")


def _token_arrays(
    samples: Sequence[Sample], masks: list[np.ndarray], plan: RowPlan, row_length: int, merge: int
) -> dict[str, np.ndarray]:
    """All `[B, T]` arrays, filled piece by piece (a piece is a trunk or a branch) through flat row indices."""
    size = plan.rows * row_length
    order = np.argsort(plan.row * row_length + plan.token_start, kind="stable")
    segment_of = np.zeros(len(samples), np.int32)
    segment_of[order] = _count_within(plan.row[order])
    pieces, starts, lengths, segments, branches, firsts, mrope, weighted, singles = ([] for _ in range(9))
    trunk_flat, trunk_positions, visual_flat, visual_value = [], [], [], []
    for index, sample in enumerate(samples):
        start = int(plan.row[index]) * row_length + int(plan.token_start[index])
        try:
            grids = tuple(image.grid for image in sample.images)
            positions, after = _trunk_positions(masks[index].tobytes(), grids, merge)
        except ValueError as error:
            raise PackingError(f"sample {sample.id}: {error}") from error
        trunk_flat.append(start)
        trunk_positions.append(positions)
        if sample.images:
            places = np.flatnonzero(masks[index])
            visual_flat.append(places + start)
            visual_value.append(np.arange(places.size) + int(plan.patch_start[index]) // merge**2)
        at = start
        for number, ids in enumerate((sample.ids, *(branch.ids for branch in sample.branches))):
            pieces.append(ids)
            starts.append(at)
            lengths.append(ids.size)
            segments.append(segment_of[index])
            branches.append(number)
            mrope.append(after)
            at += ids.size
        weighted.extend(sample.branches)
        singles.append(len(sample.branches) == 1)
        firsts.append(start + sample.ids.size)
    lengths, branches, starts = np.array(lengths), np.array(branches), np.array(starts)
    within = _ramp(lengths)
    flat = np.repeat(starts, lengths) + within
    in_branch = np.repeat(branches > 0, lengths)

    out = {name: np.zeros(size, np.int32) for name in ("tokens", "segments", "branches", "targets")}
    out["tokens"][flat] = ids = np.concatenate(pieces)
    out["segments"][flat] = np.repeat(np.array(segments), lengths)
    out["branches"][flat] = np.repeat(branches, lengths)
    # A token is predicted one position earlier, unless it opens a piece. A sole branch follows its trunk directly.
    inner = within > 0
    out["targets"][flat[inner] - 1] = ids[inner]
    sole = np.array(firsts)[np.array(singles)]
    out["targets"][sole - 1] = out["tokens"][sole]

    positions = np.zeros((3, size), np.int32)
    positions[:, flat] = np.repeat(np.array(mrope), lengths) + within
    trunk_lengths = np.array([p.shape[1] for p in trunk_positions])
    positions[:, np.repeat(np.array(trunk_flat), trunk_lengths) + _ramp(trunk_lengths)] = np.concatenate(
        trunk_positions, axis=1
    )
    visual = np.full(size, -1, np.int32)
    if visual_flat:
        visual[np.concatenate(visual_flat)] = np.concatenate(visual_value)

    branch_flat = flat[in_branch]
    # The first tokens of several branches have weight 0 by `_check`; their places belong to the piece before them.
    predicted = inner[in_branch] | np.isin(branch_flat, sole)
    for name in STREAMS:
        values = np.concatenate([getattr(branch, name) for branch in weighted])
        out[name] = np.zeros(size, np.float32)
        out[name][branch_flat[predicted] - 1] = values[predicted]
    if states := [branch.teacher_hidden for branch in weighted if branch.teacher_hidden is not None]:
        if len(states) != len(weighted):
            raise PackingError(f"{len(states)} of {len(weighted)} branches have a teacher's hidden states: all or none")
        teachers = np.repeat([branch.teacher for branch in weighted], [branch.ids.size for branch in weighted])
        for name, values in zip(TEACHER, (np.concatenate(states), teachers.astype(np.int32)), strict=True):
            out[name] = np.zeros((size, *values.shape[1:]), values.dtype)
            out[name][branch_flat[predicted] - 1] = values[predicted]
    shape = (plan.rows, row_length)
    out = {name: array.reshape(*shape, *array.shape[1:]) for name, array in out.items()}
    out["positions"] = np.ascontiguousarray(positions.reshape(3, *shape).transpose(1, 0, 2))
    out["visual_index"] = visual.reshape(shape)
    return out


def _patch_arrays(
    samples: Sequence[Sample], plan: RowPlan, row_patches: int, merge: int, side: int, patch_dim: int
) -> dict[str, np.ndarray]:
    """All `[B, P, ...]` arrays; rows and images in the order in which samples stand in their rows."""
    shape = (plan.rows, row_patches)
    out = {
        "patches": np.zeros((*shape, patch_dim), np.float32),
        "patch_segments": np.zeros(shape, np.int32),
        "patch_yx": np.zeros((*shape, 2), np.int32),
        "patch_table": np.zeros((*shape, 4), np.int32),
        "patch_table_weight": np.zeros((*shape, 4), np.float32),
    }
    count = [0] * plan.rows
    for index in np.argsort(plan.row * row_patches + plan.patch_start, kind="stable"):
        row, at = int(plan.row[index]), int(plan.patch_start[index])
        for image in samples[index].images:
            yx, table, weight = _vision_indices(tuple(int(n) for n in image.grid), side, merge)
            place = (row, slice(at, at + yx.shape[0]))
            count[row] += 1
            out["patches"][place] = image.patches
            out["patch_segments"][place] = count[row]
            out["patch_yx"][place], out["patch_table"][place], out["patch_table_weight"][place] = yx, table, weight
            at += yx.shape[0]
    return out


@functools.lru_cache(maxsize=4096)
def _trunk_positions(mask: bytes, grids: tuple, merge: int) -> tuple[np.ndarray, int]:
    """Rotary positions `[3, N]` of a trunk with placeholders where `mask` is true, and the position that follows."""
    ids = np.frombuffer(mask, bool).astype(np.int32)
    positions, _ = mrope_positions(ids, grids, 1, merge)
    positions = np.asarray(positions, np.int32)
    return positions, int(positions.max()) + 1


@functools.lru_cache(maxsize=1024)
def _vision_indices(grid: tuple[int, int, int], side: int, merge: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`vision_indices`, remembered by grid: screenshots of one device share it."""
    return vision_indices(grid, side, merge)


def _ramp(lengths: np.ndarray) -> np.ndarray:
    """`0..n-1` for each of the lengths, concatenated."""
    ends = np.cumsum(lengths)
    return np.arange(int(ends[-1]) if lengths.size else 0) - np.repeat(ends - lengths, lengths)


def _count_within(rows: np.ndarray) -> np.ndarray:
    """`1, 2, ...` within each run of equal rows."""
    runs = np.flatnonzero(np.diff(rows, prepend=-1))
    return _ramp(np.diff(np.append(runs, rows.size))) + 1
