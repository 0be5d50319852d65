"""Real keys in a real terminal of 80 columns and 24 lines, against a real state and a real kvctld."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvctl.fleet.remote.journal import Journal
from kvctl.state import fleet
from kvctl.state.database import Database
from tests.controller.kvctld import Kvctld
from tests.tui.stub import finding, step

ROOT = Path(__file__).parents[2]
PATIENCE = 40.0
RUN = "r-20260101-000000-abcd"

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux: apt-get install tmux")


class Terminal:
    """One tmux server of its own. `send` types keys as tmux names them."""

    def __init__(self, folder: Path) -> None:
        self._tmux = ["tmux", "-f", "/dev/null", "-S", str(folder / "tmux")]

    def start(self, *arguments: str, **environ: str) -> None:
        given = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8", "TERM": "screen", **environ}
        words = ["env", "-i", *(f"{name}={value}" for name, value in given.items())]
        command = shlex.join([*words, sys.executable, "-m", "kvctl", "tui", *arguments])
        self._run("new-session", "-d", "-x", "80", "-y", "24", f"{command}; echo left $?; read wait")

    def send(self, *keys: str) -> None:
        self._run("send-keys", *keys)

    def screen(self) -> str:
        return self._run("capture-pane", "-p")

    def shows(self, *texts: str) -> str:
        end = time.monotonic() + PATIENCE
        while not all(text in (seen := self.screen()) for text in texts):
            assert time.monotonic() < end, f"{texts} not in\n{seen}"
            time.sleep(0.05)
        return seen

    def end(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False)

    def _run(self, *words: str) -> str:
        return subprocess.run([*self._tmux, *words], capture_output=True, text=True, check=True).stdout


def filled(directory: Path) -> None:
    """Two nodes, one with a fault that a stored plan repairs, and a run that failed."""
    at = "2026-01-01T00:00:00Z"
    plan = {
        "id": "p-1",
        "created": at,
        "facts_at": {"storage2": at},
        "steps": [step(1, "storage2", "qos.pfc")],
        "refusals": [],
    }
    nodes = [
        {"node": f"storage{n}", "role": "storage", "state": "in-service", "reason": "", "since": at} for n in (1, 2)
    ]
    read = {"seconds": 0.1, "document": "{}", "error_code": None, "error": None, "collected_at": at}
    with Database(directory).transaction() as db:
        fleet.set_node_states(db, nodes)
        fleet.add_observations(db, [read | {"node": node["node"]} for node in nodes])
        fleet.add_check_run(db, at, "0" * 64, ["storage1", "storage2"], [finding("storage2")])
        fleet.add_plan(db, "p-1", at, json.dumps(plan))
    with Journal(directory / "runs" / RUN) as log:
        log.append(
            "run.started", plan="p-1", steps=[{"id": "s01", "node": "storage2", "role": "roce", "verb": "apply"}]
        )
        log.append(
            "step.failed", step="s01", node="storage2", error={"code": "KV-RUN-020", "what": "it changed", "why": "x"}
        )
        log.append("run.finished", state="failed")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    filled(tmp_path / "local")
    made = Terminal(tmp_path)
    yield made
    made.end()


def settings(folder: Path) -> dict[str, str]:
    return {"HOME": str(folder), "KVCTL_STATE_DIR": str(folder)}


def test_a_fault_to_its_plan_with_the_controller_in_this_process(terminal: Terminal, tmp_path: Path) -> None:
    terminal.start("--controller", "direct", **settings(tmp_path))
    terminal.shows("storage2", "!! qos.pfc", "read-only", "1/2")
    terminal.send("Enter")
    terminal.shows("fleet > storage2", "!! critical")
    terminal.send("l")
    terminal.shows("expected   priority 3")
    terminal.send("Enter")
    terminal.shows("plan p-1 of 2026-01-01", "off -> 3")
    terminal.send("3")
    terminal.shows(RUN, "!! failed")
    terminal.send("Enter")
    terminal.shows("s01", "KV-RUN-020")
    terminal.send("Enter")
    terminal.shows("KV-RUN-020: it changed: x")
    terminal.send(":", "q", "Enter")
    terminal.shows("left 0")


def test_a_controller_that_is_stopped_does_not_stop_the_keys(terminal: Terminal, tmp_path: Path) -> None:
    kvctld = Kvctld(tmp_path)
    kvctld.start()
    try:
        terminal.start("--controller", f"unix:{kvctld.path}", "--ascii", **settings(tmp_path))
        terminal.shows("storage2", "data 0 s old")
        kvctld.signal(signal.SIGSTOP)
        terminal.shows("!! no answer for", "data of ")
        for key, said in (
            ("3", "kvctl  runs"),
            ("2", "kvctl  tenants"),
            ("1", "kvctl  fleet"),
            ("?", "what is behind a row"),
        ):
            terminal.send(key)
            terminal.shows(said)
        terminal.send("q")
        terminal.send("f")
        assert "storage1" not in terminal.shows("1/1  faults only", "storage2")
        kvctld.signal(signal.SIGCONT)
        terminal.shows("data 0 s old")
        kvctld.end()
        terminal.shows("!! KV-CTL-032", "storage2")
        terminal.send("q")
        assert terminal.shows("left 0").isascii()
    finally:
        kvctld.end()
