"""Progress of long stages. In: a stage's name, its total and how far it is. Out: bars in a terminal, lines elsewhere.

    with Progress() as progress:
        with progress.stage("SFT", total=800, unit="step") as stage:
            for _ in range(800):
                ...
                stage.advance(loss=loss)

In a terminal every stage is a bar with its rate, the remaining time and the latest numbers. Where the output is no
terminal (a log file, CI) the same is printed as one plain line every ten seconds, at the start and at the end.
"""

import time
from collections.abc import Callable, Iterable, Mapping

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn
from rich.progress import Progress as RichProgress
from rich.table import Table

LINE_EVERY_S = 10.0


class _Bars(RichProgress):
    """Bars, and below them what the latest step of online training measured."""

    board: Mapping[str, Mapping[str, float]] = {}

    def get_renderables(self) -> Iterable[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        if self.board:
            grid = Table.grid(padding=(0, 2))
            for row, numbers in self.board.items():
                grid.add_row(f"[bold]{row}", "  ".join(f"{name} {value:.3g}" for name, value in numbers.items()))
            yield grid


class Progress:
    """Shows one or several stages; see the module's text. Not to be shared between threads.

    Args:
        console: where to write; standard error by default, so that a command's own output stays clean.
        clock: seconds, monotonic; for tests.
    """

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic):
        self.console = console or Console(stderr=True)
        self.clock = clock
        self._bars: _Bars | None = None

    def __enter__(self) -> "Progress":
        if self.console.is_terminal:
            self._bars = _Bars(
                TextColumn("[bold]{task.description}"),
                BarColumn(bar_width=28),
                MofNCompleteColumn(),
                TextColumn("{task.fields[figures]}"),
                console=self.console,
            )
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.stop()
            self._bars = None

    def stage(self, name: str, total: int | None = None, unit: str = "step", done: int = 0) -> "Stage":
        """A stage of `total` units (None: not known), of which `done` were done before (a resumed run)."""
        return Stage(self, name, total, unit, done)

    def note(self, text: str) -> None:
        """One line that stays, above the bars."""
        self.console.print(text, highlight=False, markup=False)


class Stage:
    """One stage of a Progress; a context manager, so that its end is shown also after an exception."""

    def __init__(self, progress: Progress, name: str, total: int | None, unit: str, done: int):
        self._progress, self._name, self._total, self._unit = progress, name, total, unit
        self._start_done = self._done = done
        self._numbers: dict[str, float] = {}
        self._task: TaskID | None = None

    def __enter__(self) -> "Stage":
        self._began = self._printed = self._progress.clock()
        bars = self._progress._bars
        if bars is not None:
            self._task = bars.add_task(self._name, total=self._total, completed=self._done, figures="")
        else:
            self._progress.note(f"{self._name}: started")
        return self

    def advance(self, count: int = 1, metrics: Mapping[str, float] | None = None, **numbers: float) -> None:
        """`count` more units are done; `numbers` replace the ones shown (loss=0.12, success=0.4).

        metrics: of a step of online training: the few of `headline` are shown, and in a terminal all of `board` below.
        """
        self._done += count
        self._numbers.update(numbers | headline(metrics or {}))
        bars = self._progress._bars
        if bars is not None:
            if metrics is not None:
                bars.board = board(metrics)
            bars.update(self._task, completed=self._done, figures=self.figures())
        elif self._progress.clock() - self._printed >= LINE_EVERY_S:
            self._printed = self._progress.clock()
            self._progress.note(f"{self._name}: {self._count()}, {self.figures()}")

    def figures(self) -> str:
        """Rate, remaining time and the latest numbers, as shown: "3.2 step/s, 1:02 left, loss 0.12"."""
        elapsed = self._progress.clock() - self._began
        fresh = self._done - self._start_done
        parts = []
        if fresh and elapsed > 0:
            parts.append(rate_text(fresh / elapsed, self._unit))
            if self._total is not None and self._done < self._total:
                parts.append(f"{duration_text((self._total - self._done) * elapsed / fresh)} left")
        parts += [f"{name} {value:.3g}" for name, value in self._numbers.items()]
        return ", ".join(parts)

    def __exit__(self, failure: type | None, *_: object) -> None:
        took = duration_text(self._progress.clock() - self._began)
        verb = "stopped" if failure else "done"
        bars = self._progress._bars
        if bars is not None:
            numbers = ", ".join(f"{name} {value:.3g}" for name, value in self._numbers.items())
            bars.board = {}
            bars.update(self._task, figures=f"{verb} in {took}" + (f", {numbers}" if numbers else ""))
        else:
            self._progress.note(f"{self._name}: {verb}, {self._count()} in {took}, {self.figures()}".rstrip(", "))

    def _count(self) -> str:
        return f"{self._done}/{self._total}" if self._total is not None else f"{self._done} {self._unit}s"


HEADLINE = {
    "success": "success", "success/mobile": "mobile", "success/desktop": "desktop", "success/web": "web",
    "reward": "reward", "kl": "kl", "entropy": "entropy", "agreement_1pct": "agree", "staleness": "lag",
    "utilisation": "busy", "tokens_per_s": "tok/s",
}  # fmt: skip
"""Metrics of a step of online training that are shown while it runs, and how they are called there."""


def headline(metrics: Mapping[str, float]) -> dict[str, float]:
    """The figures to show of a step's metrics beside its bar; those that are missing are left out."""
    return {short: float(metrics[name]) for name, short in HEADLINE.items() if name in metrics}


BOARD = {
    "success": ("success", "success/*", "progress", "episode_turns"),
    "reward": ("reward", "reward/*", "advantage_size"),
    "tools": ("tool_calls_an_episode", "tool_calls_rewarded_unchanged", "tool_calls_rewarded_idle"),
    "groups": (
        "groups_kept", "groups_swapped", "groups_empty", "groups_short", "groups_again", "groups_dropped", "refilled",
    ),
    "teachers": ("kl", "kl/*", "taught"),
    "policy": ("entropy", "agreement_tight", "agreement_1pct", "agreement_5pct", "clip_share", "grad_norm"),
    "rollout": ("utilisation", "tokens_per_s", "staleness", "staleness_max", "faults", "parse_errors"),
    "programs": ("compile_count", "train_compile_count"),
    "gradients": ("gradient_cosine/all/*",),
}  # fmt: skip
"""Rows of the view of a step of online training, and the metrics in them; * stands for any further words."""


def board(metrics: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """The rows of `BOARD`, each with those of its metrics that are there, called by what tells them apart."""
    rows: dict[str, dict[str, float]] = {}
    for row, names in BOARD.items():
        for name in names:
            start = name.removesuffix("*")
            for found, value in metrics.items():
                if found == name or (start != name and found.startswith(start)):
                    short = found.removeprefix(start) if start != name else found.removeprefix(f"{row}_")
                    rows.setdefault(row, {})[short] = float(value)
    return rows


def rate_text(per_second: float, unit: str) -> str:
    """Per second from 1 on, else the seconds that one unit takes."""
    return f"{per_second:.3g} {unit}/s" if per_second >= 1 else f"{1 / per_second:.3g} s/{unit}"


def duration_text(seconds: float) -> str:
    """Whole seconds as M:SS, or H:MM:SS from an hour on."""
    whole = max(0, round(seconds))
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
