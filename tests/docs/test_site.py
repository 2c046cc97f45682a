"""The pages build without a warning, and load nothing from elsewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOADED = re.compile(r"""<(?:script|img|iframe)[^>]*\ssrc="?https?:|<link[^>]*\shref="?https?:""")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400)
    assert built.returncode == 0, built.stderr
    assert "WARNING  -" not in built.stderr
    return folder


def test_every_page_is_there_and_loads_nothing_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(list((ROOT / "docs").rglob("*.md")))  # each page, and one for what is not found
    assert [str(page) for page in pages if LOADED.search(page.read_text(encoding="utf-8"))] == []


def test_the_reference_has_every_module_with_the_text_of_its_docstrings(site):
    learn = (site / "api" / "learn" / "index.html").read_text(encoding="utf-8")
    assert 'id="gui_rl.learn.buffer.select_group"' in learn and "success of each trajectory in the pool" in learn
    for room in (path for path in (ROOT / "gui_rl").iterdir() if (site / "api" / path.name).is_dir()):
        page = (site / "api" / room.name / "index.html").read_text(encoding="utf-8")
        modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in room.rglob("*.py")]
        missing = [name for name in modules if f'id="{name.removesuffix(".__init__")}"' not in page]
        assert missing == []
