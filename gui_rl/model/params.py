"""Parameters, declared once. `param_specs(cfg)` is a tree of `ParamSpec`; everything else is derived from it:

1. initial values (`init_params`),
2. abstract shapes (`abstract_params`),
3. shardings (`shardings`),
4. Hugging Face names and layouts (`gui_rl.model.hf`).

Layers are stacked along a leading "layers" axis; linear weights are [in, out].
"""

import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from gui_rl.errors import UserError
from gui_rl.model.config import ModelConfig, TextConfig

Params = Mapping[str, Any]
MeshAxes = str | tuple[str, ...] | None
Layout = Literal["vector", "linear", "table", "patch", "experts"]


@dataclass(frozen=True)
class Init:
    """Initial values drawn from a normal distribution; `std=0` gives the constant `mean`."""

    mean: float = 0.0
    std: float = 0.0


@dataclass(frozen=True)
class ParamSpec:
    """One parameter: its shape, the logical name of every axis, how it starts, and its place in a checkpoint.

    `hf_name` has `{}` in place of the layer number where the first axis is "layers". `layout` says how the file's
    tensor becomes ours: "linear" is stored [out, in], "patch" as a convolution kernel [out, channels, frames, height,
    width], "experts" as [experts, in, out] or [experts, out, in], the others as they are. `hf_part` = (number, count):
    this parameter is one of `count` equal parts of the file's tensor along the out axis.
    """

    shape: tuple[int, ...]
    logical_axes: tuple[str, ...]
    init: Init
    hf_name: str
    layout: Layout = "vector"
    hf_part: tuple[int, int] = (0, 1)

    @property
    def stacked(self) -> bool:
        """Whether its first axis is "layers"."""
        return "{}" in self.hf_name


@dataclass(frozen=True)
class ShardingRules:
    """Which mesh axes (`replica`, `fsdp`, `expert`, `tensor`) each logical axis is split over; None = not split.

    The default is fully sharded data parallelism over `fsdp` with tensor parallelism inside a layer. Rows are split
    over `expert` too: outside of the experts it is one more axis of data parallelism.
    """

    batch: MeshAxes = ("replica", "fsdp", "expert")
    layers: MeshAxes = None
    embed: MeshAxes = "fsdp"
    vocab: MeshAxes = "tensor"
    heads: MeshAxes = "tensor"
    kv_heads: MeshAxes = "tensor"
    head_dim: MeshAxes = None
    mlp: MeshAxes = "tensor"
    experts: MeshAxes = "expert"
    router: MeshAxes = None
    vision_in: MeshAxes = None
    vision_embed: MeshAxes = "fsdp"
    vision_heads: MeshAxes = "tensor"
    vision_mlp: MeshAxes = "tensor"
    vision_positions: MeshAxes = None
    merge_in: MeshAxes = "fsdp"
    merge_mlp: MeshAxes = "tensor"

    def spec(self, logical_axes: tuple[str | None, ...]) -> PartitionSpec:
        """The partition of an array with these logical axes.

        `UserError` if one mesh axis would split two of its axes.
        """
        known = {item.name for item in fields(self)}
        taken: dict[str, str] = {}
        for logical in logical_axes:
            if logical is None:
                continue
            if logical not in known:
                raise UserError(f'ShardingRules has no logical axis "{logical}"')
            for mesh_axis in mesh_axes(getattr(self, logical)):
                if mesh_axis in taken:
                    raise UserError(
                        f'ShardingRules: "{taken[mesh_axis]}" and "{logical}" of an array {logical_axes} are both '
                        f'split over the mesh axis "{mesh_axis}"'
                    )
                taken[mesh_axis] = logical
        return PartitionSpec(*(None if logical is None else getattr(self, logical) for logical in logical_axes))


def mesh_axes(axes: MeshAxes) -> tuple[str, ...]:
    """A rule's mesh axes as a tuple."""
    return () if axes is None else (axes,) if isinstance(axes, str) else axes


@dataclass(frozen=True)
class _Scales:
    """Initial scales of the two styles (see `ModelConfig.init_style`)."""

    style: str

    def matrix(self, inputs: int, gain: float = 1.0) -> Init:
        return Init(std=0.02 if self.style == "qwen" else gain * inputs**-0.5)

    def output(self, inputs: int) -> Init:
        """A matrix that writes into the residual stream."""
        return self.matrix(inputs, gain=0.3)

    def embedding(self, scaled_std: float) -> Init:
        return Init(std=0.02 if self.style == "qwen" else scaled_std)

    def final_norm(self, width: int, tied: bool) -> Init:
        """Unit embeddings as a tied head would give logits of size sqrt(width); the final norm takes that back."""
        return Init(mean=width**-0.5 if tied and self.style == "scaled" else 1.0)


ONE, ZERO = Init(mean=1.0), Init()


