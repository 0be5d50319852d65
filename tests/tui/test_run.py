"""A real run with real Ansible, watched, cut, refused and finished from the console."""

from pathlib import Path

import pytest

from kvctl.fleet.remote import supervisor
from kvctl.fleet.remote.journal import RunState
from tests.fleet.remote.conftest import fleet, fleet_servers  # noqa: F401
from tests.fleet.remote.test_supervisor import Site, ended, plan, site  # noqa: F401
from tests.tui.terminal import Terminal, kvctl, settings

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def started(site: Site) -> tuple[supervisor.RunHandle, Path]:  # noqa: F811
    """Three steps on two nodes; the second waits for as long as the file is there."""
    gate = site.root / "gate"
    gate.touch()
    steps = (
        site.step("s01", "n1"), site.step("s02", "n1", args={"while_exists": str(gate)}), site.step("s03", "n1"),
    )  # fmt: skip
    (site.root / "local").symlink_to("state")
    return supervisor.start(site.run_dir(), plan(*steps), site.options), gate


def test_a_run_is_watched_cut_and_finished(
    terminal: Terminal, started: tuple[supervisor.RunHandle, Path], tmp_path: Path
) -> None:
    handle, gate = started
    terminal.start(kvctl("--controller", "direct", TERM="screen", **settings(tmp_path)))
    terminal.shows("read-only")
    terminal.send("3")
    terminal.shows(handle.run, ">  running", "1/3 done")
    terminal.send("Enter")
    terminal.shows("+  done", ">  running", "-  todo", "1 running, 1 todo, 1 done")
    terminal.send("x")
    terminal.shows("read-only: w makes it writable")
    terminal.send("w", "x")
    terminal.shows("Cancel 1 run?", "1 of 3 steps done", "done  s01 on n1", "running  s02", "todo  s03")
    terminal.send("y")
    terminal.shows("asked to stop", "1 done")
    assert ended(handle).state is RunState.CANCELLED
    terminal.send("Escape")
    terminal.shows("!  cancelled", "1/3 done")
    gate.unlink()
    terminal.send("R")
    terminal.shows(f"Resume {handle.run}?", "Done steps are left out", "1 of 3 steps done")
    terminal.send("y")
    terminal.shows("KV-TUI-003", "KV-INV-001", f"kvctl run resume {handle.run}")  # this site has no inventory
    terminal.send("Escape")
    again = supervisor.resume(handle.run_dir)
    assert ended(again).state is RunState.FINISHED
    terminal.shows("+  finished", "3/3 done")
    terminal.send("x")
    terminal.shows("KV-TUI-005", "none of these runs is at work")
