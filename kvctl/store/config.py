"""kvstored's configuration: what it may say, how it is read, and what is wrong with it. docs/kvstored.md shows it."""

import os
import re
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Annotated, Literal

import msgspec
from msgspec import Meta as Rule

from kvctl.connector.secretfile import read_secret
from kvctl.connector.wire import MAX_CHUNK, MAX_KEYS
from kvctl.daemon.document import Document, Path, read
from kvctl.daemon.fields import (
    ANY_KEY,
    Count,
    Endpoint,
    FileName,
    Name,
    PublicKey,
    Seconds,
    Share,
    Size,
    Strict,
    custom,
    field_name,
    place,
    unknown_field,
)
from kvctl.sizing.policies import POLICIES
from kvctl.types.errors import UsageError

PAGE = 4096
# What a running daemon cannot change: its sockets are open and its tiers hold locks.
NEEDS_RESTART = ("schema", "node", "listen", "admin", "identity", "ram", "tiers", "state")


class Mount(Strict, frozen=True):
    path: FileName
    capacity: Size  # bytes that chunks may take there, padding and headers included


class MountTier(Strict, frozen=True):
    mounts: Annotated[tuple[Mount, ...], Rule(min_length=1)]


class Bucket(Strict, frozen=True):
    bucket: Annotated[str, Rule(min_length=3, max_length=63)]
    endpoint: Annotated[str, Rule(pattern="^https?://")]
    region: str = "us-east-1"
    prefix: str | None = None  # of the objects' names; None: the node's name. Two nodes must not share one
    root_certificate: FileName | None = None  # PEM; None: the system's
    credentials: FileName | None = None  # JSON, mode 0600; None: the bucket asks for none


class BucketTier(Strict, frozen=True):
    s3: Bucket
    capacity: Size


class Tiers(Strict, frozen=True):
    flash: MountTier | None = None
    disk: MountTier | None = None
    object: BucketTier | None = None
    archive: BucketTier | None = None


class Tls(Strict, frozen=True):
    """All admin verbs over mutual TLS 1.3, for the controller."""

    listen: Endpoint
    certificate: FileName
    key: FileName
    client_ca: FileName
    clients: tuple[Name, ...] = ()  # common names of its certificates that get in; none: all of them


class Admin(Strict, frozen=True):
    socket: FileName
    metrics: Endpoint | None = None
    tls: Tls | None = None


class Policy(Strict, frozen=True):
    eviction: str = "lru"
    second_touch_above: Share = 0.9
    high: Share = 0.95
    low: Share = 0.9


class Limits(Strict, frozen=True):
    sessions: Count = 512
    half_open: Count = 256
    half_open_per_peer: Count = 64
    hello_seconds: Seconds = 5
    frame_seconds: Seconds = 30
    send_seconds: Seconds = 60
    drain_seconds: Seconds = 20
    put_rate: Size = Size(1 << 20)  # least bytes a second of a PUT's body, beyond frame_seconds
    chunk: Size = Size(MAX_CHUNK)
    request_keys: Annotated[int, Rule(ge=1, le=MAX_KEYS)] = MAX_KEYS
    deltas: Count = 200_000  # changes of the catalogue that are kept for the controller; about 300 bytes each


class Config(Strict, frozen=True):
    """A whole configuration, as written; sizes in bytes, times in seconds."""

    schema: Literal["1"]
    node: Name
    listen: Annotated[tuple[Endpoint, ...], Rule(min_length=1)]
    admin: Admin
    identity: FileName
    connectors: dict[Name, PublicKey]
    controllers: dict[Name, PublicKey]
    ram: Size
    tiers: Tiers
    state: FileName = "/var/lib/kvctl/store"  # directory for the index of each bucket tier and the journal of moves
    policy: Policy = Policy()
    quotas: dict[str, Size] = msgspec.field(default_factory=dict)
    default_quota: Size | None = None
    limits: Limits = Limits()
    revoked: FileName | None = None  # capability ids, one of 32 hexadecimal digits a line

    @property
    def revoked_path(self) -> FilePath:
        return FilePath(self.revoked or f"{self.state}/revoked")


NAMED = {"connectors": PublicKey, "controllers": PublicKey, "quotas": Size}  # mappings whose keys are the user's


def load(path: FilePath) -> Config:
    """Read and judge a file. Raises UsageError KV-STORE-001 to KV-STORE-006 that names file and line."""
    try:
        with path.open("rb") as file:
            raw = file.read((1 << 20) + 1)
    except FileNotFoundError as bad:
        raise UsageError(
            "KV-STORE-001", "there is no configuration here", where=str(path), fix="give --config FILE"
        ) from bad
    except OSError as bad:
        why = bad.strerror or str(bad)
        raise UsageError(
            "KV-STORE-002", "the configuration cannot be read", where=str(path), why=why, fix="give a file"
        ) from bad
    return parse(raw, str(path))


