"""Freed memory stays in the process: a second large allocation touches no new page."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import resource
from gui_rl.model.allocator import keep_freed_memory
assert keep_freed_memory()
def touch():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    bytearray(b"x") * (64 * 2**20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(touch(), touch())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt belongs to glibc")
def test_second_allocation_reuses_the_pages_of_the_first():
    environment = {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    first, second = map(int, done.stdout.split())
    assert first > 1000 and second < first // 100
