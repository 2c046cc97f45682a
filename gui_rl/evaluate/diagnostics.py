"""Do the gradients of different device families point the same way? Per layer.

In: a gradient of each family, at the same parameters (`gui_rl.learn.step.make_gradient`). Out: cosines by layer, to be
logged, drawn or put into a table. A negative cosine says that a step for one family undoes a part of the other's: what
MRPO's alternation avoids, and what projection takes out (`gui_rl.learn.optim.project_conflicts`). `Cosines` measures
them while a run goes on. How far trainer and sampler agree needs no measurement of its own: every step's metrics say it
(`gui_rl.learn.step.AGREEMENT_BANDS`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gui_rl.data.batch import Batch
from gui_rl.data.packing import Sample
from gui_rl.data.samples import family_batches
from gui_rl.learn.mrpo import Filled, MRPOConfig
from gui_rl.learn.state import TrainState
from gui_rl.learn.step import place, process_rows
from gui_rl.model.config import ModelConfig

STACKED = ("layers", "blocks", "deepstack")
"""Subtrees whose arrays have a leading axis of layers."""


def layer_cosines(gradients: Mapping[str, Any]) -> dict[str, Float[np.ndarray, "F F"]]:
    """Cosines between the families' gradients, in the order of the families, for every layer and for all of them.

    Args:
      gradients: by family, trees of equal structure, like the parameters; their products are summed where they are.
    Returns:
      By layer ("text/layers/3", "vision/blocks/0"; everything else by the first two names of its path), and "all".
      Where one gradient is 0 the cosine is 0.
    Raises:
      ValueError: for fewer than two families.
    """
    if len(gradients) < 2:
        raise ValueError(f"cosines need the gradients of two families or more, not of {list(gradients)}")
    dots = {name: np.asarray(dot, np.float64) for name, dot in _dots(tuple(gradients.values())).items()}
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
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return [*dict.fromkeys(name for path, leaf in leaves for name in _layers(path, leaf)), "all"]


class Cosines:
    """Measures, every `config.cosines_every` steps, the gradients of each family's latest samples at the present
    parameters; for `online.make_update(diagnose=...)`. Where families take turns, those of the others are some steps
    old, and are weighed as such.

    Args:
      gradient: from `learn.step.make_gradient`, with the run's loss.
      cfg, config, mesh: the policy's configuration, settings, devices.
      families: in the order of the names.
    """

    def __init__(
        self,
        gradient: Callable[[Any, Batch], Any],
        cfg: ModelConfig,
        config: MRPOConfig,
        mesh: Any,
        families: Sequence[str],
    ):
        self._gradient, self._cfg, self._config, self._mesh = gradient, cfg, config, mesh
        self._latest: dict[str, list[Sample]] = {family: [] for family in families}

    def __call__(self, state: TrainState, filled: Filled) -> dict[str, float]:
        """`cosine_metrics` where they are due and two families have samples, else nothing."""
        for family in set(filled.families):
            mine = [s for s, device in zip(filled.samples, filled.families, strict=True) if device == family]
            self._latest[family] = mine
        number = int(state.step) // self._config.epochs + 1
        known = {family: samples for family, samples in self._latest.items() if samples}
        if not self._config.cosines_every or number % self._config.cosines_every or len(known) < 2:
            return {}
        samples = [sample for mine in known.values() for sample in mine]
        owners = [family for family, mine in known.items() for _ in mine]
        whole = family_batches(samples, owners, list(known), self._cfg, self._config.shape)
        count = len(whole.targets) // len(known)
        gradients = {}
        for index, family in enumerate(known):
            batch = jax.tree.map(lambda leaf, first=index * count: leaf[first : first + count], whole)
            gradients[family] = self._gradient(state.params, place(process_rows(batch), self._mesh))
        return cosine_metrics(gradients)


@jax.jit
def _dots(gradients: tuple[Any, ...]) -> dict[str, Float[Array, "F F"]]:
    """Products of every two gradients, by layer."""
    dots: dict[str, Array] = {}
    paths = jax.tree_util.tree_leaves_with_path(gradients[0])
    for (path, first), *leaves in zip(paths, *map(jax.tree.leaves, gradients), strict=True):
        names = _layers(path, first)
        flat = jnp.stack(leaves).astype(jnp.float32).reshape(len(leaves), len(names), -1)
        each = jnp.einsum("flx,glx->lfg", flat, flat, precision=jax.lax.Precision.HIGHEST)
        for name, dot in zip(names, each, strict=True):
            dots[name] = dots[name] + dot if name in dots else dot
    return dots


def _layers(path: tuple, leaf: Any) -> list[str]:
    """The layers that a leaf of the parameters has parts in: its own, or those along its first axis."""
    names = [str(getattr(entry, "key", entry)) for entry in path]
    for at, name in enumerate(names):
        if name in STACKED:
            return [f"{'/'.join(names[: at + 1])}/{layer}" for layer in range(leaf.shape[0])]
    return ["/".join(names[:2])]


def _cosines(dots: Float[np.ndarray, "F F"]) -> Float[np.ndarray, "F F"]:
    norms = np.sqrt(np.diag(dots))
    scale = np.outer(norms, norms)
    return np.divide(dots, scale, out=np.zeros_like(dots), where=scale > 0)
