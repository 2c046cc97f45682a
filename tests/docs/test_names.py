"""What the documentation names exists: modules, functions, files that are linked, and commands with their options."""

import importlib
import re
import shlex
from pathlib import Path

import pytest

from gui_rl import cli

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAPERS = sorted((ROOT / "docs" / "papers").glob("*.md"))
DOTTED = re.compile(r"`((?:gui_rl|env_servers|experiments)(?:\.\w+)+)`")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
COMMAND = re.compile(r"^\s*(?:\.venv/bin/)?gui-rl ([^#\n]+)", re.MULTILINE)
OPTION = re.compile(r"(?<![\w-])--[a-z][\w.-]*")


def resolve(name: str) -> object:
    """The module, or what stands in it, of that dotted name; raises ImportError or AttributeError."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        module, _, attribute = name.rpartition(".")
        return getattr(importlib.import_module(module), attribute)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_exist(page):
    for name in DOTTED.findall(page.read_text(encoding="utf-8")):
        resolve(name)


def test_a_name_that_is_not_there_is_found():
    with pytest.raises((ImportError, AttributeError)):
        resolve("gui_rl.learn.buffer.no_such_function")


@pytest.mark.parametrize("page", PAPERS, ids=lambda page: page.stem)
def test_a_paper_page_names_functions(page):
    assert len(DOTTED.findall(page.read_text(encoding="utf-8"))) >= 8


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page):
    missing = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if not (page.parent / link).exists()]
    assert not missing


def commands() -> list[str]:
    found = [line.strip() for page in PAGES for line in COMMAND.findall(page.read_text(encoding="utf-8"))]
    return sorted(set(found))


@pytest.mark.parametrize("command", commands())
def test_options_of_commands_exist(command, capsys):
    words = shlex.split(command)
    options = [word.partition("=")[0] for word in words if OPTION.fullmatch(word.partition("=")[0])]
    places = 2 if words[0] in ("run", "env", "policy") else 3 if words[:2] == ["flywheel", "import"] else 1
    places = 2 if words[0] == "flywheel" and places == 1 else places
    with pytest.raises(SystemExit) as stopped:
        cli.main([*words[:places], "--help"])
    assert stopped.value.code == 0
    shown = set(OPTION.findall(capsys.readouterr().out))
    assert [option for option in options if option != "--help" and option not in shown] == []