@dataclass(frozen=True)
class _Scope:
    """A place in the tree: the Hugging Face prefix and the leading stacked axis that all its parameters share."""

    prefix: str
    layers: int | None = None
    specs: dict[str, Any] = field(default_factory=dict)

    def add(
        self,
        name: str,
        hf: str,
        shape: tuple[int, ...],
        axes: tuple[str, ...],
        init: Init,
        layout: Layout = "vector",
        hf_part: tuple[int, int] = (0, 1),
    ) -> None:
        lead = ((self.layers,), ("layers",)) if self.layers is not None else ((), ())
        self.specs[name] = ParamSpec(lead[0] + shape, lead[1] + axes, init, self.prefix + hf, layout, hf_part)

    def linear(self, name: str, hf: str, shape: tuple[int, int], axes: tuple[str, str], init: Init, bias: bool) -> None:
        self.add(name, f"{hf}.weight", shape, axes, init, "linear")
        if bias:
            self.add(f"{name}_bias", f"{hf}.bias", shape[1:], axes[1:], ZERO)

    def layer_norm(self, name: str, hf: str, width: int, axis: str) -> None:
        self.add(name, f"{hf}.weight", (width,), (axis,), ONE)
        self.add(f"{name}_bias", f"{hf}.bias", (width,), (axis,), ZERO)


def param_specs(cfg: ModelConfig) -> dict[str, Any]:
    """The tree of `ParamSpec` of a model: {"vision": {...}, "text": {...}}.

    "head" is there only where it is not tied, "deepstack" only where there are DeepStack features.
    """
    return {"vision": _vision_specs(cfg), "text": _text_specs(cfg)}


def _text_specs(cfg: ModelConfig) -> dict[str, Any]:
    text, scales = cfg.text, _Scales(cfg.init_style)
    width, hidden, dim = text.hidden_size, text.intermediate_size, text.head_dim
    query, key = text.num_attention_heads * dim, text.num_key_value_heads * dim
    layer = _Scope("model.language_model.layers.{}.", text.num_hidden_layers)
    layer.add("attention_norm", "input_layernorm.weight", (width,), ("embed",), ONE)
    layer.linear("query", "self_attn.q_proj", (width, query), ("embed", "heads"), scales.matrix(width), bias=False)
    layer.linear("key", "self_attn.k_proj", (width, key), ("embed", "kv_heads"), scales.matrix(width), bias=False)
    layer.linear("value", "self_attn.v_proj", (width, key), ("embed", "kv_heads"), scales.matrix(width), bias=False)
    layer.linear("output", "self_attn.o_proj", (query, width), ("heads", "embed"), scales.output(query), bias=False)
    layer.add("query_norm", "self_attn.q_norm.weight", (dim,), ("head_dim",), ONE)
    layer.add("key_norm", "self_attn.k_norm.weight", (dim,), ("head_dim",), ONE)
    layer.add("mlp_norm", "post_attention_layernorm.weight", (width,), ("embed",), ONE)
    if text.num_experts:
        _add_experts(layer, text, scales)
    else:
        layer.linear("gate", "mlp.gate_proj", (width, hidden), ("embed", "mlp"), scales.matrix(width), bias=False)
        layer.linear("up", "mlp.up_proj", (width, hidden), ("embed", "mlp"), scales.matrix(width), bias=False)
        layer.linear("down", "mlp.down_proj", (hidden, width), ("mlp", "embed"), scales.output(hidden), bias=False)
    top = _Scope("")
    table = (text.vocab_size, width), ("vocab", "embed")
    top.add("embed", "model.language_model.embed_tokens.weight", *table, scales.embedding(1.0), "table")
    norm = scales.final_norm(width, cfg.tie_word_embeddings)
    top.add("norm", "model.language_model.norm.weight", (width,), ("embed",), norm)
    if not cfg.tie_word_embeddings:
        top.linear("head", "lm_head", table[0][::-1], table[1][::-1], scales.matrix(width), bias=False)
    return {**top.specs, "layers": layer.specs}


def _add_experts(layer: _Scope, text: TextConfig, scales: _Scales) -> None:
    count, width, hidden = text.num_experts, text.hidden_size, text.moe_intermediate_size
    layer.linear("router", "mlp.gate", (width, count), ("embed", "router"), scales.matrix(width), bias=False)
    into, out_of = ("experts", "embed", "mlp"), ("experts", "mlp", "embed")
    for number, name in enumerate(("experts_gate", "experts_up")):
        shape, fused = (count, width, hidden), "mlp.experts.gate_up_proj"
        layer.add(name, fused, shape, into, scales.matrix(width), "experts", hf_part=(number, 2))
    shape = (count, hidden, width)
    layer.add("experts_down", "mlp.experts.down_proj", shape, out_of, scales.output(hidden), "experts")


