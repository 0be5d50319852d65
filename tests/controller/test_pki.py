"""The site's certificate authority, as OpenSSL and the controller judge what it signs."""

import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from kvctl.controller.pki import Authority, Services, default_names, new_request
from kvctl.types.errors import RefusedError, UsageError


def test_the_authority_is_made_once_and_its_key_is_secret(tmp_path: Path):
    first = Authority(tmp_path / "tls", "par1").certificate
    assert Authority(tmp_path / "tls", "par1").certificate == first
    assert stat.S_IMODE((tmp_path / "tls" / "ca.key").stat().st_mode) == 0o600
    (tmp_path / "tls" / "ca.key").chmod(0o644)
    with pytest.raises(RefusedError) as caught:
        Authority(tmp_path / "tls", "par1")
    assert caught.value.code == "KV-CONN-011"


def test_a_server_certificate_is_kept_until_its_names_change(tmp_path: Path):
    authority = Authority(tmp_path, "par1")
    certificate, key = authority.server(("localhost", "127.0.0.1"))
    before = certificate.read_bytes()
    assert authority.server(("127.0.0.1", "localhost"))[0].read_bytes() == before
    assert authority.server(("localhost",))[0].read_bytes() != before
    assert stat.S_IMODE(key.stat().st_mode) == 0o600


def test_a_service_certificate_is_not_a_servers(tmp_path: Path):
    authority = Authority(tmp_path, "par1")
    _, request = new_request("gw1")
    for signed, purpose in (
        (authority.service("gw1", request), x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.CLIENT_AUTH])),
        (
            x509.load_pem_x509_certificate(authority.server(("a",))[0].read_bytes()),
            x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.SERVER_AUTH]),
        ),
    ):
        assert signed.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value == purpose
        assert signed.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
        signed.verify_directly_issued_by(authority.certificate)
    ssl.create_default_context(cadata=authority.certificate.public_bytes(Encoding.PEM).decode())


def test_a_name_is_what_the_operator_says_not_the_request(tmp_path: Path):
    _, request = new_request("admin")
    signed = Authority(tmp_path, "par1").service("gw1", request)
    assert signed.subject.rfc4514_string() == "CN=gw1"


@pytest.mark.parametrize(
    "request_text", [b"", b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"]
)
def test_what_is_no_request(tmp_path: Path, request_text: bytes):
    with pytest.raises(UsageError) as caught:
        Authority(tmp_path, "par1").service("gw1", request_text)
    assert caught.value.code == "KV-CTL-020"


def test_a_service_is_known_by_its_present_certificate_alone(tmp_path: Path):
    authority, services = Authority(tmp_path, "par1"), Services(tmp_path)
    _, request = new_request("gw1")
    old, new = authority.service("gw1", request), authority.service("gw1", request)
    services.add("gw1", old)
    assert services.name_of(old.public_bytes(Encoding.DER)) == "gw1"
    services.add("gw1", new)
    assert services.name_of(old.public_bytes(Encoding.DER)) is None
    assert services.name_of(new.public_bytes(Encoding.DER)) == "gw1"
    assert services.name_of(b"not a certificate") is None
    services.remove("gw1")
    assert services.name_of(new.public_bytes(Encoding.DER)) is None


@pytest.mark.parametrize("name", ["", "../x", "..", ".a", "a/b", "ü", "x" * 64, "kvctld"])
def test_what_cannot_name_a_service(tmp_path: Path, name: str):
    with pytest.raises(UsageError) as caught:
        Services(tmp_path).check(name)
    assert caught.value.code == "KV-CTL-021"


def test_a_nodes_name_may_be_that_of_its_domain(tmp_path: Path):
    authority, services = Authority(tmp_path / "tls", "par1"), Services(tmp_path / "tls")
    request = new_request("x")[1]
    assert "BEGIN CERTIFICATE" in authority.daemon("gpu1.par1.example", request, ["192.0.2.4"])
    services.add("gpu1.par1.example-engine", authority.service("gpu1.par1.example-engine", request))
    assert services.names() == ["gpu1.par1.example-engine"]


def test_names_of_an_address():
    assert "192.0.2.4" in default_names("192.0.2.4:8443")
    assert "2001:db8::1" in default_names("[2001:db8::1]:8443")
    assert "0.0.0.0" not in default_names("0.0.0.0:8443")
    assert "localhost" in default_names("0.0.0.0:8443")
