"""ToolCUA's own settings (2605.12481, appendix C.3), as the configs of this project."""

from __future__ import annotations

from experiments.table import Published
from gui_rl.learn.mrpo import MRPOConfig
from gui_rl.learn.online import loss_config
from gui_rl.learn.sft import SFTConfig
from gui_rl.learn.toolcua import PathConfig, SwitchConfig
from gui_rl.prompt.context import ContextConfig
from gui_rl.scale.compile import CompileOptions

ONLINE = MRPOConfig(
    steps=25, group=32, oversample=1, tasks=32, refill=32, explore=1.0, phases="mix", max_lag=1, reward="path",
    path=PathConfig(tool_weight=0.4, length_weight=0.2, max_steps=30), muon_rate=1e-6, adam_rate=1e-6,
)  # fmt: skip
C_3 = Published(
    settings={
        "stage 1, warm-up on D_all": SFTConfig(turns=128),
        "stage 2, single-turn RL on D_critical": SwitchConfig(steps=40, group=32, batch=128),
        "stage 3, online RL": ONLINE,
        "stage 3, loss": loss_config(ONLINE),
        "prompts: five screenshots": ContextConfig(history_turns=4, observation="tool_response"),
    },
    ours={
        "stage 1": "three epochs over about 180,000 steps are stated, batch and rates are not",
        "stage 2, steps, decision, reach": "how decision and action are weighed is not stated; 5,000 steps in batches "
        "of 128 are 40 steps an epoch; the rate 1e-6 is stated",
        "stage 3, tasks, refill": "the batch of 32 is read as prompts; the cap of dynamic filtering is not stated",
        "stage 3, parse_penalty": "R_fmt's value is not stated",
        "stage 3, muon_rate, warmup": "the rate 1e-6 is stated, neither the optimizer nor a warm-up is; ours is Muon",
        "stage 3, max_lag": "rollout and training are decoupled; by how much is not stated",
        "prompts": "longest prompt and response are not stated; a row of 32,768 tokens is compiled",
    },
    compiles=(CompileOptions(model="qwen3-vl-8b", topology="v5p:4x4x4", task="rl", seq=32768),),
)
