"""Data: trajectories and their storage, deterministic input pipelines, and the packing of samples into rows."""
