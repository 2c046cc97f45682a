"""Settings and a terminal of a desktop."""
