"""Do the gradients of different device families point the same way? Per layer.

In: a gradient of each family, at the same parameters (`gui_rl.learn.step.make_gradient`). Out: cosines by layer, to be
logged, drawn or put into a table. A negative cosine says that a step for one family undoes a part of the other's: what
MRPO's alternation avoids, and what projection takes out (`gui_rl.learn.optim.project_conflicts`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

STACKED = ("layers", "blocks", "deepstack")
"""Subtrees whose arrays have a leading axis of layers."""


def layer_cosines(gradients: Mapping[str, Any]) -> dict[str, Float[np.ndarray, "F F"]]:
    """Cosines between the families' gradients, in the order of the families, for every layer and for all of them.

    Args:
      gradients: by family, trees of equal structure, like the parameters.
    Returns:
      By layer ("text/layers/3", "vision/blocks/0"; everything else by the first two names of its path), and "all".
      Where one gradient is 0 the cosine is 0.
    Raises:
      ValueError: for fewer than two families.
    """
    if len(gradients) < 2:
        raise ValueError(f"cosines need the gradients of two families or more, not of {list(gradients)}")
    vectors: dict[str, list[list[np.ndarray]]] = {}
    for number, tree in enumerate(gradients.values()):
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            names = [str(getattr(entry, "key", entry)) for entry in path]
            array = np.asarray(leaf, np.float64)
            for name, part in _layers(names, array):
                vectors.setdefault(name, [[] for _ in gradients])[number].append(part.ravel())
    flat = {name: np.stack([np.concatenate(parts) for parts in each]) for name, each in vectors.items()}
    dots = {name: rows @ rows.T for name, rows in flat.items()}
    return {name: _cosines(dot) for name, dot in dots.items()} | {"all": _cosines(sum(dots.values()))}


def cosine_metrics(gradients: Mapping[str, Any]) -> dict[str, float]:
    """`layer_cosines` as numbers for a log: "gradient_cosine/LAYER/FAMILY-FAMILY"."""
    names = list(gradients)
    return {
        f"gradient_cosine/{layer}/{names[j]}-{names[i]}": float(cosines[i, j])
        for layer, cosines in layer_cosines(gradients).items()
        for i in range(len(names))
        for j in range(i)
    }


def layers(tree: Any) -> list[str]:
    """The layers' names of parameters (arrays, or their shapes), as in `layer_cosines`, "all" last."""
    found: dict[str, None] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        names = [str(getattr(entry, "key", entry)) for entry in path]
        found |= dict.fromkeys(name for name, _ in _layers(names, np.empty((*leaf.shape[:1], 0))))
    return [*found, "all"]


def _layers(names: list[str], array: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """(layer, its part of the array)."""
    for at, name in enumerate(names):
        if name in STACKED:
            prefix = "/".join(names[: at + 1])
            return [(f"{prefix}/{layer}", array[layer]) for layer in range(len(array))]
    return [("/".join(names[:2]), array)]


def _cosines(dots: Float[np.ndarray, "F F"]) -> Float[np.ndarray, "F F"]:
    norms = np.sqrt(np.diag(dots))
    scale = np.outer(norms, norms)
    return np.divide(dots, scale, out=np.zeros_like(dots), where=scale > 0)
