"""kvgated as a process: its start, its signals, its end."""

import asyncio
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from kvctl.bench import stub_serve
from kvctl.bench.stub_engine import StubEngine
from kvctl.connector.keys import Identity
from kvctl.connector.snapshotfile import write_snapshot
from kvctl.gateway.main import main
from kvctl.types.snapshot import Snapshot
from tests.gateway.site import ACME, chat, settings


@pytest.fixture
def config(tmp_path: Path) -> Path:
    controller = Identity.generate()
    Identity.generate().save(tmp_path / "gate.key")
    now = int(time.time())
    snapshot = Snapshot(site="fra1", number=1, issued_at=now - 5, expires_at=now + 600, tenants=(ACME,))
    write_snapshot(tmp_path / "snapshot", snapshot, controller)
    path = tmp_path / "gate.yaml"
    path.write_text(yaml.safe_dump(settings(tmp_path, {"e1": StubEngine()}, controller)))
    return path


def test_check_judges_without_opening_anything(config: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["--config", str(config), "--check"]) == 0
    assert "gate1" in capsys.readouterr().out
    assert not (config.parent / "gate.sock").exists()
    assert not (config.parent / "usage").exists()


def test_wrong_files_end_with_their_codes(config: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["--config", "/nonexistent"]) == 2
    assert "KV-GATE-001" in capsys.readouterr().err
    (config.parent / "gate.key").chmod(0o644)
    assert main(["--config", str(config), "--check"]) == 7
    assert "KV-CONN-011" in capsys.readouterr().err


def test_a_certificate_that_is_none(config: Path, capsys: pytest.CaptureFixture[str]):
    written = yaml.safe_load(config.read_text())
    (config.parent / "tls.key").write_text("no key")
    (config.parent / "tls.key").chmod(0o600)
    written["tls"] = {"certificate": str(config), "key": str(config.parent / "tls.key")}
    config.write_text(yaml.safe_dump(written))
    assert main(["--config", str(config), "--check"]) == 2
    assert "KV-GATE-005" in capsys.readouterr().err


class Process:
    """`watched`: systemd's watchdog is on, and somebody must read what it is told."""

    def __init__(self, config: Path, *, watched: bool = False) -> None:
        self.folder = config.parent
        notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notified.bind(str(self.folder / "notify"))
        notified.settimeout(20)
        self.notified = notified
        environ = os.environ | {"NOTIFY_SOCKET": str(self.folder / "notify")}
        environ |= {"WATCHDOG_USEC": "2000000"} if watched else {}
        environ.pop("WATCHDOG_PID", None)
        argv = [sys.executable, "-m", "kvctl.gateway.main", "--config", str(config)]
        self.process = subprocess.Popen(argv, stderr=subprocess.PIPE, env=environ)

    def told(self, word: bytes) -> None:
        while word not in self.notified.recv(4096):
            pass

    def ask(self, path: str, body: object = None, key: str = "acme-1") -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("gateway")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(20)
        connection.sock.connect(str(self.folder / "gate.sock"))
        headers = {"Authorization": f"Bearer {key}"}
        connection.request("POST" if body else "GET", path, json.dumps(body) if body else None, headers)
        answer = connection.getresponse()
        found = answer.status, answer.read()
        connection.close()
        return found

    def end(self, number: int) -> tuple[int, list[dict[str, object]]]:
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=30)
        return self.process.returncode, [json.loads(line) for line in err.splitlines()]


def test_it_serves_until_it_is_told_to_stop(config: Path):
    async def whole() -> None:
        runner = await stub_serve.start(StubEngine(), f"{config.parent}/e1.sock")
        process = Process(config, watched=True)
        try:
            await asyncio.to_thread(process.told, b"READY=1")
            await asyncio.to_thread(process.told, b"WATCHDOG=1")
            assert (await asyncio.to_thread(process.ask, "/v1/models"))[0] == 200
            status, data = await asyncio.to_thread(process.ask, "/v1/chat/completions", chat())
            assert status == 200, data
            code, log = await asyncio.to_thread(process.end, signal.SIGTERM)
        finally:
            process.process.kill()
            process.notified.close()
            await runner.cleanup()
        assert code == 0
        assert [line["event"] for line in log] == ["snapshot", "engine", "ready", "stopping", "stopped"]
        assert log[-1]["records"] == 1
        assert not (config.parent / "gate.sock").exists()
        assert not (config.parent / "admin.sock").exists()

    asyncio.run(whole())


def test_a_killed_gateway_leaves_its_records_and_starts_again(config: Path):
    async def whole() -> None:
        runner = await stub_serve.start(StubEngine(), f"{config.parent}/e1.sock")
        process = Process(config)
        try:
            await asyncio.to_thread(process.told, b"READY=1")
            await asyncio.to_thread(process.ask, "/v1/chat/completions", chat())
            process.process.kill()
            process.process.communicate()
            process.notified.close()
            (config.parent / "notify").unlink()
            (path,) = (config.parent / "usage").iterdir()
            assert json.loads(path.read_text())["counter"] == 1
            process = Process(config)
            await asyncio.to_thread(process.told, b"READY=1")
            assert (await asyncio.to_thread(process.ask, "/v1/chat/completions", chat()))[0] == 200
            assert (await asyncio.to_thread(process.end, signal.SIGINT))[0] == 0
        finally:
            process.process.kill()
            process.notified.close()
            await runner.cleanup()
        assert len(list((config.parent / "usage").iterdir())) == 2

    asyncio.run(whole())


def test_a_second_one_does_not_take_the_first_ones_place(config: Path):
    process = Process(config)
    try:
        process.told(b"READY=1")
        second = subprocess.run(process.process.args, capture_output=True, text=True, timeout=30, check=False)
        assert second.returncode == 1
        assert "KV-GATE-006" in second.stderr
        assert "another kvgated" in second.stderr
    finally:
        process.end(signal.SIGTERM)
        process.notified.close()
