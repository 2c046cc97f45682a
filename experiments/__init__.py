"""Experiments: each module has a frozen `Config` and `main(config, resume)`; `gui-rl run NAME` finds it by its name."""

SHARED = frozenset(
    {
        "bench", "estimate", "gradients", "grounding", "knowledge", "lab", "pages", "parts", "table",
        "trainer", "mopd.corrections", "mopd.policies", "mopd.published", "mopd.static",
        "toolcua.policies", "toolcua.published",
    }
)  # fmt: skip
"""Modules that experiments are made of; all others here are experiments."""
