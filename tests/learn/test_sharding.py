"""Several devices give what one gives."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent

TOLERANCE = {
    "fsdp, 1 micro-batches": 1e-5,
    "fsdp+tensor, 2 micro-batches": 1e-5,
    "expert, 1 micro-batches": 1e-5,
    "muon": 1e-5,
    "master weights": 1e-5,
    "adapters": 1e-5,
    "checkpoint on other meshes": 0.0,
}


@pytest.fixture(scope="module")
def differences():
    """What sharded_step.py prints, started with eight host devices."""
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=8"
    path = os.pathsep.join([str(HERE), str(HERE.parents[1])])
    env = {**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, str(HERE / "sharded_step.py")], env=env, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("case", TOLERANCE)
def test_many_devices_give_what_one_gives(differences, case):
    assert differences[case] <= TOLERANCE[case]
