"""Hugging Face checkpoints: safetensors in, sharded parameters out, and back.

In: a directory with `config.json` and `model.safetensors` (or its shards with `model.safetensors.index.json`). Out:
(cfg, params). The name map is derived from the parameter specs. Every tensor of the file must be used, and every
parameter found: anything missing, unknown or misshapen is an error that names it. Each process reads only the slices
that its own devices hold, a few at a time: a model may be far larger than the host's memory.
"""

import dataclasses
import json
import math
from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, SingleDeviceSharding
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from gui_rl.errors import UserError
from gui_rl.model.config import ModelConfig
from gui_rl.model.params import ParamSpec, ShardingRules, is_spec, map_specs, param_specs, shardings

_Source = list[tuple[ParamSpec, jax.Array, int]]  # the parameters (and layer) that make up one tensor of a file
CONFIG, SINGLE, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
PART = ".part"  # suffix of a file that is still being written
MAX_FILE_BYTES = 4 * 2**30
CHUNK_BYTES = 16 * 2**20  # the buffer on the way to a device is at least so large, else as the largest tensor


def hf_names(spec: ParamSpec) -> list[str]:
    """The tensors that make up a parameter: one a layer where it is stacked."""
    return [spec.hf_name.format(layer) for layer in range(spec.shape[0])] if spec.stacked else [spec.hf_name]


def hf_shape(spec: ParamSpec, cfg: ModelConfig) -> tuple[int, ...]:
    """The shape of each of those tensors in the file (of experts: in published files, see `_turned`)."""
    shape = spec.shape[1:] if spec.stacked else spec.shape
    shape = *shape[:-1], shape[-1] * spec.hf_part[1]
    if spec.layout == "patch":
        vision = cfg.vision
        return shape[1], vision.in_channels, vision.temporal_patch_size, vision.patch_size, vision.patch_size
    return shape[::-1] if spec.layout == "linear" else shape


