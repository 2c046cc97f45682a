"""The policy network: Qwen3-VL as pure functions on a tree of parameters."""
