"""kvstored as a process: its start, its signals, its end."""

import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kvctl.connector import wire
from kvctl.connector.keys import Identity
from kvctl.connector.wire import PutStatus, Refusal, Type
from kvctl.store.main import main
from kvctl.types.chunks import Ack, Meta
from tests.store.daemon import SCOPE, Daemon, Raw, admin, key, soon


@pytest.fixture
def daemon(tmp_path: Path):
    made = Daemon(tmp_path)
    yield made
    if made.alive:
        made.stop()


def test_check_judges_without_opening_anything(daemon: Daemon, capsys: pytest.CaptureFixture[str]):
    assert main(["--config", str(daemon.config), "--check"]) == 0
    assert "storage1" in capsys.readouterr().out
    assert not (daemon.folder / "store.sock").exists()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"ram": "1 byte"}, "KV-STORE-006"),
        ({"identity": "/nonexistent"}, "KV-CONN-010"),
        ({"revoked": "/nonexistent"}, "KV-STORE-002"),
        ({"colour": "red"}, "KV-STORE-005"),
    ],
)
def test_a_wrong_configuration_ends_with_its_code(
    daemon: Daemon, capsys: pytest.CaptureFixture[str], change: dict[str, object], code: str
):
    daemon.write(**change)
    assert main(["--config", str(daemon.config)]) == 2
    assert capsys.readouterr().err.startswith(f"{code}: ")


def test_a_key_that_others_can_read_is_refused(daemon: Daemon, capsys: pytest.CaptureFixture[str]):
    (daemon.folder / "store.key").chmod(0o644)
    assert main(["--config", str(daemon.config), "--check"]) == 7
    assert "KV-CONN-011" in capsys.readouterr().err


def test_a_missing_file_is_an_error_with_a_remedy(capsys: pytest.CaptureFixture[str]):
    assert main(["--config", "/nonexistent.yaml"]) == 2
    assert "KV-STORE-001" in capsys.readouterr().err


def test_systemd_is_told_of_every_state(daemon: Daemon, tmp_path: Path):
    told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    told.bind(str(tmp_path / "notify"))
    told.settimeout(10)
    daemon.start(environ={"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"})

    def until(word: str) -> str:
        while word not in (text := told.recv(4096).decode()):
            pass
        return text

    assert "STATUS=serving storage1" in until("READY=1")
    until("WATCHDOG=1")
    daemon.signal(signal.SIGHUP)
    assert "MONOTONIC_USEC=" in until("RELOADING=1")
    until("READY=1")
    daemon.signal(signal.SIGTERM)
    until("STOPPING=1")
    assert daemon.wait() == 0


def test_sigterm_finishes_what_is_in_flight_and_refuses_the_rest(daemon: Daemon):
    daemon.start()
    writer, idle = daemon.session(), daemon.session()
    writer.send(Type.PUT, wire.pack_put(key("wait"), Meta(), Ack.DURABLE) + bytes(1000))
    while admin(f"{daemon.folder}/admin.sock", "GET", "/v1/stat")[1]["counters"]["reserved"] != 1:
        time.sleep(0.01)
    daemon.signal(signal.SIGTERM)
    assert idle.refusal() == (Refusal.DRAINING, True)
    daemon.gate.touch()
    assert wire.NUMBER.unpack(writer.frame()[1])[0] == PutStatus.STORED
    assert daemon.wait() == 0
    assert not (daemon.folder / "store.sock").exists()
    assert daemon.event("stopped")


def test_a_session_that_does_not_end_is_broken_after_the_limit(daemon: Daemon):
    daemon.limits["drain_seconds"] = 0.3
    daemon.write()
    daemon.start()
    writer = daemon.session()
    writer.send(Type.PUT, wire.pack_put(key("slow"), Meta(), Ack.VISIBLE), length=wire.PUT_HEAD.size + (32 << 20))
    daemon.signal(signal.SIGTERM)
    assert daemon.wait() == 0
    assert daemon.event("sessions broken", sessions=1)


def test_a_second_sigterm_leaves_at_once(daemon: Daemon):
    daemon.limits["drain_seconds"] = 60
    daemon.write()
    daemon.start()
    writer = daemon.session()
    writer.send(Type.PUT, wire.pack_put(key("wait"), Meta(), Ack.DURABLE) + bytes(1000))
    daemon.signal(signal.SIGTERM)
    daemon.event("stopping")
    daemon.signal(signal.SIGTERM)
    assert daemon.wait() == 1
    assert daemon.event("left at once")


