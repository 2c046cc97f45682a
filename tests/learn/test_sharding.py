"""Several devices give what one gives."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def test_sharded_steps_equal_unsharded_ones():
    flags = "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0"
    path = os.pathsep.join([str(HERE), str(HERE.parents[1])])
    env = {**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, str(HERE / "sharded_step.py")], env=env, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert float(done.stdout) < 1e-5
