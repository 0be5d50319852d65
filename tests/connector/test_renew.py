"""Leases that are kept fresh, against a small controller on a unix socket and over mutual TLS."""

import base64
import datetime
import ipaddress
import json
import socketserver
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from kvctl.connector.controllerhttp import ControllerAddress
from kvctl.connector.keys import load_lease
from kvctl.connector.renew import Renewer, Wanted, fetch
from kvctl.types.errors import RefusedError, UnreachableError, UsageError

HOLDER = bytes(range(32))
REFUSED = {"code": "KV-TEN-005", "what": "tenant acme is suspended", "where": "", "why": "", "fix": "", "exit_code": 7}


def lease(**changes):
    made = {
        "schema": "kvctl.lease/1", "tenant": "acme", "domain": "user", "epoch": "ab" * 16,
        "root_key": base64.b64encode(b"r" * 32).decode(), "capability": base64.b64encode(b"c" * 80).decode(),
        "expires_at": int(time.time()) + 3600,
    }  # fmt: skip
    return made | changes


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.path, json.loads(body)))
        status, data = self.server.answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass

    def address_string(self):
        return ""


class Unix(socketserver.UnixStreamServer):
    def get_request(self):
        return super().get_request()[0], ("unix", 0)


def served(server):
    server.asked, server.answer = [], (200, json.dumps(lease()).encode())
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def server(tmp_path):
    yield from served(Unix(str(tmp_path / "ctl.sock"), Handler))


@pytest.fixture
def get(tmp_path):
    return lambda tenant, domain: fetch(ControllerAddress(f"unix:{tmp_path}/ctl.sock"), tenant, domain, HOLDER)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "acme.lease"


def renewer(get, file, **options):
    return Renewer(get, [Wanted("acme", "user", file)], **options)


def test_a_lease_becomes_a_file(server, get, file):
    assert renewer(get, file).renew() == {}
    held = load_lease(file)
    assert (held.scope.tenant, held.scope.epoch, held.key.root) == ("acme", b"\xab" * 16, b"r" * 32)
    assert file.stat().st_mode & 0o777 == 0o600
    (asked,) = server.asked
    assert asked == (
        "/v1/lease/issue", {"tenant": "acme", "domain": "user", "holder": HOLDER.hex(), "operations": []},
    )  # fmt: skip


def test_a_file_serves_while_the_controller_is_away(server, get, file):
    now = [time.time()]
    made = renewer(get, file, clock=lambda: now[0])
    made.renew()
    server.answer = (502, b"<html>a proxy's page</html>")
    assert made.renew()[file].code == "KV-CONN-050"
    assert load_lease(file)
    now[0] += 3601
    made.renew()
    assert not file.exists()


@pytest.mark.parametrize("code", ["KV-TEN-005", "KV-TEN-030", "KV-API-001"])
def test_a_refusal_takes_the_file_away(server, get, file, code):
    made = renewer(get, file)
    made.renew()
    server.answer = (403, json.dumps(REFUSED | {"code": code}).encode())
    with file.open("rb") as still_open:
        assert made.renew()[file].code == code
        assert set(still_open.read()) == {0}
    assert not file.exists()
    server.answer = (200, json.dumps(lease()).encode())
    assert made.renew() == {}
    assert load_lease(file)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (429, REFUSED | {"code": "KV-API-019"}), (500, REFUSED | {"code": "KV-BUG-001", "exit_code": 1}),
        (403, ["not", "an", "error"]), (200, lease(root_key="AAAA")), (200, lease(tenant="globex")), (200, {}),
        (200, lease(more=1)), (200, "x" * 70_000),
    ],
)  # fmt: skip
def test_what_is_no_refusal_takes_nothing_away(server, get, file, status, body):
    made = renewer(get, file)
    made.renew()
    before = file.read_bytes()
    server.answer = (status, json.dumps(body).encode())
    assert file in made.renew()
    assert file.read_bytes() == before


def test_errors_show_no_key(server, get, file):
    secret = base64.b64encode(b"s" * 31).decode()
    server.answer = (200, json.dumps(lease(root_key=secret)).encode())
    with pytest.raises(UnreachableError) as caught:
        get("acme", "user")
    assert secret not in str(caught.value)


def test_a_link_in_the_files_place_is_not_followed(server, get, file, tmp_path):
    other = tmp_path / "other"
    other.write_text("mine")
    file.symlink_to(other)
    server.answer = (200, json.dumps(lease()).encode())
    assert renewer(get, file).renew()[file].code == "KV-CONN-011"
    assert other.read_text() == "mine"


def test_no_address(tmp_path):
    for endpoint in ("http://x", "https://x:1", "unix:x", ""):
        with pytest.raises(UsageError, match="KV-CONN-051"):
            fetch(ControllerAddress(endpoint), "acme", "user", HOLDER)
    with pytest.raises(UnreachableError, match="KV-CONN-050"):
        fetch(ControllerAddress(f"unix:{tmp_path}/none"), "acme", "user", HOLDER)


# --- mutual TLS -----------------------------------------------------------------------------------------------------
def certificate(folder, name, signer=None):
    """Files of a certificate for 127.0.0.1, signed by `signer` or by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer, issuer_key = signer or (subject, key)
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject).issuer_name(issuer).public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.BasicConstraints(signer is None, None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )  # fmt: skip
    (folder / f"{name}.pem").write_bytes(made.public_bytes(Encoding.PEM))
    (folder / f"{name}.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return subject, key


@pytest.fixture
def https(tmp_path):
    ca = certificate(tmp_path, "ca")
    for name in ("ctl", "gpu1"):
        certificate(tmp_path, name, ca)
    certificate(tmp_path, "stranger")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "ctl.pem", tmp_path / "ctl.key")
    context.load_verify_locations(tmp_path / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    made = HTTPServer(("127.0.0.1", 0), Handler)
    made.socket = context.wrap_socket(made.socket, server_side=True)
    yield from served(made)


def over(https, folder, name, ca="ca"):
    address = f"https://127.0.0.1:{https.server_address[1]}"
    return ControllerAddress(address, folder / f"{name}.pem", folder / f"{name}.key", folder / f"{ca}.pem")


def test_a_lease_over_mutual_tls(https, tmp_path):
    assert fetch(over(https, tmp_path, "gpu1"), "acme", "user", HOLDER).scope.tenant == "acme"


@pytest.mark.parametrize(("name", "ca"), [("stranger", "ca"), ("gpu1", "stranger")])
def test_no_lease_to_or_from_a_stranger(https, tmp_path, name, ca):
    with pytest.raises(UnreachableError, match="KV-CONN-050"):
        fetch(over(https, tmp_path, name, ca), "acme", "user", HOLDER)
    assert https.asked == []


def test_a_refusal_keeps_its_words(server, get):
    server.answer = (403, json.dumps(REFUSED).encode())
    with pytest.raises(RefusedError, match="tenant acme is suspended"):
        get("acme", "user")
