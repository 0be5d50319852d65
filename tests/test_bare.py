"""Storage nodes, engines and tools install their own short list of packages, and none of the console's."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CONSOLE = ("click", "textual", "fastapi", "pydantic", "paramiko", "duckdb", "ansible_runner", "uvicorn")
ROOMS = {
    "store": ("kvctl.store.main", "kvctl.store.build", "kvctl.store.s3"),
    "connector": ("kvctl.connector.pool", "kvctl.connector.fingerprint", "kvctl.connector.engine"),
}


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A virtual environment with requirements-store.lock and the wheel alone, as a storage node gets it."""
    place = tmp_path_factory.mktemp("bare")
    python = place / "venv" / "bin" / "python"
    steps = [
        [sys.executable, "-m", "venv", str(place / "venv")],
        [str(python), "-m", "pip", "install", "-q", "--require-hashes", "-r", str(ROOT / "requirements-store.lock")],
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(place), str(ROOT)],
    ]
    for step in steps:
        subprocess.run(step, check=True, capture_output=True, timeout=300)
    (wheel,) = place.glob("*.whl")
    subprocess.run([str(python), "-m", "pip", "install", "-q", "--no-deps", str(wheel)], check=True, timeout=120)
    return python


def run(python, *argv):
    done = subprocess.run([str(python), *argv], capture_output=True, text=True, timeout=60, cwd="/", check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", CONSOLE)
def test_nothing_of_the_console_is_there(bare, name):
    code = f"import importlib.util; print(importlib.util.find_spec({name!r}))"
    assert run(bare, "-c", code).strip() == "None"


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_is_complete_without_the_console(bare, room):
    run(bare, "-c", f"import {', '.join(ROOMS[room])}")


def test_the_daemon_starts_from_it(bare):
    assert "--config" in run(bare.with_name("kvstored"), "--help")
