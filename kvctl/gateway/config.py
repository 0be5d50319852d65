"""kvgated's configuration: what it may say, how it is read, and what is wrong with it. docs/kvgated.md shows it."""

from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Annotated, Literal

import msgspec
from msgspec import Meta as Rule

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
from kvctl.types.errors import UsageError

MAX_FILE = 1 << 20
Country = Annotated[str, Rule(pattern="^[A-Z]{2}$")]
HELP = "see docs/kvgated.md"


class Engine(Strict, frozen=True):
    """One inference server. `url` is unix:/PATH, or https://HOST:PORT with a client certificate."""

    name: Name
    url: Annotated[str, Rule(pattern=r"^(unix:/|https://)[^?#]+$", max_length=512)]
    models: Annotated[tuple[str, ...], Rule(min_length=1)]
    country: Country
    role: Literal["both", "prefill", "decode"] = "both"
    slots: Count = 64  # sequences at the same time; more wait in the gateway, where classes are told apart
    priority: bool = False  # it runs --scheduling-policy priority: classes are told apart there too
    certificate: FileName | None = None
    key: FileName | None = None
    ca: FileName | None = None

    @property
    def path(self) -> str | None:
        """The socket's path; None for https."""
        return self.url[5:] if self.url.startswith("unix:") else None


class Tls(Strict, frozen=True):
    certificate: FileName
    key: FileName


class SnapshotFile(Strict, frozen=True):
    path: FileName
    controllers: dict[Name, PublicKey]
    poll_seconds: Annotated[float, Rule(ge=0.05, le=2)] = 0.5


class Usage(Strict, frozen=True):
    directory: FileName
    sync_seconds: Annotated[float, Rule(ge=0.01, le=10)] = 0.5
    file_bytes: Size = Size(64 << 20)


class Limits(Strict, frozen=True):
    body: Size = Size(8 << 20)  # of one request
    held: Size = Size(512 << 20)  # bodies of all requests that are here
    event: Size = Size(8 << 20)  # of one event of a stream, and of an answer that is no stream's
    connections: Count = 4096  # of clients, on each address
    queue: Count = 2048
    queue_per_tenant: Count = 256
    queue_seconds: Seconds = 30
    header_seconds: Seconds = 15  # for a request's body to come in whole, beyond body_rate
    body_rate: Size = Size(256 << 10)  # least bytes a second of a body
    connect_seconds: Seconds = 2
    silence_seconds: Seconds = 600  # of an engine
    stall_seconds: Seconds = 60  # for a client to take what is sent
    drain_seconds: Seconds = 30
    handle_seconds: Seconds = 900


class Classes(Strict, frozen=True):
    """Weight of a class in the queue, and the share of an engine's slots that it may take."""

    gold: Annotated[float, Rule(gt=0)] = 16
    silver: Annotated[float, Rule(gt=0)] = 4
    bronze: Annotated[float, Rule(gt=0)] = 1
    gold_share: Share = 1.0
    silver_share: Share = 0.8
    bronze_share: Share = 0.5


class Routing(Strict, frozen=True):
    prefix: Annotated[int, Rule(ge=64, le=1 << 20)] = 4096  # bytes of a prompt that decide which engine is its own
    overload: Annotated[float, Rule(ge=1, le=100)] = 1.5  # times the mean load, from which another one is taken
    health_seconds: Seconds = 5
    prefill_seconds: Seconds = 60  # for a prefilling engine's answer
    await_seconds: Seconds = 10  # that a decoding engine waits for the prefilling one's chunks


class Config(Strict, frozen=True):
    """A whole configuration, as written; sizes in bytes, times in seconds."""

    schema: Literal["1"]
    gateway: Name
    site: Name
    listen: Annotated[tuple[Endpoint, ...], Rule(min_length=1)]
    admin: FileName
    identity: FileName
    snapshot: SnapshotFile
    engines: Annotated[tuple[Engine, ...], Rule(min_length=1)]
    usage: Usage
    tls: Tls | None = None
    limits: Limits = Limits()
    classes: Classes = Classes()
    routing: Routing = Routing()


def load(path: FilePath) -> Config:
    """Read and judge a file. UsageError KV-GATE-001 to KV-GATE-004 that names file and line."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE + 1)
    except OSError as bad:
        why = bad.strerror or str(bad)
        raise UsageError(
            "KV-GATE-001", "the configuration cannot be read", where=str(path), why=why, fix="give --config FILE"
        ) from bad
    return parse(raw, str(path))


def parse(raw: bytes, name: str) -> Config:
    """UsageError KV-GATE-002 for what is no plain YAML, KV-GATE-003 and 004 for what it says."""
    try:
        document = read(raw, name)
    except UsageError as bad:
        raise UsageError("KV-GATE-002", bad.what, where=bad.where, why=bad.why, fix=HELP) from bad
    try:
        config = msgspec.convert(document.data, Config, strict=False, dec_hook=custom)
    except msgspec.ValidationError as bad:
        raise _explain(document, str(bad)) from bad
    for path, why in _broken_rules(config):
        raise _wrong(document, path, why)
    return config


def _wrong(document: Document, path: Path, why: str) -> UsageError:
    name = field_name(path) or "the configuration"
    return UsageError("KV-GATE-004", f"{name} is wrong", where=document.where(path), why=why, fix=HELP)


def _explain(document: Document, text: str) -> UsageError:
    """msgspec's sentence, with the field's line."""
    at, why = place(text)
    path = tuple(step for step in at if step != ANY_KEY)
    if (unknown := unknown_field(why)) is not None:
        path = (*path, unknown)
        what = f"{field_name(path)} is no key of the configuration"
        return UsageError("KV-GATE-003", what, where=document.where(path), fix=HELP)
    return _wrong(document, path, why)


def _broken_rules(config: Config) -> Iterator[tuple[Path, str]]:
    """What the types alone do not say."""
    names: set[str] = set()
    for index, engine in enumerate(config.engines):
        at: Path = ("engines", index)
        if engine.name in names:
            yield (*at, "name"), "is another engine's name"
        names.add(engine.name)
        certificate = (engine.certificate, engine.key, engine.ca)
        if engine.path is None and None in certificate:
            yield (*at, "url"), "an engine over https is told apart by certificate, key and ca"
        if engine.path is not None and any(certificate):
            yield (*at, "certificate"), "is for https"
    if len(set(config.listen)) < len(config.listen):
        yield ("listen",), "names an address twice"
    if not config.snapshot.controllers:
        yield ("snapshot", "controllers"), "names nobody whose snapshots are believed"
    if config.limits.held < 2 * config.limits.body:
        yield ("limits", "held"), "holds at least two bodies: one tenant may have half of it"
