"""The controller's way to an admin socket: its certificate alone opens it, and bytes pass both ways."""

import http.client
import socket
import ssl
import threading
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from socketserver import UnixStreamServer

import pytest

from kvctl.controller.pki import Authority, new_request
from kvctl.daemon.doorway import GREETERS, MOST, Doorway, context

ANSWER = b"x" * 300_000


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(body[:1] + ANSWER[1:])

    def log_message(self, *_):
        pass

    def address_string(self):
        return ""


class Admin(UnixStreamServer):
    def get_request(self):
        return super().get_request()[0], ("unix", 0)


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "tls", "fra1")


@pytest.fixture
def port(tmp_path, authority):
    key, request = new_request("gpu1-gateway")
    (tmp_path / "gate.key").write_bytes(key)
    (tmp_path / "gate.crt").write_text(authority.daemon("gpu1-gateway", request, ["127.0.0.1"]))
    admin = Admin(str(tmp_path / "admin.sock"), Handler)
    threading.Thread(target=admin.serve_forever, args=(0.01,), daemon=True).start()
    listener = socket.create_server(("127.0.0.1", 0))
    tls = context(tmp_path / "gate.crt", tmp_path / "gate.key", authority.certificate_path)
    doorway = Doorway(listener, tls, str(tmp_path / "admin.sock"), "kvctld")
    threading.Thread(target=doorway.serve, daemon=True).start()
    yield listener.getsockname()[1]
    listener.close()
    admin.shutdown()
    admin.server_close()


def ask(port, authority, certificate, key):
    made = ssl.create_default_context(cafile=authority.certificate_path)
    if certificate:
        made.load_cert_chain(certificate, key)
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=made)
    try:
        connection.request("POST", "/v1/flush", b"y" * 200_000)
        return connection.getresponse().read()
    finally:
        connection.close()


def test_the_controller_gets_through(port, authority):
    assert ask(port, authority, *authority.client("kvctld")) == b"y" + ANSWER[1:]


@pytest.mark.parametrize("name", ["gpu1-engine", "", None])
def test_nobody_else_does(port, authority, name):
    if name == "":  # a certificate of another CA
        other = Authority(authority.directory.parent / "other", "fra1")
        certificate, key = other.client("kvctld")
    else:
        certificate, key = authority.client(name) if name else (None, None)
    with pytest.raises((OSError, http.client.HTTPException)):
        ask(port, authority, certificate, key)


def test_strangers_who_say_nothing_do_not_keep_the_controller_out(port, authority):
    with ExitStack() as stack:
        for _ in range(GREETERS + MOST):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        assert ask(port, authority, *authority.client("kvctld")) == b"y" + ANSWER[1:]
