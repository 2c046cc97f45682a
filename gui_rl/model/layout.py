"""How the arrays of a program are split over devices, for the layers inside it that must know.

In: a mesh and sharding rules, declared around the trace of a jitted function (`on_mesh`). Out: `current`, read by
attention in order to run a kernel on each shard, and by mixtures of experts in order to exchange tokens; `split_rows`,
which keeps activations split by rows; `on_each_shard`, which runs a function on each shard's rows. Without a
declaration nothing is constrained, and attention is XLA's.
"""

import contextlib
import math
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, get_args

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float

from gui_rl.errors import UserError
from gui_rl.model.params import ShardingRules, mesh_axes

Kernel = Literal["auto", "xla", "splash", "cudnn"]


@dataclass(frozen=True)
class Layout:
    """A mesh, its rules, and the attention kernel that is wanted on it ("auto": its platform's)."""

    mesh: Mesh
    rules: ShardingRules
    kernel: Kernel = "auto"

    @property
    def platform(self) -> str:
        """What its devices are: "cpu", "gpu" or "tpu" (also where they are only described)."""
        return self.mesh.devices.flat[0].platform

    def mesh_axes(self, axis: str) -> tuple[str, ...]:
        """The mesh axes that a logical axis is split over."""
        return mesh_axes(self.rules.spec((axis,))[0])

    def ways(self, axis: str) -> int:
        """Into how many parts a logical axis is split."""
        return math.prod(self.mesh.shape[name] for name in self.mesh_axes(axis))


_LAYOUT: ContextVar[Layout | None] = ContextVar("layout", default=None)


@contextlib.contextmanager
def on_mesh(mesh: Mesh, rules: ShardingRules, kernel: Kernel = "auto") -> Iterator[None]:
    """What is traced within it is for this mesh; enter it inside the function that is jitted.

    `UserError` for an unknown kernel.
    """
    if kernel not in get_args(Kernel):
        raise UserError(f'no attention kernel is called "{kernel}"; there are {", ".join(get_args(Kernel))}')
    token = _LAYOUT.set(Layout(mesh, rules, kernel))
    try:
        yield
    finally:
        _LAYOUT.reset(token)


def current() -> Layout | None:
    """The layout that was declared, if any."""
    return _LAYOUT.get()


def split_rows(x: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
    """Keeps activations split by rows alone: so that the compiler gathers weights, and never activations.

    Rows that do not divide over the devices are left to the compiler.
    """
    layout = current()
    if layout is None or x.shape[0] % layout.ways("batch"):
        return x
    return jax.lax.with_sharding_constraint(x, NamedSharding(layout.mesh, layout.rules.spec(("batch", None, None))))


def on_each_shard(function: Callable[..., Any], whole: Any, *rows: Float[Array, "B ..."]) -> Any:
    """`function(whole, *rows)`, computed on each shard's rows apart; its results are split by rows like its arguments.

    `whole` is gathered once, and its gradient is added up over the shards once: a loop over a weight inside `function`
    exchanges nothing. Axes of the mesh that do not split rows are left to the compiler.
    """
    layout = current()
    if layout is None or layout.ways("batch") == 1 or any(x.shape[0] % layout.ways("batch") for x in rows):
        return function(whole, *rows)
    split = layout.rules.spec(("batch",))
    return jax.shard_map(
        function,
        mesh=layout.mesh,
        in_specs=(PartitionSpec(), *[split] * len(rows)),
        out_specs=split,
        axis_names=set(layout.mesh_axes("batch")),
        check_vma=False,
    )(whole, *rows)
