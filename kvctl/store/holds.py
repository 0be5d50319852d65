"""Holds: chunks that must stay, whoever wants to remove them. The controller pushes the whole set.

Whoever removes chunks asks here inside `deciding`, together with the removal's own commit. A new set is answered for
only when every removal that went by the old one is over: from that moment on nothing that it names goes.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Condition, Lock

from msgspec import Struct

from kvctl.store.pushed import Hex16, Pushed, Text, load, replaces, save
from kvctl.types.chunks import Meta, Scope

Subjects = Callable[[Scope, bytes], frozenset[bytes]]  # who used a chunk, besides the one it was stored for


class Hold(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which chunks: those that match everything that is given."""

    id: Text
    tenant: Text
    domain: Text | None = None
    subject: Hex16 | None = None
    model: Hex16 | None = None


class HoldSet(Pushed, frozen=True, kw_only=True):
    holds: tuple[Hold, ...] = ()


def no_others(scope: Scope, key: bytes) -> frozenset[bytes]:
    return frozenset()


class InForce:
    """One version of the set, as it is asked a million times."""

    def __init__(self, given: HoldSet, others: Subjects) -> None:
        self.given = given
        self.users = 0  # removals that decide by it
        self._others = others
        self._by_tenant: dict[str, list[Hold]] = {}
        for hold in given.holds:
            self._by_tenant.setdefault(hold.tenant, []).append(hold)

    def __call__(self, scope: Scope, key: bytes, meta: Meta) -> bool:
        """Whether a chunk must stay."""
        holds = self._by_tenant.get(scope.tenant)
        return holds is not None and any(self._matches(hold, scope, key, meta) for hold in holds)

    def touches(self, scope: Scope) -> bool:
        """Whether any hold could be of a chunk of this scope."""
        return any(hold.domain in (None, scope.domain) for hold in self._by_tenant.get(scope.tenant, ()))

    def whole(self, scope: Scope) -> bool:
        """Whether everything of a scope stays."""
        holds = self._by_tenant.get(scope.tenant, ())
        return any(hold.domain in (None, scope.domain) and not (hold.subject or hold.model) for hold in holds)

    def _matches(self, hold: Hold, scope: Scope, key: bytes, meta: Meta) -> bool:
        if hold.domain not in (None, scope.domain) or hold.model not in (None, meta.model.hex()):
            return False
        if hold.subject is None or hold.subject == meta.subject.hex():
            return True
        return bytes.fromhex(hold.subject) in self._others(scope, key)


class Holds:
    """The set in force. `file`: where it is kept; None: nowhere, for a tier on its own."""

    def __init__(self, file: Path | None = None, others: Subjects = no_others) -> None:
        self._file = file
        self._others = others
        self._changed = Condition()
        self._replacing = Lock()
        self._now = InForce(HoldSet() if file is None else load(file, HoldSet), others)

    @property
    def now(self) -> InForce:
        """For looks that need not be exact; who removes takes `deciding`."""
        return self._now

    @contextlib.contextmanager
    def deciding(self) -> Iterator[InForce]:
        """The set to decide by; a newer one is not answered for before the block ends. Never waits."""
        with self._changed:
            held = self._now
            held.users += 1
        try:
            yield held
        finally:
            with self._changed:
                held.users -= 1
                self._changed.notify_all()

    def replace(self, given: HoldSet) -> None:
        """Have this set alone in force, on disk first. RefusedError KV-STORE-024 for an older version."""
        with self._replacing:
            old = self._now
            if not replaces("holds", given, old.given):
                return
            if self._file is not None:
                save(self._file, given)
            with self._changed:
                self._now = InForce(given, self._others)
                self._changed.wait_for(lambda: not old.users)
