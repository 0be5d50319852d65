"""Key leases, fetched from the controller and kept fresh as files beside an engine.

A thread asks every five minutes. While the controller is away, the files stay and serve until their leases' end. When
it refuses (a suspended tenant, a connector that is not registered any more), or a lease is over, the file is removed.
"""

import http.client
import json
import logging
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from kvctl.connector.keys import KeyLease, LeaseFile, RootKey, load_lease, write_lease
from kvctl.types.chunks import Scope
from kvctl.types.errors import ExitCode, KvctlError, RefusedError, UnreachableError, UsageError

PERIOD = 300.0  # seconds between renewals
RETRY = 15.0  # after the controller did not answer
SECONDS = 20.0  # for one answer
MAX_ANSWER = 64 << 10
PATH = "/v1/lease/issue"
# Refusals that take a lease away at once: by the tenant's state or keys, by the connector's registration or its role.
ENDS = ("KV-TEN-", "KV-API-001", "KV-API-010")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ControllerAddress:
    """`unix:/PATH` or `https://HOST:PORT`; over https this connector's certificate, its key and the site's CA."""

    endpoint: str
    certificate: Path | None = None
    key: Path | None = None
    ca: Path | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """A lease to have: of which scope, in which file."""

    tenant: str
    domain: str
    file: Path


def fetch(address: ControllerAddress, tenant: str, domain: str, holder: bytes) -> KeyLease:
    """A new lease for the connector with the public key `holder`.

    UnreachableError KV-CONN-050 when there is no answer, or none of a controller; what the controller answered, with
    its code, as RefusedError when it refused and as KvctlError otherwise; UsageError KV-CONN-051 for an address that
    is none.
    """
    asked = {"tenant": tenant, "domain": domain, "holder": holder.hex(), "operations": []}
    status, data = _post(address, json.dumps(asked))
    if status != http.client.OK:
        raise _refusal(address, status, data)
    try:
        held = msgspec.json.decode(data, type=LeaseFile)
        scope = Scope(held.tenant, held.domain, bytes.fromhex(held.epoch))
        lease = KeyLease(RootKey(scope, held.root_key), held.capability, held.expires_at)
    except (msgspec.DecodeError, ValueError) as error:
        raise _silent(address, f"its answer is no lease: {error}") from None
    if (scope.tenant, scope.domain) != (tenant, domain):
        raise _silent(address, "its answer is the lease of another scope")
    return lease


def _post(address: ControllerAddress, body: str) -> tuple[int, bytes]:
    connection = _connection(address)
    try:
        connection.request("POST", PATH, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        data = response.read(MAX_ANSWER + 1)
    except (OSError, http.client.HTTPException) as error:
        raise _silent(address, str(error) or repr(error)) from error
    finally:
        connection.close()
    if len(data) > MAX_ANSWER:
        raise _silent(address, "its answer is too long for a lease")
    return response.status, data


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("kvctld", timeout=SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(SECONDS)
        self.sock.connect(self._path)


def _connection(address: ControllerAddress) -> http.client.HTTPConnection:
    if address.endpoint.startswith("unix:/"):
        return _Unix(address.endpoint[5:])
    url = urlsplit(address.endpoint)
    if url.scheme != "https" or not url.hostname or not (address.certificate and address.key and address.ca):
        raise _no_address(address, "it is unix:/PATH, or https://HOST:PORT with a certificate, its key and a CA")
    try:
        context = ssl.create_default_context(cafile=address.ca)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(address.certificate, address.key)
    except OSError as error:
        raise _no_address(address, f"its certificate cannot be used: {error}") from error
    return http.client.HTTPSConnection(url.hostname, url.port or 443, timeout=SECONDS, context=context)


def _no_address(address: ControllerAddress, why: str) -> UsageError:
    return UsageError("KV-CONN-051", f"{address.endpoint!r} is no way to the controller", why=why)


def _silent(address: ControllerAddress, why: str) -> UnreachableError:
    return UnreachableError(
        "KV-CONN-050", "the controller does not give a lease", where=address.endpoint, why=why,
        fix="leases that are there serve until their end; is kvctld running?",
    )  # fmt: skip


def _refusal(address: ControllerAddress, status: int, data: bytes) -> KvctlError:
    """What a controller answered. Anything else in its place, as a proxy's page, is no answer: it removes nothing."""
    try:
        said: Any = json.loads(data)
        code, what = str(said["code"]), str(said["what"])
        known = said["exit_code"]
    except (ValueError, KeyError, TypeError):
        return _silent(address, f"status {status}")
    kind = RefusedError if known == ExitCode.REFUSED else KvctlError
    return kind(code, what, where=address.endpoint, why=str(said.get("why", "")), fix=str(said.get("fix", "")))


class Renewer:
    """Keeps the files of `wanted` fresh from `start` until `stop`. `get` fetches one lease, by tenant and domain."""

    def __init__(
        self, get: Callable[[str, str], KeyLease], wanted: list[Wanted], *, period: float = PERIOD,
        retry: float = RETRY, clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._get = get
        self._wanted = wanted
        self._period = period
        self._retry = retry
        self._clock = clock
        self._ended = threading.Event()
        self._round = threading.Condition()
        self.rounds = 0
        self.errors: Mapping[Path, KvctlError] = {}  # of the last round
        self._thread: threading.Thread | None = None

    def renew(self) -> dict[Path, KvctlError]:
        """One round; what went wrong, by file."""
        found = {one.file: error for one in self._wanted if (error := self._renew(one)) is not None}
        with self._round:
            self.errors, self.rounds = found, self.rounds + 1
            self._round.notify_all()
        return found

    def _renew(self, one: Wanted) -> KvctlError | None:
        try:
            lease = self._get(one.tenant, one.domain)
        except KvctlError as error:
            log.warning("lease of %s/%s not renewed: %s: %s", one.tenant, one.domain, error.what, error.why)
            if isinstance(error, RefusedError) and error.code.startswith(ENDS):
                remove(one.file)
            else:
                self._drop_if_over(one.file)
            return error
        try:
            write_lease(one.file, lease)
        except KvctlError as error:
            log.warning("lease of %s/%s not kept: %s: %s", one.tenant, one.domain, error.what, error.why)
            return error
        return None

    def _drop_if_over(self, file: Path) -> None:
        try:
            load_lease(file, now=self._clock())
        except RefusedError:
            remove(file)
        except UsageError:
            log.debug("%s holds no lease", file)

    def wait(self, rounds: int, seconds: float) -> bool:
        """Wait until so many rounds were made."""
        with self._round:
            return self._round.wait_for(lambda: self.rounds >= rounds, seconds)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="kvctl leases", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """The files stay: they serve until their leases' end."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                failed = bool(self.renew())
            except Exception:  # without this thread every lease would end
                log.exception("a round of lease renewal failed")
                failed = True
            self._ended.wait(self._retry if failed else self._period)


def remove(file: Path) -> None:
    """Take a lease's file away, its bytes first."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    with os.fdopen(descriptor, "wb") as held:
        held.write(bytes(os.fstat(descriptor).st_size))
        held.flush()
        os.fsync(descriptor)
    file.unlink()
