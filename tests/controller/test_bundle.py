"""A daemon's archive: the same sources give the same bytes, and only what the daemon needs is in it."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from kvctl.controller import bundle as room
from kvctl.types.errors import KvctlError
from kvctl.types.resources import resource


def made(path: Path) -> list[str]:
    files = dict(room.own_files(room.ROOMS["store"]))
    (path.parent / "root" / "msgspec").mkdir(parents=True, exist_ok=True)
    (path.parent / "root" / "msgspec" / "__init__.py").write_text("")
    room.write(path, path.parent / "root", files)
    with tarfile.open(path) as archive:
        return archive.getnames()


def test_the_same_sources_give_the_same_bytes(tmp_path):
    made(tmp_path / "a.tar.gz")
    made(tmp_path / "b.tar.gz")
    assert (tmp_path / "a.tar.gz").read_bytes() == (tmp_path / "b.tar.gz").read_bytes()


def test_the_consoles_rooms_stay_at_home(tmp_path):
    names = made(tmp_path / "a.tar.gz")
    assert "kvctl/store/main.py" in names
    assert "msgspec/__init__.py" in names
    assert [name for name in names if "/cli/" in name or "/controller/" in name or "/state/" in name] == []


@pytest.mark.parametrize(
    ("kind", "modules"),
    [
        ("store", "kvctl.store.main, kvctl.store.build, kvctl.store.s3, kvctl.connector.enrol"),
        ("gateway", "kvctl.gateway.main, kvctl.gateway.daemon, kvctl.connector.enrol"),
    ],
)
def test_a_daemon_finds_every_room_it_needs(tmp_path, kind, modules):
    for name, data in room.own_files(room.ROOMS[kind]).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    code = f"import kvctl, {modules}; print(kvctl.__file__)"
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=60, cwd="/", check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path))


def test_packages_that_cannot_be_had_are_an_error_with_a_way_out(tmp_path):
    (tmp_path / "empty").mkdir()
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    with pytest.raises(KvctlError) as caught:
        room.bundle("store", version, "x86_64", tmp_path / "cache", tmp_path / "empty")
    assert caught.value.code == "KV-DEP-001"
    assert "--wheels" in caught.value.fix
    assert [p.name for p in (tmp_path / "cache").iterdir()] == []


def test_others_than_root_read_it_whatever_the_nodes_umask(tmp_path):
    made(tmp_path / "a.tar.gz")
    root = tmp_path / "node"
    root.mkdir()
    old = os.umask(0o077)
    try:
        subprocess.run(["tar", "-xpzf", tmp_path / "a.tar.gz", "-C", root], check=True, timeout=60)
    finally:
        os.umask(old)
    shut = [path for path in root.rglob("*") if path.stat().st_mode & (0o055 if path.is_dir() else 0o044) == 0]
    assert shut == []


def test_what_says_that_it_is_whole_is_unpacked_last(tmp_path):
    names = made(tmp_path / "a.tar.gz")
    assert names[-1] == room.WHOLE
    roles = Path(resource("playbooks")) / "roles"
    for role in ("kvstored", "kvgated", "vllm"):
        (line,) = [one for one in (roles / role / "tasks/install.yml").read_text().splitlines() if "creates:" in one]
        assert line.endswith(f'/opt/kvctl/{{{{ kvctl_args.name }}}}/{room.WHOLE}"')
