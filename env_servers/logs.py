"""Structured logs: one JSON object a line on standard error, written by a thread so that no step waits for it.

In: `say(level, event, **fields)`. Out: {"time", "level", "event", ...fields}. Lines hold names, numbers and outcomes;
never a token, and never what was typed, answered or shown: of an exception only its type and where it happened.
"""

from __future__ import annotations

import atexit
import json
import logging
import logging.handlers
import queue
import sys
import time
import traceback
from typing import Any, Literal

Level = Literal["debug", "info", "warning", "error"]
WAITING_LINES = 10_000

_log = logging.getLogger("env_servers")


def say(level: Level, event: str, *, error: BaseException | None = None, **fields: Any) -> None:
    """Log an event. error: the exception behind it."""
    number = getattr(logging, level.upper())
    if _log.isEnabledFor(number):
        _log.log(number, event, extra={"fields": fields}, exc_info=error)


class JsonLines(logging.Formatter):
    """A record as one line of JSON; `constant` fields are on every line."""

    def __init__(self, constant: dict[str, Any]) -> None:
        super().__init__()
        self.constant = constant

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of JSON."""
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {"time": f"{when}.{int(record.msecs):03d}Z", "level": record.levelname.lower(), **self.constant}
        line |= {"event": record.getMessage(), **getattr(record, "fields", {})}
        if record.exc_info and record.exc_info[0]:
            kind, _, trace = record.exc_info
            line["error"] = kind.__name__
            line["at"] = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(trace)][-5:]
        return json.dumps(line, default=str)


class _Hand(logging.handlers.QueueHandler):
    """Puts records into the writer's queue as they are; a full queue is counted and told, never waited for."""

    dropped = 0

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self.dropped += 1
            return
        if self.dropped:
            dropped, self.dropped = self.dropped, 0
            say("warning", "log lines dropped", lines=dropped)


def write_to_stderr(level: Level, **constant: Any) -> None:
    """Log `env_servers` from `level` on, and warnings of everything else, with the `constant` fields on every line."""
    writer = logging.StreamHandler(sys.stderr)
    writer.setFormatter(JsonLines(constant))
    waiting: queue.Queue[logging.LogRecord] = queue.Queue(WAITING_LINES)
    listener = logging.handlers.QueueListener(waiting, writer)
    listener.start()
    atexit.register(listener.stop)
    root = logging.getLogger()
    root.handlers[:] = [_Hand(waiting)]
    root.setLevel(logging.WARNING)
    _log.setLevel(level.upper())
