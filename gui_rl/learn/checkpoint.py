"""Checkpoints of a run: its training state, and a JSON document of everything else (Orbax).

In: a `TrainState` and a progress document (data position, schedule phase, buffer, counters, tasks in flight, policy
version). Out: one directory per step, `DIRECTORY/STEP/{params,trainer,progress}`. A checkpoint is written under another
name and renamed when it is complete; only then are old ones removed. So whatever kills the process, the newest complete
checkpoint can be restored. Parameters are an item of their own: a policy is read without its optimizer.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import orbax.checkpoint as ocp

from gui_rl.errors import UserError
from gui_rl.learn.state import TrainState


class Restored(NamedTuple):
    """What a checkpoint held."""

    state: TrainState
    progress: dict[str, Any]


def save(directory: str | os.PathLike, state: TrainState, progress: Mapping[str, Any], keep: int = 2) -> int:
    """Writes a checkpoint named after the state's step and removes all but the newest `keep`; returns the step.

    Saving the same step again replaces nothing and is an error.

    Args:
      directory: where the run's checkpoints are.
      state: the training state, on any mesh.
      progress: a JSON document.
      keep: how many complete checkpoints remain.
    Raises:
      UserError: when that step is saved already.
      ValueError: for `keep` below 1.
    """
    if keep < 1:
        raise ValueError(f"at least one checkpoint must be kept, not {keep}")
    step = int(state.step)
    if step in steps(directory):
        raise UserError(f"{Path(directory) / str(step)}: step {step} is saved already")
    trainer = {"opt_state": state.opt_state, "step": state.step, "key": jax.random.key_data(state.key)}
    # Temporary directories are left by a save that was killed; a run has one writer, so there is no other's to disturb.
    options = ocp.CheckpointManagerOptions(
        max_to_keep=keep, enable_async_checkpointing=False, cleanup_tmp_directories=True
    )
    with ocp.CheckpointManager(Path(directory).absolute(), options=options) as manager:
        items = ocp.args.Composite(
            params=ocp.args.StandardSave(state.params),
            trainer=ocp.args.StandardSave(trainer),
            progress=ocp.args.JsonSave(dict(progress)),
        )
        manager.save(step, args=items, force=True)
        manager.wait_until_finished()
    return step


def restore(directory: str | os.PathLike, like: TrainState, step: int | None = None) -> Restored:
    """Reads a checkpoint, the newest where no step is given.

    Args:
      directory: where the run's checkpoints are.
      like: a state, or `abstract_state` with shardings (`sharded_like`), of the same structure; arrays are read
        straight to where its leaves live.
      step: which checkpoint.
    Raises:
      UserError: when there is no such checkpoint, or it holds a state of other shapes.
    """
    step = _find(directory, step)
    keys = jax.eval_shape(jax.random.key_data, like.key)
    keys = jax.ShapeDtypeStruct(keys.shape, keys.dtype, sharding=like.key.sharding)
    trainer = {"opt_state": like.opt_state, "step": like.step, "key": keys}
    read = _read(directory, step, params=_abstract(like.params), trainer=_abstract(trainer), progress=None)
    trainer = read["trainer"]
    state = TrainState(
        step=trainer["step"],
        params=read["params"],
        opt_state=trainer["opt_state"],
        key=jax.random.wrap_key_data(trainer["key"]),
    )
    return Restored(state, read["progress"])


def restore_params(directory: str | os.PathLike, like: Any, step: int | None = None) -> Any:
    """Reads only the parameters of a checkpoint; `like` is a parameter tree or its abstract form."""
    step = _find(directory, step)
    return _read(directory, step, params=_abstract(like))["params"]


def steps(directory: str | os.PathLike) -> list[int]:
    """Steps of the complete checkpoints, ascending; none where the directory does not exist."""
    path = Path(directory)
    if not path.is_dir():
        return []
    return sorted(ocp.utils.checkpoint_steps(path.absolute()))


def sharded_like(state: TrainState, where: TrainState) -> TrainState:
    """An abstract state (`abstract_state`) with the shardings of `state_shardings`, to restore onto a mesh."""
    return jax.tree.map(
        lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding), state, where
    )


def _find(directory: str | os.PathLike, step: int | None) -> int:
    """The step, if it is there; the newest where None."""
    present = steps(directory)
    if not present:
        raise UserError(f"{directory} holds no complete checkpoint")
    if step is not None and step not in present:
        raise UserError(f"{directory} holds no checkpoint of step {step}; there are {', '.join(map(str, present))}")
    return present[-1] if step is None else step


def _read(directory: str | os.PathLike, step: int, **items: Any) -> Mapping[str, Any]:
    """Reads items of a checkpoint; None stands for a JSON item."""
    wanted = {
        name: ocp.args.JsonRestore() if like is None else ocp.args.StandardRestore(like) for name, like in items.items()
    }
    with ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as reader:
        try:
            return reader.restore(Path(directory).absolute() / str(step), args=ocp.args.Composite(**wanted))
        except (ValueError, KeyError) as error:
            reason = str(error).splitlines()[0]
            raise UserError(f"{Path(directory) / str(step)} does not hold what is asked for: {reason}") from error


def _abstract(tree: Any) -> Any:
    """Shapes, dtypes and shardings of a tree."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding), tree)
