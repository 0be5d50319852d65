"""What a controller tells its gateways: tenants, their limits and keys, as of one moment. docs/snapshot.md shows it.

It travels as a signed file (kvctl.connector.snapshotfile). A tenant or key that is not in it is not known: leaving one
out is how it is revoked.
"""

from typing import Literal

import msgspec
from msgspec import Struct

SCHEMA = "kvctl.snapshot/1"
EPOCH_BYTES = 16
KEY_BYTES = 32
SHA256_DIGITS = frozenset("0123456789abcdef")

State = Literal["active", "suspended"]
Sla = Literal["gold", "silver", "bronze"]
Subjects = Literal["refuse", "warn", "off"]
Isolation = Literal["domain", "subject"]


class Checked(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Immutable, and a field that this version does not know is refused: it could be a restriction."""


class DomainView(Checked, frozen=True, kw_only=True):
    """A trust domain in its present epoch. `isolation` subject: users of the domain share no cache either."""

    name: str
    epoch: bytes  # EPOCH_BYTES
    salt_key: bytes  # KEY_BYTES: kvctl.connector.keys.RootKey.salt_key of this scope
    isolation: Isolation = "domain"

    def __post_init__(self) -> None:
        if len(self.epoch) != EPOCH_BYTES or len(self.salt_key) != KEY_BYTES or not self.name:
            raise ValueError(f"a domain has a name, an epoch of {EPOCH_BYTES} bytes and a key of {KEY_BYTES}")

    def __repr__(self) -> str:
        return f"DomainView({self.name!r}, ...)"


class KeyView(Checked, frozen=True, kw_only=True):
    """An API key. `scopes`: names of routes' groups (inference, count, models); none given: all of them."""

    id: str
    sha256: str  # of the key's text, hexadecimal digits
    domain: str
    scopes: tuple[str, ...] = ()
    expires_at: int | None = None  # Unix seconds
    retention: str = "conversation"  # class of what is stored for its requests

    def __post_init__(self) -> None:
        if len(self.sha256) != 64 or not SHA256_DIGITS.issuperset(self.sha256):
            raise ValueError("a key's digest is 64 hexadecimal digits")

    def __repr__(self) -> str:
        return f"KeyView({self.id!r}, ...)"


class TenantView(Checked, frozen=True, kw_only=True):
    """What a gateway must know of a tenant. Limits are those of one gateway."""

    name: str
    state: State
    sla: Sla
    weight: int = 1  # share among tenants of its class
    max_concurrent: int = 16  # requests at engines at the same time
    requests_per_minute: int | None = None
    tokens_per_day: int | None = None  # prompt and output, UTC days
    require_subject: Subjects = "warn"
    processing_countries: tuple[str, ...] | None = None  # ISO 3166-1 alpha-2; None: any
    subject_key: bytes  # KEY_BYTES: users' ids become pseudonyms with it
    retention: dict[str, int | None] = {}  # seconds by class; None: no end
    domains: tuple[DomainView, ...] = ()
    keys: tuple[KeyView, ...] = ()
    common: tuple[str, ...] = ()  # SHA-256 of prompts registered as common, hexadecimal digits

    def __post_init__(self) -> None:
        if len(self.subject_key) != KEY_BYTES:
            raise ValueError(f"a subject key has {KEY_BYTES} bytes")
        if self.weight < 1 or self.max_concurrent < 1:
            raise ValueError("weight and max_concurrent are at least 1")
        known = {domain.name for domain in self.domains}
        if stray := sorted(key.id for key in self.keys if key.domain not in known):
            raise ValueError(f"key {stray[0]} is of a domain that is not there")

    def __repr__(self) -> str:
        return f"TenantView({self.name!r}, ...)"


class Snapshot(Checked, frozen=True, kw_only=True, tag_field="schema", tag=SCHEMA):
    """`number` grows with every snapshot of a site; a gateway never goes back to a smaller one."""

    site: str
    number: int
    issued_at: int  # Unix seconds
    expires_at: int  # Unix seconds: from then on a gateway refuses everything
    tenants: tuple[TenantView, ...] = ()

    def __post_init__(self) -> None:
        if self.expires_at <= self.issued_at:
            raise ValueError("it ends before it begins")
        if len({tenant.name for tenant in self.tenants}) < len(self.tenants):
            raise ValueError("a tenant stands in it twice")

    def __repr__(self) -> str:
        return f"Snapshot({self.site!r}, {self.number}, {len(self.tenants)} tenants)"


def to_text(snapshot: Snapshot) -> str:
    """JSON; bytes are base64."""
    return msgspec.json.encode(snapshot, order="deterministic").decode()


def from_text(text: str) -> Snapshot:
    """ValueError (msgspec.ValidationError is one) that names the field, never a value, for what is no snapshot."""
    return msgspec.json.decode(text, type=Snapshot)
