"""Two processes take the step that one takes, and weights move from the trainer's devices to the sampler's."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent


def start(devices, *arguments):
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={devices}"
    path = os.pathsep.join([str(HERE), str(HERE.parents[1])])
    env = {**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"}
    return subprocess.Popen(
        [sys.executable, str(HERE / "many_processes.py"), *map(str, arguments)],
        env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def said(process):
    out, error = process.communicate(timeout=600)
    assert process.returncode == 0, error[-3000:]
    found = [line for line in out.splitlines() if line.startswith("{")]  # gloo prints lines of its own
    return json.loads(found[-1]) if found else None


def test_two_processes_take_the_step_that_one_takes():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    two, nothing = map(said, [start(1, "step", 2, index, port) for index in range(2)])
    one = said(start(1, "step", 1, 0, 0))
    assert nothing is None and two.pop("samples") == one.pop("samples") > 30
    assert set(two) == {"fsdp", "expert"}
    for name, both in two.items():
        assert both["split"] > 0 == one[name]["split"], name  # the parameters are spread over the processes
        for mine, other in zip(both["params"], one[name]["params"], strict=True):
            np.testing.assert_allclose(mine, other, atol=1e-5, rtol=1e-5, err_msg=name)
        for key, value in one[name]["metrics"].items():
            np.testing.assert_allclose(both["metrics"][key], value, atol=1e-5, rtol=1e-5, err_msg=f"{name} {key}")


def test_the_sampler_has_devices_of_its_own():
    found = said(start(8, "meshes"))
    assert found["devices"] == [4, 5] and found["split"] > 0  # tensor-parallel there, fully sharded here
    assert found["same"] == [True] * 4 and found["gap"] < 1e-4
