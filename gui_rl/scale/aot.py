"""Programs compiled ahead of time for a described slice of TPUs, on a machine that has none.

In: a model, a mesh over a topology's devices, shapes. Out: `Measured`: bytes on a chip and bytes between chips, as the
compiler gives them. No array is ever made. The compiler is libtpu's (the extra `tpu`).
"""

import dataclasses
import importlib.util
import math
import os
import re
import time
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh, NamedSharding

from gui_rl.data.batch import STREAMS, Batch
from gui_rl.errors import UserError
from gui_rl.learn.losses import LossConfig
from gui_rl.learn.state import abstract_state, state_shardings
from gui_rl.learn.step import make_scorer, make_train_step
from gui_rl.model import cache, forward, layout
from gui_rl.model.cache import KVCache
from gui_rl.model.config import ModelConfig
from gui_rl.model.inputs import ModelInputs
from gui_rl.model.params import ShardingRules, abstract_params, param_specs, shardings
from gui_rl.scale.chips import Topology
from gui_rl.scale.hlo import collective_bytes

# Set before libtpu is loaded: no metadata server and no host list are asked (the type says nothing about the topology
# that is compiled for), and other processes may use it too.
ENVIRONMENT = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5p-8",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}


@dataclasses.dataclass(frozen=True)
class Measured:
    """What the compiler says of a program. Bytes are those of one device.

    Attributes:
      name: the program.
      arguments: what it is given and keeps (state, parameters, batch, cache); what it returns in their place counts
        once.
      temporaries: what it needs besides, at its worst moment.
      code: its own size.
      collectives: bytes that a device receives from others, by kind.
      uncounted_loops: loops with collectives whose turns could not be read.
      seconds: time to compile, here.
      exceeded: bytes that it would need, where it does not fit (the other sizes are then 0).
    """

    name: str
    arguments: float = 0.0
    temporaries: float = 0.0
    code: float = 0.0
    collectives: dict[str, float] = dataclasses.field(default_factory=dict)
    uncounted_loops: int = 0
    seconds: float = 0.0
    exceeded: float = 0.0

    @property
    def total(self) -> float:
        """Memory of a device while the program runs, bytes."""
        return self.exceeded or self.arguments + self.temporaries + self.code


def described_devices(topology: Topology) -> list[Any]:
    """Devices of a slice that is not there. Must run before jax has looked for devices.

    `UserError` says what to install where libtpu is missing.
    """
    if importlib.util.find_spec("libtpu") is None:
        raise UserError(
            "compiling for TPUs needs their compiler, libtpu: install the extra `tpu` "
            '(pip install -c constraints.txt -e ".[tpu]"); no TPU is needed'
        )
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    jax.config.update("jax_platforms", "cpu")
    from jax.experimental import topologies

    try:
        return topologies.get_topology_desc(platform="tpu", topology_name=topology.name).devices
    except jax.errors.JaxRuntimeError as error:
        raise UserError(f'libtpu does not know the topology "{topology.name}": {error}') from error


def batch_shapes(cfg: ModelConfig, accumulate: int, rows: int, length: int, patches: int) -> Batch:
    """Shapes and dtypes of a training batch `[accumulate, rows, ...]`."""

    def array(*shape: int, dtype: Any = jnp.int32) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((accumulate, rows, *shape), dtype)

    inputs = ModelInputs(
        tokens=array(length),
        positions=array(3, length),
        segments=array(length),
        branches=array(length),
        visual_index=array(length),
        patches=array(patches, cfg.vision.patch_values, dtype=jnp.float32),
        patch_segments=array(patches),
        patch_yx=array(patches, 2),
        patch_table=array(patches, 4),
        patch_table_weight=array(patches, 4, dtype=jnp.float32),
    )
    streams = {name: array(length, dtype=jnp.float32) for name in STREAMS}
    return Batch(inputs=inputs, targets=array(length), **streams)


def placed_params(cfg: ModelConfig, mesh: Mesh, rules: ShardingRules) -> Any:
    """Abstract parameters with their shardings."""
    return _placed(abstract_params(cfg), shardings(param_specs(cfg), mesh, rules))


def resident_bytes(tree: Any) -> float:
    """Bytes on one device of abstract arrays with shardings."""
    return sum(leaf.dtype.itemsize * math.prod(leaf.sharding.shard_shape(leaf.shape)) for leaf in jax.tree.leaves(tree))


def placed_state(cfg: ModelConfig, optimizer: optax.GradientTransformation, mesh: Mesh, rules: ShardingRules) -> Any:
    """The abstract training state with its shardings."""
    return _placed(abstract_state(cfg, optimizer), state_shardings(cfg, optimizer, mesh, rules))


