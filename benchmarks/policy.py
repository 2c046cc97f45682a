"""The policy against transformers on torch: decoding and training, the same weights and inputs, two cores for both.

python -m benchmarks.policy [decode_3M train_3M decode_100M train_100M profile_3M profile_100M]

A profile says by kind of operation where our time goes: what the ratios of the others are made of.
"""

from __future__ import annotations

import collections
import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import torch
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

from benchmarks.record import Figure, alternate, rate_figure, seconds, write
from gui_rl.data.batch import split
from gui_rl.data.packing import Branch, Sample, pack
from gui_rl.learn import optim
from gui_rl.learn.losses import LossConfig
from gui_rl.learn.state import init_state, make_mesh
from gui_rl.learn.step import make_train_step, place
from gui_rl.model import forward, hf
from gui_rl.model.allocator import keep_freed_memory
from gui_rl.prompt.images import ImageInput
from gui_rl.rollout import programs

CORES = 2
GRID = (1, 14, 20)  # 280 patches, 70 visual tokens
LENGTH = 160
prefill = jax.jit(forward.prefill, static_argnums=(1, 3))
NEW = 64
ROWS = 8  # of a training step
IMAGE, START, END = 3, 1, 2
SIZES = {
    "3M": dict(hidden=128, layers=4, inner=384, heads=4, groups=2, dim=32, vocab=1536, vision=(4, 96, 256, 4)),
    "100M": dict(hidden=768, layers=12, inner=2048, heads=12, groups=4, dim=64, vocab=16384, vision=(6, 256, 768, 4)),
}
BARS = {("3M", 1): 8.0, ("3M", 16): 5.0, ("100M", 1): 1.2, ("100M", 16): 1.5}
TRAIN_BARS = {"3M": 1.5, "100M": 1.2}
PARTS = [f"{work}_{name}" for name in SIZES for work in ("decode", "train", "profile")]


def peer_model(size: dict) -> Qwen3VLForConditionalGeneration:
    """transformers' model with random weights."""
    torch.manual_seed(0)
    depth, width, inner, heads = size["vision"]
    section = [size["dim"] // 2 - 2 * (size["dim"] // 6), size["dim"] // 6, size["dim"] // 6]
    config = Qwen3VLConfig(
        text_config={
            "vocab_size": size["vocab"],
            "hidden_size": size["hidden"],
            "intermediate_size": size["inner"],
            "num_hidden_layers": size["layers"],
            "num_attention_heads": size["heads"],
            "num_key_value_heads": size["groups"],
            "head_dim": size["dim"],
            "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": section},
        },
        vision_config={
            "depth": depth,
            "hidden_size": width,
            "intermediate_size": inner,
            "num_heads": heads,
            "out_hidden_size": size["hidden"],
            "num_position_embeddings": 256,
            "deepstack_visual_indexes": [1, 2],
        },
        image_token_id=IMAGE,
        video_token_id=4,
        vision_start_token_id=START,
        vision_end_token_id=END,
        tie_word_embeddings=True,
    )
    return Qwen3VLForConditionalGeneration(config).eval()


def prompts(rows: int, vocab: int) -> tuple[np.ndarray, np.ndarray]:
    """Token ids [rows, LENGTH] with one image each, and its patches [rows, 280, 1536]."""
    rng = np.random.default_rng(0)
    tokens = np.prod(GRID) // 4
    ids = rng.integers(10, vocab, (rows, LENGTH))
    ids[:, 4] = START
    ids[:, 5 : 5 + tokens] = IMAGE
    ids[:, 5 + tokens] = END
    return ids, rng.uniform(-1, 1, (rows, int(np.prod(GRID)), 1536)).astype(np.float32)


def torch_inputs(ids: np.ndarray, patches: np.ndarray) -> dict:
    """What transformers' model takes."""
    tokens = torch.tensor(ids)
    return {
        "input_ids": tokens,
        "attention_mask": torch.ones_like(tokens),
        "pixel_values": torch.tensor(patches.reshape(-1, patches.shape[-1])),
        "image_grid_thw": torch.tensor([GRID] * len(ids)),
        "mm_token_type_ids": (tokens == IMAGE).int(),
    }


def our_batch(ids: np.ndarray, patches: np.ndarray, cfg):
    """The same rows, packed; every token but the first is a target."""
    side = round(cfg.vision.num_position_embeddings**0.5)
    samples = [
        Sample(str(n), row[:-1].tolist(), (ImageInput(part, GRID, (320, 224)),), (Branch([int(row[-1])]),))
        for n, (row, part) in enumerate(zip(ids, patches, strict=True))
    ]
    batch = pack(samples, IMAGE, LENGTH, patches.shape[1], rows=len(ids), side=side, one_per_row=True)
    weight = np.zeros_like(batch.ce_weight)
    weight[:, : LENGTH - 1] = 1.0
    return batch.replace(ce_weight=weight)


def our_answer(cfg, params, rows: int) -> Callable[[int], None]:
    """What answers `rows` prompts with as many tokens as it is told."""
    decoding_params = programs.for_decoding(params)  # as the engine does, once for new weights
    inputs = our_batch(*prompts(rows, cfg.text.vocab_size), cfg).inputs
    banned = np.zeros(cfg.text.vocab_size, bool)

    def answer(count: int) -> None:
        hidden, kv = prefill(params, cfg, inputs, LENGTH + NEW + 1)
        slots = programs.admit(
            programs.empty_slots(cfg, rows, LENGTH + NEW + 1), hidden, kv, np.arange(rows), np.arange(rows),
            np.full(rows, count, np.int32), np.zeros(rows, np.uint32), np.zeros(rows, np.float32),
            np.full((rows, programs.STOPS), -1, np.int32),
        )  # fmt: skip
        out = programs.advance(decoding_params, slots, banned, cfg=cfg, rows=rows, stride=NEW + 1)
        assert (np.asarray(out.counts) == count).all()

    return answer


