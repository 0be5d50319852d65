"""Keys of a daemon, made where they are used: an Ed25519 identity, and a TLS key with a signing request.

`python3 -m kvctl.connector.enrol --identity FILE [--tls-key FILE --name NAME --san ADDRESS ...]` prints what is public
as JSON. A key that is there is used as it is: enrolling twice changes nothing. Private keys never leave the host.
"""

import argparse
import ipaddress
import json
import sys
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import NameOID

from kvctl.connector.keys import Identity
from kvctl.connector.secretfile import read_secret, write_secret
from kvctl.types.errors import KvctlError


def identity(path: Path) -> Identity:
    """The identity in a file of mode 0600; made first when there is none."""
    if not path.exists():
        Identity.generate().save(path)
    return Identity.load(path)


def tls_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """A P-256 key in a file of mode 0600; made first when there is none."""
    if not path.exists():
        made = ec.generate_private_key(ec.SECP256R1())
        write_secret(path, made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    key = load_pem_private_key(read_secret(path), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise KvctlError(
            "KV-CONN-040", "this is no key for TLS", where=str(path), why="it is not an elliptic curve key"
        )
    return key


def signing_request(key: ec.EllipticCurvePrivateKey, name: str, addresses: list[str]) -> str:
    """A PEM certificate signing request (PKCS #10) for a name and its addresses."""
    names: list[x509.GeneralName] = []
    for address in addresses:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(address)))
        except ValueError:
            names.append(x509.DNSName(address))
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    return request.public_bytes(Encoding.PEM).decode()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m kvctl.connector.enrol", description=__doc__)
    parser.add_argument("--identity", type=Path, required=True)
    parser.add_argument("--tls-key", type=Path)
    parser.add_argument("--name", default="kvctl daemon")
    parser.add_argument("--san", action="append", default=[])
    asked = parser.parse_args(argv)
    try:
        public = {"identity": identity(asked.identity).public.hex()}
        if asked.tls_key is not None:
            public["request"] = signing_request(tls_key(asked.tls_key), asked.name, asked.san)
    except KvctlError as error:
        print(str(error), file=sys.stderr)  # noqa: T201
        return int(error.exit_code)
    print(json.dumps(public))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
