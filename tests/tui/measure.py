"""What the console takes of a core with 1,000 nodes: `python -m tests.tui.measure` in the repository.

A real kvctld answers it over its socket, while one node a second is read and judged anew; keys come through tmux.
"""

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from kvctl.state import fleet
from kvctl.state.database import Database
from tests.controller.kvctld import Kvctld
from tests.tui.site import filled
from tests.tui.stub import finding
from tests.tui.terminal import Terminal, kvctl, settings

NODES, SECONDS = 1000, 15.0


def judged(directory: Path, names: list[str], found: list[dict[str, object]]) -> None:
    at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    seen = {"seconds": 0.1, "document": "{}", "error_code": None, "error": None, "collected_at": at}
    with Database(directory).transaction() as db:
        fleet.add_observations(db, [seen | {"node": name} for name in names])
        fleet.add_check_run(db, at, "0" * 64, names, found)


def live(directory: Path, over: threading.Event) -> None:
    number = 0
    while not over.wait(1.0):
        number = number % NODES + 1
        judged(directory, [f"storage{number}"], [finding(f"storage{number}", "host.clock")])


def process_of(text: str) -> int:
    """The console among this machine's processes, by its state directory in its environment."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                argv, environ = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
            except OSError:
                continue
            if b"\0kvctl\0tui\0" in argv and not argv.startswith(b"env\0") and text.encode() in environ:
                return int(entry.name)
    raise SystemExit("the console is not there")


def used(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def share(pid: int, during: Callable[[], None]) -> float:
    """Of a core, in percent, while `during` is done again and again."""
    before, began = used(pid), time.monotonic()
    while time.monotonic() - began < SECONDS:
        during()
    return 100 * (used(pid) - before) / (time.monotonic() - began)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, over = Path(name), threading.Event()
        filled(folder / "local", NODES)
        names = [f"storage{n}" for n in range(1, NODES + 1)]
        judged(folder / "local", names[10:500], [finding(one, "host.clock") for one in names[10:500]])
        kvctld = Kvctld(folder)
        kvctld.start()
        writer = threading.Thread(target=live, args=(folder / "local", over))
        writer.start()
        try:
            measured(folder, f"unix:{kvctld.path}")
        finally:
            kvctld.end()
        try:
            measured(folder, "direct")
        finally:
            over.set()
            writer.join()


def measured(folder: Path, endpoint: str) -> None:
    terminal = Terminal(folder)
    try:
        terminal.start(kvctl("--controller", endpoint, TERM="screen-256color", **settings(folder)))
        terminal.shows(f"{NODES} nodes", "1/1000")
        pid = process_of(str(folder))
        said = [
            f"open, a node a second changes {share(pid, lambda: time.sleep(1)):.1f} %",
            f"j held down, 30 a second {share(pid, lambda: held(terminal)):.1f} %",
            f"a filter typed every second {share(pid, lambda: filtered(terminal)):.1f} %",
        ]
        sys.stdout.write(f"of a core, with {endpoint.partition(':')[0]}: {'; '.join(said)}\n")
        terminal.send("q")
        terminal.shows("left 0")
    finally:
        terminal.end()


def held(terminal: Terminal) -> None:
    terminal.send("j", "j", "j")
    time.sleep(0.1)


def filtered(terminal: Terminal) -> None:
    terminal.type("/storage99")
    terminal.send("Enter")
    time.sleep(1)


if __name__ == "__main__":
    main()
