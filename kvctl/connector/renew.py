"""Key leases, fetched from the controller and kept fresh as files beside an engine.

While the controller is away, the files stay and serve until their leases' end. When
it refuses (a suspended tenant, a connector that is not registered any more), or a lease is over, the file is removed.
"""

import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kvctl.connector.controllerhttp import ControllerAddress, ask, silent
from kvctl.connector.keys import KeyLease, LeaseFile, RootKey, load_lease, write_lease
from kvctl.types.chunks import Scope
from kvctl.types.errors import KvctlError, RefusedError, UsageError

PATH = "/v1/lease/issue"
# Refusals that take a lease away at once: by the tenant's state or keys, by the connector's registration or its role.
ENDS = ("KV-TEN-", "KV-API-001", "KV-API-010")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A lease to have: of which scope, in which file."""

    tenant: str
    domain: str
    file: Path


def fetch(address: ControllerAddress, tenant: str, domain: str, holder: bytes) -> KeyLease:
    """A new lease for the connector with the public key `holder`. Errors as in `controllerhttp.ask`."""
    asked = {"tenant": tenant, "domain": domain, "holder": holder.hex(), "operations": []}
    data = ask(address, "POST", PATH, asked)
    try:
        held = msgspec.json.decode(data, type=LeaseFile)
        scope = Scope(held.tenant, held.domain, bytes.fromhex(held.epoch))
        lease = KeyLease(RootKey(scope, held.root_key), held.capability, held.expires_at)
    except (msgspec.DecodeError, ValueError) as error:
        raise silent(address, f"its answer is no lease: {error}") from None
    if (scope.tenant, scope.domain) != (tenant, domain):
        raise silent(address, "its answer is the lease of another scope")
    return lease


def refuses(error: KvctlError) -> bool:
    """Whether the controller takes a lease away with this, and does not only fail to renew it."""
    return isinstance(error, RefusedError) and error.code.startswith(ENDS)


class Renewer:
    """Renews the files of `wanted`, a round at a time. `get` fetches one lease, by tenant and domain."""

    def __init__(
        self, get: Callable[[str, str], KeyLease], wanted: Sequence[Wanted], *, clock: Callable[[], float] = time.time
    ) -> None:
        self._get = get
        self._wanted = tuple(wanted)
        self._clock = clock

    def want(self, wanted: Sequence[Wanted]) -> None:
        """Other leases from now on; the files of those that are not wanted any more go at once."""
        kept = {one.file for one in wanted}
        for one in self._wanted:
            if one.file not in kept:
                remove(one.file)
        self._wanted = tuple(wanted)

    def renew(self) -> dict[Path, KvctlError]:
        """One round; what went wrong, by file."""
        return {one.file: error for one in self._wanted if (error := self._renew(one)) is not None}

    def _renew(self, one: Wanted) -> KvctlError | None:
        try:
            lease = self._get(one.tenant, one.domain)
        except KvctlError as error:
            log.warning("lease of %s/%s not renewed: %s: %s", one.tenant, one.domain, error.what, error.why)
            if refuses(error):
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

    def drop_over(self) -> None:
        """Remove the files whose lease has ended."""
        for one in self._wanted:
            self._drop_if_over(one.file)

    def _drop_if_over(self, file: Path) -> None:
        try:
            load_lease(file, now=self._clock())
        except RefusedError:
            remove(file)
        except UsageError:
            log.debug("%s holds no lease", file)


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
