"""The client over HTTP when the other end is not what it should be."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvctl.api.app import create_app
from kvctl.api.server import PATIENCE
from kvctl.client import http
from kvctl.client.choose import Embedded, controller, listens
from kvctl.client.http import Http
from kvctl.controller.core import opened
from kvctl.controller.pki import Authority, Services, new_request
from kvctl.types import requests as r
from kvctl.types.errors import KvctlError, LockedError, RefusedError, UnreachableError, UsageError
from kvctl.types.principals import Role
from tests.api.rig import PASSWORD, Listening, People, settings

STATUS = ("controller.status", r.Nothing())


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Listening]:
    with opened(settings(tmp_path)) as ctl:
        people = People(otto=Role.OPERATOR, vera=Role.VIEWER)
        with Listening(create_app(ctl, accounts=people), ctl, tmp_path) as found:
            found.ctl = ctl  # type: ignore[attr-defined]
            yield found


@pytest.mark.parametrize("endpoint", ["unix:/nonexistent/sock", "https://127.0.0.1:1"])
def test_nobody_there(endpoint: str):
    began = time.monotonic()
    with pytest.raises(UnreachableError) as caught:
        Http(endpoint).call(*STATUS)
    assert (caught.value.code, caught.value.where) == ("KV-CTL-032", endpoint)
    assert time.monotonic() - began < http.CONNECT


@pytest.mark.parametrize(
    "endpoint", ["", "http://host:80", "https://", "unix:relative", "https://host/path", "ftp://x"]
)
def test_what_is_no_endpoint(endpoint: str):
    with pytest.raises(UsageError) as caught:
        Http(endpoint)
    assert caught.value.code == "KV-CTL-030"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "KV-CTL-033"),
        (b"HTTP/1.1 502 Bad\r\nContent-Length: 2\r\n\r\n{}", "KV-CTL-033"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnull", "KV-CTL-033"),
        (b"SSH-2.0-OpenSSH\r\n", "KV-CTL-032"),
        (b"", "KV-CTL-032"),
    ],
)
def test_somebody_else_is_there(tmp_path: Path, answer: bytes, code: str):
    path = tmp_path / "s"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def reply() -> None:
        one, _ = listener.accept()
        with one:
            one.recv(65536)
            one.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            one.recv(65536)
            one.sendall(answer)

    thread = threading.Thread(target=reply)
    thread.start()
    with pytest.raises(UnreachableError) as caught:
        Http(f"unix:{path}").call(*STATUS)
    assert caught.value.code == code
    thread.join()
    listener.close()


def test_an_answer_that_got_lost_is_not_taken_for_nothing_done(tmp_path: Path):
    path = tmp_path / "s"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def hang_up() -> None:
        one, _ = listener.accept()
        with one:
            one.recv(65536)
            one.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            one.recv(65536)

    thread = threading.Thread(target=hang_up)
    thread.start()
    with pytest.raises(UnreachableError) as caught:
        Http(f"unix:{path}").call("event.record", r.EventRecord("fleet.checked"))
    assert caught.value.code == "KV-CTL-035"
    thread.join()
    listener.close()


def test_a_controller_that_hangs_is_noticed_within_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A stopped process still takes connections."""
    path = tmp_path / "s"
    code = (
        "import socket,sys;s=socket.socket(1);s.bind(sys.argv[1]);s.listen();print('up',flush=True);s.accept();input()"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, stdin=subprocess.PIPE)
    assert child.stdout
    child.stdout.readline()
    os.kill(child.pid, signal.SIGSTOP)
    monkeypatch.setattr(http, "CONNECT", 0.5)
    try:
        with pytest.raises(UnreachableError) as caught:
            Http(f"unix:{path}").call(*STATUS)
        assert caught.value.code == "KV-CTL-032"
    finally:
        child.kill()
        child.communicate()


def test_the_controllers_certificate_is_checked(server: Listening):
    with pytest.raises(UnreachableError) as caught:
        Http(server.https).call(*STATUS)
    assert "certificate verify failed" in caught.value.why
    with pytest.raises(UnreachableError):
        Http(f"https://127.0.0.2:{server.port}", ca=server.ca).call(*STATUS)