def train(
    cfg: ModelConfig, loss: LossConfig, optimizer: optax.GradientTransformation, mesh: Mesh, rules: Any, batch: Batch
) -> Measured:
    """The train step."""
    step = make_train_step(cfg, loss, optimizer, mesh, rules)
    held = resident_bytes(placed_state(cfg, optimizer, mesh, rules))
    return measure("train step", step.lower(abstract_state(cfg, optimizer), batch), held)


def score(name: str, cfg: ModelConfig, mesh: Mesh, rules: ShardingRules, batch: Batch) -> Measured:
    """Scoring of a batch by frozen parameters."""
    params = placed_params(cfg, mesh, rules)
    return measure(name, make_scorer(cfg, mesh, rules).lower(params, batch), resident_bytes(params))


def prefill(cfg: ModelConfig, mesh: Mesh, rules: ShardingRules, inputs: ModelInputs, capacity: int) -> Measured:
    """Prompts into a cache of `capacity` slots a row."""

    def run(params: Any, inputs: ModelInputs):
        with layout.on_mesh(mesh, rules):
            return forward.prefill(params, cfg, inputs, capacity)

    rows = NamedSharding(mesh, rules.spec(("batch",)))
    out = (rows, _cache_shardings(mesh, rules))
    lowered = jax.jit(run, in_shardings=(None, rows), out_shardings=out).lower(placed_params(cfg, mesh, rules), inputs)
    return measure("prefill", lowered)


def decode(cfg: ModelConfig, mesh: Mesh, rules: ShardingRules, rows: int, capacity: int) -> Measured:
    """One token for every row."""
    where = _cache_shardings(mesh, rules)

    def run(params: Any, kv: KVCache, tokens: Any, active: Any):
        with layout.on_mesh(mesh, rules):
            hidden, recent = forward.decode(params, cfg, kv, cache.recent(kv, 1), tokens, active)
        return jnp.argmax(forward.logits(params, cfg, hidden), axis=-1).astype(jnp.int32), cache.settle(kv, recent)

    text = cfg.text
    shape = (text.num_hidden_layers, rows, text.num_key_value_heads, capacity, text.head_dim)
    filled = jax.ShapeDtypeStruct((rows,), jnp.int32)
    store = jax.ShapeDtypeStruct(shape, jnp.dtype(cfg.dtype))
    kv = KVCache(key=store, value=store, lengths=filled, positions=filled)
    split = NamedSharding(mesh, rules.spec(("batch",)))
    program = jax.jit(run, in_shardings=(None, where, split, split), out_shardings=(split, where), donate_argnums=1)
    active = jax.ShapeDtypeStruct((rows,), jnp.bool_)
    return measure("decoding step", program.lower(placed_params(cfg, mesh, rules), kv, filled, active))


def measure(name: str, lowered: jax.stages.Lowered, held: float = 0.0) -> Measured:
    """Compiles a program; what does not fit into a chip's memory comes back with the bytes that it would need.

    held: bytes of what it is given and keeps, which the compiler leaves out where temporaries alone are too large.
    """
    started = time.perf_counter()
    try:
        compiled = lowered.compile()
    except jax.errors.JaxRuntimeError as error:
        needed = needed_bytes(str(error), held)
        if needed is None:
            raise
        return Measured(name, exceeded=needed, seconds=time.perf_counter() - started)
    seconds = time.perf_counter() - started
    memory = compiled.memory_analysis()
    sent, uncounted = collective_bytes(compiled.as_text())
    return Measured(
        name,
        arguments=memory.argument_size_in_bytes + memory.output_size_in_bytes - memory.alias_size_in_bytes,
        temporaries=memory.temp_size_in_bytes,
        code=memory.generated_code_size_in_bytes,
        collectives=sent,
        uncounted_loops=uncounted,
        seconds=seconds,
    )


def needed_bytes(message: str, held: float = 0.0) -> float | None:
    """The bytes in "Used 107.04G of 95.74G hbm" or "memory required for HLO temporaries (63.38G) exceeds", which is how
    the compiler refuses (the latter without what is `held`); None for any other message."""
    if used := re.search(r"Used ([\d.]+)([KMGT]?) of [\d.]+[KMGT]? hbm", message):
        return _bytes(used)
    used = re.search(r"required for HLO temporaries \(([\d.]+)([KMGT]?)\)", message)
    return held + _bytes(used) if used else None


def _bytes(used: re.Match[str]) -> float:
    return float(used[1]) * 1024 ** " KMGT".index(used[2] or " ")


def _cache_shardings(mesh: Mesh, rules: ShardingRules) -> KVCache:
    store = NamedSharding(mesh, rules.spec((None, "batch", "kv_heads", None, None)))
    row = NamedSharding(mesh, rules.spec(("batch",)))
    return KVCache(key=store, value=store, lengths=row, positions=row)


def _placed(tree: Any, where: Any) -> Any:
    return jax.tree.map(
        lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding), tree, where
    )
