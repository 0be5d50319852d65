"""Real keys in a real terminal, with the controller in the console's own process."""

import re
from pathlib import Path

import pytest

from tests.tui.site import RUN, filled
from tests.tui.terminal import Terminal, kvctl, settings


def direct(folder: Path, *arguments: str, **environ: str) -> list[str]:
    return kvctl("--controller", "direct", *arguments, **{"TERM": "screen-256color", **settings(folder), **environ})


def test_a_fault_to_its_plan_and_a_run_to_what_it_did_not_do(terminal: Terminal, tmp_path: Path) -> None:
    filled(tmp_path / "local", nodes=40)
    terminal.start(direct(tmp_path))
    terminal.shows("kvctl  site local  unix:", "40 nodes, 1 critical", "!! qos.pfc", "read-only")
    terminal.send("Enter", "Enter", "Enter")
    terminal.shows("storage2 > qos.pfc enp65s0f0np0 > plan", "plan p-1 of 2026-01-01", "off -> 3")
    terminal.send("3")
    terminal.shows(RUN, "0/1, !! 1 failed")
    terminal.send("Enter")
    terminal.shows("s01", "KV-RUN-020")
    terminal.send("Enter")
    terminal.shows("KV-RUN-020: it changed: x")
    terminal.send(":", "q", "Enter")
    terminal.shows("left 0")


@pytest.mark.parametrize(("term", "colour"), [("linux", True), ("xterm", True), ("screen-256color", True)])
def test_every_terminal_has_the_words_and_the_colours_it_can_show(
    terminal: Terminal, tmp_path: Path, term: str, colour: bool
) -> None:
    filled(tmp_path / "local")
    terminal.start(direct(tmp_path, TERM=term))
    terminal.shows("!! qos.pfc", "storage1", "q quit")
    terminal.send("G")
    terminal.shows("2/2")
    drawn = next(line for line in terminal.screen("-e").splitlines() if "!! qos.pfc" in line)
    assert bool(re.search("\x1b\\[[0-9;]*31m[^\x1b]*!! qos", drawn)) is colour, repr(drawn)


def test_no_color_is_followed_and_ascii_is_ascii(terminal: Terminal, tmp_path: Path) -> None:
    filled(tmp_path / "local")
    terminal.start(direct(tmp_path, "--ascii", NO_COLOR="1"))
    terminal.shows("!! qos.pfc", "q quit")
    for key, said in (("2", "no tenants"), ("4", "no events"), ("?", "this help"), ("Escape", "no events")):
        terminal.send(key)
        terminal.shows(said)
        drawn = terminal.screen("-e")
        assert not re.search("\x1b\\[[0-9;]*\\b[34][0-7]m", drawn), repr(drawn)
        assert terminal.screen().isascii()


def test_it_is_resized_while_it_is_open(terminal: Terminal, tmp_path: Path) -> None:
    filled(tmp_path / "local", nodes=60)
    terminal.start(direct(tmp_path), width=200, height=50)
    terminal.shows("FACTS", "storage45", "8 stores")
    terminal.resize(60, 20)
    seen = terminal.shows("1 fleet", "columns left out", "? help", without=("storage45", "8 stores"))
    assert "storage2 " in seen
    assert "!! qos.pfc" in seen
    terminal.send("G")
    terminal.shows("60/60", "> storage9")
    terminal.resize(80, 24)
    terminal.shows("8 stores", "FACTS", "> storage9", "q quit")


def test_a_terminal_that_cannot_be_drawn_on_is_refused_in_words(terminal: Terminal, tmp_path: Path) -> None:
    terminal.start(direct(tmp_path, TERM="dumb"))
    terminal.shows("KV-TUI-004", "TERM=dumb cannot be drawn on", "set TERM", "left 2")
