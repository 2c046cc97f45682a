"""Hugging Face checkpoints: safetensors in, sharded parameters out, and back.

In: a directory with `config.json` and `model.safetensors` (or its shards with `model.safetensors.index.json`). Out:
(cfg, params). The name map is derived from the parameter specs. Every tensor of the file must be used, and every
parameter found: anything missing, unknown or misshapen is an error that names it. Each process reads only the slices
that its own devices hold.
"""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, SingleDeviceSharding
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from gui_rl.errors import UserError
from gui_rl.model.config import ModelConfig
from gui_rl.model.params import ParamSpec, ShardingRules, is_spec, map_specs, param_specs, shardings

CONFIG, SINGLE, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
PART = ".part"  # suffix of a file that is still being written
MAX_FILE_BYTES = 4 * 2**30


def hf_names(spec: ParamSpec) -> list[str]:
    """The tensors that make up a parameter: one a layer where it is stacked."""
    return [spec.hf_name.format(layer) for layer in range(spec.shape[0])] if spec.stacked else [spec.hf_name]


def hf_shape(spec: ParamSpec, cfg: ModelConfig) -> tuple[int, ...]:
    """The shape of each of those tensors in the file."""
    shape = spec.shape[1:] if spec.stacked else spec.shape
    if spec.layout == "patch":
        vision = cfg.vision
        return shape[1], vision.in_channels, vision.temporal_patch_size, vision.patch_size, vision.patch_size
    return shape[::-1] if spec.layout == "linear" else shape


def load(
    directory: str | Path, cfg: ModelConfig | None = None, mesh: Mesh | None = None, rules: ShardingRules | None = None
) -> tuple[ModelConfig, dict[str, Any]]:
    """Reads a checkpoint: (cfg, params).

    `cfg=None` takes it from `config.json`; with a mesh, parameters are placed by `rules` (default `ShardingRules()`).
    Host memory beyond the parameters themselves stays within two shards of the largest (stacked) parameter.
    Raises `UserError` for a missing file and for a missing, unknown or misshapen tensor.
    """
    directory = Path(directory)
    if not directory.is_dir():
        raise UserError(f"no checkpoint directory at {directory}")
    if cfg is None:
        cfg = ModelConfig.from_hf(_read_json(directory / CONFIG))
    specs = param_specs(cfg)
    if mesh is None:
        place = map_specs(lambda _, spec: SingleDeviceSharding(jax.local_devices()[0]), specs)
    else:
        place = shardings(specs, mesh, rules or ShardingRules())
    with ExitStack() as stack:
        files = {path: stack.enter_context(_open(path)) for path in _weight_files(directory)}
        source = {name: file for file in files.values() for name in file.keys()}  # noqa: SIM118
        _check(source, specs, cfg, directory)
        params = jax.tree.map(lambda spec, sharding: _read(spec, sharding, source, cfg), specs, place, is_leaf=is_spec)
    return cfg, params


def save(directory: str | Path, cfg: ModelConfig, params: Any) -> None:
    """Writes `config.json` and safetensors (several files and an index beyond 4 GiB) that transformers loads.

    Values are stored in `cfg.param_dtype`. An earlier checkpoint in the directory is replaced only once the new files
    are complete. With several processes every one must call this; the first writes.
    """
    directory = Path(directory)
    writer = jax.process_index() == 0
    if writer:
        directory.mkdir(parents=True, exist_ok=True)
    item_bytes = np.dtype(cfg.param_dtype).itemsize
    plan: list[list[tuple[str, ParamSpec, Any, int]]] = [[]]
    room = MAX_FILE_BYTES
    leaves = zip(jax.tree.leaves(param_specs(cfg), is_leaf=is_spec), jax.tree.leaves(params), strict=True)
    for spec, leaf in leaves:
        for layer, name in enumerate(hf_names(spec)):
            size = item_bytes * int(np.prod(hf_shape(spec, cfg)))
            if size > room and plan[-1]:
                plan.append([])
                room = MAX_FILE_BYTES
            plan[-1].append((name, spec, leaf, layer))
            room -= size
    weight_map: dict[str, str] = {}
    for number, part in enumerate(plan, start=1):
        file = SINGLE if len(plan) == 1 else f"model-{number:05d}-of-{len(plan):05d}.safetensors"
        tensors = {name: _to_file(spec, leaf, layer, cfg) for name, spec, leaf, layer in part}
        weight_map |= dict.fromkeys(tensors, file)
        if writer:
            save_file(tensors, directory / f"{file}{PART}", metadata={"format": "pt"})
    if writer:
        total = item_bytes * sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(params))
        _publish(directory, weight_map, total, cfg)


