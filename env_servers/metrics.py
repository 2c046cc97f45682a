"""What an environment server counts, in Prometheus' text format (GET /metrics)."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)


class Metrics:
    """The counters of one server, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        common = {"namespace": "gui_rl_env", "registry": self._registry}
        self.sessions = Gauge("sessions", "sessions on lease", **common)
        self.capacity = Gauge("sessions_limit", "sessions that fit", **common)
        self.created = Counter("sessions_created", "sessions handed out", **common)
        self.expired = Counter("sessions_expired", "sessions that the reaper ended", ["reason"], **common)
        self.refused = Counter("sessions_refused", "requests for sessions answered with 429", **common)
        self.resets = Counter("resets", "episodes begun", **common)
        self.steps = Counter("steps", "steps carried out", ["device"], **common)
        self.in_flight = Gauge("steps_in_flight", "steps being carried out", **common)
        self.repeats = Counter("steps_repeated", "re-sent steps answered from store", **common)
        self.outcomes = Counter("episodes", "episodes by outcome", ["suite", "outcome"], **common)
        self.launches = Gauge("browser_launches", "browsers started", **common)
        self.step_seconds = Histogram("step_seconds", "time of a step, input to pixels", buckets=_SECONDS, **common)
        self.reset_seconds = Histogram("reset_seconds", "time of a reset", buckets=_SECONDS, **common)

    def text(self) -> bytes:
        """All of them, as Prometheus scrapes them."""
        return generate_latest(self._registry)
