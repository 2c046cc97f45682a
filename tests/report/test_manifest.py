"""The manifest says what a run was made with (R40)."""

import hashlib
import json
import platform
import subprocess
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from gui_rl.report.manifest import as_json, font_match, write_manifest


@dataclass(frozen=True)
class Inner:
    steps: int = 400
    families: tuple[str, ...] = ("mobile", "web")


@dataclass(frozen=True)
class Config:
    name: str = "tiny"
    folder: Path = Path("runs/x")
    sft: Inner = field(default_factory=Inner)


def test_holds_config_seeds_versions_and_machine(tmp_path):
    path = write_manifest(tmp_path / "run", Config(), {"model": 3, "evaluation": range(1_000_000, 1_000_060)})
    manifest = json.loads(path.read_text())
    config = {"name": "tiny", "folder": "runs/x", "sft": {"steps": 400, "families": ["mobile", "web"]}}
    assert manifest["config"] == config == json.loads((tmp_path / "run" / "config.json").read_text())
    assert manifest["seeds"] == {"model": 3, "evaluation": {"start": 1_000_000, "stop": 1_000_060, "step": 1}}
    assert manifest["versions"]["jax"] == metadata.version("jax")
    assert manifest["python"] == platform.python_version()
    assert manifest["machine"]["cores"] >= 1 and manifest["machine"]["accelerators"]
    assert manifest["font"]["family"] == "DejaVu Sans"
    assert manifest["chromium"] is None and manifest["resumes"] == []


def test_revision_is_the_checkout_s(tmp_path):
    manifest = json.loads(write_manifest(tmp_path, Config(), {}).read_text())
    root = Path(__file__).resolve().parents[2]
    asked = subprocess.run(["git", "-C", root, "rev-parse", "HEAD"], capture_output=True, text=True)
    if asked.returncode:
        assert manifest["revision"] is None
    else:
        assert manifest["revision"]["commit"] == asked.stdout.strip()


def test_a_resume_keeps_the_first_manifest(tmp_path):
    first = json.loads(write_manifest(tmp_path, Config(), {"model": 0}).read_text())
    again = json.loads(write_manifest(tmp_path, Config(name="other"), {"model": 1}).read_text())
    assert len(again.pop("resumes")) == 1 and first.pop("resumes") == []
    assert again == first
    assert json.loads((tmp_path / "config.json").read_text())["name"] == "tiny"


def test_browser_and_font_are_identified(tmp_path, chromium):
    manifest = json.loads(write_manifest(tmp_path, Config(), {}, chromium=chromium).read_text())
    assert any(character.isdigit() for character in manifest["chromium"])
    font = font_match("DejaVu Sans")
    assert font["sha256"] == hashlib.sha256(Path(font["file"]).read_bytes()).hexdigest()


def test_values_without_a_json_form_are_written_as_text():
    assert as_json({"a": {1}, "b": print, 3: None}) == {"a": [1], "b": str(print), "3": None}
