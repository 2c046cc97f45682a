"""Ride hailing on a phone."""