def parse(raw: bytes, name: str) -> Config:
    document = read(raw, name)
    try:
        config = msgspec.convert(document.data, Config, strict=False, dec_hook=custom)
    except msgspec.ValidationError as bad:
        raise _explain(document, str(bad)) from bad
    for path, why in _broken_rules(config):
        raise _wrong(document, path, why)
    return config


def _wrong(document: Document, path: Path, why: str) -> UsageError:
    name, where = field_name(path) or "the configuration", document.where(path)
    return UsageError("KV-STORE-006", f"{name} is wrong", where=where, why=why, fix="see docs/kvstored.md")


def _explain(document: Document, text: str) -> UsageError:
    """msgspec's sentence, with the field's name and line."""
    path, why = place(text)
    if ANY_KEY in path:
        path, why = _culprit(document, path[0], why)
    if (unknown := unknown_field(why)) is not None:
        path = (*path, unknown)
        where = document.where(path)
        return UsageError(
            "KV-STORE-005",
            f"{field_name(path)} is no key of the configuration",
            where=where,
            fix="see docs/kvstored.md",
        )
    if missing := re.match(r"Object missing required field `(.*)`", why):
        why = f"{missing[1]} is missing"
    return _wrong(document, path, why)


def _culprit(document: Document, name: str | int, why: str) -> tuple[Path, str]:
    """Which entry of a mapping the user named is wrong."""
    kind = NAMED[str(name)]
    for key, value in document.data[name].items():
        try:
            msgspec.convert({key: value}, dict[str, kind], strict=False, dec_hook=custom)  # type: ignore[valid-type]
        except msgspec.ValidationError as bad:
            return (name, key), str(bad).partition(" - at ")[0]
    return (name,), why


def _broken_rules(config: Config) -> Iterator[tuple[Path, str]]:
    """What the types alone do not say."""
    for section in ("connectors", "controllers"):
        seen: dict[bytes, str] = {}
        for name, key in getattr(config, section).items():
            if key in seen:
                yield (section, name), f"has the key of {seen[key]}"
            seen[key] = name
    if config.tiers == Tiers():
        yield ("tiers",), "names no tier: chunks would have no place"
    if config.policy.eviction not in POLICIES:
        yield ("policy", "eviction"), f"{config.policy.eviction[:40]!r} is none of {', '.join(sorted(POLICIES))}"
    if config.policy.low >= config.policy.high:
        yield ("policy", "low"), f"must be below high ({config.policy.high})"
    if not PAGE <= config.limits.chunk <= MAX_CHUNK:
        yield ("limits", "chunk"), f"is from {PAGE} to {MAX_CHUNK} bytes"
    if config.limits.put_rate < 1:
        yield ("limits", "put_rate"), "is at least one byte a second"
    if config.ram < 2 * config.limits.chunk:
        yield ("ram",), f"holds at least two chunks of limits.chunk ({config.limits.chunk} bytes)"
    if len(set(config.listen)) < len(config.listen):
        yield ("listen",), "names an address twice"
    tls = config.admin.tls
    for endpoint, path in ((config.admin.metrics, "metrics"), (tls.listen if tls else None, "tls")):
        if endpoint is not None and endpoint.path is not None:
            yield ("admin", path), "is a tcp: address"
    paths: set[str] = set()
    for tier in ("flash", "disk"):
        held = getattr(config.tiers, tier)
        for index, mount in enumerate(held.mounts if held else ()):
            if os.path.normpath(mount.path) in paths:
                yield ("tiers", tier, "mounts", index, "path"), "is named twice"
            paths.add(os.path.normpath(mount.path))


def check_files(config: Config) -> None:
    """Raises KV-CONN-010 or KV-CONN-011 for a secret that cannot be read, or that others can read."""
    tls = config.admin.tls
    buckets = [tier.s3.credentials for tier in (config.tiers.object, config.tiers.archive) if tier is not None]
    for name in [*buckets, tls.key if tls else None]:
        if name is not None:
            read_secret(FilePath(name))


def read_revoked(config: Config) -> frozenset[bytes]:
    """Ids of revoked capabilities; empty lines and # comments are skipped. Raises UsageError KV-STORE-002 or 006.

    A file that the configuration names must be there; the daemon's own begins with the first revocation.
    """
    path = config.revoked_path
    if config.revoked is None and not path.exists():
        return frozenset()
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as bad:
        raise UsageError("KV-STORE-002", "the revoked ids cannot be read", where=str(path), why=str(bad)) from bad
    found = set()
    for number, line in enumerate(lines, 1):
        word = line.partition("#")[0].strip()
        if word and re.fullmatch("[0-9a-fA-F]{32}", word) is None:
            where = f"{path}:{number}"
            raise UsageError("KV-STORE-006", "not the id of a capability", where=where, why="32 hexadecimal digits")
        if word:
            found.add(bytes.fromhex(word))
    return frozenset(found)


def restart_needed(old: Config, new: Config) -> list[str]:
    """Sections that differ and that a running daemon cannot change."""
    changed = [name for name in NEEDS_RESTART if getattr(old, name) != getattr(new, name)]
    return changed + (["policy.eviction"] if old.policy.eviction != new.policy.eviction else [])
