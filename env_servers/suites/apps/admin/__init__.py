"""Admin: the tables of a shop's back office."""
