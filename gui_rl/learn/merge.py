"""Merging of policies by their parameters: the baselines that distillation from platform teachers is compared with.

In: parameter pytrees of one structure. Out: one parameter pytree, computed on the host leaf by leaf in float64 and
returned in the dtype of the first tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Float


def average(models: Sequence[Any], weights: Sequence[float] | None = None) -> Any:
    """Weighted average of parameter trees (equal weights where none are given); weights are normalised to sum 1.

    Raises:
      ValueError: for no model, trees or shapes that differ, or weights that do not match the models or sum to 0.
    """
    _check_trees(models)
    share = np.ones(len(models)) if weights is None else np.asarray(weights, np.float64)
    if share.shape != (len(models),) or not share.sum():
        raise ValueError(f"average needs one weight per model and a sum other than 0, not {share.tolist()}")
    share = share / share.sum()
    return jax.tree.map(
        lambda *leaves: sum(
            weight * np.asarray(leaf, np.float64) for weight, leaf in zip(share, leaves, strict=True)
        ).astype(leaves[0].dtype),
        *models,
    )


def ties(base: Any, models: Sequence[Any], density: float = 0.2, scale: float = 1.0) -> Any:
    """TIES merging (Yadav et al. 2023): trim, elect a sign, merge the disjoint rest, and add it to the base.

    Per tensor, each model's difference to the base keeps its largest `density` share by magnitude (at least one entry);
    the sign of the sum over models is elected; the mean of the kept entries of that sign, times `scale`, is added.

    Args:
      base: the parameters that the models were trained from.
      models: the models' parameters.
      density: share of entries that is kept, in (0, 1].
      scale: factor of the merged difference.
    Raises:
      ValueError: for a density outside (0, 1], no model, or trees or shapes that differ.
    """
    if not 0.0 < density <= 1.0:
        raise ValueError(f"density is a share in (0, 1], not {density}")
    if not len(models):
        raise ValueError("there is no model to merge")
    _check_trees([base, *models])

    def merge(origin, *leaves):
        start = np.asarray(origin, np.float64)
        change = np.stack([_trim(np.asarray(leaf, np.float64) - start, density) for leaf in leaves])
        agreeing = (np.sign(change) == np.sign(change.sum(axis=0))) & (change != 0)
        count = agreeing.sum(axis=0)
        merged = np.where(agreeing, change, 0.0).sum(axis=0) / np.maximum(count, 1)
        return (start + scale * merged).astype(origin.dtype)

    return jax.tree.map(merge, base, *models)


def _trim(change: Float[np.ndarray, "*S"], density: float) -> Float[np.ndarray, "*S"]:
    """Zeroes all but the largest entries by magnitude; of equal ones at the threshold the first are kept."""
    flat = np.abs(change).ravel()
    if not flat.size:
        return change
    count = max(1, int(np.ceil(density * flat.size - 1e-9)))
    threshold = np.partition(flat, flat.size - count)[flat.size - count]
    keep = flat > threshold
    keep[np.flatnonzero(flat == threshold)[: count - int(keep.sum())]] = True
    return np.where(keep.reshape(change.shape), change, 0.0)


def _check_trees(trees: Sequence[Any]) -> None:
    """Raises a ValueError unless all trees have one structure and one shape per leaf."""
    if not len(trees):
        raise ValueError("there is no model to merge")
    first = jax.tree_util.tree_flatten_with_path(trees[0])
    for number, tree in enumerate(trees[1:], 1):
        leaves, structure = jax.tree_util.tree_flatten_with_path(tree)
        if structure != first[1]:
            raise ValueError(f"model {number} has other parameters than model 0: {structure} against {first[1]}")
        for (path, a), (_, b) in zip(first[0], leaves, strict=True):
            if np.shape(a) != np.shape(b):
                name = jax.tree_util.keystr(path)
                raise ValueError(f"parameter {name} has shape {np.shape(b)} in model {number}, {np.shape(a)} in 0")
