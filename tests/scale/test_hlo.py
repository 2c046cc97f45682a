"""Collective bytes: of written programs, counted by hand, and of a program that XLA partitions for eight devices."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gui_rl.scale.hlo import collective_bytes, received

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """HloModule jit_step, is_scheduled=true

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

%inner_body (p: (s32[], bf16[128])) -> (s32[], bf16[128]) {
  %p = (s32[]{:T(128)}, bf16[128]{0:T(1024)}) parameter(0)
  %x = bf16[128]{0:T(1024)} get-tuple-element(%p), index=1
  %moved = (bf16[128]{0}, bf16[128]{0}, u32[]{:S(2)}) collective-permute-start(%x), source_target_pairs={{0,1},{1,0}}
  ROOT %t = (s32[], bf16[128]) tuple(%p)
}

%inner_condition (p.1: (s32[], bf16[128])) -> pred[] {
  %limit = s32[]{:T(128)} constant(4)
  %p.1 = (s32[], bf16[128]) parameter(0)
  %i = s32[] get-tuple-element(%p.1), index=0
  ROOT %lt = pred[]{:T(512)} compare(%i, %limit), direction=LT
}

%body (q: (s32[], bf16[128])) -> (s32[], bf16[128]) {
  %q = (s32[], bf16[128]) parameter(0)
  %gathered = bf16[1024,2]{1,0:T(8,128)(2,1)S(1)} all-gather(%q), replica_groups=mesh['a'=2,'b'=4] {'b'}, dimensions={0}
  ROOT %w = (s32[], bf16[128]) while(%q), condition=%inner_condition, body=%inner_body
}

%condition (q.1: (s32[], bf16[128])) -> pred[] {
  %many = s32[] constant(10)
  %q.1 = (s32[], bf16[128]) parameter(0)
  %j = s32[] get-tuple-element(%q.1), index=0
  ROOT %lt.1 = pred[] compare(%j, %many), direction=LT
}

%left (l: f32[64]) -> f32[64] {
  %l = f32[64]{0} parameter(0)
  ROOT %r = f32[64]{0} all-reduce(%l), replica_groups={{0,1,2,3},{4,5,6,7}}, to_apply=%add
}

%right (m: f32[64]) -> f32[64] {
  ROOT %m = f32[64]{0} parameter(0)
}

ENTRY %main (z: (s32[], bf16[128])) -> f32[64] {
  %z = (s32[], bf16[128]) parameter(0)
  %loop = (s32[], bf16[128]) while(%z), condition=%condition, body=%body
  %s = f32[64]{0} reduce-scatter(%z), replica_groups=[2,4]<=[8], dimensions={0}, to_apply=%add
  %pair = (f32[16]{0}, f32[128]{0}) all-to-all(%z, %z), replica_groups={}
  ROOT %c = f32[64]{0} conditional(%z, %z, %z), branch_computations={%left, %right}
}
"""


def test_loops_count_as_often_as_they_turn():
    found, uncounted = collective_bytes(PROGRAM)
    assert uncounted == 0
    assert found == {
        "all-gather": 10 * 1024 * 2 * 2 * 3 / 4,
        "collective-permute": 10 * 4 * 128 * 2,
        "reduce-scatter": 64 * 4 * 4 * 3 / 4,
        "all-to-all": (16 + 128) * 4,
        "all-reduce": 2 * 64 * 4 * 3 / 4,
    }


def test_an_all_reduce_that_is_sliced_in_a_fusion_is_a_reduce_scatter():
    """As the TPU compiler writes it; the operand counts once."""
    fused = """
%all-reduce-scatter.3 (l.1: f32[64]) -> f32[16] {
  %l.1 = f32[64]{0} parameter(0)
  %whole = f32[64]{0} all-reduce(%l.1), replica_groups={{0,1,2,3},{4,5,6,7}}, to_apply=%add
  ROOT %part = f32[16]{0} dynamic-slice(%whole, %l.1), dynamic_slice_sizes={16}
}

ENTRY %main (z: (s32[], bf16[128])) -> f32[64] {
  %scattered = f32[16]{0} fusion(%z), kind=kCustom, calls=%all-reduce-scatter.3"""
    program = PROGRAM.replace("\nENTRY %main (z: (s32[], bf16[128])) -> f32[64] {", fused)
    found, before = collective_bytes(program)[0], collective_bytes(PROGRAM)[0]
    assert found["reduce-scatter"] - before["reduce-scatter"] == 64 * 4 * 3 / 4
    assert found["all-reduce"] == before["all-reduce"]


def test_a_loop_whose_turns_are_not_written_is_said_so():
    strange = PROGRAM.replace("compare(%j, %many), direction=LT", "compare(%j, %j), direction=NE")
    found, uncounted = collective_bytes(strange)
    assert uncounted == 1 and found["collective-permute"] == 4 * 128 * 2


@pytest.mark.parametrize(
    ("kind", "sizes", "group", "started", "expected"),
    [
        ("all-gather", [800.0], 8, False, 700.0),
        ("all-gather", [800.0, 80.0], 8, False, 770.0),  # two arrays together
        ("all-gather", [100.0, 800.0], 8, True, 700.0),  # operand and result
        ("reduce-scatter", [100.0], 8, False, 700.0),
        ("reduce-scatter", [100.0, 10.0], 8, False, 770.0),
        ("all-reduce", [800.0], 8, True, 1400.0),
        ("all-to-all", [400.0, 400.0], 8, False, 700.0),
        ("collective-permute", [50.0, 50.0], 0, True, 50.0),
    ],
)
def test_bytes_received_in_a_ring(kind, sizes, group, started, expected):
    assert received(kind, sizes, group, started) == pytest.approx(expected)


PARTITIONED = """
import jax, jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P
from gui_rl.scale.hlo import collective_bytes
mesh = jax.make_mesh((8,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
split, whole = NamedSharding(mesh, P(None, "d")), NamedSharding(mesh, P())
def run(x, w):
    rows = NamedSharding(mesh, P("d"))
    def layer(x, w):
        return jax.lax.with_sharding_constraint(jnp.tanh(x @ jax.lax.with_sharding_constraint(w, whole)), rows), None
    return jax.lax.scan(layer, x, w)[0].sum()
x = jax.ShapeDtypeStruct((8, 64), jnp.float32, sharding=NamedSharding(mesh, P("d")))
w = jax.ShapeDtypeStruct((5, 64, 64), jnp.float32, sharding=NamedSharding(mesh, P(None, "d")))
print(collective_bytes(jax.jit(run).lower(x, w).compile().as_text()))
"""


def test_a_scanned_layer_gathers_its_weights_once_a_turn():
    """Five layers of 64 x 64 floats, each split over eight devices, and one scalar to add up."""
    flags = "--xla_force_host_platform_device_count=8"
    env = {**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", PARTITIONED], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    found, uncounted = eval(done.stdout)
    assert uncounted == 0
    assert found == {"all-gather": 5 * 64 * 64 * 4 * 7 / 8, "all-reduce": 2 * 4 * 7 / 8}
