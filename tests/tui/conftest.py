"""Terminals that are ended whatever a test does."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tui.terminal import Terminal


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    if shutil.which("tmux") is None:
        pytest.skip("there is no tmux: apt-get install tmux, then run this test again")
    made = Terminal(tmp_path)
    yield made
    made.end()
