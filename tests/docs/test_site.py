"""The pages build without a warning, and load nothing from elsewhere."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOADED = re.compile(r"""<(?:script|img|iframe)[^>]*\ssrc="?https?:|<link[^>]*\shref="?https?:""")


def test_strict_build(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert built.returncode == 0, built.stderr
    assert "WARNING  -" not in built.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > len(list((ROOT / "docs").rglob("*.md")))  # each page, and one for what is not found
    assert [str(page) for page in pages if LOADED.search(page.read_text(encoding="utf-8"))] == []
