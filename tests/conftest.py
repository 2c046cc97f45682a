"""What every test shares: modest threads, the CPU as the only device, kept compilations, and the browser."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Two test processes share the machine: each computes on one thread. Set before jax, torch or numpy are imported.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.5")
# What is computed stays the same; it compiles in a third of the time, which is most of what small models take.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_cpu_multi_thread_eigen=false --xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false "
    "--xla_cpu_parallel_codegen_split_count=1",
)
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")


LONG = (
    "test_quickstart.py", "test_sharding.py", "test_apps_web.py", "test_conformance.py", "test_faults.py",
    "test_processes.py", "test_engine.py", "test_teachers.py", "test_parity.py", "test_moe.py",
    "test_openenv.py",
)  # fmt: skip


def pytest_collection_modifyitems(items):
    """The longest files first: one that comes last would keep a single process busy at the end."""
    items.sort(key=lambda item: LONG.index(item.path.name) if item.path.name in LONG else len(LONG))


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of the browser; its absence is a failure, never a skip: the environments are real."""
    from env_servers.browser import find_chromium
    from env_servers.errors import UserError

    try:
        return find_chromium()
    except UserError as error:
        pytest.fail(f"{error}; scripts/setup.sh installs one", pytrace=False)
