"""Keys of a scope, leases on them, and the identities of connectors, stores and controllers.

One random root key per tenant, domain and epoch. Three keys come from it by HKDF-SHA-256 (RFC 5869): names, seals and
salts. None of them is ever shown by `repr`, written to a log, or pickled.
"""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from kvctl.connector.secretfile import read_secret, write_secret
from kvctl.connector.wire import PUBLIC_KEY_BYTES, SIGNATURE_BYTES
from kvctl.types.chunks import Scope
from kvctl.types.errors import RefusedError, UsageError

ROOT_BYTES = 32
KEY_BYTES = 32
IDENTITY_BYTES = 32  # an Ed25519 private key as it is
LABEL = b"kvctl key 1\0"


@dataclass(frozen=True, slots=True)
class RootKey:
    """A scope's root key and the three that come from it, KEY_BYTES each."""

    scope: Scope
    root: bytes = field(repr=False)
    name_key: bytes = field(init=False, repr=False, compare=False)  # chunk keys
    seal_key: bytes = field(init=False, repr=False, compare=False)  # sealed bytes
    salt_key: bytes = field(init=False, repr=False, compare=False)  # the engine's cache salts

    def __post_init__(self) -> None:
        if len(self.root) != ROOT_BYTES:
            raise ValueError(f"a root key is {ROOT_BYTES} bytes, not {len(self.root)}")
        for use in ("name", "seal", "salt"):
            object.__setattr__(self, f"{use}_key", derive(self.root, use, self.scope))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key does not leave its process")


def derive(root: bytes, use: str, scope: Scope) -> bytes:
    """HKDF-SHA-256 without salt; info is the label, the use and the scope, each text behind its length (u16).

    The scope is in it so that a root key given to two scopes by mistake still gives them different keys.
    """
    parts = (use.encode(), scope.tenant.encode(), scope.domain.encode(), scope.epoch)
    info = LABEL + b"".join(len(part).to_bytes(2, "little") + part for part in parts)
    return HKDF(SHA256(), KEY_BYTES, None, info).derive(root)


@dataclass(frozen=True, slots=True)
class KeyLease:
    """A scope's root key and capability, to be used until `expires_at` (Unix seconds)."""

    key: RootKey
    capability: bytes = field(repr=False)  # a token of kvctl.connector.capability
    expires_at: int

    @property
    def scope(self) -> Scope:
        return self.key.scope

    def expired(self, now: float) -> bool:
        return now >= self.expires_at

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key does not leave its process")


class LeaseFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="schema", tag="kvctl.lease/1"):
    """A lease as a file holds it; bytes are base64, but the epoch is hexadecimal."""

    tenant: str
    domain: str
    epoch: str
    root_key: bytes
    capability: bytes
    expires_at: int

    def __repr__(self) -> str:
        return f"LeaseFile({self.tenant!r}, {self.domain!r}, ...)"


def load_lease(path: Path | str, *, now: float | None = None) -> KeyLease:
    """The lease in a file of mode 0600.

    KV-CONN-010 and 011 as in `read_secret`; UsageError KV-CONN-013 for a file that holds no lease; RefusedError
    KV-CONN-014 when it is over at `now` (Unix seconds; by default, the present).
    """
    place = Path(path)
    data = read_secret(place)
    try:
        held = msgspec.json.decode(data, type=LeaseFile)
        scope = Scope(held.tenant, held.domain, bytes.fromhex(held.epoch))
        lease = KeyLease(RootKey(scope, held.root_key), held.capability, held.expires_at)
    except (msgspec.DecodeError, ValueError) as error:
        raise UsageError(
            "KV-CONN-013",
            "this is no key lease",
            where=str(place),
            why=str(error),  # msgspec and fromhex name places and types, never a value
            fix="ask the controller for the lease again",
        ) from None
    _check_expiry(lease, place, time.time() if now is None else now)
    return lease


def _check_expiry(lease: KeyLease, path: Path, now: float) -> None:
    if lease.expired(now):
        raise RefusedError(
            "KV-CONN-014",
            f"the key lease of tenant {lease.scope.tenant!r}, domain {lease.scope.domain!r} is over",
            where=str(path),
            why=f"it ended {int(now) - lease.expires_at} s ago",
            fix="ask the controller for a new one; until then every chunk of this domain is a miss",
        )


def write_lease(path: Path | str, lease: KeyLease) -> None:
    """Put a lease into a file of mode 0600, in one step. KV-CONN-011 and 012 as in `write_secret`."""
    scope, key = lease.scope, lease.key
    held = LeaseFile(scope.tenant, scope.domain, scope.epoch.hex(), key.root, lease.capability, lease.expires_at)
    write_secret(Path(path), msgspec.json.format(msgspec.json.encode(held)) + b"\n")


class Identity:
    """The Ed25519 key pair of a connector, a store or a controller (RFC 8032)."""

    __slots__ = ("_private", "public")

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public: bytes = private.public_key().public_bytes_raw()

    @classmethod
    def generate(cls) -> "Identity":
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, path: Path | str) -> "Identity":
        """From a file of mode 0600: PKCS#8 PEM without a passphrase, or the 32 bytes of the key.

        KV-CONN-010 and 011 as in `read_secret`; UsageError KV-CONN-015 for a file that holds no Ed25519 key.
        """
        data = read_secret(Path(path))
        try:
            private = (
                Ed25519PrivateKey.from_private_bytes(data)
                if len(data) == IDENTITY_BYTES
                else load_pem_private_key(data, None)
            )
        except (ValueError, TypeError) as error:
            raise _no_identity(path, str(error)) from None
        if not isinstance(private, Ed25519PrivateKey):
            raise _no_identity(path, "it is a key of another algorithm")
        return cls(private)

    def save(self, path: Path | str) -> None:
        """Write the private key as PEM, mode 0600."""
        write_secret(Path(path), self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))

    def sign(self, text: bytes) -> bytes:
        return self._private.sign(text)

    def __repr__(self) -> str:
        return f"Identity({self.public.hex()})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key does not leave its process")


def _no_identity(path: Path | str, why: str) -> UsageError:
    return UsageError(
        "KV-CONN-015",
        "this is no Ed25519 private key",
        where=str(path),
        why=why,
        fix="make one: openssl genpkey -algorithm ed25519 -out FILE, mode 0600",
    )


def verify(public: bytes, signature: bytes, text: bytes) -> bool:
    """Whether the holder of `public` signed `text`. A key or signature of a wrong size verifies nothing."""
    if len(public) != PUBLIC_KEY_BYTES or len(signature) != SIGNATURE_BYTES:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, text)
    except (InvalidSignature, ValueError):
        return False
    return True
