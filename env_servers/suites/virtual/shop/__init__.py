"""Shop: the web shop. See `app.py`."""
