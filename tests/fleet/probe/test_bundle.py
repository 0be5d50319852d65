import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kvctl.fleet.probe import bundle


def interpreters() -> list[str]:
    """Every Python from 3.9 on that this machine has, the running one first."""
    found = [sys.executable]
    for minor in range(9, 16):
        path = shutil.which(f"python3.{minor}")
        places = [path] if path else []
        places += [str(one) for one in Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python")]
        for place in places:
            answer = subprocess.run(
                [place, "-c", "import sys; print(sys.version_info[:2] >= (3, 9))"], capture_output=True
            )
            if answer.stdout.strip() == b"True":
                found.append(place)
                break
    return found


def start(
    python: str, *arguments: str, extra: bytes = b"", cut: int | None = None
) -> subprocess.CompletedProcess[bytes]:
    data = bundle.zip_bytes()
    command = bundle.bootstrap_command(len(data), *arguments, python=python)
    return subprocess.run(["sh", "-c", command], input=data[:cut] + extra, capture_output=True, timeout=60)


@pytest.mark.parametrize("python", interpreters())
def test_one_line_of_json_comes_back(python: str) -> None:
    done = start(python)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.count(b"\n") == 1
    raw = json.loads(done.stdout)
    assert raw["schema"] == 1
    assert raw["host"]["hostname"]["v"] == os.uname().nodename
    assert "lo" in raw["net"]


def test_the_oldest_supported_python_is_among_those_tried_when_it_is_here() -> None:
    there = shutil.which("python3.9") or any(Path.home().glob(".pyenv/versions/3.9.*"))
    assert not there or any("3.9" in python for python in interpreters())


def test_what_follows_the_zip_is_not_read() -> None:
    assert json.loads(start(sys.executable, extra=b"x" * 1000).stdout)["schema"] == 1


def test_a_cut_connection_is_told() -> None:
    done = start(sys.executable, cut=1000)
    assert done.returncode != 0
    assert b"standard input ended after 1000" in done.stderr
    assert done.stdout == b""


def test_arguments_reach_the_probe(tmp_path: Path) -> None:
    raw = json.loads(start(sys.executable, "--sysroot", str(tmp_path), "--no-tools").stdout)
    assert raw["sysroot"] == str(tmp_path)
    assert raw["net"] == {}


def test_a_wrong_argument_is_a_usage_error() -> None:
    done = start(sys.executable, "--change-everything")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"usage:" in done.stderr


def test_it_runs_where_memfd_create_is_missing(tmp_path: Path) -> None:
    data = bundle.zip_bytes()
    command = bundle.bootstrap_command(len(data), "--no-tools", python=sys.executable)
    command = command.replace("import os,sys\n", "import os,sys\ndel os.memfd_create\n", 1)
    done = subprocess.run(["sh", "-c", command], input=data, capture_output=True, env={"TMPDIR": str(tmp_path)})
    assert json.loads(done.stdout)["schema"] == 1, done.stderr.decode()
    assert list(tmp_path.iterdir()) == []


def test_it_leaves_nothing_on_the_node(tmp_path: Path) -> None:
    data = bundle.zip_bytes()
    command = bundle.bootstrap_command(len(data), "--no-tools", python=sys.executable)
    subprocess.run(
        ["sh", "-c", command], input=data, check=True, cwd=tmp_path, env={"HOME": str(tmp_path)}, capture_output=True
    )
    assert list(tmp_path.iterdir()) == []


def test_the_zip_is_the_same_every_time_and_holds_only_what_collects() -> None:
    data = bundle.zip_bytes()
    assert data == bundle.zip_bytes()
    names = zipfile.ZipFile(io.BytesIO(data)).namelist()
    assert "kvprobe/collect.py" in names
    assert not [name for name in names if "tools/" in name or "bundle" in name]
    assert len(data) < 64 * 1024


def test_no_slow_module_is_imported_for_a_document() -> None:
    """Each of these costs more processor time than reading a node's sysfs."""
    slow = (
        "json",
        "re",
        "subprocess",
        "socket",
        "threading",
        "platform",
        "pathlib",
        "tempfile",
        "logging",
        "typing",
    )
    code = (
        "import sys; sys.path.insert(0, '.'); from kvctl.fleet.probe import __main__, collect, signature\n"
        f"collect.collect(); print([name for name in {slow!r} if name in sys.modules])"
    )
    root = Path(bundle.__file__).parents[3]
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, cwd=root, check=True)
    assert done.stdout.strip() == b"[]"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else: run as root")
def test_an_unprivileged_user_gets_a_document_too() -> None:
    python = "/usr/bin/python3"
    if not Path(python).exists():
        pytest.skip("the interpreter running the tests may be unreadable to others; install python3")
    data = bundle.zip_bytes()
    done = subprocess.run(
        ["sh", "-c", bundle.bootstrap_command(len(data), python=python)], input=data, capture_output=True, user=65534
    )
    raw = json.loads(done.stdout)
    assert raw["host"]["euid"] == 65534
    assert raw["host"]["kernel"]["v"]