def _publish(directory: Path, weight_map: dict[str, str], total_bytes: int, cfg: ModelConfig) -> None:
    """Puts finished files in the place of an earlier checkpoint's."""
    files = set(weight_map.values())
    for file in files:
        (directory / f"{file}{PART}").replace(directory / file)
    if len(files) > 1:
        document = {"metadata": {"total_size": total_bytes}, "weight_map": weight_map}
        (directory / INDEX).write_text(json.dumps(document, indent=1))
    else:
        (directory / INDEX).unlink(missing_ok=True)
    (directory / CONFIG).write_text(json.dumps(cfg.to_hf(), indent=1))
    for stale in directory.glob("model*.safetensors"):
        if stale.name not in files:
            stale.unlink()


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise UserError(f"no checkpoint at {path.parent}: {path.name} is missing")
    try:
        return json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise UserError(f"{path} is not JSON: {error}") from None


def _weight_files(directory: Path) -> list[Path]:
    if (directory / INDEX).is_file():
        names = sorted(set(_read_json(directory / INDEX)["weight_map"].values()))
    else:
        names = [SINGLE]
    for name in names:
        if not (directory / name).is_file():
            raise UserError(f"no checkpoint at {directory}: {name} is missing")
    return [directory / name for name in names]


def _open(path: Path) -> Any:
    try:
        return safe_open(path, framework="np")
    except SafetensorError as error:
        raise UserError(f"{path} is not a safetensors file: {error}") from None


def _check(source: dict[str, Any], specs: Any, cfg: ModelConfig, directory: Path) -> None:
    expected = {name: spec for spec in jax.tree.leaves(specs, is_leaf=is_spec) for name in hf_names(spec)}
    for name, spec in expected.items():
        if name not in source:
            raise UserError(f"{directory}: tensor {name} is missing")
        shape = tuple(source[name].get_slice(name).get_shape())
        if shape != hf_shape(spec, cfg):
            raise UserError(
                f"{directory}: tensor {name} has shape {shape}, the configuration needs {hf_shape(spec, cfg)}"
            )
    for name in source:
        if name not in expected and not _is_copy_of_embedding(name, source, specs, cfg):
            raise UserError(f"{directory}: tensor {name} belongs to no parameter of this configuration")


def _is_copy_of_embedding(name: str, source: dict[str, Any], specs: Any, cfg: ModelConfig) -> bool:
    """A tied checkpoint may hold its head a second time; it must then be the embedding."""
    if name != "lm_head.weight" or not cfg.tie_word_embeddings:
        return False
    embed = specs["text"]["embed"].hf_name
    return np.array_equal(source[name].get_tensor(name), source[embed].get_tensor(embed))


def _read(spec: ParamSpec, sharding: jax.sharding.Sharding, source: dict[str, Any], cfg: ModelConfig) -> jax.Array:
    names = hf_names(spec)

    def shard(index: tuple[slice, ...]) -> np.ndarray:
        if not spec.stacked:
            return np.ascontiguousarray(_read_slice(spec, names[0], index, source), dtype=cfg.param_dtype)
        layers = range(*index[0].indices(spec.shape[0]))
        shape = tuple(len(range(*part.indices(size))) for part, size in zip(index, spec.shape, strict=True))
        out = np.empty(shape, cfg.param_dtype)
        for row, layer in enumerate(layers):
            out[row] = _read_slice(spec, names[layer], index[1:], source)
        return out

    return jax.make_array_from_callback(spec.shape, sharding, shard)


def _read_slice(spec: ParamSpec, name: str, index: tuple[slice, ...], source: dict[str, Any]) -> np.ndarray:
    if spec.layout == "patch":
        kernel = source[name].get_tensor(name)
        return kernel.reshape(kernel.shape[0], -1).T[index]
    if spec.layout == "linear":
        return source[name].get_slice(name)[index[::-1]].T
    return source[name].get_slice(name)[index]


def _to_file(spec: ParamSpec, leaf: jax.Array, layer: int, cfg: ModelConfig) -> np.ndarray:
    part = leaf[layer] if spec.stacked else leaf
    whole = part if part.is_fully_addressable else multihost_utils.process_allgather(part, tiled=True)
    value = np.asarray(whole).astype(cfg.param_dtype, copy=False)
    if spec.layout in ("linear", "patch"):
        value = value.T
    return np.ascontiguousarray(value.reshape(hf_shape(spec, cfg)))
