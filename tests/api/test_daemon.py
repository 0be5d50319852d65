"""kvctld as its users meet it: started twice, told to stop, killed, on a full disk.

KVCTL_KILL_ROUNDS=20 runs the kill test longer.
"""

import os
import shutil
import signal
import socket
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvctl.client.choose import Embedded, site_settings
from kvctl.client.http import Http
from kvctl.controller.books import RESERVE
from kvctl.types import requests as r
from kvctl.types.errors import KvctlError, UnreachableError
from tests.controller.kvctld import Kvctld

ROUNDS = int(os.environ.get("KVCTL_KILL_ROUNDS", "3"))
WRITERS = 3
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None, reason="mounts in a namespace of its own: run as root"
)


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Short: a unix socket's path has at most 107 bytes."""
    return tmp_path_factory.mktemp("d")


@pytest.fixture
def kvctld(folder: Path) -> Iterator[Kvctld]:
    found = Kvctld(folder)
    yield found
    found.end()


def test_it_serves_and_stops_in_order(kvctld: Kvctld):
    client = kvctld.start()
    mode = kvctld.path.stat().st_mode
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600
    found = client.call("controller.status", r.Nothing())
    assert kvctld.process is not None
    assert (found["pid"], found["daemon"], found["site"]) == (kvctld.process.pid, True, "local")
    jobs = {job["job"]: job for job in found["jobs"]}
    assert {"checkpoint", "snapshot", "push", "approvals", "sync", "compare"} <= set(jobs)
    code, said = kvctld.stop()
    assert (code, "Traceback" in said) == (0, False), said
    assert not kvctld.path.exists()
    Embedded(site_settings(None, kvctld.state)).call("tenant.ls", r.TenantScope())


def test_a_second_one_says_who_has_the_state(kvctld: Kvctld, folder: Path):
    kvctld.start()
    assert kvctld.process is not None
    code, said = Kvctld(folder).run()
    assert code == 8
    assert "KV-CTL-010" in said
    assert f"PID {kvctld.process.pid}" in said
    assert "--controller unix:" in said
    assert "Traceback" not in said
    assert kvctld.client.call("tenant.ls", r.TenantScope())["tenants"] == [], "the first goes on"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--listen", "127.0.0.1"), "KV-CTL-013"),
        (("--listen", "192.0.2.1:0"), "KV-CTL-012"),
        (("--socket", "/nonexistent/dir/s"), "KV-CTL-012"),
        (("--socket", "/tmp/" + "x" * 120), "KV-CTL-011"),
    ],
)
def test_a_place_where_it_cannot_listen(folder: Path, arguments: tuple[str, ...], code: str):
    exit_code, said = Kvctld(folder, *arguments).run()
    assert exit_code in (1, 2)
    assert code in said
    assert "Traceback" not in said


def test_requests_under_way_are_answered_before_it_stops(kvctld: Kvctld):
    client = kvctld.start()
    answers: list[str] = []

    def create() -> None:
        for number in range(200):
            try:
                client.call("tenant.create", r.TenantCreate(f"t{number}", "x"))
            except UnreachableError:
                return
            answers.append(f"t{number}")

    thread = threading.Thread(target=create)
    thread.start()
    while len(answers) < 3:
        assert thread.is_alive()
        time.sleep(0.005)
    code, said = kvctld.stop()
    thread.join()
    assert code == 0, said
    there = Embedded(site_settings(None, kvctld.state)).call("tenant.ls", r.TenantScope())["tenants"]
    assert set(answers) <= {row["tenant"] for row in there}


def test_systemd_is_told(kvctld: Kvctld, folder: Path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(folder / "n"))
        manager.settimeout(30)
        kvctld._environ["NOTIFY_SOCKET"] = str(folder / "n")
        kvctld.start()
        told = b""
        while b"READY=1" not in told:
            told = manager.recv(1000)
        kvctld.signal(signal.SIGTERM)
        while b"STOPPING=1" not in told:
            told = manager.recv(1000)
        assert kvctld.wait()[0] == 0