def test_sighup_takes_connectors_controllers_and_quotas_live(daemon: Daemon):
    daemon.start()
    old = daemon.session()
    newcomer = Identity.generate()
    daemon.write(connectors={"gpu2": newcomer.public.hex()}, quotas={SCOPE.tenant: 10})
    daemon.signal(signal.SIGHUP)
    daemon.event("reloaded")
    assert old.refusal() == (Refusal.UNKNOWN_CONNECTOR, True)
    raw = Raw(daemon.raw())
    raw.greet(daemon, newcomer)
    assert raw.ask(Type.ATTACH, daemon.token(holder=newcomer.public))[0].type is Type.ATTACHED
    body = raw.ask(Type.PUT, wire.pack_put(key("q"), Meta(), Ack.VISIBLE) + bytes(11))[1]
    assert wire.NUMBER.unpack(body)[0] == PutStatus.QUOTA
    daemon.write(connectors={"gpu2": newcomer.public.hex()}, controllers={})
    daemon.signal(signal.SIGHUP)
    daemon.event("reloaded", controllers=0)
    raw.send(Type.STAT)
    assert raw.refusal() == (Refusal.BAD_CAPABILITY, False)


def test_a_reload_that_needs_a_restart_or_is_wrong_changes_nothing(daemon: Daemon):
    daemon.start()
    raw = daemon.session()
    daemon.write(listen=["tcp:127.0.0.1:1"], connectors={})
    daemon.signal(signal.SIGHUP)
    assert "listen" in daemon.event("reload refused", code="KV-STORE-008")["what"]
    daemon.config.write_text("schema: [")
    daemon.signal(signal.SIGHUP)
    daemon.event("reload refused", code="KV-STORE-003")
    assert raw.ask(Type.STAT)[0].type is Type.STATS


def test_an_address_in_use_is_said(daemon: Daemon, tmp_path: Path):
    daemon.start()
    second = Daemon(tmp_path)
    ended = subprocess.run(
        [sys.executable, "-m", "tests.store.memory", "--config", str(second.config)], capture_output=True, text=True
    )
    assert ended.returncode == 1
    assert "KV-STORE-010" in ended.stderr
    assert "another process listens there" in ended.stderr
    assert daemon.raw(daemon.unix)


def test_a_socket_that_a_dead_process_left_is_replaced(daemon: Daemon):
    daemon.start()
    daemon.signal(signal.SIGKILL)
    daemon.wait()
    assert (daemon.folder / "store.sock").exists()
    daemon.events.clear()
    daemon.start()
    assert daemon.session(daemon.unix).ask(Type.STAT)[0].type is Type.STATS


def test_used_up_descriptors_neither_spin_nor_end_it(daemon: Daemon):
    daemon.limits.update(half_open=1000, half_open_per_peer=1000, hello_seconds=2)
    daemon.write()
    old = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (old[0], old[1]))
    daemon.start()
    resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (40, 40))
    crowd = [daemon.raw() for _ in range(60)]
    daemon.event("accepting paused")
    before = Path(f"/proc/{daemon.process.pid}/stat").read_text().split()
    threading.Event().wait(1)
    after = Path(f"/proc/{daemon.process.pid}/stat").read_text().split()
    assert sum(int(after[at]) - int(before[at]) for at in (13, 14)) < 50, "ticks of CPU in one second of waiting"
    for sock in crowd:
        sock.close()
    end = soon()
    while True:
        try:
            assert daemon.session().ask(Type.STAT)[0].type is Type.STATS
            break
        except (EOFError, OSError):
            assert time.monotonic() < end


def test_it_serves_on_when_systemd_is_gone(daemon: Daemon, tmp_path: Path):
    daemon.start(environ={"NOTIFY_SOCKET": str(tmp_path / "nobody"), "WATCHDOG_USEC": "50000"})
    daemon.event("systemd not told", what="WATCHDOG=1")
    assert daemon.session().ask(Type.STAT)[0].type is Type.STATS


def test_a_drive_that_is_not_mounted_is_not_taken_for_a_new_one(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    tiers = {"flash": {"mounts": [{"path": f"{tmp_path}/{name}", "capacity": "64MiB"} for name in ("a", "b")]}}
    daemon = Daemon(tmp_path, module="kvctl.store.main", tiers=tiers).start()
    assert daemon.stop() == 0
    shutil.rmtree(tmp_path / "b")
    (tmp_path / "b").mkdir()
    daemon.events.clear()
    daemon.start()
    places = daemon.admin("GET", "/v1/stat")[1]["tiers"][0]["places"]
    assert {Path(place["name"]).name: place["state"] for place in places} == {"a": "ok", "b": "failed"}
    assert list((tmp_path / "b").iterdir()) == []
    assert daemon.stop() == 0
