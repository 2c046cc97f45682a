"""What tests of the worlds share: one event loop and one Chromium a file."""

import asyncio
import subprocess
import venv

import httpx
import pytest

from env_servers.browser import Browser
from env_servers.desktop.room import Desktops
from env_servers.screens import Screens
from env_servers.sessions import SessionStore
from env_servers.suites import instantiate
from env_servers.suites.suite import DesktopKind

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
def side_python(pytestconfig):
    """`side_python(name, version, needed)`: the Python of a virtual environment with that package alone and what it
    needs; made once, kept in pytest's cache. The test is left out where pip cannot fetch it."""

    def side_python(name, version, needed):
        folder = pytestconfig.cache.mkdir(f"{name}-{version}")
        python, done = folder / "bin" / "python", folder / "complete"
        if not done.exists():
            venv.create(folder, with_pip=True, clear=True)
            for arguments in (["--no-deps", f"{name}=={version}"], needed):
                command = [python, "-m", "pip", "install", "--quiet", *arguments]
                installed = subprocess.run(command, capture_output=True, text=True)
                if installed.returncode:
                    pytest.skip(f"{name} {version} cannot be installed: {installed.stderr.strip().splitlines()[-1]}")
            done.touch()
        return python

    return side_python


@pytest.fixture(scope="session")
def osworld_python(side_python):
    """The Python of a virtual environment with OSWorld's client and metrics."""
    return side_python("desktop-env", OSWORLD, OSWORLD_NEEDED)


@pytest.fixture(scope="module")
def desktops(run):
    source = Desktops(timeout_s=90)
    run(source.start())
    yield source
    run(source.stop())


@pytest.fixture(scope="module")
def store(desktops):
    return SessionStore(Screens({DesktopKind: desktops}), max_sessions=4)


@pytest.fixture
def lease(request, run, desktops):
    """lease(task, seed): a desktop with a task of the file's SUITE begun, and the instance."""
    held = []

    def lease(task, seed=1):
        instance = instantiate(request.module.SUITE, task, seed)
        desktop = run(desktops.lease(instance.page))
        held.append(desktop)
        run(desktop.load(instance.initial))
        return desktop, instance

    yield lease
    for desktop in held:
        run(desktops.release(desktop))
