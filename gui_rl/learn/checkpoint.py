"""Checkpoints of a run: its training state, and a JSON document of everything else (Orbax).

In: a `TrainState` and a progress document (data position, schedule phase, buffer, counters, tasks in flight, policy
version). Out: one directory per step, `DIRECTORY/STEP/{params,trainer,progress}`, written in the background. A
checkpoint is written under another name and renamed when it is complete; only then are old ones removed. So whatever
kills the process, the newest complete checkpoint can be restored, onto the same devices or others. Parameters are an
item of their own: a policy is read without its optimizer. Where adapters are trained, they are the parameters: the
frozen policy is not in the checkpoint.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import orbax.checkpoint as ocp
from orbax.checkpoint import checkpoint_managers as policies

from gui_rl.errors import UserError
from gui_rl.learn.state import TrainState


class Restored(NamedTuple):
    """What a checkpoint held."""

    state: TrainState
    progress: dict[str, Any]


class Best(NamedTuple):
    """Which checkpoints are the best ones: `count` of those with the highest (or lowest) `metric`."""

    metric: str
    lowest: bool = False
    count: int = 1


class Checkpoints:
    """Writes the checkpoints of a run while its steps go on; use it as `with Checkpoints(directory) as checkpoints`.

    `save` returns as soon as the state has been copied to the host: the next step may take over its buffers. A second
    save waits for the first; the end of the block waits for the last. An error in the background is raised by whichever
    of these comes next.

    Args:
      directory: where the run's checkpoints are.
      keep: how many of the newest complete checkpoints remain.
      best: further checkpoints that remain, by a metric given to `save`.
    Raises:
      ValueError: for `keep` or `best.count` below 1.
    """

    def __init__(self, directory: str | os.PathLike, keep: int = 2, best: Best | None = None):
        if keep < 1 or (best is not None and best.count < 1):
            raise ValueError(f"at least one checkpoint must be kept, not {keep if keep < 1 else best.count}")
        self.directory, self.best = Path(directory), best
        kept = [policies.LatestN(keep)]
        if best is not None:
            ranked = policies.BestN(
                get_metric_fn=self._metric, reverse=best.lowest, n=best.count, keep_checkpoints_without_metrics=False
            )
            kept.append(ranked)
        # Temporary directories are left by a save that was killed; a run has one writer, so no other's is disturbed.
        options = ocp.CheckpointManagerOptions(
            preservation_policy=policies.AnyPreservationPolicy(kept),
            best_fn=None if best is None else self._metric,
            cleanup_tmp_directories=True,
        )
        self._manager = ocp.CheckpointManager(self.directory.absolute(), options=options)

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.wait()
        finally:
            self._manager.close()

    def save(self, state: TrainState, progress: Mapping[str, Any], metrics: Mapping[str, float] | None = None) -> int:
        """Begins to write a checkpoint named after the state's step; returns the step.

        When it is complete, and no sooner, those that are not to be kept are removed. Saving the same step again
        replaces nothing and is an error.

        Args:
          state: the training state, on any mesh.
          progress: a JSON document.
          metrics: must hold the metric of `best`, where that is given.
        Raises:
          UserError: when that step is saved already.
          ValueError: without the metric of `best`.
        """
        if self.best is not None and self.best.metric not in (metrics or {}):
            raise ValueError(f"the best checkpoints are found by {self.best.metric!r}: pass it in metrics")
        self.wait()
        step = int(state.step)
        if step in steps(self.directory):
            raise UserError(f"{self.directory / str(step)}: step {step} is saved already")
        trainer = {"opt_state": state.opt_state, "step": state.step, "key": jax.random.key_data(state.key)}
        items = ocp.args.Composite(
            params=ocp.args.StandardSave(state.params),
            trainer=ocp.args.StandardSave(trainer),
            progress=ocp.args.JsonSave(json.loads(json.dumps(dict(progress)))),  # the caller may go on changing it
        )
        numbers = None if self.best is None else {self.best.metric: float(metrics[self.best.metric])}
        self._manager.save(step, args=items, metrics=numbers, force=True)
        return step

    def wait(self) -> None:
        """Returns when the last checkpoint is complete and older ones are removed."""
        self._manager.wait_until_finished()

    def _metric(self, metrics: Mapping[str, float]) -> float:
        return metrics[self.best.metric]


def save(directory: str | os.PathLike, state: TrainState, progress: Mapping[str, Any], keep: int = 2) -> int:
    """Writes one checkpoint and waits until it is complete (`Checkpoints`); returns the step."""
    with Checkpoints(directory, keep) as checkpoints:
        return checkpoints.save(state, progress)


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


def restore_progress(directory: str | os.PathLike, step: int | None = None) -> dict[str, Any]:
    """Reads only the progress document of a checkpoint."""
    return _read(directory, _find(directory, step), progress=None)["progress"]


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
