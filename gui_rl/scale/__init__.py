"""What a model costs on accelerators that are not at hand: memory, arithmetic, traffic, step time."""
