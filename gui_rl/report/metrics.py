"""The record of a run's numbers. In: metrics by stage and step. Out: runs/NAME/metrics.jsonl, pools.jsonl, and wandb.

metrics.jsonl holds one JSON object a line:

    {"stage": "rl", "step": 12, "time": 431.2, "phase": "mobile", "metrics": {"loss": 0.12, "eval/mobile/success": 0.4}}

    stage    "pretrain", "sft" or "rl": any word without "/"; each stage counts its own steps
    step     the number of optimisation steps of that stage done when this was measured
    time     seconds that the run has worked so far; goes on from the last line when a run is resumed
    phase    the device family being trained ("mobile" | "desktop" | "web"), "mix" for all at once, or null
    metrics  name -> number; a number that is not finite is written as null

Names that the report draws (every other name is drawn too, in its last section):

    loss                              training loss of the stage
    eval/FAMILY/success               success on held-out seeds, 0..1, measured while training goes on
    rollout/success                   success of the trajectories that the step was trained on, 0..1
    groups/kept|swapped|empty         shares of the groups of this step, 0..1
    seconds/PART                      wall-clock seconds of a part of this step (rollout, train, evaluate, ...)
    memory_gb                         resident memory of the run's processes

The same numbers go to wandb as "STAGE/NAME" over the axis "STAGE/step", the phase as "STAGE/phase".

pools.jsonl holds one JSON object a line for each pool of a step of online training, its scored episodes in order:

    {"stage": "rl", "step": 12, "suite": "virtual", "task": "shop/add", "seed": 7, "device": "web", "outcomes": [1, 0]}
"""

import json
import math
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gui_rl.data.schema import Episode
from gui_rl.errors import UserError

FILE, POOLS = "metrics.jsonl", "pools.jsonl"
FIELDS = {
    FILE: {"stage", "step", "time", "phase", "metrics"},
    POOLS: {"stage", "step", "suite", "task", "seed", "device", "outcomes"},
}
PHASES = (None, "mobile", "desktop", "web", "mix")
WANDB_MODES = ("offline", "online", "shared", "disabled", "dryrun", "run")


class RunLog:
    """Appends metrics to a run's metrics.jsonl and to wandb; safe against kill -9 at any point.

    A new RunLog on an existing folder goes on with what is there. After loading a checkpoint, call `rewind` with the
    step that it holds: lines of that stage past the step are dropped, since they will be measured again.

    Args:
        run_dir: the run's folder; made if missing.
        wandb_mode: "offline" (the default, which the environment variable WANDB_MODE replaces), "online" or "disabled".

    Raises:
        UserError: a file of the log holds a line that is no record, or wandb could not start in that mode.
    """

    def __init__(self, run_dir: str | os.PathLike, wandb_mode: str = "offline"):
        self.run_dir = Path(run_dir)
        self.run_dir.mkdir(parents=True, exist_ok=True)
        self.path = self.run_dir / FILE
        self._files = {}
        for name in FIELDS:
            _drop_torn_line(self.run_dir / name)
            read_lines(self.run_dir, name)
            self._files[name] = (self.run_dir / name).open("a", encoding="utf-8")
        self._start_clock()
        self._stages: set[str] = set()
        mode = os.environ.get("WANDB_MODE") or wandb_mode if wandb_mode == "offline" else wandb_mode
        self._wandb = _start_wandb(self.run_dir, mode)

    def log(self, stage: str, step: int, metrics: Mapping[str, Any], phase: str | None = None) -> None:
        """Writes one record; it is on disk (flushed) when this returns.

        Args:
            stage: name of the stage, without "/".
            step: optimisation steps of this stage done so far.
            metrics: name -> scalar (Python, numpy or jax).
            phase: device family in training, "mix", or None.

        Raises:
            ValueError: the stage's name holds "/", or the phase is not one of the above.
        """
        if not stage or "/" in stage:
            raise ValueError(f"stage {stage!r} must be a word without '/'")
        if phase not in PHASES:
            raise ValueError(f"phase {phase!r} must be one of {PHASES}")
        values = {name: float(value) for name, value in metrics.items()}
        record = {
            "stage": stage,
            "step": int(step),
            "time": round(time.monotonic() - self._origin, 3),
            "phase": phase,
            "metrics": {name: value if math.isfinite(value) else None for name, value in values.items()},
        }
        self._write(FILE, record)
        if stage not in self._stages:
            self._stages.add(stage)
            self._wandb.define_metric(f"{stage}/step")
            self._wandb.define_metric(f"{stage}/*", step_metric=f"{stage}/step")
        told = {f"{stage}/{name}": value for name, value in values.items()}
        told |= {f"{stage}/phase": phase} if phase else {}
        self._wandb.log({f"{stage}/step": int(step)} | told)

    def log_pools(self, stage: str, step: int, episodes: Sequence[Episode]) -> None:
        """Writes the outcomes of a step's scored episodes, a line for each group key (task and seed)."""
        pools: dict[str, list[Episode]] = {}
        for episode in episodes:
            if episode.scored:
                pools.setdefault(episode.group, []).append(episode)
        for pool in pools.values():
            one = pool[0]
            record = {"stage": stage, "step": int(step), "suite": one.suite, "task": one.task, "seed": one.seed}
            self._write(POOLS, record | {"device": one.device, "outcomes": [int(e.success) for e in pool]})

    def rewind(self, stage: str, step: int) -> int:
        """Drops the records of `stage` past `step`; returns how many metric records. Other stages' records stay."""
        dropped = {}
        for name in FIELDS:
            records = read_lines(self.run_dir, name)
            kept = [r for r in records if r["stage"] != stage or r["step"] <= step]
            dropped[name] = len(records) - len(kept)
            if dropped[name]:
                self._files[name].close()
                _replace(self.run_dir / name, "".join(json.dumps(record) + "\n" for record in kept))
                self._files[name] = (self.run_dir / name).open("a", encoding="utf-8")
        self._start_clock()
        return dropped[FILE]

    def close(self) -> None:
        """Ends the log: the files are closed, wandb's run is finished."""
        for file in self._files.values():
            file.close()
        self._wandb.finish()

    def __enter__(self) -> "RunLog":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, name: str, record: Mapping[str, Any]) -> None:
        self._files[name].write(json.dumps(record, allow_nan=False) + "\n")
        self._files[name].flush()

    def _start_clock(self) -> None:
        records = read_metrics(self.run_dir)
        self._origin = time.monotonic() - max((record["time"] for record in records), default=0.0)


