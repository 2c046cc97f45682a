"""A tiny MRPO run killed at random points, against the same run left alone: the same tasks, each trained on once.

python -m benchmarks.rl_resume [--kills 10] [--max-lag 2]

A policy of one layer is sampled by the engine and trained online in simulated environments, with a checkpoint after
every second step. The run writes a line a step: which groups it played and which of them it trained on. It is killed
with SIGKILL after a random time, anywhere, and resumed, `kills` times; after a resume the lines past the checkpoint are
dropped, as `RunLog.rewind` does, since those steps are taken again. Exits with 1 where the two runs' groups differ.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import jax
import numpy as np

from benchmarks.record import Figure, write
from gui_rl.data.samples import BatchShape
from gui_rl.learn import checkpoint, online, optim
from gui_rl.learn.online import MRPOConfig, StepReport
from gui_rl.learn.state import init_state, make_mesh
from gui_rl.learn.step import make_train_step
from gui_rl.model.config import preset
from gui_rl.prompt.context import TINY_CONTEXT
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.rollout.agents import PolicyAgent, Prompts
from gui_rl.rollout.engine import Engine, EngineConfig
from gui_rl.rollout.sampler import SamplingParams
from gui_rl.rollout.simulated import SimulatedClient, Simulation

ROOT = Path(__file__).resolve().parents[1]
TASKS = {family: [("simulated", f"{family}/{n}") for n in range(8)] for family in ("mobile", "desktop", "web")}
CONFIG = MRPOConfig(
    steps=60, tasks=2, group=2, oversample=2, stage_steps=1, explore=1.0, parallel=8, checkpoint_every=2,
    shape=BatchShape(rows=8, row_length=192, row_patches=160, micro_batches=1),
)  # fmt: skip
LINES = "lines.jsonl"


def child(folder: Path, config: MRPOConfig) -> None:
    """The run, from its last checkpoint on; it pauses a little in every step so that kills fall everywhere."""
    jax.config.update("jax_compilation_cache_dir", str(folder.parent / "jax"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    tokenizer, cfg = Tokenizer.load("gui-tiny"), preset("gui-tiny")
    rows = 64 * -(-tokenizer.vocab_size // 64)
    text = dataclasses.replace(cfg.text, num_hidden_layers=1, hidden_size=64, intermediate_size=96, vocab_size=rows)
    vision = dataclasses.replace(cfg.vision, depth=1, deepstack_visual_indexes=(0,), out_hidden_size=64)
    cfg = dataclasses.replace(cfg, text=text, vision=vision, image_token_id=tokenizer.image_id)
    optimizer, mesh = optim.adamw(1e-4), make_mesh()
    state = init_state(cfg, optimizer, 0, mesh)
    if checkpoint.steps(folder):
        state = checkpoint.restore(folder, state).state
    begun, lines = int(state.step), folder / LINES
    kept = [line for line in _lines(lines) if line["step"] <= begun]
    partial = lines.with_suffix(".partial")
    partial.write_text("".join(json.dumps(line) + "\n" for line in kept))
    os.replace(partial, lines)
    engine = Engine(cfg, state.params, tokenizer, EngineConfig(row_buckets=(8,)))
    agent = PolicyAgent(engine, Prompts(tokenizer, TINY_CONTEXT), SamplingParams(1.0, 6))
    update = online.make_update(
        make_train_step(cfg, online.loss_config(config), optimizer, mesh), cfg, config, mesh
    )  # fmt: skip
    client = SimulatedClient(Simulation(mean_s=0.01, shortest=1, longest=4, side=64))

    trained: list[str] = []

    def watched(state, filled):
        episodes = {sample.id.split(" turn ")[0] for sample in filled.samples}  # rl3:simulated:web/5:1234:0
        trained[:] = sorted({"/".join(episode.split(":")[1:-1]) for episode in episodes})
        return update(state, filled)

    async def report(step: StepReport) -> None:
        line = {"step": step.step, "played": [ticket.key for ticket in step.tickets], "trained": trained}
        with lines.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(step.step, flush=True)

    async def run() -> None:
        await online.train(state, watched, agent, client, TASKS, range(10**6), config, folder, report)
        await engine.close()

    asyncio.run(run())


def start(folder: Path, options: argparse.Namespace) -> subprocess.Popen:
    """The run in a process of its own."""
    folder.mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.rl_resume", "--child", folder, "--max-lag", str(options.max_lag)],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def finish(process: subprocess.Popen) -> None:
    """Waits for a run that is left alone."""
    process.communicate()
    if process.returncode:
        raise SystemExit(f"the run ended with {process.returncode}")


def compare(whole: list[dict], cut: list[dict]) -> dict[str, int]:
    """How the two runs' groups differ: multisets of tasks played, groups lost, groups trained on twice."""
    played = [Counter(key for line in lines for key in line["played"]) for lines in (whole, cut)]
    trained = Counter(key for line in cut for key in line["trained"])
    return {
        "groups": sum(played[0].values()),
        "lost": sum((played[0] - played[1]).values()),
        "more": sum((played[1] - played[0]).values()),
        "trained": trained.total(),
        "trained_twice": sum(count - 1 for count in trained.values()),
        "trained_unplayed": sum((trained - played[1]).values()),
        "steps_missing": len({line["step"] for line in whole} ^ {line["step"] for line in cut}),
    }


def main() -> None:
    """Runs both; writes results/rl_resume.json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--max-lag", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", type=Path)
    options = parser.parse_args()
    config = dataclasses.replace(CONFIG, max_lag=options.max_lag)
    if options.child:
        child(options.child, config)
        return
    random = np.random.default_rng(options.seed)
    with tempfile.TemporaryDirectory() as directory:
        began = time.monotonic()
        finish(start(Path(directory) / "whole", options))
        whole, taken = _lines(Path(directory) / "whole" / LINES), time.monotonic() - began
        kills, points = 0, []
        while kills < options.kills:
            process = start(Path(directory) / "cut", options)
            if random.random() < 0.8:
                process.stdout.readline()  # it has been restored and has taken a step; else it dies on the way there
            time.sleep(random.uniform(0.0, 0.5 * taken / (options.kills + 1)))
            if process.poll() is not None:
                raise SystemExit(
                    f"the run ended before it was killed for the {kills + 1}th time: more steps are needed"
                )
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
            points.append(max((line["step"] for line in _lines(Path(directory) / "cut" / LINES)), default=0))
        finish(start(Path(directory) / "cut", options))
        found = compare(whole, _lines(Path(directory) / "cut" / LINES))
    note = (
        f"{kills} kills after steps {points}; max_lag {options.max_lag}; a checkpoint every {CONFIG.checkpoint_every}"
    )
    figures = [
        Figure(name, float(value), "groups" if "steps" not in name else "steps", note=note)
        for name, value in found.items()
    ]
    write("rl_resume", figures)
    if any(value for name, value in found.items() if name not in ("groups", "trained")):
        raise SystemExit(1)


def _lines(path: Path) -> list[dict]:
    """Complete lines of a file; the last may have been cut by a kill."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.rpartition("\n")[0].splitlines()]


if __name__ == "__main__":
    main()
