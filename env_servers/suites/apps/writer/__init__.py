"""A document editor."""