def _vision_specs(cfg: ModelConfig) -> dict[str, Any]:
    vision, scales = cfg.vision, _Scales(cfg.init_style)
    width, hidden = vision.hidden_size, vision.intermediate_size
    top = _Scope("model.visual.")
    patch = (vision.patch_values, width), ("vision_in", "vision_embed")
    top.add("patch", "patch_embed.proj.weight", *patch, scales.matrix(vision.patch_values), "patch")
    top.add("patch_bias", "patch_embed.proj.bias", (width,), ("vision_embed",), ZERO)
    table = (vision.num_position_embeddings, width), ("vision_positions", "vision_embed")
    top.add("positions", "pos_embed.weight", *table, scales.embedding(0.5), "table")
    block = _Scope("model.visual.blocks.{}.", vision.depth)
    into_heads, from_heads = ("vision_embed", "vision_heads"), ("vision_heads", "vision_embed")
    into_mlp, from_mlp = ("vision_embed", "vision_mlp"), ("vision_mlp", "vision_embed")
    block.layer_norm("attention_norm", "norm1", width, "vision_embed")
    block.linear("qkv", "attn.qkv", (width, 3 * width), into_heads, scales.matrix(width), bias=True)
    block.linear("output", "attn.proj", (width, width), from_heads, scales.output(width), bias=True)
    block.layer_norm("mlp_norm", "norm2", width, "vision_embed")
    block.linear("up", "mlp.linear_fc1", (width, hidden), into_mlp, scales.matrix(width), bias=True)
    block.linear("down", "mlp.linear_fc2", (hidden, width), from_mlp, scales.output(hidden), bias=True)
    merged, out = width * vision.merge_unit, vision.out_hidden_size
    merger = _Scope("model.visual.merger.")
    deepstack = _Scope("model.visual.deepstack_merger_list.{}.", len(vision.deepstack_visual_indexes))
    # The merger normalises patches, DeepStack mergers normalise merged patches.
    merger.layer_norm("norm", "norm", width, "vision_embed")
    deepstack.layer_norm("norm", "norm", merged, "merge_in")
    for scope, last in ((merger, scales.matrix(merged)), (deepstack, scales.output(merged))):
        scope.linear("up", "linear_fc1", (merged, merged), ("merge_in", "merge_mlp"), scales.matrix(merged), bias=True)
        scope.linear("down", "linear_fc2", (merged, out), ("merge_mlp", "embed"), last, bias=True)
    specs = {**top.specs, "blocks": block.specs, "merger": merger.specs}
    return {**specs, "deepstack": deepstack.specs} if deepstack.layers else specs


def is_spec(node: object) -> bool:
    """Whether a node of a tree is a leaf of `param_specs`."""
    return isinstance(node, ParamSpec)


def map_specs(function: Callable[[str, ParamSpec], Any], specs: Params) -> dict[str, Any]:
    """`function(path, spec)` at every leaf, where path is like "text/layers/query"."""
    return jax.tree_util.tree_map_with_path(
        lambda path, spec: function("/".join(key.key for key in path), spec), specs, is_leaf=is_spec
    )


def init_params(cfg: ModelConfig, key: jax.Array) -> dict[str, Any]:
    """Initial parameters.

    A parameter's values depend on its path and `key` alone, not on its neighbours or on its sharding.
    """

    def draw(path: str, spec: ParamSpec) -> jax.Array:
        if spec.init.std == 0.0:
            return jnp.full(spec.shape, spec.init.mean, cfg.param_dtype)
        noise = jax.random.normal(jax.random.fold_in(key, zlib.crc32(path.encode())), spec.shape, jnp.float32)
        return (spec.init.mean + spec.init.std * noise).astype(cfg.param_dtype)

    return map_specs(draw, param_specs(cfg))


def abstract_params(cfg: ModelConfig) -> dict[str, Any]:
    """Shapes and dtypes of the parameters, without values."""
    return map_specs(lambda _, spec: jax.ShapeDtypeStruct(spec.shape, jnp.dtype(cfg.param_dtype)), param_specs(cfg))


def shardings(specs: Params, mesh: Mesh, rules: ShardingRules) -> dict[str, Any]:
    """A `NamedSharding` for every parameter. `UserError` names the parameter that a mesh axis does not divide."""

    def place(path: str, spec: ParamSpec) -> NamedSharding:
        partition = rules.spec(spec.logical_axes)
        for size, axis, over in zip(spec.shape, spec.logical_axes, partition, strict=True):
            for name in mesh_axes(over):
                if name not in mesh.shape:
                    raise UserError(
                        f'ShardingRules: "{axis}" is split over "{name}", but the mesh has {tuple(mesh.axis_names)}'
                    )
            ways = math.prod(mesh.shape[name] for name in mesh_axes(over))
            if size % ways:
                raise UserError(
                    f'parameter {path}: axis "{axis}" of size {size} cannot be split {ways} ways (over {over})'
                )
        return NamedSharding(mesh, partition)

    return map_specs(place, specs)


def count_params(cfg: ModelConfig) -> int:
    """Number of parameters, tied weights counted once."""
    return sum(math.prod(spec.shape) for spec in jax.tree.leaves(param_specs(cfg), is_leaf=is_spec))


def count_active_params(cfg: ModelConfig) -> int:
    """Number of parameters that one token uses: of the experts, those that it is sent to."""

    def active(spec: ParamSpec) -> int:
        size = math.prod(spec.shape)
        return size * cfg.text.num_experts_per_tok // cfg.text.num_experts if "experts" in spec.logical_axes else size

    return sum(map(active, jax.tree.leaves(param_specs(cfg), is_leaf=is_spec)))
