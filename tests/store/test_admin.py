"""The admin side of a running kvstored: verbs, health, metrics, and who may ask."""

import http.client
import ipaddress
import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from kvctl.connector import wire
from kvctl.connector.wire import Refusal, Type
from kvctl.types.chunks import Ack, Meta
from tests.store.daemon import SCOPE, Daemon, Raw, key


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("d")
    (folder / "revoked").write_text("# none yet\n")
    make_certificates(folder)
    tls = {
        "listen": "tcp:127.0.0.1:0",
        "certificate": f"{folder}/server.pem",
        "key": f"{folder}/server.key",
        "client_ca": f"{folder}/ca.pem",
        "clients": ["client"],
    }
    admin = {"socket": f"{folder}/admin.sock", "metrics": "tcp:127.0.0.1:0", "tls": tls}
    made = Daemon(folder, revoked=f"{folder}/revoked", admin=admin).start()
    yield made
    assert made.stop() == 0
    assert not made.noise
    assert not [event for event in made.events if event["level"] == "error"]


def make_certificates(folder: Path) -> None:
    """A CA; a server, a client and an engine it signed; a client that nobody signed."""
    ca = Ed25519PrivateKey.generate()
    write(folder, "ca", ca, "ca", ca)
    write(folder, "server", Ed25519PrivateKey.generate(), "ca", ca)
    write(folder, "client", Ed25519PrivateKey.generate(), "ca", ca)
    write(folder, "gpu1-engine", Ed25519PrivateKey.generate(), "ca", ca)
    stranger = Ed25519PrivateKey.generate()
    write(folder, "stranger", stranger, "stranger", stranger)


def write(folder: Path, name: str, private: Ed25519PrivateKey, issuer: str, signer: Ed25519PrivateKey) -> None:
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=name == issuer, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(signer, None)
    )
    (folder / f"{name}.pem").write_bytes(made.public_bytes(Encoding.PEM))
    file = folder / f"{name}.key"
    file.touch(0o600)
    file.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def put(daemon: Daemon, *names: str) -> Raw:
    raw = daemon.session()
    for name in names:
        raw.ask(Type.PUT, wire.pack_put(key(name), Meta(), Ack.VISIBLE) + b"sealed")
    return raw


def test_stat_and_ls_show_what_is_there(daemon: Daemon):
    put(daemon, "a", "b")
    status, told = daemon.admin("GET", "/v1/stat")
    assert status == 200
    assert told["daemon"]["node"] == "storage1"
    assert told["daemon"]["identity"] == daemon.identity.public.hex()
    status, told = daemon.admin("GET", "/v1/ls?tenant=acme&limit=1")
    assert told["chunks"] == [{"key": key("a").hex()}]
    status, told = daemon.admin("GET", f"/v1/ls?after={key('a').hex()}")
    assert {"key": key("b").hex()} in told["chunks"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/v1/nothing", None, 404, "KV-STORE-012"),
        ("GET", "/v1/erase", None, 404, "KV-STORE-012"),
        ("POST", "/v1/stat", {}, 404, "KV-STORE-012"),
        ("GET", "/v1/ls?limit=0", None, 400, "KV-STORE-013"),
        ("GET", "/v1/ls?colour=red", None, 400, "KV-STORE-013"),
        ("POST", "/v1/scrub", {}, 400, "KV-STORE-013"),
        ("POST", "/v1/scrub", {"tier": "shelf"}, 400, "KV-STORE-013"),
        ("POST", "/v1/drain", {"now": True}, 400, "KV-STORE-013"),
        ("POST", "/v1/erase", {"tenant": "acme"}, 400, "KV-STORE-013"),
        ("POST", "/v1/erase", {"tenant": "acme", "epoch": "00" * 16}, 400, "KV-STORE-013"),
        ("POST", "/v1/erase", {"tenant": "acme", "domain": "d", "epoch": "00"}, 400, "KV-STORE-013"),
        ("POST", "/v1/revoke", {"ids": ["xyz"]}, 400, "KV-STORE-013"),
    ],
)
def test_a_wrong_request_is_told_what_is_wrong(
    daemon: Daemon, method: str, path: str, body: object, status: int, code: str
):
    got, told = daemon.admin(method, path, body)
    assert (got, told["code"]) == (status, code)
    assert set(told) == {"code", "what", "where", "why", "fix", "exit_code"}


def test_erase_by_epoch_takes_the_scope(daemon: Daemon):
    raw = put(daemon, "erased")
    epoch = SCOPE.epoch.hex()
    status, told = daemon.admin("POST", "/v1/erase", {"tenant": "acme", "domain": "users", "epoch": epoch})
    assert status == 200
    assert told["removed"]["ram"] >= 1
    raw.send(Type.HAS, wire.pack_keys(Type.HAS, [key("erased")]))
    assert raw.frame()[1] == b"\0"


