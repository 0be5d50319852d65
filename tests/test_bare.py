"""Storage nodes, engines and tools install their own short list of packages, and none of the console's."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CONSOLE = ("click", "textual", "fastapi", "pydantic", "paramiko", "duckdb", "ansible_runner", "uvicorn")
ROOMS = {
    "store": ("kvctl.store.main", "kvctl.store.build", "kvctl.store.s3"),
    "connector": (
        "kvctl.connector.pool",
        "kvctl.connector.fingerprint",
        "kvctl.connector.engine",
        "kvctl.connector.tier_service",
    ),
    "gateway": ("kvctl.gateway.main", "kvctl.gateway.daemon"),
}
KINDS = ("store", "gateway")  # each with a lock and a daemon; engines take the store's lock
DAEMONS = {"store": "kvstored", "gateway": "kvgated"}
OTHERS = {"store": ("aiohttp",), "gateway": ("lmdb", "obstore", "xxhash")}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    place = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(place), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    (made,) = place.glob("*.whl")
    return made


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def bare(kind, wheel, tmp_path_factory):
    """A virtual environment with a daemon's lock and the wheel alone, as a node gets it."""
    place = tmp_path_factory.mktemp(kind)
    python = place / "venv" / "bin" / "python"
    steps = [
        [sys.executable, "-m", "venv", str(place / "venv")],
        [str(python), "-m", "pip", "install", "-q", "--require-hashes", "-r", str(ROOT / f"requirements-{kind}.lock")],
        [str(python), "-m", "pip", "install", "-q", "--no-deps", str(wheel)],
    ]
    for step in steps:
        subprocess.run(step, check=True, capture_output=True, timeout=300)
    return python


def run(python, *argv):
    done = subprocess.run([str(python), *argv], capture_output=True, text=True, timeout=60, cwd="/", check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", CONSOLE)
def test_nothing_of_the_console_is_there(bare, name):
    code = f"import importlib.util; print(importlib.util.find_spec({name!r}))"
    assert run(bare, "-c", code).strip() == "None"


def test_nothing_of_the_other_daemon_is_there(bare, kind):
    code = f"import importlib.util; print([n for n in {OTHERS[kind]!r} if importlib.util.find_spec(n)])"
    assert run(bare, "-c", code).strip() == "[]"


def test_its_rooms_are_complete_without_the_console(bare, kind):
    for room in {"store": ("store", "connector"), "gateway": ("gateway",)}[kind]:
        run(bare, "-c", f"import {', '.join(ROOMS[room])}")


def test_the_daemon_starts_from_it(bare, kind):
    assert "--config" in run(bare.with_name(DAEMONS[kind]), "--help")
