"""Files: the desktop file manager. See `app.py`."""
