"""Checkpoints: exact, complete or absent, and resumable after a kill at any moment."""

import resource
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


MOVED = ("params", "opt_state")


def filled(step: int) -> TrainState:
    """A state of 8 MB that is full of its step's number."""
    value = jax.numpy.full((256, 4096), step, jax.numpy.float32)
    return TrainState(jax.numpy.asarray(step), {"w": value}, {"m": value + 0}, jax.random.key(0))


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


def test_steps_go_on_while_a_checkpoint_is_written(tmp_path):
    """The next steps take over the buffers that are being written; what is read back is the state that was saved."""
    move = lambda s: s.replace(step=s.step + 1, **{k: jax.tree.map(lambda x: x + 1, getattr(s, k)) for k in MOVED})  # noqa: E731
    step = jax.jit(move, donate_argnums=0)
    moving = step(filled(0))
    with checkpoint.Checkpoints(tmp_path, keep=9) as checkpoints:
        progress = {"seen": [1]}
        for _ in range(3):
            saved = checkpoints.save(moving, progress)
            progress["seen"].append(saved)  # no longer the saved one
            before = checkpoint.steps(tmp_path)
            for _ in range(4):
                moving = step(moving)
            assert set(range(1, saved, 4)) <= set(before)  # a second save waited for the first
    assert checkpoint.steps(tmp_path) == [1, 5, 9]
    for number, seen in ((1, [1]), (5, [1, 1]), (9, [1, 1, 5])):
        restored = checkpoint.restore(tmp_path, moving, number)
        assert equal(restored.state, filled(number)) and restored.progress == {"seen": seen}


def test_the_best_ones_are_kept_beside_the_last(tmp_path):
    best = checkpoint.Best("loss", lowest=True)
    with checkpoint.Checkpoints(tmp_path, keep=1, best=best) as checkpoints:
        for step, loss in ((1, 3.0), (2, 1.0), (3, 2.0), (4, 4.0)):
            checkpoints.save(filled(step), {}, {"loss": loss, "other": 0.0})
    assert checkpoint.steps(tmp_path) == [2, 4]
    with checkpoint.Checkpoints(tmp_path, keep=1, best=best) as checkpoints:  # a resumed run remembers the values
        checkpoints.save(filled(5), {}, {"loss": 2.5})
        checkpoints.wait()
        assert checkpoint.steps(tmp_path) == [2, 5]
        checkpoints.save(filled(6), {}, {"loss": 0.5})
        with pytest.raises(ValueError, match="'loss'"):
            checkpoints.save(filled(7), {}, {"other": 1.0})
    assert checkpoint.steps(tmp_path) == [6]
    highest = tmp_path / "highest"
    with checkpoint.Checkpoints(highest, keep=1, best=checkpoint.Best("success", count=2)) as checkpoints:
        for step, success in enumerate((0.1, 0.5, 0.2, 0.4, 0.3)):
            checkpoints.save(filled(step), {}, {"success": success})
    assert checkpoint.steps(highest) == [1, 3, 4]


def test_a_write_that_fails_is_raised_and_leaves_the_earlier_one(tmp_path):
    """The largest file is limited to 1 MB for a moment, as on a disk that is full."""
    noise = jax.random.normal(jax.random.key(1), (256, 4096))  # 4 MB that do not shrink
    state = filled(1).replace(params={"w": noise})
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with checkpoint.Checkpoints(tmp_path, keep=1) as checkpoints:
            checkpoints.save(state, {})
            checkpoints.wait()
            resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, hard))
            with pytest.raises(ValueError, match="too large"):
                checkpoints.save(at(state, 2), {})
                checkpoints.wait()
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            assert checkpoint.steps(tmp_path) == [1] and equal(checkpoint.restore(tmp_path, state).state, state)
            checkpoints.save(at(state, 3), {})
        assert checkpoint.steps(tmp_path)[-1] == 3
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


KILLED = """
import sys; sys.path[:0] = sys.argv[2:]
import jax, jax.numpy as jnp
from gui_rl.learn import checkpoint
from gui_rl.learn.state import TrainState
step = (checkpoint.steps(sys.argv[1]) or [0])[-1]
value = lambda: jnp.full((256, 4096), step, jnp.float32)
state = TrainState(jnp.asarray(step), {"w": value()}, {"m": value()}, jax.random.key(0))
more = lambda tree: jax.tree.map(lambda x: x + 1, tree)
move = jax.jit(lambda s: TrainState(s.step + 1, more(s.params), more(s.opt_state), s.key), donate_argnums=0)
with checkpoint.Checkpoints(sys.argv[1], keep=1) as checkpoints:
    while True:
        state, step = move(state), step + 1
        checkpoints.save(state, {"step": step})
        print(step - 1, flush=True)  # complete: a save waits for the one before
"""


def test_a_kill_at_any_moment_leaves_a_usable_checkpoint(tmp_path):
    random = np.random.default_rng(0)
    reached = 0
    for _ in range(4):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(tmp_path), str(HERE.parents[1])], stdout=subprocess.PIPE, text=True
        )
        said = [int(process.stdout.readline()) for _ in range(2)]  # one save is complete, the next is under way
        time.sleep(random.uniform(0.0, 0.2))
        process.send_signal(signal.SIGKILL)
        done = max([*said, *map(int, process.stdout.read().split())])
        process.wait()
        restored = checkpoint.restore(tmp_path, filled(0))
        step = int(restored.state.step)
        assert step >= done > reached  # nothing that was complete is lost
        assert equal(restored.state, filled(step)) and restored.progress == {"step": step}
        reached = step