def read_metrics(run_dir: str | os.PathLike) -> list[dict]:
    """The metric records of a run; see `read_lines`."""
    return read_lines(run_dir, FILE)


def read_lines(run_dir: str | os.PathLike, name: str) -> list[dict]:
    """The records of a run's metrics.jsonl or pools.jsonl in file order; an empty list when nothing was logged yet.

    A last line without its line end (the run is writing it, or was killed there) is left out.

    Raises:
        UserError: a line is not a record of that file; names the file and the line.
    """
    path = Path(run_dir) / name
    if not path.exists():
        return []
    complete, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
    records = []
    for number, line in enumerate(complete.splitlines(), start=1):
        try:
            record = json.loads(line)
            valid = isinstance(record, dict) and FIELDS[name] <= record.keys()
        except json.JSONDecodeError:
            valid = False
        if not valid:
            raise UserError(f"{path}, line {number}: not a record of {name}; remove that line to go on")
        records.append(record)
    return records


def _drop_torn_line(path: Path) -> None:
    if path.exists():
        text = path.read_bytes()
        end = text.rfind(b"\n") + 1
        if end < len(text):
            _replace(path, text[:end].decode("utf-8"))


def _replace(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def _start_wandb(run_dir: Path, mode: str):
    """A wandb run that prints nothing and, unless online, needs no network. The same run id after a resume."""
    if mode not in WANDB_MODES:
        raise UserError(f"unknown wandb mode {mode!r}: use offline, online or disabled (option or WANDB_MODE)")
    import wandb

    identity = run_dir / "wandb_id.txt"
    if not identity.exists():
        identity.write_text(secrets.token_hex(4), encoding="utf-8")
    os.environ.setdefault("WANDB_DISABLE_WEAVE", "true")  # it advertises itself where it finds `mcp` imported
    quiet = wandb.Settings(silent=True, console="off", x_disable_stats=True, x_disable_meta=True)
    try:
        return wandb.init(
            project="gui-rl",
            name=run_dir.name,
            id=identity.read_text(encoding="utf-8").strip(),
            resume="allow" if mode in ("online", "run", "shared") else None,
            dir=str(run_dir),
            mode=mode,
            settings=quiet,
        )
    except wandb.Error as error:
        raise UserError(
            f"wandb could not start in mode {mode!r}: {error}; use --wandb disabled to go without"
        ) from error
