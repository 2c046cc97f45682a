"""The worlds: sessions in real browsers behind HTTP. Runs without the policy and without an accelerator library."""
