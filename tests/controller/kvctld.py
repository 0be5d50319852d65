"""A real kvctld in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kvctl.client.http import Http
from tests.store.daemon import send

START = "import sys; from kvctl.cli.kvctld import main; sys.exit(main())"
ROOT = Path(__file__).parents[2]
PATIENCE = 60.0


class Kvctld:
    """Of the site `local`, whose state is below `folder`. `prefix`: a command that runs it."""

    def __init__(self, folder: Path, *arguments: str, prefix: Sequence[str] = ()) -> None:
        self.state = folder
        self.directory = folder / "local"
        self.path = folder / "s"
        self._command = [
            *prefix, sys.executable, "-c", START, "--state-dir", str(folder), "--socket", str(self.path), *arguments,
        ]  # fmt: skip
        self._environ = {
            "PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(ROOT), "KVCTL_LAB_DIR": "/nonexistent",
        }  # fmt: skip
        self.port = 0  # of https
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> Http:
        self.process = self._spawn()
        end = time.monotonic() + PATIENCE
        assert self.process.stderr
        said = []
        while '"event": "serving"' not in (line := self.process.stderr.readline()):
            said.append(line)
            assert line, f"it ended: {''.join(said)}"
            assert time.monotonic() < end
        self.port = int(json.loads(line)["port"])
        return self.client

    @property
    def client(self) -> Http:
        return Http(f"unix:{self.path}", patience=PATIENCE)

    def run(self) -> tuple[int, str]:
        """Its exit code and what it said, of one that is to end by itself."""
        process = self._spawn()
        _, said = process.communicate(timeout=PATIENCE)
        return process.returncode, said

    def _spawn(self) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self._command,
            env=self._environ,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            cwd=self.state,
        )

    def signal(self, number: int) -> None:
        assert self.process is not None
        send(self.process, number)

    def wait(self) -> tuple[int, str]:
        assert self.process is not None
        _, said = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, said

    def stop(self) -> tuple[int, str]:
        self.signal(signal.SIGTERM)
        return self.wait()

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


@contextmanager
def served(folder: Path) -> Iterator[Kvctld]:
    """One with its https side, which has told of no fault when the block ends."""
    daemon = Kvctld(folder, "--listen", "127.0.0.1:0")
    daemon.start()
    assert daemon.process is not None
    said: list[str] = []  # a pipe that nobody reads would stop it
    threading.Thread(target=said.extend, args=(daemon.process.stderr,), daemon=True).start()
    yield daemon
    faults = [line for line in said if '"fault ' in line]
    daemon.process.kill()
    daemon.process.wait()
    assert faults == []
