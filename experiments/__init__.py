"""Experiments: each module has a frozen `Config` and `main(config, resume)`; `gui-rl run NAME` finds it by its name."""
