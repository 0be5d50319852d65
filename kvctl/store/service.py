"""What the daemon's threads share: the configuration in force, the store, the sessions, and whether it is draining."""

import os
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from kvctl.connector.keys import Identity
from kvctl.connector.wire import PutStatus
from kvctl.daemon.log import Log
from kvctl.store import pushed, tenants
from kvctl.store.api import Reading, Why
from kvctl.store.config import Config, load, read_revoked, restart_needed
from kvctl.store.holds import HoldSet
from kvctl.store.metrics import Metrics
from kvctl.store.tenants import Served, TenantSet
from kvctl.types.chunks import Ack, Meta, Scope
from kvctl.types.errors import UsageError

SCRATCH = 256 << 10
BROKEN = 2.0  # seconds for a broken session to let go of the store


class Slot(Protocol):
    """Room for one chunk, from `reserve`; ends with `commit` or `abort`."""

    @property
    def body(self) -> memoryview: ...

    def commit(self, ack: Ack) -> PutStatus: ...

    def abort(self) -> None: ...


class Chunks(Protocol):
    """The store, as sessions and the admin socket see it. Every method may be called from any thread."""

    def has(self, scope: Scope, keys: Sequence[bytes], lease_ms: int = 0) -> list[bool]: ...

    def get(self, scope: Scope, key: bytes) -> Reading | None: ...

    def reserve(self, scope: Scope, key: bytes, length: int, meta: Meta) -> Slot | PutStatus: ...

    def touch(self, scope: Scope, keys: Sequence[bytes]) -> int: ...

    def lineage(self, scope: Scope, subject: bytes, keys: Sequence[bytes]) -> int: ...

    def tenant_stat(self, scope: Scope) -> dict[str, Any]: ...

    def stat(self) -> dict[str, Any]: ...

    def ls(self, tenant: str | None, domain: str | None, after: str, limit: int) -> Any: ...

    def scrub(self, tier: str, stop: Callable[[], bool]) -> Any: ...

    def erase_scope(self, scope: Scope) -> dict[str, int]: ...

    def erase_subject(self, tenant: str, domain: str | None, subject: bytes) -> dict[str, int]: ...

    def move(self, body: dict[str, Any], stop: Callable[[], bool]) -> Any: ...

    def moves(self) -> Any: ...

    def cancel_move(self, name: str) -> Any: ...

    def deltas(self, boot: str | None, after: int, limit: int, seconds: float, stop: Callable[[], bool]) -> Any: ...

    def remove(self, scope: Scope, keys: Sequence[bytes], why: Why) -> dict[str, Any]: ...

    def probe(self, scope: Scope, keys: Sequence[bytes]) -> dict[str, Any]: ...

    def hold(self, given: HoldSet) -> None: ...

    def governance(self) -> dict[str, Any]: ...

    def push_quotas(self, quotas: Mapping[str, int]) -> None: ...

    def flush(self) -> None: ...

    def drain(self) -> None: ...

    def resume(self) -> None: ...

    def close(self) -> None: ...


class Ending(Protocol):
    """A session, as far as the service needs it."""

    def end(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Live:
    """What a reload replaces, all at once. Sessions compare `generation` to know that something changed."""

    config: Config
    connectors: Mapping[bytes, str]  # public key -> name
    controllers: Mapping[bytes, str]
    revoked: frozenset[bytes]
    served: Served
    generation: int = 0

    @classmethod
    def of(cls, config: Config, generation: int = 0) -> "Live":
        revoked = read_revoked(config)
        connectors = {bytes(key): name for name, key in config.connectors.items()}
        controllers = {bytes(key): name for name, key in config.controllers.items()}
        served = Served(pushed.load(tenants.file(config.state), TenantSet))
        return cls(config, connectors, controllers, revoked, served, generation)


@dataclass
class Service:
    path: Path  # of the configuration
    live: Live
    identity: Identity
    store: Chunks
    reconfigure: Callable[[Config], None]  # give the store the rules of a new configuration
    log: Log
    metrics: Metrics = field(default_factory=Metrics)
    draining: bool = False  # requests are refused; the process may go on (admin's drain)
    stopping: bool = False  # the process ends
    scratch: memoryview = field(default_factory=lambda: memoryview(bytearray(SCRATCH)))
    _gone: threading.Condition = field(default_factory=threading.Condition)  # notified when a session leaves
    _reloading: threading.Lock = field(default_factory=threading.Lock)
    _sessions: set[Ending] = field(default_factory=set)

    def enter(self, session: Ending) -> bool:
        """Count a session in; False when there are as many as there may be."""
        with self._gone:
            if len(self._sessions) >= self.live.config.limits.sessions:
                return False
            self._sessions.add(session)
            return True

    def leave(self, session: Ending) -> None:
        with self._gone:
            self._sessions.discard(session)
            self._gone.notify_all()

    @property
    def sessions(self) -> int:
        return len(self._sessions)

    def reload(self) -> None:
        """Read the configuration again. UsageError when it is wrong or needs a restart: nothing changes then."""
        with self._reloading:
            new = load(self.path)
            if changed := restart_needed(self.live.config, new):
                raise UsageError(
                    "KV-STORE-008",
                    f"a reload cannot change {', '.join(changed)}",
                    where=str(self.path),
                    why="sockets, keys and tiers are opened at the start",
                    fix="restart kvstored, or put the old values back",
                )
            live = Live.of(new, self.live.generation + 1)
            self.reconfigure(new)
            self.live = live
        self.log.info("reloaded", connectors=len(live.connectors), controllers=len(live.controllers))

    def revoke(self, ids: Sequence[bytes]) -> None:
        """Refuse these capabilities from now on, and after a restart: they are written down first."""
        with self._reloading:
            fresh = [one for one in ids if one not in self.live.revoked]
            _append(self.live.config.revoked_path, fresh)
            old = self.live
            self.live = replace(old, revoked=old.revoked | frozenset(fresh), generation=old.generation + 1)
        self.log.info("revoked", capabilities=len(fresh))

    def push_tenants(self, given: TenantSet) -> None:
        """Serve these tenants from the next frame on, and after a restart. KV-STORE-024 for an older version."""
        with self._reloading:
            old = self.live
            if not pushed.replaces("tenants", given, old.served.given):
                return
            pushed.save(tenants.file(old.config.state), given)
            self.live = replace(old, served=Served(given), generation=old.generation + 1)
            self.store.push_quotas(self.live.served.quotas())
        self.log.info("tenants in force", version=given.version, tenants=len(given.tenants))

    def end_sessions(self, seconds: float) -> int:
        """Let requests in flight end for so long, then break what is left; how many had to be broken.

        Draining is set by the caller: sessions see it within a tick, or after the request they are at.
        """
        with self._gone:
            self._gone.wait_for(lambda: not self._sessions, seconds)
            left = list(self._sessions)
        for session in left:
            session.end()
        with self._gone:
            self._gone.wait_for(lambda: not self._sessions, BROKEN)
        return len(left)

    def fault(self, event: str, trace: str, **fields: str) -> str:
        """Log a defect of the daemon itself; the id that the peer is told and that finds the line again."""
        number = secrets.token_hex(4)
        self.log.error(event, id=number, trace=trace[-2000:], **fields)
        self.metrics.count("kvstored_refusals_total", reason="internal")
        return number


def _append(path: Path, ids: Sequence[bytes]) -> None:
    with path.open("a") as file:
        file.writelines(f"{one.hex()}\n" for one in ids)
        file.flush()
        os.fsync(file.fileno())