def load(
    directory: str | Path, cfg: ModelConfig | None = None, mesh: Mesh | None = None, rules: ShardingRules | None = None
) -> tuple[ModelConfig, dict[str, Any]]:
    """Reads a checkpoint: (cfg, params).

    `cfg=None` takes it from `config.json`; with a mesh, parameters are placed by `rules` (default `ShardingRules()`).
    What the host holds at a time stays within twice the largest tensor of the files (or `CHUNK_BYTES`): layers are put
    into their place on the device a chunk at a time.
    Raises `UserError` for a missing file, for a `config.json` that describes another model than `cfg`, and for a
    missing, unknown or misshapen tensor.
    """
    directory = Path(directory)
    if not directory.is_dir():
        raise UserError(f"no checkpoint directory at {directory}")
    if cfg is None:
        cfg = read_config(directory)
    elif (directory / CONFIG).is_file():
        _check_config(read_config(directory), cfg, directory)
    specs = param_specs(cfg)
    if mesh is None:
        place = map_specs(lambda _, spec: SingleDeviceSharding(jax.local_devices()[0]), specs)
    else:
        place = shardings(specs, mesh, rules or ShardingRules())
    with ExitStack() as stack:
        files = {path: stack.enter_context(_open(path)) for path in _weight_files(directory)}
        source = {name: file for file in files.values() for name in file.keys()}  # noqa: SIM118
        _check(source, specs, cfg, directory)
        size = max(CHUNK_BYTES, *(_bytes(hf_shape(spec, cfg), cfg) for spec in _leaves(specs)))
        dtype = np.dtype(cfg.param_dtype)
        # jax takes aligned numpy memory for its own on CPU instead of copying it: the buffer starts off by one
        read = _Reader(source, np.empty(1 + size // dtype.itemsize, dtype)[1:])
        params = jax.tree.map(read.parameter, specs, place, is_leaf=is_spec)
    return cfg, params


def save(directory: str | Path, cfg: ModelConfig, params: Any, dtype: str | None = None) -> None:
    """Writes `config.json` and safetensors (several files and an index beyond 4 GiB) that transformers loads.

    Values are stored in `dtype` (default `cfg.param_dtype`). An earlier checkpoint in the directory is replaced only
    once the new files are complete. With several processes every one must call this; the first writes.
    """
    directory = Path(directory)
    cfg = cfg if dtype is None else dataclasses.replace(cfg, dtype=dtype, param_dtype=dtype)
    writer = jax.process_index() == 0
    if writer:
        directory.mkdir(parents=True, exist_ok=True)
    plan: list[dict[str, _Source]] = [{}]
    room = MAX_FILE_BYTES
    for name, parts in _sources(cfg, params).items():
        size = _bytes(hf_shape(parts[0][0], cfg), cfg)
        if size > room and plan[-1]:
            plan.append({})
            room = MAX_FILE_BYTES
        plan[-1][name] = parts
        room -= size
    weight_map: dict[str, str] = {}
    for number, part in enumerate(plan, start=1):
        file = SINGLE if len(plan) == 1 else f"model-{number:05d}-of-{len(plan):05d}.safetensors"
        tensors = {name: _to_file(parts, cfg) for name, parts in part.items()}
        weight_map |= dict.fromkeys(tensors, file)
        if writer:
            save_file(tensors, directory / f"{file}{PART}", metadata={"format": "pt"})
    if writer:
        total = sum(_bytes(leaf.shape, cfg) for leaf in jax.tree.leaves(params))
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
    write_config(directory, cfg)
    for stale in directory.glob("model*.safetensors"):
        if stale.name not in files:
            stale.unlink()


def read_config(directory: str | Path) -> ModelConfig:
    """The configuration in a checkpoint's `config.json`; `UserError` where there is none."""
    return ModelConfig.from_hf(_read_json(Path(directory) / CONFIG))


def write_config(directory: str | Path, cfg: ModelConfig) -> None:
    """Writes config.json alone, as transformers reads it."""
    (Path(directory) / CONFIG).write_text(json.dumps(cfg.to_hf(), indent=1))


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise UserError(f"no checkpoint at {path.parent}: {path.name} is missing")
    try:
        return json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise UserError(f"{path} is not JSON: {error}") from None


def _weight_files(directory: Path) -> list[Path]:
    if (directory / INDEX).is_file():
        index = _read_json(directory / INDEX)
        if not isinstance(index.get("weight_map"), dict):
            raise UserError(f'{directory / INDEX} has no "weight_map"')
        names = sorted(set(index["weight_map"].values()))
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


def _check_config(found: ModelConfig, wanted: ModelConfig, directory: Path) -> None:
    """Settings can change what the weights mean and not their shapes. Dtypes and weights of the loss may differ."""
    mine, other = (_settings(cfg) for cfg in (found, wanted))
    for name in sorted(mine.keys() | other.keys()):
        if mine.get(name) != other.get(name):
            raise UserError(
                f"{directory}: the checkpoint is of another configuration: its {name} is {mine.get(name)!r}, "
                f"{other.get(name)!r} is wanted"
            )


def _settings(cfg: ModelConfig) -> dict[str, Any]:
    document = cfg.to_hf()
    document["text_config"].pop("router_aux_loss_coef", None)
    parts = {part: document.pop(part) for part in ("text_config", "vision_config")}
    inner = {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}
    return {name: value for name, value in (document | inner).items() if name != "dtype"}


def _check(source: dict[str, Any], specs: Any, cfg: ModelConfig, directory: Path) -> None:
    expected = {name: spec for spec in _leaves(specs) for name in hf_names(spec)}
    for name, spec in expected.items():
        if name not in source:
            raise UserError(f"{directory}: tensor {name} is missing")
        shape = tuple(source[name].get_slice(name).get_shape())
        if shape != hf_shape(spec, cfg) and not _turned(spec, shape):
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
    copy, original = source[name].get_slice(name), source[embed].get_slice(embed)
    if copy.get_shape() != original.get_shape():
        return False
    rows = copy.get_shape()[0]
    blocks = [slice(start, min(start + 4096, rows)) for start in range(0, rows, 4096)]
    return all(np.array_equal(copy[block], original[block]) for block in blocks)


def _leaves(specs: Any) -> list[ParamSpec]:
    return jax.tree.leaves(specs, is_leaf=is_spec)


def _bytes(shape: Iterable[int], cfg: ModelConfig) -> int:
    return math.prod(shape) * np.dtype(cfg.param_dtype).itemsize


@dataclasses.dataclass(frozen=True)
class _Reader:
    """Reads parameters from open files to where they live. All values pass through one buffer, so that the host holds
    no more than it and one tensor of a file."""

    source: dict[str, Any]
    buffer: np.ndarray

    def parameter(self, spec: ParamSpec, sharding: jax.sharding.Sharding) -> jax.Array:
        """One parameter; what several devices hold alike is read once."""
        done: dict[tuple, jax.Array] = {}
        shards = []
        for device, index in sharding.addressable_devices_indices_map(spec.shape).items():
            box = tuple(part.indices(size)[:2] for part, size in zip(index, spec.shape, strict=True))
            if box not in done:
                done[box] = self._shard(spec, box, device)
            shards.append(jax.device_put(done[box], device))
        return jax.make_array_from_single_device_arrays(spec.shape, sharding, shards)

    def _shard(self, spec: ParamSpec, box: tuple[tuple[int, int], ...], device: jax.Device) -> jax.Array:
        if not spec.stacked:
            return _to_device(self._filled(spec, [spec.hf_name], box)[0], device)
        names, inner = hf_names(spec)[slice(*box[0])], box[1:]
        shape = tuple(stop - start for start, stop in box)
        step = max(1, len(self.buffer) // 2 // math.prod(shape[1:]))  # on CPU a chunk is there twice on its way
        if len(names) <= step:
            return _to_device(self._filled(spec, names, inner), device)
        whole = jnp.zeros(shape, self.buffer.dtype, device=device)
        for start in range(0, len(names), step):
            chunk = _to_device(self._filled(spec, names[start : start + step], inner), device)
            whole = jax.block_until_ready(_insert(whole, chunk, start))
        return whole

    def _filled(self, spec: ParamSpec, names: list[str], box: tuple[tuple[int, int], ...]) -> np.ndarray:
        """The buffer's start, with the parts of these tensors that lie in `box`."""
        shape = (len(names), *(stop - start for start, stop in box))
        out = self.buffer[: math.prod(shape)].reshape(shape)
        for row, name in enumerate(names):
            out[row] = self._slice(spec, name, box)
        return out

    def _slice(self, spec: ParamSpec, name: str, box: tuple[tuple[int, int], ...]) -> np.ndarray:
        """The part of a file's tensor that lies in `box` of one layer, or of the whole where nothing is stacked."""
        file = self.source[name]
        number, _ = spec.hf_part
        before = number * spec.shape[-1]
        index = (*(slice(*bounds) for bounds in box[:-1]), slice(before + box[-1][0], before + box[-1][1]))
        if _turned(spec, file.get_slice(name).get_shape()):
            return file.get_slice(name)[index[0], index[2], index[1]].swapaxes(1, 2)
        if spec.layout == "patch":
            kernel = file.get_tensor(name)
            return kernel.reshape(kernel.shape[0], -1).T[index]
        if spec.layout == "linear":
            return file.get_slice(name)[index[::-1]].T
        return file.get_slice(name)[index]


def _turned(spec: ParamSpec, shape: Iterable[int]) -> bool:
    """Whether a file's experts are [E, out, in], as transformers 5 keeps and saves them, instead of [E, in, out] as in
    published files. A square matrix is taken for the former, as transformers does."""
    count, inputs, outputs = spec.shape[-3:] if spec.layout == "experts" else (0, 0, 0)
    return tuple(shape) == (count, outputs * spec.hf_part[1], inputs)


def _to_device(values: np.ndarray, device: jax.Device) -> jax.Array:
    """A copy on the device, complete on return: the host's memory may then be used again."""
    copy = jax.block_until_ready(jax.device_put(values, device))
    if device.platform == "cpu" and copy.unsafe_buffer_pointer() == values.ctypes.data:
        return jax.block_until_ready(jnp.copy(copy))
    return copy


@partial(jax.jit, donate_argnums=0)
def _insert(whole: jax.Array, chunk: jax.Array, start: int) -> jax.Array:
    return jax.lax.dynamic_update_slice_in_dim(whole, chunk, start, axis=0)


def _sources(cfg: ModelConfig, params: Any) -> dict[str, _Source]:
    """For every tensor of a file, in the order of the specs, what it is made of."""
    found: dict[str, _Source] = {}
    for spec, leaf in zip(_leaves(param_specs(cfg)), jax.tree.leaves(params), strict=True):
        for layer, name in enumerate(hf_names(spec)):
            found.setdefault(name, []).append((spec, leaf, layer))
    return {name: sorted(parts, key=lambda part: part[0].hf_part) for name, parts in found.items()}


def _to_file(parts: _Source, cfg: ModelConfig) -> np.ndarray:
    values = [_to_host(leaf[layer] if spec.stacked else leaf, cfg) for spec, leaf, layer in parts]
    spec = parts[0][0]
    value = values[0] if len(values) == 1 else np.concatenate(values, axis=-1)
    if spec.layout in ("linear", "patch"):
        value = value.T
    if _turned(spec, value.shape):
        value = value.swapaxes(1, 2)
    return np.ascontiguousarray(value.reshape(hf_shape(spec, cfg)))


def _to_host(value: jax.Array, cfg: ModelConfig) -> np.ndarray:
    whole = value if value.is_fully_addressable else multihost_utils.process_allgather(value, tiled=True)
    return np.asarray(whole).astype(cfg.param_dtype, copy=False)
