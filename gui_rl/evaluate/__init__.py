"""Evaluation: metrics, suites and tables."""
