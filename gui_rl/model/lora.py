"""Low-rank adapters (LoRA: Hu et al. 2021, arXiv 2106.09685): W + scale * A B in the place of a matrix W.

In: the model's parameter specs and name patterns. Out: specs of the adapters, from which initial values, shardings,
training state and checkpoints follow as they do for the model's own parameters, and `merge`, a pure function from
(frozen parameters, adapters) to parameters. A train step differentiates through `merge`, so that only the adapters have
a gradient in the end; the sampler and `hf.save` get the merged parameters.

A matrix that is stacked over layers or experts has an A and a B for each of them. An adapter inherits the sharding of
its matrix: A that of the input axis, B that of the output axis; the rank is not split.

What merging inside the loss costs: a copy of the adapted matrices, and their gradient before it is contracted to A and
B (both sharded like the matrices). Only the optimizer's state shrinks. A merged matrix is stored in the dtype of W: in
bfloat16, changes below half a unit in the last place of W do not show until they have grown.
"""

import fnmatch
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from gui_rl.errors import UserError
from gui_rl.model.config import ModelConfig
from gui_rl.model.params import Init, Params, ParamSpec, map_specs, param_specs

NO_MATRIX = ("vector", "table")
"""Layouts of parameters that are not the matrix of a linear map."""


def specs(cfg: ModelConfig, rank: int, targets: Sequence[str]) -> dict[str, Any]:
    """The tree of adapter specs: at the place of an adapted matrix [*stack, in, out] there are
    {"a": [*stack, in, rank], "b": [*stack, rank, out]}; other parameters are absent.

    `hf_name` is the name that PEFT gives the tensor.

    Args:
      cfg: the policy.
      rank: of A B; at least 1.
      targets: shell patterns over the paths of the matrices, e.g. "text/layers/*" or "*/query".
    Raises:
      UserError: for a rank below 1, no targets, or a pattern that matches no matrix (it names those there are).
    """
    if rank < 1:
        raise UserError(f"LoRA's rank must be at least 1, not {rank}")
    matrices: dict[str, ParamSpec] = {}

    def collect(path: str, spec: ParamSpec) -> None:
        if spec.layout not in NO_MATRIX:
            matrices[path] = spec

    map_specs(collect, param_specs(cfg))
    for pattern in targets or [""]:
        if not fnmatch.filter(matrices, pattern):
            raise UserError(f"LoRA: no matrix is called {pattern!r}; there are {', '.join(matrices)}")
    tree: dict[str, Any] = {}
    for path, spec in matrices.items():
        if any(fnmatch.fnmatchcase(path, pattern) for pattern in targets):
            *parents, name = path.split("/")
            node = tree
            for parent in parents:
                node = node.setdefault(parent, {})
            node[name] = _adapter(spec, rank)
    return tree


def _adapter(spec: ParamSpec, rank: int) -> dict[str, ParamSpec]:
    (*stack, inputs, outputs), (*stack_axes, in_axis, out_axis) = spec.shape, spec.logical_axes
    name = f"base_model.model.{spec.hf_name.removesuffix('.weight')}"
    down, up = (*stack_axes, in_axis, None), (*stack_axes, None, out_axis)
    return {
        "a": ParamSpec((*stack, inputs, rank), down, Init(std=inputs**-0.5), f"{name}.lora_A.weight", "linear"),
        "b": ParamSpec((*stack, rank, outputs), up, Init(), f"{name}.lora_B.weight", "linear"),
    }


def init(adapter_specs: Params, key: jax.Array) -> dict[str, Any]:
    """Float32 adapters that change nothing yet: A normal with standard deviation in**-0.5, B zero.

    Like `init_params`, values depend on an adapter's path and `key` alone.
    """

    def draw(path: str, spec: ParamSpec) -> jax.Array:
        noise = jax.random.normal(jax.random.fold_in(key, zlib.crc32(path.encode())), spec.shape, jnp.float32)
        return spec.init.std * noise

    return map_specs(draw, adapter_specs)


def merge(params: Params, adapters: Params, scale: float = 1.0) -> dict[str, Any]:
    """`params` with W + scale * A B in the place of every adapted W; pure, and differentiable by both.

    Usual scales are alpha / rank. The result has the structure, shapes and dtypes of `params`; what has no adapter is
    passed through.
    """
    merged = dict(params)
    for name, adapter in adapters.items():
        inner = params[name]
        if isinstance(inner, Mapping):
            merged[name] = merge(inner, adapter, scale)
        else:
            merged[name] = (inner + scale * (adapter["a"] @ adapter["b"])).astype(inner.dtype)
    return merged
