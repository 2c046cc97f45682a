"""Explorer: a file manager on a desktop."""
