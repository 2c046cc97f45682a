"""The house itself: floors, lint, size of rooms, declared dependencies, and what may not stand in a file."""

import ast
import functools
import re
import runpy
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import setuptools

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
OWN = ("gui_rl", "env_servers", "experiments")
WRITTEN = {".py", ".sh", ".js", ".html", ".css", ".md"}
LONGEST_FILE = 600


def project_files() -> list[Path]:
    """Files that belong to the project: those that git tracks or would track; all but build products without git."""
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], capture_output=True
    )
    if listed.returncode == 0:
        files = [ROOT / name.decode() for name in listed.stdout.split(b"\0") if name]
    else:
        left_out = {"__pycache__", "runs", "wandb", "build", "dist"}
        files = [
            path
            for path in ROOT.rglob("*")
            if not any(
                part in left_out or part.endswith(".egg-info") or (part.startswith(".") and part != ".ci")
                for part in path.relative_to(ROOT).parts[:-1]
            )
        ]
    return sorted(path for path in files if path.is_file())


@functools.cache
def text_files() -> dict[str, str]:
    files = {}
    for path in project_files():
        try:
            files[str(path.relative_to(ROOT))] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # weights and pictures
    return files


packages = functools.cache(metadata.packages_distributions)


@functools.cache
def trees() -> dict[str, ast.Module]:
    """The Python files that hold anything, parsed."""
    return {name: ast.parse(text) for name, text in text_files().items() if name.endswith(".py") and text.strip()}


@pytest.mark.parametrize(
    "command",
    [
        [str(BIN / "ruff"), "check", "--no-cache", "."],
        [str(BIN / "ruff"), "format", "--check", "--no-cache", "."],
        [str(BIN / "lint-imports"), "--no-cache"],
    ],
    ids=["ruff-check", "ruff-format", "import-floors"],
)
def test_lint(command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_files_are_rooms_not_halls():
    long = {
        name: lines
        for name, text in text_files().items()
        if Path(name).suffix in WRITTEN and (lines := text.count("\n")) > LONGEST_FILE
    }
    assert long == {}, f"split these files (more than {LONGEST_FILE} lines)"


def test_no_machine_paths_or_registry_hosts():
    machine = re.compile(r"(?<![\w.}])/(?:work|root|home|Users)/\w")
    hosts = re.compile(
        r"pypi[.]org|pythonhosted[.]org|npmjs[.](?:org|com)|(?:deb|ftp)[.]debian[.]org|pytorch[.]org/whl"
    )
    found = [
        f"{name}:{number}: {line.strip()[:100]}"
        for name, text in text_files().items()
        for number, line in enumerate(text.splitlines(), start=1)
        if machine.search(line) or hosts.search(line)
    ]
    assert found == []


def test_no_module_is_without_a_docstring():
    assert [name for name, tree in trees().items() if ast.get_docstring(tree) is None] == []


@pytest.fixture(scope="module")
def declared() -> dict[str, list[str]]:
    """setup.py's requirements: "" for the direct ones, then by extra."""
    seen = {}
    patch = pytest.MonkeyPatch()
    with patch.context() as context:
        context.setattr(setuptools, "setup", seen.update)
        runpy.run_path(str(ROOT / "setup.py"))
    return {"": seen["install_requires"], **seen["extras_require"]}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(lines: list[str]) -> dict[str, str]:
    """Exact pins by normalised name; extras in brackets are left out. Anything that is no exact pin fails."""
    found = {}
    for line in lines:
        match = re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?==([\w.]+)", line)
        assert match, f"{line!r} is not an exact pin"
        found[normal(match[1])] = match[2]
    return found


def test_direct_dependencies_are_pinned_as_in_the_constraints(declared):
    text = (ROOT / "constraints.txt").read_text()
    constraints = pins([line for line in text.splitlines() if line and not line.startswith("#")])
    for extra, lines in declared.items():
        for name, version in pins(lines).items():
            assert constraints.get(name) == version, f"{name} of extra {extra!r} differs from constraints.txt"


@pytest.mark.parametrize("folder", [*OWN, "tests"])
def test_imports_are_declared(declared, folder):
    groups = ("", "env", "dev") if folder == "tests" else ("", "env")
    allowed = {name for group in groups for name in pins(declared[group])} | {"setuptools"}
    distributions = packages()
    undeclared = set()
    for name, tree in trees().items():
        if name.split("/")[0] != folder:
            continue
        for module in imported_modules(tree):
            known = {normal(d) for d in distributions.get(module, [])}
            if known and not known & allowed and module not in OWN:
                undeclared.add(f"{module} in {name}")
    assert sorted(undeclared) == []


def imported_modules(tree: ast.AST) -> set[str]:
    modules = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            modules.add(node.module.split(".")[0])
    return modules


def test_readme_names_real_targets():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z]+)", (ROOT / "README.md").read_text(), re.MULTILINE))
    assert {"quickstart", "test"} <= named <= targets


def test_ci_runs_the_readme_s_test_commands():
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-2:] == ["make test", "exec make smoke"]
