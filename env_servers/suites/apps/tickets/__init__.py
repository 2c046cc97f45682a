"""Ticket booking with seats on a phone."""
