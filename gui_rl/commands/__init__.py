"""Groups of `gui-rl` commands that are too many for one file; `gui_rl.cli` calls them."""
