"""Orders: the phone app. See `app.py`."""
