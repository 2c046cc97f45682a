"""What tests of the worlds share: one event loop and one Chromium a file."""

import asyncio

import httpx
import pytest

from env_servers.browser import Browser


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
