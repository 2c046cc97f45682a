"""What a user's mistake looks like: one clear line, exit code 2, no traceback. Run as the user runs it."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def run(*arguments, cwd, **environment):
    """The command in a process of its own: (exit code, stdout, stderr lines)."""
    done = subprocess.run(
        [sys.executable, "-m", "gui_rl.cli", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stdout, done.stderr.strip().splitlines()


def refused(*arguments, cwd, says, **environment):
    code, _, lines = run(*arguments, cwd=cwd, **environment)
    assert code == 2, lines
    assert len(lines) == 1 and "Traceback" not in lines[0], lines
    for words in says:
        assert words in lines[0]


def test_an_unknown_option_names_itself(tmp_path):
    refused("run", "quickstart", "--no-such-option", "3", cwd=tmp_path, says=["no-such-option", "--help"])
    assert not (tmp_path / "runs").exists()


def test_a_value_that_does_not_fit_names_the_option(tmp_path):
    refused("run", "quickstart", "--rl.steps", "many", cwd=tmp_path, says=["steps", "many"])


def test_an_unknown_command_or_experiment_lists_what_there_is(tmp_path):
    refused("train", cwd=tmp_path, says=["train", "quickstart"])
    refused("run", "nothing", cwd=tmp_path, says=["nothing", "quickstart", "base"])
    refused("run", cwd=tmp_path, says=["quickstart"])
    refused("env", "start", cwd=tmp_path, says=["start", "serve"])
    refused("env", "tasks", "--suite", "other", cwd=tmp_path, says=["other", "virtual"])


def test_a_port_in_use_is_named(tmp_path, chromium):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused("env", "serve", "--port", port, cwd=tmp_path, says=[str(port)])


def test_no_chromium_says_what_to_install(tmp_path):
    says = ["GUI_RL_CHROMIUM"]
    refused("env", "serve", "--port", 0, cwd=tmp_path, says=says, GUI_RL_CHROMIUM=str(tmp_path / "none"))
    empty = tmp_path / "bin"
    empty.mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "GUI_RL_CHROMIUM"}
    done = subprocess.run(
        [sys.executable, "-m", "gui_rl.cli", "quickstart"],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(ROOT), "PATH": str(empty)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert "chromium" in line and "install" in line


def test_a_missing_checkpoint_is_named(tmp_path, chromium):
    refused("eval", tmp_path / "nowhere", cwd=tmp_path, says=["nowhere"])
    refused("run", "quickstart", "--base", tmp_path / "nowhere", cwd=tmp_path, says=["nowhere"])
    refused("run", "quickstart", "--resume", cwd=tmp_path, says=["runs/quickstart", "--resume"])


def test_a_run_that_is_none_cannot_be_reported(tmp_path):
    refused("report", tmp_path / "nowhere", cwd=tmp_path, says=["nowhere"])


def test_what_is_no_policy_is_not_served(tmp_path):
    refused("policy", "serve", tmp_path / "nowhere", cwd=tmp_path, says=["nowhere"])
    refused("policy", "train", cwd=tmp_path, says=["serve", "train"])


def test_an_unreadable_image_is_named(tmp_path):
    from gui_rl.data.schema import Episode, Turn
    from gui_rl.data.trajectory_files import write_trajectory

    turn = Turn(index=0, screenshot=b"no picture at all", text="Wait.")
    episode = Episode("e", "virtual", "shop/add", 1, "web", "Add it.", (160, 128), (turn,), "fail")
    write_trajectory(tmp_path, episode)
    (tmp_path / "config.json").write_text("{}")
    refused("report", tmp_path, cwd=tmp_path, says=["e-00.png", "unreadable image"])


def test_resuming_with_other_settings_is_refused(tmp_path, chromium):
    from dataclasses import asdict

    from experiments.quickstart import Config

    run_dir = tmp_path / "runs" / "quickstart"
    run_dir.mkdir(parents=True)
    (run_dir / "config.json").write_text(json.dumps(asdict(Config()), default=str))
    refused("run", "quickstart", "--resume", "--rl.steps", "3", cwd=tmp_path, says=["config.json", "settings"])


@pytest.mark.parametrize("arguments", [(), ("--help",)])
def test_help_lists_the_commands(arguments, tmp_path):
    code, out, _ = run(*arguments, cwd=tmp_path)
    assert code == 0 and "gui-rl quickstart" in out


def test_the_tasks_of_a_suite_are_listed(tmp_path):
    code, out, _ = run("env", "tasks", cwd=tmp_path)
    assert code == 0 and len(out.splitlines()) >= 24 and "shop/add" in out


def test_a_checkpoint_converts_to_orbax_and_back(tmp_path):
    from safetensors.numpy import load_file

    source, orbax, back = ROOT / "experiments" / "base_policy", tmp_path / "orbax", tmp_path / "back"
    assert run("convert", source, orbax, cwd=tmp_path)[0] == 0
    assert run("convert", orbax, back, cwd=tmp_path)[0] == 0
    first, second = (load_file(folder / "model.safetensors") for folder in (source, back))
    assert first.keys() == second.keys() and all((first[name] == second[name]).all() for name in first)
    assert json.loads((source / "config.json").read_text()) == json.loads((back / "config.json").read_text())
    refused("convert", source, orbax, cwd=tmp_path, says=["holds a checkpoint already"])
    refused("convert", tmp_path / "none", orbax, cwd=tmp_path, says=["no checkpoint directory"])
    refused("convert", orbax, back, "--model", "gui-huge", cwd=tmp_path, says=["gui-huge"])
