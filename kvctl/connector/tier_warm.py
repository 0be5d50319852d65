"""Connections to every node, attached before the first request needs them, and attached anew after a refusal."""

import time
from collections.abc import Callable, Sequence

from kvctl.connector.keys import KeyLease
from kvctl.connector.pool import Pool
from kvctl.types.chunks import Scope

MOST = 256  # leases: a store keeps a slot for each on every connection
WITHIN = 5.0  # seconds for one lease


class Warmer:
    """`leases`: those at hand now; `room`: bytes of a chunk. `step` takes as long as the stores do."""

    def __init__(self, pool: Pool, leases: Callable[[], Sequence[KeyLease]], room: int) -> None:
        self._pool = pool
        self._leases = leases
        self._room = room
        self._warm: dict[Scope, bytes] = {}  # scope -> the capability it was attached by
        self._version = 0

    def step(self) -> None:
        version = self._pool.map.version
        if version != self._version:
            self._version, self._warm = version, {}
        leases = self._leases()[:MOST]
        self._warm = {lease.scope: self._attached(lease) for lease in leases}

    def _attached(self, lease: KeyLease) -> bytes:
        until = time.monotonic() + WITHIN
        if self._warm.get(lease.scope) == lease.capability:
            self._pool.warm_again(lease, until)
        else:
            self._pool.warm(lease, until, self._room)
        return lease.capability