class Writers:
    """Create tenants until the controller is gone; `acknowledged` are those that it said were created."""

    def __init__(self, kvctld: Kvctld, round_number: int) -> None:
        self.acknowledged: set[str] = set()
        self._names = (f"r{round_number}w{{}}n{{}}").format
        self._kvctld = kvctld
        self._threads = [threading.Thread(target=self._write, args=(number,)) for number in range(WRITERS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _write(self, writer: int) -> None:
        client = self._kvctld.client
        for number in range(100_000):
            name = self._names(writer, number)
            try:
                client.call("tenant.create", r.TenantCreate(name, "Load"))
            except UnreachableError:
                return
            self.acknowledged.add(name)


def test_nothing_that_was_acknowledged_is_lost_when_it_is_killed(kvctld: Kvctld):
    acknowledged: set[str] = set()
    for number in range(ROUNDS):
        client = kvctld.start()
        there = {row["tenant"] for row in client.call("tenant.ls", r.TenantScope())["tenants"]}
        assert acknowledged <= there, f"round {number}: lost {sorted(acknowledged - there)[:5]}"
        found = client.call("controller.status", r.Nothing())
        assert found["applied"] == found["log_size"], "the tables are what the log says"
        writers = Writers(kvctld, number)
        writers.start()
        while len(writers.acknowledged) < 4 + number:
            time.sleep(0.005)
        kvctld.signal(signal.SIGKILL)
        kvctld.wait()
        writers.join()
        acknowledged |= writers.acknowledged
    client = kvctld.start()
    there = {row["tenant"] for row in client.call("tenant.ls", r.TenantScope())["tenants"]}
    assert acknowledged <= there
    assert kvctld.stop()[0] == 0


@needs_root
def test_a_full_disk_refuses_changes_and_answers_reads(folder: Path, tmp_path: Path):
    """On a file system of its own, in a mount namespace of its own."""
    place = folder / "disk"
    place.mkdir()
    size = (RESERVE >> 20) + 64
    mount = f'mount -t tmpfs -o size={size}m none {place} && cd {place} && exec "$@"'
    kvctld = Kvctld(place, prefix=["unshare", "--mount", "--propagation", "private", "sh", "-c", mount, "sh"])
    kvctld.path = folder / "s"
    kvctld._command[kvctld._command.index("--socket") + 1] = str(kvctld.path)
    try:
        client = kvctld.start()
        client.call("tenant.create", r.TenantCreate("before", "x"))
        assert kvctld.process is not None
        inside = Path(f"/proc/{kvctld.process.pid}/root{place}")
        filler = inside / "filler"
        with filler.open("wb") as file:
            free = os.statvfs(inside).f_bavail * os.statvfs(inside).f_frsize
            file.write(b"\0" * (free - RESERVE // 2))
        with pytest.raises(KvctlError) as caught:
            client.call("tenant.create", r.TenantCreate("during", "x"))
        assert caught.value.code == "KV-CTL-002"
        assert [row["tenant"] for row in client.call("tenant.ls", r.TenantScope())["tenants"]] == ["before"]
        filler.unlink()
        client.call("tenant.create", r.TenantCreate("after", "x"))
        filler.write_bytes(b"\0" * (RESERVE // 2))
        there = client.call("tenant.ls", r.TenantScope())["tenants"]
        assert [row["tenant"] for row in there] == ["after", "before"]
        found = client.call("controller.status", r.Nothing())
        assert found["applied"] == found["log_size"]
        assert kvctld.stop()[0] == 0
    finally:
        kvctld.end()


def test_https_with_a_certificate_of_the_sites_own(folder: Path):
    kvctld = Kvctld(folder, "--listen", "127.0.0.1:0")
    try:
        kvctld.start()
        client = Http(f"https://localhost:{kvctld.port}", ca=kvctld.directory / "tls" / "ca.crt")
        with pytest.raises(KvctlError) as caught:
            client.session()
        assert caught.value.code == "KV-API-010"
        made = kvctld.client.call("account.create", r.AccountCreate("ann", ["viewer"]))
        assert made["console"] == f"https://127.0.0.1:{kvctld.port}", "where its link leads"
        key = kvctld.directory / "tls" / "ca.key"
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
    finally:
        kvctld.end()
