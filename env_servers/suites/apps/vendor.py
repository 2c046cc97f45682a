"""Brings the front-end packages of the apps into this package: `python -m env_servers.suites.apps.vendor`.

In: packages/package.json and its lock file. Out: vendor/, with the few built files of each package that a page inlines
and its licence. npm is needed here and nowhere else; at run time no request leaves the machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from env_servers.errors import UserError

_HERE = Path(__file__).parent
PACKAGES, VENDOR = _HERE / "packages", _HERE / "vendor"

FILES: dict[str, tuple[str, ...]] = {
    "framework7": ("framework7-bundle.min.css",),  # phone look: lists, buttons, chips
    "jspreadsheet-ce": ("dist/jspreadsheet.css", "dist/index.js"),  # spreadsheet
    "jsuites": ("dist/jsuites.css", "dist/jsuites.js"),  # what jspreadsheet draws its menus with
    "leaflet": ("dist/leaflet.css", "dist/leaflet.js"),  # maps
    "quill": ("dist/quill.snow.css", "dist/quill.js"),  # document editor
    "sweetalert2": ("dist/sweetalert2.min.css", "dist/sweetalert2.min.js"),  # dialogs
    "tabulator-tables": ("dist/css/tabulator_simple.min.css", "dist/js/tabulator.min.js"),  # tables
}
"""Of each package: its files, in the order in which a page includes them."""


def build() -> None:
    """Fetch the locked packages with npm and replace vendor/ by them; raises UserError where that fails."""
    npm = shutil.which("npm")
    if npm is None:
        raise UserError("npm was not found, which fetches the apps' front-end packages: `apt-get install nodejs npm`")
    with tempfile.TemporaryDirectory(dir=_HERE, prefix=".vendor-") as folder:
        work = Path(folder)
        for name in ("package.json", "package-lock.json", ".npmrc"):
            shutil.copy(PACKAGES / name, work)
        ran = subprocess.run([npm, "ci", "--silent"], cwd=work, capture_output=True, text=True)
        if ran.returncode:
            raise UserError(f"npm could not fetch the front-end packages: {(ran.stderr or ran.stdout).strip()[-500:]}")
        made = work / "vendor"
        for package, files in FILES.items():
            source = work / "node_modules" / package
            licence = next(path for path in sorted(source.iterdir()) if path.name.upper().startswith("LICENSE"))
            for path in (*(source / name for name in files), licence):
                (made / package).mkdir(parents=True, exist_ok=True)
                shutil.copy(path, made / package / path.name)
        shutil.copy(PACKAGES / "package-lock.json", made / "package-lock.json")
        if VENDOR.exists():
            shutil.rmtree(VENDOR)
        os.replace(made, VENDOR)


def current() -> bool:
    """Whether vendor/ was built from the present lock file."""
    built = VENDOR / "package-lock.json"
    return built.exists() and built.read_bytes() == (PACKAGES / "package-lock.json").read_bytes()


@cache
def read(package: str) -> tuple[str, str]:
    """(style, script) of a package; raises UserError where vendor/ was not built."""
    texts = {".css": "", ".js": ""}
    for name in FILES[package]:
        path = VENDOR / package / Path(name).name
        if not path.exists():
            raise UserError(
                f"the front-end package {package} is missing: "
                "run `python -m env_servers.suites.apps.vendor`, which needs npm"
            )
        texts[path.suffix] += path.read_text(encoding="utf-8") + "\n"
    return texts[".css"], texts[".js"]


if __name__ == "__main__":
    try:
        if not current():
            build()
    except UserError as error:
        sys.exit(f"vendor: error: {error}")
