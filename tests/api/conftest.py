"""A real Chromium, and what the tests that use it share."""

import os
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

# Without the last three, Chromium looks for hosts of its maker's at every start.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def console(kvctld):
    return f"https://localhost:{kvctld.port}"


@pytest.fixture(scope="module")
def chromium():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def artefacts(tmp_path):
    place = Path(os.environ.get("KVCTL_ARTIFACTS") or tmp_path) / "console"
    place.mkdir(parents=True, exist_ok=True)
    return place
