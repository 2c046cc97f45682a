"""What the documentation names exists: modules, functions, and files that are linked."""

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAPERS = sorted((ROOT / "docs" / "papers").glob("*.md"))
DOTTED = re.compile(r"`((?:gui_rl|env_servers|experiments)(?:\.\w+)+)`")
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def resolve(name: str) -> object:
    """The module, or what stands in it, of that dotted name; raises ImportError or AttributeError."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        module, _, attribute = name.rpartition(".")
        return getattr(importlib.import_module(module), attribute)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_exist(page):
    for name in DOTTED.findall(page.read_text(encoding="utf-8")):
        resolve(name)


def test_a_name_that_is_not_there_is_found():
    with pytest.raises((ImportError, AttributeError)):
        resolve("gui_rl.learn.buffer.no_such_function")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_programs_parse_and_import_what_there_is(page):
    for program in PYTHON.findall(page.read_text(encoding="utf-8")):
        for node in ast.walk(ast.parse(program)):
            if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] in (
                "gui_rl",
                "env_servers",
                "experiments",
            ):
                for alias in node.names:
                    resolve(f"{node.module}.{alias.name}")


@pytest.mark.parametrize("page", PAPERS, ids=lambda page: page.stem)
def test_a_paper_page_names_functions(page):
    assert len(DOTTED.findall(page.read_text(encoding="utf-8"))) >= 8


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page):
    missing = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if not (page.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "api").glob("*.md")), ids=lambda page: page.stem)
def test_the_reference_names_modules(page):
    for name in re.findall(r"^::: ([\w.]+)$", page.read_text(encoding="utf-8"), re.MULTILINE):
        importlib.import_module(name)
