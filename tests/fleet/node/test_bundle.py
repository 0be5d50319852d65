"""The archive: the same bytes from the same sources, and it runs where nothing else is installed."""

import hashlib
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from kvctl import __version__
from kvctl.fleet.node import bundle


def pythons():
    """This python, and the oldest that is supported when there is one; a version manager's shim may have none."""
    ask = ["python3.9", "-c", "import sys; print(sys.executable)"]
    done = subprocess.run(ask, capture_output=True, text=True) if shutil.which("python3.9") else None
    return [sys.executable] + ([done.stdout.strip()] if done and done.returncode == 0 else [])


PYTHONS = pythons()


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "kvnoded.pyz"
    path.write_bytes(bundle.zip_bytes())
    return path


def test_the_bytes_are_stable():
    once = bundle.zip_bytes()
    bundle.zip_bytes.cache_clear()
    assert bundle.zip_bytes() == once


@pytest.mark.parametrize("python", PYTHONS)
def test_it_runs_alone(archive, python):
    done = subprocess.run([python, "-I", "-S", archive, "--version"], capture_output=True, text=True, cwd="/")
    assert (done.returncode, done.stdout) == (0, f"kvnoded {__version__}\n"), done.stderr


def test_it_needs_nothing_of_the_controller(archive):
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import kvctl.fleet.node.main;"
        "from kvctl.fleet.node import roles; roles.load('kvctl_class');"
        "print([name for name in sys.modules if name.split('.')[0] in ('click', 'pydantic', 'paramiko', 'duckdb')])"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code, archive], capture_output=True, text=True, cwd="/")
    assert done.stdout == "[]\n", done.stderr


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.parametrize("python", PYTHONS)
def test_it_serves_and_stops_at_once(archive, python, tmp_path):
    port = free_port()
    environment = {"PATH": "/usr/bin:/bin", "KVNODED_LISTEN": f"127.0.0.1:{port}", "STATE_DIRECTORY": str(tmp_path)}
    with subprocess.Popen([python, "-I", "-S", archive, "serve"], env=environment, cwd="/") as process:
        health = ask(f"http://127.0.0.1:{port}/healthz", process)
        assert health["version"] == __version__
        assert health["archive"] == hashlib.sha256(archive.read_bytes()).hexdigest()
        process.send_signal(signal.SIGHUP)
        assert ask(f"http://127.0.0.1:{port}/healthz", process)["version"] == __version__
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=5) == 0
        assert time.monotonic() - begun < 1
    kinds = [json.loads(line)["kind"] for line in (tmp_path / "flaps.jsonl").read_text().splitlines()]
    assert "start" in kinds


def ask(url, process, seconds=15):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + seconds
    while True:
        assert process.poll() is None, "kvnoded ended"
        try:
            return json.load(opener.open(url, timeout=2))
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
