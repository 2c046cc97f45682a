"""Reading a run's folder. In: runs/NAME. Out: a frozen `Run`: configuration, manifest, metrics, result, trajectories.

config.json  manifest.json   as written by gui_rl.report.manifest
metrics.jsonl, pools.jsonl   as written by gui_rl.report.metrics
trajectories/*.json          one Episode.to_dict() each (gui_rl.data.schema); screenshots are PNG files beside it
result.json                  written when the run has finished:

    {"minutes": float, "peak_memory_gb": float, "groups": {"kept": share, "swapped": share, "empty": share},
     "seconds": {part: seconds},
     "families": {"mobile" | "desktop" | "web": {"random" | "script" | "sft" | "rl": SCORE}}}

SCORE = {"success": 0..1, "low": 0..1, "high": 0..1, "episodes": int, "greedy": SCORE}: success with its 95 %
interval, actions sampled; "greedy" (the likeliest tokens instead) where the policy was evaluated so too. "seconds"
may be absent. A run that is still going on has no result.json.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from gui_rl.data.schema import Episode
from gui_rl.data.trajectory_files import read_trajectories
from gui_rl.errors import UserError
from gui_rl.report.metrics import read_metrics

FAMILIES = ("mobile", "desktop", "web")


@dataclass(frozen=True)
class Phase:
    """Steps (start, stop] of a stage that trained one device family ("mix": all of them)."""

    start: int
    stop: int
    family: str


@dataclass(frozen=True)
class Run:
    """Everything that a run's folder holds; None or empty where the run has not written it yet."""

    path: Path
    config: dict
    manifest: dict
    metrics: tuple[dict, ...]
    result: dict | None
    trajectories: tuple[Episode, ...]

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.resolve().name

    def stages(self) -> list[str]:
        """Stages in the order in which they first logged."""
        return list(dict.fromkeys(record["stage"] for record in self.metrics))

    def names(self, stage: str) -> list[str]:
        """Metric names that a stage logged, sorted."""
        return sorted({name for record in self.metrics if record["stage"] == stage for name in record["metrics"]})

    def series(self, stage: str, name: str) -> tuple[tuple[int, float | None], ...]:
        """(step, value) in step order; None where the value was not finite."""
        points = [
            (record["step"], record["metrics"][name])
            for record in self.metrics
            if record["stage"] == stage and name in record["metrics"]
        ]
        return tuple(sorted(points, key=lambda point: point[0]))

    def phases(self, stage: str) -> tuple[Phase, ...]:
        """Stretches of steps with the same phase, in order; a stage without phases has none."""
        marked = sorted({(r["step"], r["phase"]) for r in self.metrics if r["stage"] == stage and r["phase"]})
        phases: list[Phase] = []
        for step, family in marked:
            if phases and phases[-1].family == family:
                phases[-1] = Phase(phases[-1].start, step, family)
            elif not phases or step > phases[-1].stop:
                phases.append(Phase(phases[-1].stop if phases else max(step - 1, 0), step, family))
        return tuple(phases)


def read_run(run_dir: str | os.PathLike, trajectories: bool = True) -> Run:
    """Reads a run, finished or not; its trajectories, with every screenshot, only where they are wanted.

    Raises:
        UserError: no such folder, nothing of a run in it, or a file that does not parse; names the file.
    """
    path = Path(run_dir)
    if not path.is_dir():
        raise UserError(f"no run at {path}: there is no such folder")
    files = ("config.json", "manifest.json", "metrics.jsonl", "result.json")
    if not any((path / name).exists() for name in files):
        raise UserError(f"no run at {path}: it holds none of {', '.join(files)}")
    return Run(
        path=path,
        config=_read_object(path / "config.json") or {},
        manifest=_read_object(path / "manifest.json") or {},
        metrics=tuple(read_metrics(path)),
        result=_read_object(path / "result.json"),
        trajectories=read_trajectories(path) if trajectories else (),
    )


def _read_object(path: Path) -> dict | None:
    if not path.exists():
        return None
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not valid JSON ({error}); remove the file or run again") from error
    if not isinstance(value, dict):
        raise UserError(f"{path}: holds a {type(value).__name__} where a JSON object is expected")
    return value
