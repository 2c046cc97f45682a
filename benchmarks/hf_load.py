"""Host memory and time of loading a checkpoint.

    python benchmarks/hf_load.py [--gigabytes 1] [--devices 4]

Writes a mixture-of-experts checkpoint of many files to a temporary folder, then loads it in a process of its own, once
on one device and once split over several host devices. The figure of interest is what the host holds beyond the
parameters, over the size of the largest tensor. Result: benchmarks/results/hf_load.json.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
LOAD = """
import resource, sys, threading, time, tracemalloc
import jax, numpy as np, psutil
from jax.sharding import Mesh
from gui_rl.model import hf
mesh = Mesh(np.array(jax.devices()).reshape(1, 1, -1, 1), ("replica", "fsdp", "expert", "tensor"))
process, peak, done = psutil.Process(), 0, False
def watch():
    global peak
    while not done:
        info = process.memory_full_info()
        peak = max(peak, info.rss - info.shared)  # pages of the files themselves are the system's to drop
        time.sleep(0.02)
jax.block_until_ready(jax.numpy.zeros(1))
info = process.memory_full_info()
before = info.rss - info.shared
threading.Thread(target=watch, daemon=True).start()
start = time.perf_counter()
_, params = hf.load(sys.argv[1], mesh=mesh)
seconds = time.perf_counter() - start
done = True
held = sum(leaf.nbytes for leaf in jax.tree.leaves(params))
print(seconds, held, peak - before - held)
"""


def write(directory: Path, gigabytes: float) -> int:
    """A bfloat16 model of about that size; returns the bytes of its largest tensor."""
    import jax

    from gui_rl.model import hf
    from gui_rl.model.config import ModelConfig, TextConfig, VisionConfig
    from gui_rl.model.params import init_params

    layers = max(1, round(gigabytes * 20))
    experts = {"num_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 1024}
    cfg = ModelConfig(
        text=TextConfig(8192, 512, 1024, layers, 8, 4, 64, mrope_section=(16, 8, 8), **experts),
        vision=VisionConfig(1, 32, 32, 2, 512, 16, patch_size=2),
        dtype="bfloat16",
        param_dtype="bfloat16",
    )
    hf.MAX_FILE_BYTES = 2**26
    hf.save(directory, cfg, jax.jit(init_params, static_argnums=0)(cfg, jax.random.key(0)))
    return 16 * 512 * 2048 * 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--devices", type=int, default=4)
    options = parser.parse_args()
    from gui_rl.report import manifest

    figures = []
    with tempfile.TemporaryDirectory() as folder:
        largest = write(Path(folder), options.gigabytes)
        files = len(list(Path(folder).glob("*.safetensors")))
        for devices in (1, options.devices):
            flags = f"--xla_force_host_platform_device_count={devices}"
            env = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "MALLOC_MMAP_THRESHOLD_": "1048576"}
            command = [sys.executable, "-c", LOAD, folder]
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
            seconds, held, beyond = map(float, done.stdout.split())
            where = f"{files} files on {devices} host device{'s' if devices > 1 else ''}"
            figures.append(
                {"what": f"load, {where}", "value": round(held / seconds / 1e9, 3), "unit": "GB/s", "runs": 1}
            )
            print(f"{where}: {held / 1e9:.2f} GB in {seconds:.1f} s")
            if devices == 1:  # several host devices share memory that is theirs alike: it cannot be told apart
                what = f"peak host memory beyond the parameters over the largest tensor, {where}"
                figures.append({"what": what, "value": round(beyond / largest, 2), "unit": "ratio", "runs": 1})
                print(f"peak beyond the parameters: {beyond / largest:.2f} x the largest tensor")
    document = {
        "name": "hf_load",
        "revision": manifest.git_revision(),
        "machine": {**manifest.machine(), "versions": manifest.package_versions()},
        "figures": figures,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "hf_load.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
