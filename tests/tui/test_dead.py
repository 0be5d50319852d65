"""A controller that is stopped, killed, and back again, under a console that is open."""

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvctl.tui import pulse
from tests.controller.kvctld import Kvctld
from tests.tui.site import filled
from tests.tui.terminal import Terminal, kvctl, settings

KEYS = (("3", "runs  1 failed"), ("2", "tenants"), ("1", "WORST FINDING"), ("?", "this help"))


@pytest.fixture
def kvctld(tmp_path: Path) -> Iterator[Kvctld]:
    filled(tmp_path / "local")
    made = Kvctld(tmp_path)
    made.start()
    yield made
    made.end()


def test_it_is_told_within_a_second() -> None:
    assert pulse.EVERY + pulse.PATIENCE <= 1.0


def test_stopped_killed_and_back(terminal: Terminal, kvctld: Kvctld, tmp_path: Path) -> None:
    words = kvctl("--controller", f"unix:{kvctld.path}", TERM="screen", **settings(tmp_path))
    terminal.start([*words, "--ascii"])
    terminal.shows("storage2", "data 0 s old")
    terminal.send("3")
    terminal.shows("runs  1 failed")
    terminal.send("1")
    kvctld.signal(signal.SIGSTOP)
    seen = terminal.shows("stale since ", "!! KV-CTL-032: the controller does not answer: timed out")
    assert re.search(r"stale since \d\d:\d\d:\d\d", seen)
    for key, said in KEYS:
        terminal.send(key)
        terminal.shows(said)
    terminal.send("q")
    terminal.send("f")
    assert "storage1" not in terminal.shows("faults only  1/1", "storage2")
    kvctld.signal(signal.SIGCONT)
    terminal.shows("data 0 s old", without=("KV-CTL-032", "stale"))
    kvctld.end()
    terminal.shows("stale since ", "!! KV-CTL-032", "storage2")
    again = Kvctld(tmp_path)
    again.start()
    try:
        terminal.shows("data 0 s old", without=("KV-CTL-032", "stale"))
    finally:
        again.end()
    terminal.shows("stale since ")
    terminal.send("q")
    assert terminal.shows("left 0").isascii()
