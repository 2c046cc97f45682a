"""What tests of the worlds share: one event loop and one Chromium a file."""

import asyncio

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
