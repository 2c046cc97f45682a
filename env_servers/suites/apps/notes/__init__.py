"""Notes and weather: two apps of one phone."""
