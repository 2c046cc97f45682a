"""Checkpoints: exact, complete or absent, and resumable after a kill at any moment."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

from gui_rl.errors import UserError
from gui_rl.learn import checkpoint, optim
from gui_rl.learn.state import TrainState, abstract_state, init_state, make_mesh, state_shardings
from gui_rl.model.params import ShardingRules

HERE = Path(__file__).resolve().parent
PROGRESS = {"data": {"next_index": 7}, "phase": "mobile", "tasks": ["a/1", None], "share": 0.1}


@pytest.fixture(scope="module")
def mesh():
    return make_mesh(devices=jax.devices()[:1])


@pytest.fixture(scope="module")
def optimizer(cfg):
    return optim.muon(cfg, 0.01, 0.003)


@pytest.fixture(scope="module")
def state(cfg, optimizer, mesh):
    return init_state(cfg, optimizer, 5, mesh)


def at(state, step):
    return state.replace(step=jax.numpy.asarray(step, jax.numpy.int32))


def equal(a: TrainState, b: TrainState) -> bool:
    unwrap = lambda s: s.replace(key=jax.random.key_data(s.key))  # noqa: E731
    leaves = zip(jax.tree.leaves(unwrap(a)), jax.tree.leaves(unwrap(b)), strict=True)
    return all(x.dtype == y.dtype and np.array_equal(x, y) for x, y in leaves)


def test_a_restored_state_is_exact(tmp_path, state):
    assert checkpoint.save(tmp_path, at(state, 3), PROGRESS) == 3
    restored = checkpoint.restore(tmp_path, state)
    assert equal(restored.state, at(state, 3)) and restored.progress == PROGRESS


def test_restore_needs_shapes_only(tmp_path, cfg, optimizer, mesh, state):
    checkpoint.save(tmp_path, at(state, 1), PROGRESS)
    where = state_shardings(cfg, optimizer, mesh, ShardingRules())
    like = checkpoint.sharded_like(abstract_state(cfg, optimizer), where)
    assert equal(checkpoint.restore(tmp_path, like).state, at(state, 1))
    params = checkpoint.restore_params(tmp_path, like.params)
    assert all(jax.tree.leaves(jax.tree.map(np.array_equal, params, state.params)))


def test_the_last_ones_are_kept(tmp_path, state):
    assert checkpoint.steps(tmp_path / "none") == []
    for step in (1, 2, 5, 9):
        checkpoint.save(tmp_path, at(state, step), {"step": step}, keep=2)
    assert checkpoint.steps(tmp_path) == [5, 9]
    assert checkpoint.restore(tmp_path, state).progress == {"step": 9}
    assert checkpoint.restore(tmp_path, state, 5).progress == {"step": 5}


def test_what_is_missing_is_said(tmp_path, state, cfg, mesh):
    with pytest.raises(UserError, match="no complete checkpoint"):
        checkpoint.restore(tmp_path, state)
    checkpoint.save(tmp_path, at(state, 2), {})
    with pytest.raises(UserError, match="step 4; there are 2"):
        checkpoint.restore(tmp_path, state, 4)
    with pytest.raises(UserError, match="saved already"):
        checkpoint.save(tmp_path, at(state, 2), {})
    other = init_state(cfg, optim.adamw(0.1), 0, mesh)
    with pytest.raises(UserError, match="does not hold"):
        checkpoint.restore(tmp_path, other)
    wider = jax.tree.map(lambda leaf: jax.numpy.zeros((leaf.shape[0] + 1, *leaf.shape[1:])), state.params)
    with pytest.raises(UserError, match="shape") as error:
        checkpoint.restore_params(tmp_path, wider)
    assert str(tmp_path / "2") in str(error.value) and "\n" not in str(error.value)
    with pytest.raises(ValueError, match="kept"):
        checkpoint.save(tmp_path, state, {}, keep=0)


KILLED = """
import sys; sys.path[:0] = sys.argv[2:]
import jax, jax.numpy as jnp
from gui_rl.learn import checkpoint
from gui_rl.learn.state import TrainState
state = TrainState(jnp.asarray(0), {"w": jnp.zeros((256, 4096))}, {"m": jnp.zeros((256, 4096))}, jax.random.key(0))
step = (checkpoint.steps(sys.argv[1]) or [0])[-1]
while True:
    step += 1
    value = jnp.full((256, 4096), step, jnp.float32)
    filled = state.replace(step=jnp.asarray(step), params={"w": value}, opt_state={"m": value})
    checkpoint.save(sys.argv[1], filled, {"step": step}, keep=1)
    print(step, flush=True)
"""


def test_a_kill_at_any_moment_leaves_a_usable_checkpoint(tmp_path):
    random = np.random.default_rng(0)
    like = TrainState(
        jax.numpy.asarray(0),
        {"w": jax.numpy.zeros((256, 4096))},
        {"m": jax.numpy.zeros((256, 4096))},
        jax.random.key(0),
    )
    reached = 0
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(tmp_path), str(HERE.parents[1])], stdout=subprocess.PIPE, text=True
        )
        done = int(process.stdout.readline())  # one save is complete, the next is under way
        time.sleep(random.uniform(0.0, 0.15))
        process.send_signal(signal.SIGKILL)
        done = max([done, *map(int, process.stdout.read().split())])
        process.wait()
        restored = checkpoint.restore(tmp_path, like)
        step = int(restored.state.step)
        assert step >= done > reached  # nothing that was reported as saved is lost
        assert restored.progress == {"step": step}
        assert (restored.state.params["w"] == step).all() and (restored.state.opt_state["m"] == step).all()
        reached = step
