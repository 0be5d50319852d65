"""What a command cost, told by commands that burn a known amount of processor time."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kvctl.bench.meter import Metered, metered
from kvctl.fleet.lab.processes import start_time
from kvctl.types.errors import KvctlError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="subreapers are of Linux: run this test there")

# Burns its own processor time, so a busy machine changes only how long it takes.
BURN = "import time\nwhile time.process_time() < {seconds}: pass\n"


def stays(pid_file: Path) -> str:
    """Says its pid, whole at once, and then stays."""
    beside = f"{pid_file}.new"
    return (
        f"import os, time\nopen({beside!r}, 'w').write(str(os.getpid()))\n"
        f"os.rename({beside!r}, {str(pid_file)!r})\ntime.sleep(600)\n"
    )


def run(tmp_path: Path, code: str, timeout: float = 60.0) -> Metered:
    return metered(
        [sys.executable, "-c", code], env=dict(os.environ), directory=tmp_path, label="busy", timeout=timeout
    )


def test_the_time_of_a_busy_child_is_counted(tmp_path: Path) -> None:
    found = run(tmp_path, BURN.format(seconds=0.5))
    assert found.exit == 0
    assert 0.5 <= found.cpu < 1.5  # its own start-up comes on top
    assert found.wall >= 0.5


def test_waiting_costs_no_processor_time(tmp_path: Path) -> None:
    found = run(tmp_path, "import time; time.sleep(1)")
    assert found.wall >= 1
    assert found.cpu < 0.5


def test_the_time_of_grandchildren_is_counted(tmp_path: Path) -> None:
    inner = BURN.format(seconds=0.4)
    code = f"import subprocess, sys\nfor _ in range(2): subprocess.run([sys.executable, '-c', {inner!r}])"
    assert 0.8 <= run(tmp_path, code).cpu < 2.4


def test_what_a_command_leaves_behind_is_ended_and_counted(tmp_path: Path) -> None:
    """As with an SSH master: it has its own session, keeps standard error open, and outlives who started it."""
    pid_file = tmp_path / "pid"
    orphan = BURN.format(seconds=0.5) + stays(pid_file)
    code = (
        "import os, subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {orphan!r}], start_new_session=True)\n"
        f"while not os.path.exists({str(pid_file)!r}): time.sleep(0.02)\n"
    )
    found = run(tmp_path, code)
    assert found.exit == 0
    assert found.wall < 60  # the orphan's own 600 s are not waited for
    assert found.cpu >= 0.5
    assert start_time(int(pid_file.read_text())) is None


def test_the_exit_code_and_the_output_are_kept(tmp_path: Path) -> None:
    found = run(tmp_path, "import sys; print('hello'); sys.exit(3)")
    assert found.exit == 3
    assert (tmp_path / "busy.out").read_text() == "hello\n"


def test_a_command_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KvctlError) as caught:
        metered(["/nonexistent/tool"], env=dict(os.environ), directory=tmp_path, label="none")
    assert caught.value.code == "KV-BENCH-002"
    assert "No such file" in caught.value.why


def test_a_command_that_hangs_is_ended(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    code = stays(pid_file)
    with pytest.raises(KvctlError) as caught:
        run(tmp_path, code, timeout=3.0)
    assert caught.value.code == "KV-BENCH-002"
    assert "more than 3 s" in caught.value.why
    assert start_time(int(pid_file.read_text())) is None


def test_an_ended_meter_ends_its_command(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    command = [sys.executable, "-c", stays(pid_file)]
    argv = [sys.executable, "-m", "kvctl.bench.meter", str(tmp_path / "result"), *command]
    meter = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not pid_file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    meter.send_signal(signal.SIGTERM)
    meter.wait(60)
    assert start_time(int(pid_file.read_text())) is None
    assert not (tmp_path / "result").exists()
