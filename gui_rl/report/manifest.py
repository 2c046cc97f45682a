"""What a run was made with. In: its configuration and seeds. Out: runs/NAME/config.json and manifest.json.

config.json is the configuration alone. manifest.json says what the numbers depend on besides it:

    {"started": ISO time, "config": {...}, "seeds": {...}, "versions": {package: version}, "python": ..., "machine":
     {platform, cores, memory_gb, accelerators}, "font": {asked, family, file, sha256}, "chromium": version or null,
     "revision": {commit, dirty} or null, "resumes": [{"time": ..., "revision": ...}]}
"""

import dataclasses
import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

FONT = "DejaVu Sans"
DISTRIBUTION = "gui-rl"
PACKAGES = (
    "jax",
    "jaxlib",
    "flax",
    "optax",
    "orbax-checkpoint",
    "grain",
    "numpy",
    "pillow",
    "tokenizers",
    "playwright",
)


def write_manifest(
    run_dir: str | os.PathLike, config: Any, seeds: Mapping[str, Any], chromium: str | None = None
) -> Path:
    """Writes config.json and manifest.json; a run that is resumed keeps its first manifest and notes the resume.

    Args:
        run_dir: the run's folder; made if missing.
        config: a dataclass or a mapping.
        seeds: name -> seed (or range of seeds) of everything random in the run.
        chromium: path of the browser, asked for its version; None when the run uses none.

    Returns:
        The path of manifest.json.
    """
    run_dir = Path(run_dir)
    run_dir.mkdir(parents=True, exist_ok=True)
    path = run_dir / "manifest.json"
    now = datetime.now(UTC).isoformat(timespec="seconds")
    if path.exists():
        manifest = json.loads(path.read_text(encoding="utf-8"))
        manifest["resumes"].append({"time": now, "revision": git_revision()})
    else:
        plain = as_json(config)
        manifest = {
            "started": now,
            "config": plain,
            "seeds": as_json(dict(seeds)),
            "versions": package_versions(),
            "python": platform.python_version(),
            "machine": machine(),
            "font": font_match(FONT),
            "chromium": _output([chromium, "--version"]) if chromium else None,
            "revision": git_revision(),
            "resumes": [],
        }
        _write_json(run_dir / "config.json", plain)
    _write_json(path, manifest)
    return path


def as_json(value: Any) -> Any:
    """Dataclasses, mappings, sequences, ranges and paths as plain JSON values; anything else by its string."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, range):
        return {"start": value.start, "stop": value.stop, "step": value.step}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [as_json(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def package_versions() -> dict[str, str]:
    """Versions of this distribution and of the packages that the numbers depend on, where installed."""
    versions = {}
    for name in (DISTRIBUTION, *PACKAGES):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def machine() -> dict:
    """Platform, cores, memory (GB) and the devices that jax computes on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return {
        "platform": platform.platform(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": round(memory, 1),
        "accelerators": [device.device_kind for device in jax.local_devices()],
    }


def font_match(family: str) -> dict:
    """The font file that the system draws `family` with, and its SHA-256: another file gives other screenshots."""
    found = _output(["fc-match", "-f", "%{family}\n%{file}", family])
    name, file = found.split("\n") if found and found.count("\n") == 1 else (None, None)
    readable = file is not None and Path(file).is_file()
    digest = hashlib.sha256(Path(file).read_bytes()).hexdigest() if readable else None
    return {"asked": family, "family": name, "file": file, "sha256": digest}


def git_revision() -> dict | None:
    """Commit of this checkout and whether files differ from it; None outside a git checkout."""
    root = str(Path(__file__).resolve().parents[2])
    commit = _output(["git", "-C", root, "rev-parse", "HEAD"])
    if commit is None:
        return None
    return {"commit": commit, "dirty": bool(_output(["git", "-C", root, "status", "--porcelain"]))}


def _write_json(path: Path, value: Any) -> None:
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    os.replace(temporary, path)


def _output(command: list[str]) -> str | None:
    """A command's output without its last line end, or None where it is missing or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.rstrip("\n")
