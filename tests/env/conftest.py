"""What tests of the worlds share: one event loop and one Chromium a file."""

import asyncio
import subprocess
import venv

import httpx
import pytest

from env_servers.browser import Browser

OSWORLD = "1.0.2"
# What is used alone imports; the package's own list is a hundred times as large.
OSWORLD_NEEDED = [
    "requests==2.34.2",
    "rapidfuzz==3.14.6",
    "PyYAML==6.0.4",
    "lxml==6.1.3",
    "cssselect==1.6.0",
    "openpyxl==3.1.5",
]


@pytest.fixture(scope="module")
def run():
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture(scope="module")
def browser(run, chromium):
    browser = Browser(chromium)
    run(browser.start())
    yield browser
    run(browser.stop())


@pytest.fixture
def http(server):
    """A client of the file's `server` that carries its token."""
    headers = {"Authorization": f"Bearer {server.token}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60, trust_env=False) as http:
        yield http


@pytest.fixture(scope="session")
def osworld_python(pytestconfig):
    """The Python of a virtual environment with OSWorld's client and metrics; made once, kept in pytest's cache."""
    folder = pytestconfig.cache.mkdir(f"desktop-env-{OSWORLD}")
    python, done = folder / "bin" / "python", folder / "complete"
    if not done.exists():
        venv.create(folder, with_pip=True, clear=True)
        for arguments in (["--no-deps", f"desktop-env=={OSWORLD}"], OSWORLD_NEEDED):
            command = [python, "-m", "pip", "install", "--quiet", *arguments]
            installed = subprocess.run(command, capture_output=True, text=True)
            if installed.returncode:
                why = installed.stderr.strip().splitlines()[-1]
                pytest.skip(f"desktop-env {OSWORLD} cannot be installed here: {why}")
        done.touch()
    return python