def test_a_revoked_capability_ends_at_once_and_is_remembered(daemon: Daemon):
    number = b"revoke me please"
    raw = daemon.session(attach=False)
    assert raw.ask(Type.ATTACH, daemon.token(number=number))[0].type is Type.ATTACHED
    assert daemon.admin("POST", "/v1/revoke", {"ids": [number.hex()]})[0] == 200
    raw.send(Type.STAT)
    assert raw.refusal() == (Refusal.REVOKED, False)
    raw.send(Type.ATTACH, daemon.token(number=number))
    assert raw.refusal() == (Refusal.REVOKED, False)
    assert number.hex() in (daemon.folder / "revoked").read_text()
    assert daemon.admin("POST", "/v1/reload", {})[0] == 200
    raw.send(Type.ATTACH, daemon.token(number=number))
    assert raw.refusal() == (Refusal.REVOKED, False)
    assert raw.ask(Type.ATTACH, daemon.token())[0].type is Type.ATTACHED


def test_what_is_revoked_is_kept_where_no_file_is_configured(tmp_path_factory: pytest.TempPathFactory):
    number = b"revoke me please"
    folder = tmp_path_factory.mktemp("r")
    (folder / "state").mkdir()
    admin = {"socket": f"{folder}/admin.sock", "metrics": "tcp:127.0.0.1:0"}
    made = Daemon(folder, state=f"{folder}/state", admin=admin).start()
    assert made.admin("POST", "/v1/revoke", {"ids": [number.hex()]})[0] == 200
    made.stop()
    again = Daemon(folder, state=f"{folder}/state", admin=admin).start()
    raw = again.session(attach=False)
    raw.send(Type.ATTACH, again.token(number=number))
    assert raw.refusal() == (Refusal.REVOKED, False)
    again.stop()


def test_drain_refuses_until_resume(daemon: Daemon):
    raw = daemon.session()
    assert daemon.page("/healthz") == (200, '{"ok": true, "reasons": []}\n')
    assert daemon.admin("POST", "/v1/drain", {})[0] == 200
    assert raw.refusal() == (Refusal.DRAINING, True)
    fresh = Raw(daemon.raw())
    assert fresh.refusal() == (Refusal.DRAINING, True)
    status, text = daemon.page("/healthz")
    assert status == 503
    assert "draining" in text
    assert daemon.metric("kvstored_draining") == 1
    assert daemon.admin("POST", "/v1/resume", {})[0] == 200
    assert daemon.session().ask(Type.STAT)[0].type is Type.STATS
    assert daemon.page("/healthz")[0] == 200


def test_the_metrics_address_has_no_verbs(daemon: Daemon):
    status, text = daemon.page("/v1/stat")
    assert status == 404
    assert "KV-STORE-012" in text
    status, text = daemon.page("/metrics")
    families = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(families) == len(set(families))
    assert {"kvstored_sessions", "kvstored_connections_total", "process_open_fds"} <= set(families)


def test_slow_scrapers_keep_nobody_out(daemon: Daemon):
    crowd = []
    for _ in range(60):
        sock = socket.create_connection(("127.0.0.1", daemon.metrics_port), 10)
        sock.sendall(b"GET /metr")
        crowd.append(sock)
    assert daemon.page("/healthz")[0] == 200
    assert daemon.metric("process_threads") < 60
    for sock in crowd:
        sock.close()


@pytest.mark.parametrize(
    "sent", [b"\0" * 500, b"POST /v1/drain HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", b"x" * 70000]
)
def test_noise_on_the_admin_sockets_is_answered_or_closed(daemon: Daemon, sent: bytes):
    for sock in (socket.create_connection(("127.0.0.1", daemon.metrics_port), 10), socket.socket(socket.AF_UNIX)):
        if sock.family == socket.AF_UNIX:
            sock.settimeout(10)
            sock.connect(f"{daemon.folder}/admin.sock")
        try:
            sock.sendall(sent)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(4096):
                pass
        except ConnectionError:
            pass  # closed while it was still sending
        sock.close()
    assert daemon.page("/healthz")[0] == 200


def tls_port(daemon: Daemon) -> int:
    return int(daemon.event("ready")["admin"].split(", ")[2].rpartition(":")[2])


def ask_over_tls(daemon: Daemon, client: str | None) -> int:
    context = ssl.create_default_context(cafile=str(daemon.folder / "ca.pem"))
    if client:
        context.load_cert_chain(daemon.folder / f"{client}.pem", daemon.folder / f"{client}.key")
    connection = http.client.HTTPSConnection("127.0.0.1", tls_port(daemon), context=context, timeout=10)
    connection.request("GET", "/v1/stat")
    return connection.getresponse().status


def test_over_tls_only_a_client_of_the_ca_is_let_in(daemon: Daemon):
    assert ask_over_tls(daemon, "client") == 200
    for client in (None, "stranger", "gpu1-engine"):
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
            ask_over_tls(daemon, client)
    with socket.create_connection(("127.0.0.1", tls_port(daemon)), 10) as plain:
        plain.sendall(b"GET /v1/stat HTTP/1.0\r\n\r\n")
        assert Raw(plain).closed()
    assert ask_over_tls(daemon, "client") == 200


def test_a_scrub_stops_when_the_daemon_ends(tmp_path: Path):
    own = Daemon(tmp_path).start()
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(10)
    sock.connect(f"{tmp_path}/admin.sock")
    body = b'{"tier": "flash"}'
    sock.sendall(b"POST /v1/scrub HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    assert own.stop() == 0
    answer = b""
    while part := sock.recv(4096):
        answer += part
    assert b'"stopped": true' in answer
