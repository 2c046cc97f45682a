"""UI-MOPD's own settings (2607.04425, table 6), as the configs of this project."""

from __future__ import annotations

import dataclasses

from experiments.table import Published
from gui_rl.learn.mrpo import MRPOConfig
from gui_rl.learn.online import loss_config
from gui_rl.learn.sft import SFTConfig
from gui_rl.learn.teachers import PAPER
from gui_rl.prompt.context import ContextConfig
from gui_rl.rollout.sampler import SamplingParams
from gui_rl.scale.compile import CompileOptions

STAGE_2 = MRPOConfig(
    steps=1250, group=8, oversample=1, tasks=128, refill=256, explore=1.0, phases="mix", max_lag=1, reward="rule",
    teaching=dataclasses.replace(PAPER, threshold=0.5), muon_rate=1e-6, adam_rate=1e-6, parallel=1024,
)  # fmt: skip
"""128 prompts a step with 8 responses each, at most 384 prompts generated for them; single steps on stored states."""
TABLE_6 = Published(
    settings={
        "stage 1, teachers (Qwen3-VL-32B-Thinking)": SFTConfig(turns=128),
        "stage 2, student (Qwen3-VL-8B-Thinking)": STAGE_2,
        "stage 2, loss": loss_config(STAGE_2),
        "stage 2, prompts: the current screenshot alone": ContextConfig(
            history_turns=0, thinking=True, max_prompt_tokens=8192
        ),
        "inference, prompts": ContextConfig(history_turns=4, thinking=True),
        "sampling": SamplingParams(temperature=1.0, max_tokens=512),
    },
    ours={
        "stage 1": "steps, rates and batch of the teachers' fine-tuning are not stated, one epoch is",
        "stage 2, steps": "one epoch is stated; about 160,000 steps of Uni-GUI in batches of 128",
        "stage 2, teaching.threshold": "tau is not stated",
        "stage 2, muon_rate, warmup": "the rate 1e-6 is stated, neither the optimizer nor a warm-up is; ours is Muon",
        "stage 2, max_lag": "rollouts are asynchronous; by how much is not stated",
        "stage 2, explore": "all prompts are drawn alike",
        "stage 2, loss.anchor": "not stated for stale samples; ours are truncated importance weights",
        "compiled": "64 H100 there; here 64 chips of v5p, prompt and response in one row",
    },
    compiles=(
        CompileOptions(
            model="qwen3-vl-8b", topology="v5p:4x4x4", task="rl", seq=8704, teachers=("qwen3-vl-32b", "qwen3-vl-32b")
        ),
    ),
)
