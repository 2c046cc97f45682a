"""Several devices give what one gives."""

import json
import os
import socket
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


def run(script, *arguments, devices=1):
    """A script that is started with so many host devices; `communicate` waits for it."""
    flags = f"--xla_force_host_platform_device_count={devices} --xla_backend_optimization_level=0"
    path = os.pathsep.join([str(HERE), str(HERE.parents[1])])
    env = {**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, str(HERE / script), *map(str, arguments)]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def differences():
    """What sharded_step.py prints."""
    with run("sharded_step.py", devices=8) as process:
        out, error = process.communicate(timeout=900)
    assert process.returncode == 0, error[-3000:]
    return json.loads(out)


@pytest.mark.parametrize("case", TOLERANCE)
def test_many_devices_give_what_one_gives(differences, case):
    assert differences[case] <= TOLERANCE[case]


def test_two_processes_give_what_one_gives():
    """A dense model split by `fsdp`, and a mixture of experts split by `expert`, over gloo."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with run("two_processes.py", 0, port) as first, run("two_processes.py", 1, port) as second:
        try:
            out, error = first.communicate(timeout=300)
            _, other = second.communicate(timeout=60)
        finally:
            first.kill(), second.kill()
    assert first.returncode == 0 == second.returncode, error[-3000:] + other[-3000:]
    gaps = json.loads(out.splitlines()[-1])  # gloo writes lines of its own
    assert set(gaps) == {"fsdp", "expert"} and max(gaps.values()) <= 1e-5, gaps
