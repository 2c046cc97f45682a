"""The data flywheel: tasks, collection with checkpoint predicates, and everything synthesised from trajectories."""
