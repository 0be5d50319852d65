"""Servers of a benchmark end with it, whatever they started and however they take it."""

import sys
from pathlib import Path

import pytest

from kvctl.bench.store import cpu
from kvctl.bench.store.processes import Child, await_line, await_true, free_ports, listens, module, running
from kvctl.types.errors import KvctlError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="process clocks and setpriv are of Linux")

# A server that ignores SIGTERM and has a child of its own.
STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


def gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state in "ZX"


def fail_inside(child: Child, pids: list[int]) -> None:
    pids += [child.process.pid, int(child.stdout.readline())]
    assert set(child.tree()) == set(pids)
    raise ZeroDivisionError


def test_a_group_ends_with_its_context_also_after_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvctl.bench.store.processes.GRACE", 0.2)
    pids: list[int] = []
    with (
        pytest.raises(ZeroDivisionError),
        running("s", [sys.executable, "-c", STUBBORN], tmp_path, pipes=True) as child,
    ):
        fail_inside(child, pids)
    assert all(map(gone, pids))


def test_a_server_that_ends_at_once_says_why(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", "import sys; sys.exit('no such disk')"]
    with pytest.raises(KvctlError) as caught, running("server", argv, tmp_path) as child:
        await_true(child, "it answers", lambda: False)
    assert caught.value.code == "KV-BENCH-012"
    assert "ended with 1" in caught.value.why
    assert "no such disk" in caught.value.why


def test_a_server_that_never_answers_is_given_up(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", "import time; time.sleep(600)"]
    with pytest.raises(KvctlError) as caught, running("server", argv, tmp_path) as child:
        await_true(child, "it answers", lambda: False, seconds=0.1)
    assert "it answers" in caught.value.why


def test_the_raw_server_ends_with_its_input(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    argv = module("kvctl.bench.store.rawserver", str(port), str(tmp_path / "raw.sock"), str(1 << 20))
    with running("raw", argv, tmp_path, pipes=True) as child:
        await_line(child, b"ready")
        assert listens(f"127.0.0.1:{port}")
        assert listens(str(tmp_path / "raw.sock"))
        child.stdin.close()
        assert child.process.wait(30) == 0


def test_processor_time_of_another_process_is_counted(tmp_path: Path) -> None:
    burn = "import threading, time\ndef work():\n  while time.process_time() < 0.3: pass\n"
    code = f"{burn}t = threading.Thread(target=work)\nt.start()\nt.join()\nprint('done', flush=True)\ntime.sleep(600)"
    with running("busy", [sys.executable, "-c", code], tmp_path, pipes=True) as child:
        await_line(child, b"done")
        assert 0.3 <= cpu.seconds([child.process.pid]) < 3  # of a thread that has ended


def test_the_clock_of_an_ended_process_is_an_error(tmp_path: Path) -> None:
    with running("brief", [sys.executable, "-c", ""], tmp_path) as child:
        child.process.wait(30)
        with pytest.raises(OSError, match="Invalid argument"):
            cpu.seconds([child.process.pid])
