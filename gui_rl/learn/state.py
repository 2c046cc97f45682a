"""The training state, and where its arrays live on a mesh of devices.

In: a model config, an optimizer, a mesh and sharding rules. Out: `TrainState` and the shardings of all its leaves. The
optimizer's moments are sharded like the parameters they belong to. What is trained is the policy, or whatever `specs`
declare: the adapters of `gui_rl.model.lora` beside a frozen policy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import optax
from jax.experimental import mesh_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Int

from gui_rl.errors import UserError
from gui_rl.model.config import ModelConfig
from gui_rl.model.params import ShardingRules, abstract_params, init_params, map_specs, param_specs, shardings

MESH_AXES = ("replica", "fsdp", "expert", "tensor")

RULES = {
    "fsdp": ShardingRules(
        batch=MESH_AXES, vocab=None, heads=None, kv_heads=None, mlp=None, vision_heads=None, vision_mlp=None,
        merge_mlp=None,
    ),
    "fsdp+tensor": ShardingRules(batch=("replica", "fsdp")),
    "expert": ShardingRules(batch=("replica", "fsdp", "expert")),
}  # fmt: skip
"""Sharding rules by name.

- "fsdp": parameters are split over `fsdp` alone, rows over all devices.
- "fsdp+tensor": each layer is split over `tensor` too; devices of one `tensor` line share their rows.
- "expert": as before, and `expert` splits the rows of everything but the experts, which it splits themselves.
"""


@flax.struct.dataclass
class TrainState:
    """Everything that an optimisation step reads and changes.

    Attributes:
      step: number of optimisation steps taken.
      params: what is trained: the policy's parameters, or adapters.
      opt_state: the optimizer's state.
      key: the run's random key; it does not change, what is drawn at a step folds the step in.
    """

    step: Int[Array, ""]
    params: Any
    opt_state: Any
    key: Array


def make_mesh(replica: int = 1, fsdp: int = -1, expert: int = 1, tensor: int = 1, devices: Any = None) -> Mesh:
    """A mesh with the axes `(replica, fsdp, expert, tensor)` over all devices; one size may be -1, "the rest".

    On a torus of TPUs an axis of the mesh takes whole axes of the torus where it can; one is split only where the sizes
    leave no other way (16 experts on 8 x 8 x 8).

    Raises:
      UserError: when the sizes do not multiply to the number of devices, or TPUs are of several slices.
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
    slices = {getattr(device, "slice_index", 0) for device in devices}
    if devices[0].platform == "tpu" and len(slices) > 1:
        raise UserError(f"a mesh is laid out over one slice of TPUs; these devices are of {len(slices)}")
    grid = mesh_utils.create_device_mesh(tuple(sizes), devices, allow_split_physical_axes=True)
    return Mesh(grid, MESH_AXES, axis_types=(jax.sharding.AxisType.Auto,) * len(MESH_AXES))


def abstract_state(cfg: ModelConfig, optimizer: optax.GradientTransformation, specs: Any = None) -> TrainState:
    """Shapes and dtypes of the whole state, without any values.

    specs: of what is trained, in float32, where that is not the policy itself (`lora.specs`).
    """
    if specs is None:
        params = abstract_params(cfg)
    else:
        params = map_specs(lambda _, spec: jax.ShapeDtypeStruct(spec.shape, jnp.float32), specs)
    return TrainState(
        step=jax.ShapeDtypeStruct((), jnp.int32),
        params=params,
        opt_state=jax.eval_shape(optimizer.init, params),
        key=jax.eval_shape(lambda: jax.random.key(0)),
    )


def state_shardings(
    cfg: ModelConfig, optimizer: optax.GradientTransformation, mesh: Mesh, rules: ShardingRules, specs: Any = None
) -> TrainState:
    """A sharding for every leaf of the state; what does not belong to a parameter is replicated.

    specs: as in `abstract_state`.
    """
    everywhere = NamedSharding(mesh, PartitionSpec())
    state = abstract_state(cfg, optimizer, specs)
    params = shardings(param_specs(cfg) if specs is None else specs, mesh, rules)
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


def make_mover(cfg: ModelConfig, mesh: Mesh, rules: ShardingRules | None = None) -> Callable[[Any], Any]:
    """What moves a policy's parameters to another mesh, e.g. from the trainer's to the sampler's, device to device.

    The result shares no buffer with what it was made from: the trainer may go on and take those over.
    """
    where = shardings(param_specs(cfg), mesh, ShardingRules() if rules is None else rules)
    return lambda params: jax.device_put(params, where, may_alias=False)


def init_state(
    cfg: ModelConfig,
    optimizer: optax.GradientTransformation,
    key: Array | int,
    mesh: Mesh | None = None,
    rules: ShardingRules | None = None,
    params: Any = None,
    specs: Any = None,
) -> TrainState:
    """A state at step 0, made in place on the mesh (no device ever holds it whole).

    Args:
      cfg: the policy's configuration.
      optimizer: what will train it.
      key: random key or seed, for fresh parameters and for the run.
      mesh: devices; all of them on the `fsdp` axis where not given.
      rules: sharding rules; the default rules where not given.
      params: parameters to start from; they are copied, since a train step takes the state's buffers for its own.
      specs: as in `abstract_state`; the adapters that `lora.init` makes are then given as `params`.
    Raises:
      ValueError: for `specs` without `params`.
    """
    if specs is not None and params is None:
        raise ValueError("what is trained beside the policy starts from given values: pass params, e.g. of lora.init")
    key = jax.random.key(key) if isinstance(key, int) else key
    mesh = make_mesh() if mesh is None else mesh
    where = state_shardings(cfg, optimizer, mesh, ShardingRules() if rules is None else rules, specs)
    if params is None:
        params = jax.jit(lambda key: init_params(cfg, key), out_shardings=where.params)(key)
    else:
        params = jax.jit(lambda tree: jax.tree.map(jnp.copy, tree), out_shardings=where.params)(params)
    opt_state = jax.jit(optimizer.init, out_shardings=where.opt_state)(params)
    begin = jax.jit(lambda key: (jnp.zeros((), jnp.int32), key), out_shardings=(where.step, where.key))
    step, key = begin(key)  # not put there: a mesh of several processes has devices that this one cannot reach
    return TrainState(step=step, params=params, opt_state=opt_state, key=key)