def test_nobody_over_https(server: Listening):
    with pytest.raises(RefusedError) as caught:
        Http(server.https, ca=server.ca).call(*STATUS)
    assert caught.value.code == "KV-API-010"


def test_signing_in_over_either_carrier(server: Listening):
    for client in (Http(server.https, ca=server.ca), Http(server.unix)):
        with pytest.raises(RefusedError) as caught:
            client.login("otto", "wrong")
        assert caught.value.code == "KV-API-062"
        client.login("otto", PASSWORD)
        assert client.session()["name"] == "local:otto"
        client.call("tenant.create", r.TenantCreate("acme", "Acme", dry_run=True))
        client.confirm(PASSWORD)
        client.logout()
    assert Http(server.unix).session()["name"].startswith("unix:")
    over = Http(server.https, ca=server.ca)
    with pytest.raises(RefusedError):
        over.session()


def test_a_service_comes_with_its_certificate(server: Listening, tmp_path: Path):
    directory = server.ca.parent
    key, request = new_request("gw1")
    signed = Authority(directory, "par1").service("gw1", request)
    from cryptography.hazmat.primitives.serialization import Encoding

    (tmp_path / "c.crt").write_bytes(signed.public_bytes(Encoding.PEM))
    (tmp_path / "c.key").write_bytes(key)
    client = Http(server.https, ca=server.ca, certificate=tmp_path / "c.crt", key=tmp_path / "c.key")
    with pytest.raises(RefusedError):
        client.session()
    Services(directory).add("gw1", signed)
    assert client.session()["name"] == "service:gw1"


def test_a_certificate_of_another_authority_ends_the_connection(server: Listening, tmp_path: Path):
    key, request = new_request("gw1")
    signed = Authority(tmp_path / "other", "par1").service("gw1", request)
    from cryptography.hazmat.primitives.serialization import Encoding

    (tmp_path / "c.crt").write_bytes(signed.public_bytes(Encoding.PEM))
    (tmp_path / "c.key").write_bytes(key)
    with pytest.raises(UnreachableError):
        Http(server.https, ca=server.ca, certificate=tmp_path / "c.crt", key=tmp_path / "c.key").session()


def test_a_connection_that_sends_no_request_is_closed(server: Listening, monkeypatch: pytest.MonkeyPatch):
    from kvctl.api import server as module

    assert PATIENCE > 1
    monkeypatch.setattr(module, "PATIENCE", 0.3)
    for sent in (b"", b"GET /healthz HTTP/1.1\r\nHost: x"):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(20)
            sock.connect(str(server.path))
            sock.sendall(sent)
            assert sock.recv(100) == b""


def test_which_controller_is_asked(server: Listening, tmp_path: Path):
    """A kvctld that runs here goes before this process; what is named goes before both."""
    state = settings(tmp_path).directory
    (state.parent / "local").mkdir()
    assert isinstance(controller(None, state.parent), Embedded)
    (state.parent / "local" / "kvctld.sock").symlink_to(server.path)
    assert isinstance(controller(None, state.parent), Http)
    assert isinstance(controller(None, state.parent, endpoint="direct"), Embedded)
    found = controller(None, tmp_path / "nowhere", endpoint=server.unix)
    assert found.call(*STATUS)["site"] == "par1"


def test_a_socket_that_a_dead_controller_left_is_not_asked(tmp_path: Path):
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))
    assert path.is_socket()
    assert not listens(path)


def test_this_process_says_whom_to_ask_when_the_books_are_taken(server: Listening, tmp_path: Path):
    with pytest.raises(LockedError) as caught:
        Embedded(settings(tmp_path)).call(*STATUS)
    assert caught.value.code == "KV-CTL-010"
    assert f"PID {os.getpid()}" in caught.value.why
    assert "kvctld.sock" in caught.value.fix


def test_an_error_that_the_controller_invents_is_still_one(server: Listening):
    with pytest.raises(KvctlError) as caught:
        http.answered("unix:/x", 500, b'{"code": "KV-XY-001", "what": "w", "exit_code": 99}')
    assert (type(caught.value), caught.value.code) == (KvctlError, "KV-XY-001")
