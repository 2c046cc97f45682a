"""Real desktops: a display with programs on it. `room` is the server's side, `host` a process beside each display.

`host` and what it imports (`display`, `office`, `calc`, `writer`, `impress`) run in the system's own Python, which has
the bindings of LibreOffice (UNO) and of X; they need nothing else.
"""
