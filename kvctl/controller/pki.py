"""The site's certificate authority: it signs the controller's own https certificate and those of services.

ECDSA on P-256, because browsers take nothing newer. Private keys are files of mode 0600; a service makes its own key
and sends only a request. A service is known as long as its certificate lies in `tls/services`.
"""

import hashlib
import ipaddress
import re
import socket
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kvctl.connector.secretfile import read_secret, write_secret
from kvctl.types.errors import UsageError

CA_DAYS = 3650
SERVER_DAYS = 397  # the most that browsers believe
SERVICE_DAYS = 397
RENEW_DAYS = 30  # before the end
OWN = "kvctld"  # by this name daemons know the controller and do what it says
NAMED = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,62}")
SKEW = timedelta(minutes=5)  # a peer's clock may be this far behind

Key = ec.EllipticCurvePrivateKey


class Authority:
    """The CA of one site in `<state>/<site>/tls`; made when there is none."""

    def __init__(self, directory: Path, site: str) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.certificate_path = directory / "ca.crt"
        key_path = directory / "ca.key"
        if not key_path.exists():
            self._make(key_path, site)
        self._key = load_key(key_path)
        self.certificate = x509.load_pem_x509_certificate(self.certificate_path.read_bytes())

    def _make(self, key_path: Path, site: str) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"kvctl site {site}")])
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        made = (
            _builder(name, name, key.public_key(), CA_DAYS)
            .add_extension(x509.BasicConstraints(True, 0), critical=True)
            .add_extension(usage, critical=True)
            .sign(key, SHA256())
        )
        _write(self.certificate_path, made)
        write_secret(key_path, pem(key))

    def server(self, names: Sequence[str]) -> tuple[Path, Path]:
        """Certificate and key of the https side for these names; made anew when it ends soon or the names changed."""
        certificate, key_path = self.directory / "server.crt", self.directory / "server.key"
        if not self._still_good(certificate, key_path, names):
            key = ec.generate_private_key(ec.SECP256R1())
            name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kvctld")])
            made = self._sign(
                _builder(name, self.certificate.subject, key.public_key(), SERVER_DAYS).add_extension(
                    x509.SubjectAlternativeName([_general(one) for one in names]), critical=False
                ),
                ExtendedKeyUsageOID.SERVER_AUTH,
            )
            write_secret(key_path, pem(key))
            _write(certificate, made)
        return certificate, key_path

    def _still_good(self, path: Path, key_path: Path, names: Sequence[str]) -> bool:
        if not (path.exists() and key_path.exists()):
            return False
        found = x509.load_pem_x509_certificate(path.read_bytes())
        has = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        soon = datetime.now(UTC) + timedelta(days=RENEW_DAYS)
        ours = found.issuer == self.certificate.subject and public_bytes(found) == public_of(load_key(key_path))
        return ours and soon < found.not_valid_after_utc and set(has) == {_general(one) for one in names}

    def service(self, name: str, request: bytes) -> x509.Certificate:
        """A client certificate for the key of a PEM certificate request, under `name` whatever the request says.

        UsageError KV-CTL-020 for what is no request, or is not signed by its own key.
        """
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return self._sign(
            _builder(subject, self.certificate.subject, requested_key(request), SERVICE_DAYS),
            ExtendedKeyUsageOID.CLIENT_AUTH,
        )

    def daemon(self, name: str, request: bytes, addresses: Sequence[str]) -> str:
        """A server certificate (PEM) for a daemon's key on its node; the one it has, while that is good.

        UsageError KV-CTL-020 and 021 for a request or a name that cannot be used.
        """
        asked, path = requested_key(request), self.directory / "daemons" / checked_name(name)
        if not _daemon_good(path, asked, addresses):
            path.parent.mkdir(exist_ok=True, mode=0o700)
            subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
            alternatives = x509.SubjectAlternativeName([_general(one) for one in dict.fromkeys(addresses)])
            builder = _builder(subject, self.certificate.subject, asked, SERVER_DAYS)
            made = builder.add_extension(alternatives, critical=False)
            _write(path, self._sign(made, ExtendedKeyUsageOID.SERVER_AUTH))
        return path.read_text()

    def client(self, name: str) -> tuple[Path, Path]:
        """Certificate and key with which the controller itself asks daemons; made anew when it ends soon."""
        certificate, key_path = self.directory / f"{name}.crt", self.directory / f"{name}.key"
        if not (certificate.exists() and key_path.exists() and _lasts(certificate)):
            key, request = new_request(name)
            write_secret(key_path, key)
            _write(certificate, self.service(name, request))
        return certificate, key_path

    def _sign(self, builder: x509.CertificateBuilder, use: x509.ObjectIdentifier) -> x509.Certificate:
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            builder.add_extension(x509.BasicConstraints(False, None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([use]), critical=False)
            .add_extension(issuer, critical=False)
            .sign(self._key, SHA256())
        )