def decoding(name: str, model, cfg, params) -> list[Figure]:
    """Tokens a second, the prefill taken off: a long answer's time less a short one's."""
    figures = []
    for rows in (1, 16):
        ids, patches = prompts(rows, cfg.text.vocab_size)
        answer = our_answer(cfg, params, rows)

        def ours(answer=answer) -> float:
            return seconds(lambda: answer(NEW + 1)) - seconds(lambda: answer(1))

        given = torch_inputs(ids, patches)

        def peer(given=given) -> float:
            def generate(count: int) -> None:
                with torch.no_grad():
                    model.generate(
                        **given, max_new_tokens=count, min_new_tokens=count, do_sample=False, pad_token_id=0,
                        eos_token_id=None,
                    )  # fmt: skip

            return seconds(lambda: generate(NEW + 1)) - seconds(lambda: generate(1))

        times = alternate(ours, peer)
        note = bound(params) if rows == 1 else ""
        figures.append(
            rate_figure(f"decode {name}, batch {rows}", "tokens/s", rows * NEW, *times, BARS[name, rows], note)
        )
    return figures


def bound(params) -> str:
    """What memory allows at batch 1, where every token reads all weights of the decoder (the embedding as the head)."""
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(params["text"]))
    memory = torch.ones(2**27)
    rate = memory.nbytes / min(seconds(memory.sum) for _ in range(5))
    return (
        f"a token reads {size / 1e6:.0f} MB of weights; these cores read memory at {rate / 1e9:.1f} GB/s: "
        f"at most {rate / size:.0f} tokens/s where the weights do not fit into caches"
    )


def our_step(cfg, params, batch) -> Callable[[], None]:
    """What makes one training step."""
    mesh = make_mesh()
    optimizer = optim.adamw(1e-4)
    state = [init_state(cfg, optimizer, 0, mesh, params=params)]
    step = make_train_step(cfg, LossConfig(), optimizer, mesh)
    placed = place(split(batch, 1), mesh)

    def once() -> None:
        state[0], metrics = step(state[0], placed)
        jax.block_until_ready(metrics)

    return once


def training(name: str, model, cfg, params) -> list[Figure]:
    """Forward, backward, clipping and AdamW."""
    ids, patches = prompts(ROWS, cfg.text.vocab_size)
    once = our_step(cfg, params, our_batch(ids, patches, cfg))

    def ours() -> float:
        return seconds(once)

    given = torch_inputs(ids, patches)
    adam = torch.optim.AdamW(model.parameters(), 1e-4, weight_decay=0.0)

    def peer() -> float:
        def once() -> None:
            adam.zero_grad()
            model(**given, labels=given["input_ids"], use_cache=False).loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            adam.step()

        return seconds(once)

    model.train()
    times = alternate(ours, peer)
    model.eval()
    return [rate_figure(f"train step {name}, {ROWS} rows", "rows/s", ROWS, *times, TRAIN_BARS[name])]


def profiling(name: str, model, cfg, params) -> list[Figure]:
    """Where our time goes, by kind of operation: a token of 16 rows, and a training step."""
    answer, step = (
        our_answer(cfg, params, 16),
        our_step(cfg, params, our_batch(*prompts(ROWS, cfg.text.vocab_size), cfg)),
    )
    figures = []
    for what, program, work, times in (
        (f"decode {name}, batch 16: a step", "jit_advance", lambda: answer(NEW + 1), NEW),
        (f"train step {name}", "jit_step", step, 1),
    ):
        work()
        wall = seconds(work) - (seconds(lambda: answer(1)) if times > 1 else 0)
        for kind, spent in spent_by_kind(work, program).most_common(12):
            figures.append(Figure(f"{what}, {kind}", spent / times * 1e6, "us", note=f"of {wall / times * 1e6:.0f} us"))
    return figures


def spent_by_kind(work: Callable[[], None], program: str) -> collections.Counter[str]:
    """Seconds of all threads in each kind of a program's operations while `work` runs; a loop's body is not the loop's.

    A `ynn_fusion` is a matrix product with what is fused to it, in the library YNNPACK.
    """
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            work()
        (path,) = Path(folder).rglob("*.xplane.pb")
        lines = [line for plane in jax.profiler.ProfileData.from_file(str(path)).planes for line in plane.lines]
    spent: collections.Counter[str] = collections.Counter()
    for line in lines:
        open_until: list[tuple[float, str]] = []  # events of a thread nest: an outer one's time is its own alone
        for event in sorted(line.events, key=lambda one: (one.start_ns, -one.duration_ns)):
            if ("hlo_module", program) not in event.stats or not any(key == "hlo_op" for key, _ in event.stats):
                continue
            while open_until and open_until[-1][0] <= event.start_ns:
                open_until.pop()
            kind = re.sub(r"[.\d]+$", "", event.name)
            if open_until:
                spent[open_until[-1][1]] -= event.duration_ns / 1e9
            spent[kind] += event.duration_ns / 1e9
            open_until.append((event.start_ns + event.duration_ns, kind))
    return spent


def main() -> None:
    """Measures the parts named on the command line (all without any); writes results/PART.json for each."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])  # before jax makes its threads: one a core
    torch.set_num_threads(CORES)
    keep_freed_memory()
    for part in sys.argv[1:] or PARTS:
        work, _, name = part.partition("_")
        model = peer_model(SIZES[name])
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            cfg, params = hf.load(Path(folder))
        measure = {"decode": decoding, "train": training, "profile": profiling}[work]
        write(part, measure(name, model, cfg, params))


if __name__ == "__main__":
    main()
