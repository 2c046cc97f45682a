"""The training state, and where its arrays live on a mesh of devices.

In: a model config, an optimizer, a mesh and sharding rules. Out: `TrainState` and the shardings of all its leaves. The
optimizer's moments are sharded like the parameters they belong to.
"""

from __future__ import annotations

from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Int

from gui_rl.errors import UserError
from gui_rl.model.config import ModelConfig
from gui_rl.model.params import ShardingRules, abstract_params, init_params, param_specs, shardings

MESH_AXES = ("replica", "fsdp", "expert", "tensor")


@flax.struct.dataclass
class TrainState:
    """Everything that an optimisation step reads and changes.

    Attributes:
      step: number of optimisation steps taken.
      params: the policy's parameters.
      opt_state: the optimizer's state.
      key: the run's random key; it does not change, what is drawn at a step folds the step in.
    """

    step: Int[Array, ""]
    params: Any
    opt_state: Any
    key: Array


def make_mesh(replica: int = 1, fsdp: int = -1, expert: int = 1, tensor: int = 1, devices: Any = None) -> Mesh:
    """A mesh with the axes `(replica, fsdp, expert, tensor)` over all devices; one size may be -1, "the rest".

    Raises:
      UserError: when the sizes do not multiply to the number of devices.
    """
    devices = list(jax.devices() if devices is None else devices)
    sizes = [replica, fsdp, expert, tensor]
    known = 1
    for size in sizes:
        known *= size if size > 0 else 1
    if sizes.count(-1) == 1 and len(devices) % known == 0:
        sizes[sizes.index(-1)] = len(devices) // known
        known = len(devices)
    if min(sizes) < 1 or known != len(devices):
        wanted = ", ".join(f"{axis}={size}" for axis, size in zip(MESH_AXES, sizes, strict=True))
        raise UserError(
            f"the mesh {wanted} does not fit {len(devices)} devices: the sizes must multiply to that number"
        )
    explicit = (jax.sharding.AxisType.Auto,) * len(MESH_AXES)
    return jax.make_mesh(tuple(sizes), MESH_AXES, axis_types=explicit, devices=devices)


def abstract_state(cfg: ModelConfig, optimizer: optax.GradientTransformation) -> TrainState:
    """Shapes and dtypes of the whole state, without any values."""
    params = abstract_params(cfg)
    return TrainState(
        step=jax.ShapeDtypeStruct((), jnp.int32),
        params=params,
        opt_state=jax.eval_shape(optimizer.init, params),
        key=jax.eval_shape(lambda: jax.random.key(0)),
    )


def state_shardings(
    cfg: ModelConfig, optimizer: optax.GradientTransformation, mesh: Mesh, rules: ShardingRules
) -> TrainState:
    """A sharding for every leaf of the state; what does not belong to a parameter is replicated."""
    everywhere = NamedSharding(mesh, PartitionSpec())
    state = abstract_state(cfg, optimizer)
    params = shardings(param_specs(cfg), mesh, rules)
    leaves = jax.tree_util.tree_leaves_with_path
    known = {
        path: (value.shape, sharding)
        for (path, value), sharding in zip(leaves(state.params), jax.tree.leaves(params), strict=True)
    }

    def place(path: tuple, value: jax.ShapeDtypeStruct) -> NamedSharding:
        # An optimizer keeps its moments in trees like the parameters': the end of a moment's path is a parameter's.
        for start in range(len(path)):
            shape, sharding = known.get(path[start:], (None, None))
            if shape == value.shape:
                return sharding
        return everywhere

    opt_state = jax.tree_util.tree_map_with_path(place, state.opt_state)
    return TrainState(step=everywhere, params=params, opt_state=opt_state, key=everywhere)


def init_state(
    cfg: ModelConfig,
    optimizer: optax.GradientTransformation,
    key: Array | int,
    mesh: Mesh | None = None,
    rules: ShardingRules | None = None,
    params: Any = None,
) -> TrainState:
    """A state at step 0, made in place on the mesh (no device ever holds it whole).

    Args:
      cfg: the policy's configuration.
      optimizer: what will train it.
      key: random key or seed, for fresh parameters and for the run.
      mesh: devices; all of them on the `fsdp` axis where not given.
      rules: sharding rules; the default rules where not given.
      params: parameters to start from; they are copied, since a train step takes the state's buffers for its own.
    """
    key = jax.random.key(key) if isinstance(key, int) else key
    mesh = make_mesh() if mesh is None else mesh
    where = state_shardings(cfg, optimizer, mesh, ShardingRules() if rules is None else rules)
    if params is None:
        params = jax.jit(lambda key: init_params(cfg, key), out_shardings=where.params)(key)
    else:
        params = jax.jit(lambda tree: jax.tree.map(jnp.copy, tree), out_shardings=where.params)(params)
    opt_state = jax.jit(optimizer.init, out_shardings=where.opt_state)(params)
    step = jax.device_put(jnp.zeros((), jnp.int32), where.step)
    return TrainState(step=step, params=params, opt_state=opt_state, key=jax.device_put(key, where.key))
