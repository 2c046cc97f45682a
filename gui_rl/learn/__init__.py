"""Learning: batches, losses, advantages, rewards, buffer, schedules, merging, the train step and its checkpoints."""
