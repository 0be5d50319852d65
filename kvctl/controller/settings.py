"""What a controller is told: `controller.yaml` beside its state, or nothing at all."""

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import yaml

from kvctl.connector.secretfile import write_secret
from kvctl.types.errors import UsageError

FILE = "controller.yaml"
# What an ID token may be signed by: only algorithms whose verifier cannot sign. Never `none`, never HS*.
SIGNED = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
CLIENT_AUTH = ("client_secret_basic", "client_secret_post")


class StoreSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the controller reaches a store: its admin side, and with which certificate when that is not a socket."""

    admin: str  # unix:/PATH or https://HOST:PORT
    endpoint: str = ""  # the block protocol: tcp:HOST:PORT or unix:/PATH
    certificate: str = ""
    key: str = ""
    ca: str = ""
    netns: str = ""  # the network namespace that it is in: hosts of a lab


class EngineSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A gateway or an engine that is told to reset its prefix caches: an admin socket or address."""

    admin: str  # unix:/PATH or https://HOST:PORT
    usage: str = ""  # where its metering records are read, when that is elsewhere
    certificate: str = ""  # as of a store
    key: str = ""
    ca: str = ""
    netns: str = ""


class HttpsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    listen: str = "127.0.0.1:8443"
    certificate: str = ""  # none: one of the site's own CA is made
    key: str = ""


class OidcSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An OpenID provider, whose people may sign in to accounts that are bound to their identity there."""

    issuer: str  # exactly as the provider writes it
    client_id: str
    client_secret_file: str  # mode 0600
    console: str  # https://HOST[:PORT], as browsers reach the console: the provider sends them back there
    name: str = ""  # on the sign-in page; none: the issuer's host
    algorithms: tuple[str, ...] = ("RS256", "ES256")
    ca: str = ""  # the only CA that the provider's certificate may be of; none: the system's
    client_auth: str = "client_secret_basic"
    step_up_acr: tuple[str, ...] = ()  # how somebody must have signed in there to count as fresh; none: any way

    def __post_init__(self) -> None:
        for name, address in (("issuer", self.issuer), ("console", self.console)):
            parts = urlsplit(address)
            if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment or parts.username:
                raise ValueError(f"oidc.{name} is not https://HOST")
        if urlsplit(self.console).path not in ("", "/"):
            raise ValueError("oidc.console has a path: the console is at the root of its host")
        if not self.algorithms or (others := [one for one in self.algorithms if one not in SIGNED]):
            raise ValueError(f"oidc.algorithms: {', '.join(others) if self.algorithms else 'none'} not of {SIGNED}")
        if self.client_auth not in CLIENT_AUTH:
            raise ValueError(f"oidc.client_auth is not one of {CLIENT_AUTH}")
        if not self.client_id or not self.client_secret_file:
            raise ValueError("oidc needs client_id and client_secret_file")

    @property
    def label(self) -> str:
        return self.name or str(urlsplit(self.issuer).hostname)


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: int = 1
    stores: dict[str, StoreSettings] = {}
    gateways: dict[str, EngineSettings] = {}
    connectors: dict[str, str] = {}  # name -> public key, 64 hexadecimal digits: who may have leases
    https: HttpsSettings | None = None
    oidc: OidcSettings | None = None
    sync_seconds: float = 2.0
    lease_seconds: int = 3600
    snapshot_seconds: int = 3600


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    site: str
    country: str  # of the site's hardware; "" when there is no inventory
    entity: str
    directory: Path  # <state dir>/<site>
    inventory: Path | None = None
    state_dir: Path | None = None
    stores: Mapping[str, StoreSettings] = field(default_factory=dict)
    gateways: Mapping[str, EngineSettings] = field(default_factory=dict)
    connectors: Mapping[str, str] = field(default_factory=dict)
    https: HttpsSettings | None = None
    oidc: OidcSettings | None = None
    sync_seconds: float = 2.0
    lease_seconds: int = 3600
    snapshot_seconds: int = 3600


def read(directory: Path, *, site: str, country: str = "", entity: str = "", **more: Any) -> ControllerSettings:
    """The settings of the site whose state is in `directory`. UsageError KV-CTL-006 for a file that is not right."""
    path = directory / FILE
    found = File()
    if path.exists():
        try:
            found = msgspec.convert(yaml.safe_load(path.read_text()) or {}, File, strict=False)
        except (OSError, yaml.YAMLError, msgspec.ValidationError, UnicodeDecodeError) as error:
            raise UsageError(
                "KV-CTL-006", "the controller's settings are not right", where=str(path), why=str(error)
            ) from error
    return ControllerSettings(
        site, country, entity, directory, stores=found.stores, gateways=found.gateways,
        connectors=found.connectors, https=found.https, oidc=found.oidc,
        sync_seconds=found.sync_seconds, lease_seconds=found.lease_seconds,
        snapshot_seconds=found.snapshot_seconds, **more,
    )  # fmt: skip


def renewed(settings: ControllerSettings) -> ControllerSettings:
    """The same, as the file says now."""
    found = read(settings.directory, site=settings.site)
    return replace(
        settings, stores=found.stores, gateways=found.gateways, connectors=found.connectors, https=found.https,
        oidc=found.oidc, sync_seconds=found.sync_seconds, lease_seconds=found.lease_seconds,
        snapshot_seconds=found.snapshot_seconds,
    )  # fmt: skip


def stamp(directory: Path) -> tuple[int, int, int]:
    """What a changed file changes: time, length, inode; zeros while there is none."""
    try:
        found = (directory / FILE).stat()
    except FileNotFoundError:
        return (0, 0, 0)
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def add_stores(directory: Path, stores: Mapping[str, StoreSettings]) -> None:
    """Write these stores into the settings file beside what is there, in one step."""
    _add(
        directory,
        "stores",
        {name: {k: v for k, v in msgspec.to_builtins(s).items() if v} for name, s in stores.items()},
    )


def add_connector(directory: Path, name: str, public: str) -> None:
    """Write who may have leases into the settings file. `public`: 64 hexadecimal digits."""
    _add(directory, "connectors", {name: public})


def add_gateway(directory: Path, name: str, settings: EngineSettings) -> None:
    """Write how a gateway is reached into the settings file."""
    _add(directory, "gateways", {name: {k: v for k, v in msgspec.to_builtins(settings).items() if v}})


def remove(directory: Path, section: str, name: str) -> None:
    """Take an entry out of the settings file."""
    with _changing(directory) as document:
        if name in (document.get(section) or {}):
            del document[section][name]


def _add(directory: Path, section: str, entries: Mapping[str, Any]) -> None:
    with _changing(directory) as document:
        document[section] = {**(document.get(section) or {}), **entries}


@contextlib.contextmanager
def _changing(directory: Path) -> Iterator[dict[str, Any]]:
    """The file's document, written when the block changed it. One at a time: another deployment may be at it."""
    path = directory / FILE
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        document: dict[str, Any] = yaml.safe_load(path.read_text()) or {} if path.exists() else {"schema": 1}
        before = deepcopy(document)
        yield document
        if document != before:
            write_secret(path, yaml.safe_dump(document, sort_keys=False).encode())
    finally:
        os.close(lock)
