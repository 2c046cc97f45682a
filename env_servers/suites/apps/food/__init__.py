"""Food: a food delivery on a phone."""
