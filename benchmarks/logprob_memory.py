"""Peak memory of the log-prob step at Qwen's vocabulary, from the compiled program's own account (nothing is run).

python -m benchmarks.logprob_memory
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from benchmarks.record import Figure, write
from gui_rl.model import forward
from gui_rl.model.config import preset

TOKENS = 8192
BAR = 1.3


def main() -> None:
    """Compiles the step for each model; writes results/logprob_memory.json."""
    figures = []
    for name in ("qwen3-vl-2b", "qwen3-vl-8b"):
        cfg = dataclasses.replace(preset(name), dtype=jnp.float32)  # a CPU program would widen bfloat16 first
        width, vocab = cfg.text.hidden_size, cfg.text.vocab_size
        hidden = jax.ShapeDtypeStruct((1, TOKENS, width), cfg.dtype)
        targets = jax.ShapeDtypeStruct((1, TOKENS), jnp.int32)
        shape, key = ((vocab, width), "embed") if cfg.tie_word_embeddings else ((width, vocab), "head")
        params = {"text": {key: jax.ShapeDtypeStruct(shape, cfg.dtype)}}

        def step(params, hidden, targets, cfg=cfg):
            return forward.token_logprobs(params, cfg, hidden, targets)

        memory = jax.jit(step).lower(params, hidden, targets).compile().memory_analysis()
        held = memory.argument_size_in_bytes
        peak = held + memory.output_size_in_bytes + memory.temp_size_in_bytes
        note = f"{held / 1e6:.0f} MB of hidden states and weights; the bar is a most, not a least"
        figures.append(
            Figure(f"log-probs, {name}, {TOKENS} tokens", peak / 1e6, "MB", held / 1e6, peak / held, BAR, note=note)
        )
    write("logprob_memory", figures)


if __name__ == "__main__":
    main()
