"""Pages of the documentation from results. In: a folder of result documents. Out: a Markdown page each, and an index.

python -m experiments.pages
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.table import RESULTS, rows

DOCS = Path(__file__).resolve().parents[1] / "docs" / "tables"
INDEX = "index.md"


def write(results: Path = RESULTS, docs: Path = DOCS) -> list[Path]:
    """Writes a page for every result, and the list of them into the index after its marked line."""
    docs.mkdir(parents=True, exist_ok=True)
    found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(results.glob("*.json"))}
    for name, result in found.items():
        (docs / f"{name}.md").write_text(page(result), encoding="utf-8")
    lines = [
        f"- [{result['name']}]({name}.md): {result['title']} ({result['source']})" for name, result in found.items()
    ]
    index = docs / INDEX
    head = index.read_text(encoding="utf-8").partition(MARK)[0] if index.is_file() else "# Tables\n\n"
    index.write_text(head + MARK + "\n\n" + "\n".join(lines or ["None has been run yet."]) + "\n", encoding="utf-8")
    return [docs / f"{name}.md" for name in found]


MARK = "<!-- below: written by experiments.pages -->"


def page(result: Mapping[str, Any]) -> str:
    """A result as Markdown."""
    revision = result["manifest"]["revision"] or {}
    parts = [f"# {result['name']}: {result['title']}", f"{result['source']}. {result['says']}"]
    parts.append(
        f"Tiny scale: gui-tiny in small worlds; training seeds: {result['seeds']}. Means with 95 % intervals over "
        f"training seeds and (task, seed) pairs. Equal between arms: {result['equal']}. Sizes: "
        + ", ".join(f"{name} {value}" for name, value in result["manifest"]["sizes"].items())
        + "."
    )
    for title, (heads, lines) in rows(result).items():
        table = [heads, ["---"] + ["---:"] * (len(heads) - 1), *lines]
        parts += [f"## {title[0].upper()}{title[1:]}", "\n".join(f"| {' | '.join(line)} |" for line in table)]
    minutes = result["seconds"]["all stages"] / 60
    commit = revision.get("commit", "unknown")[:10] + (" with local changes" if revision.get("dirty") else "")
    parts.append(f"`gui-rl run {result['name']}`; {minutes:.0f} minutes of stages; revision {commit}.")
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    print(*write(), sep="\n")
