"""What the documentation tells to type can be typed: every line of a shell block parses as it stands, with the parser
that would run it; what is cheap is run."""

import importlib.util
import re
import runpy
import shlex
from pathlib import Path

import pytest
import setuptools

from gui_rl import cli
from gui_rl.report.metrics import RunLog

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`gui-rl ([^`]+)`")
OPTION = re.compile(r"--[a-z][\w.-]*")
CHEAP = ("env tasks", "flywheel tasks", "--help")
SHIPPED = ("experiments/", "deploy/", "docs/", "tests/", "notebooks/", "scripts/")


class Parsed(Exception):
    """A command was understood, and would have begun."""


def lines() -> list[list[str]]:
    """The words of every line of every shell block, without `.venv/bin/`."""
    found = {}
    for page in PAGES:
        for block in BLOCK.findall(page.read_text(encoding="utf-8")):
            for line in block.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True)
                if words:
                    words[0] = words[0].removeprefix(".venv/bin/")
                    found[" ".join(words)] = words
    return [found[line] for line in sorted(found)]


def ours(words: list[str]) -> bool:
    return words[0] == "gui-rl"


LINES = lines()


@pytest.fixture
def stopped(monkeypatch):
    """Commands end where their options have been parsed."""

    def parse(settings, arguments, command, real=cli.parse):
        raise Parsed(real(settings, arguments, command))

    monkeypatch.setattr(cli, "parse", parse)


@pytest.mark.parametrize("words", [words for words in LINES if ours(words)], ids=" ".join)
def test_a_command_parses_as_it_stands(words, stopped):
    with pytest.raises(SystemExit if "--help" in words else Parsed) as ended:
        cli.main(words[1:])
    assert "--help" not in words or ended.value.code == 0


def test_a_command_that_is_wrong_is_refused(stopped, capsys):
    for wrong in (
        "eval",
        "run quickstart --no-such-option 1",
        "run no/experiment",
        "env bake",
        "eval a --episodes many",
    ):
        with pytest.raises(SystemExit) as ended:
            cli.main(wrong.split())
        assert ended.value.code == 2, wrong


@pytest.mark.parametrize("words", [w for w in LINES if ours(w) and " ".join(w[1:]).startswith(CHEAP)], ids=" ".join)
def test_a_cheap_command_runs(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    cli.main(words[1:])
    assert capsys.readouterr().out


def test_the_report_of_a_run_is_written_as_documented(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with RunLog("runs/quickstart", wandb_mode="disabled") as log:
        log.log("rl", 1, {"loss": 0.5}, phase="web")
    (words,) = [words for words in LINES if words[:2] == ["gui-rl", "report"]]
    cli.main(words[1:])
    assert "RL on web" in (tmp_path / capsys.readouterr().out.strip()).read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_the_text_exist_with_their_options(page, stopped, capsys):
    known = [name for name in cli.USAGE.split() if name.isalpha()]
    for words in map(str.split, INLINE.findall(page.read_text(encoding="utf-8"))):
        words = [word for word in words if word not in ("…", "URL", "NAME") and not word.isupper()]
        assert words[0] in known, f"{page.name}: gui-rl {' '.join(words)}"
        named = [word for word in words if OPTION.fullmatch(word)]
        if named:
            assert set(named) - {"--resume"} <= options(words, capsys), f"{page.name}: gui-rl {' '.join(words)}"


def options(words: list[str], capsys) -> set[str]:
    """The options of the command that these words begin with."""
    begin = words[: 2 if words[0] in ("env", "flywheel", "policy", "run") else 1]
    if begin[0] == "run" and begin[-1] not in cli.experiments():  # any experiment has them
        begin = ["quickstart"]
    with pytest.raises(SystemExit):
        cli.main([*begin, "--help"])
    return set(OPTION.findall(capsys.readouterr().out))


def test_other_programs_are_given_what_is_there():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    seen = {}
    with pytest.MonkeyPatch.context() as context:
        context.setattr(setuptools, "setup", seen.update)
        runpy.run_path(str(ROOT / "setup.py"))
    for words in LINES:
        line = " ".join(words)
        if words[0] == "make":
            assert set(words[1:]) <= targets, line
        if words[:2] == ["python", "-m"]:
            assert importlib.util.find_spec(words[2]), line
        if words[:2] == ["pip", "install"]:
            extras = re.search(r"\[(.+)\]", line)
            assert extras and set(extras[1].split(",")) <= seen["extras_require"].keys(), line
        assert not [word for word in words if word.startswith(SHIPPED) and not (ROOT / word).exists()], line


def test_something_was_found():
    assert len([words for words in LINES if ours(words)]) > 40 and any(words[0] == "kubectl" for words in LINES)