class Services:
    """The certificates of services that are known now, one file each."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "services"

    def name_of(self, certificate: bytes) -> str | None:
        """The service whose certificate this is (DER); None when it is not known any more."""
        try:
            found = x509.load_der_x509_certificate(certificate)
            name = str(found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)
            known = x509.load_pem_x509_certificate(self._path(name).read_bytes())
        except (ValueError, IndexError, FileNotFoundError, UsageError):
            return None
        over = datetime.now(UTC) > known.not_valid_after_utc
        return name if found == known and not over else None

    def add(self, name: str, certificate: x509.Certificate) -> None:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write(self._path(name), certificate)

    def remove(self, name: str) -> bool:
        """Forget a service; whether there was one."""
        path = self._path(name)
        there = path.exists()
        path.unlink(missing_ok=True)
        return there

    def names(self) -> list[str]:
        return sorted(path.stem for path in self._directory.glob("*.crt"))

    def certificate(self, name: str) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self._path(name).read_bytes())

    def check(self, name: str) -> None:
        """UsageError KV-CTL-021 for a text that cannot name a service."""
        self._path(name)

    def _path(self, name: str) -> Path:
        if name == OWN:
            raise UsageError("KV-CTL-021", "this cannot name a service", where=name, why="it is the controller's own")
        return self._directory / checked_name(name)


def checked_name(name: str) -> str:
    """The file of a service's certificate. UsageError KV-CTL-021 for what cannot name one."""
    if not NAMED.fullmatch(name):
        raise UsageError(
            "KV-CTL-021", "this cannot name a service", where=repr(name[:80]),
            why="63 letters, digits, - _ and . at most, no . first",
        )  # fmt: skip
    return f"{name}.crt"


def requested_key(request: bytes) -> CertificatePublicKeyTypes:
    """The public key of a PEM certificate request that its owner signed. UsageError KV-CTL-020."""
    try:
        asked = x509.load_pem_x509_csr(request)
        if not asked.is_signature_valid:
            raise ValueError("its signature does not hold")
        return asked.public_key()
    except (ValueError, TypeError, InvalidSignature) as error:
        raise UsageError(
            "KV-CTL-020", "this is no certificate request", why=str(error), fix="give a PKCS #10 request as PEM"
        ) from error


def _lasts(path: Path) -> bool:
    return lasts(x509.load_pem_x509_certificate(path.read_bytes()))


def lasts(found: x509.Certificate) -> bool:
    """Whether it is not to be renewed yet."""
    return datetime.now(UTC) + timedelta(days=RENEW_DAYS) < found.not_valid_after_utc


def _daemon_good(path: Path, key: CertificatePublicKeyTypes, addresses: Sequence[str]) -> bool:
    """Whether the certificate in the file is for this key and these addresses, and lasts."""
    if not path.exists() or not _lasts(path):
        return False
    found = x509.load_pem_x509_certificate(path.read_bytes())
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return found.public_key() == key and set(names) == {_general(one) for one in addresses}


def new_request(name: str) -> tuple[bytes, bytes]:
    """A new key and a certificate request for it, both PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, SHA256())
    return pem(key), request.public_bytes(Encoding.PEM)


def default_names(listen: str) -> tuple[str, ...]:
    """What a certificate for this address is made out to: the machine, this machine's loopback, and the address."""
    host = listen.rpartition(":")[0].strip("[]")
    any_address = host in ("", "0.0.0.0", "::")
    names = ("localhost", "127.0.0.1", "::1", socket.gethostname(), socket.getfqdn(), *(() if any_address else (host,)))
    return tuple(dict.fromkeys(names))


def fingerprint(certificate: x509.Certificate) -> str:
    return hashlib.sha256(certificate.public_bytes(Encoding.DER)).hexdigest()


def pem(key: Key) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def load_key(path: Path) -> Key:
    """UsageError KV-CTL-022 for a file that holds another kind of key; KV-CONN-010 and 011 as in `read_secret`."""
    try:
        key = load_pem_private_key(read_secret(path), None)
    except (ValueError, TypeError) as error:
        raise UsageError("KV-CTL-022", "this is no private key", where=str(path), why=str(error)) from None
    if not isinstance(key, Key):
        raise UsageError("KV-CTL-022", "this is no private key on a curve", where=str(path))
    return key


def public_of(key: Key) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def public_bytes(certificate: x509.Certificate) -> bytes:
    return certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: CertificatePublicKeyTypes, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _write(path: Path, certificate: x509.Certificate) -> None:
    beside = path.with_name(f".{path.name}.new")
    beside.write_bytes(certificate.public_bytes(Encoding.PEM))
    beside.rename(path)
