"""Market: a shop on the web."""
