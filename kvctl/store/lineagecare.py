"""Lineage of chunks that the tiers hold: who else used them is noted, told, followed by erasures, and forgotten."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvctl.store.api import State
from kvctl.types.chunks import Kind, Scope

if TYPE_CHECKING:
    from kvctl.store.store import Store


class LineageCare:
    """Without a place to keep pairs, nothing is noted: for a store of a test."""

    def __init__(self, store: "Store") -> None:
        self._store = store
        self._swept = False

    def note(self, scope: Scope, subject: bytes, keys: Sequence[bytes]) -> None:
        """Durable when it returns. Common chunks are left out: they outlive every subject."""
        pairs = self._store.guard.lineage
        if pairs is None:
            return
        for key in pairs.see(scope, subject, keys, lambda key: self._is_anothers(scope, key, subject)):
            self._store.guard.deltas.seen(scope, key, subject)

    def _is_anothers(self, scope: Scope, key: bytes, subject: bytes) -> bool:
        places = (tier.found(scope, key) for tier in self._store.tiers.values())
        found = next((one for one in places if one is not None and one.state is State.LIVE), None)
        return found is not None and found.record.meta.kind is Kind.PRIVATE and found.record.meta.subject != subject

    def private_of(self, scope: Scope, subject: bytes) -> list[bytes]:
        pairs = self._store.guard.lineage
        return [] if pairs is None else [key for key in pairs.keys_of(scope, subject) if self._is_private(scope, key)]

    def _is_private(self, scope: Scope, key: bytes) -> bool:
        """Under its name a chunk may have come back as a common one."""
        found = (tier.found(scope, key) for tier in self._store.tiers.values())
        return any(one is not None and one.record.meta.kind is Kind.PRIVATE for one in found)

    def tidy(self) -> None:
        """Drop the pairs of chunks that are gone; the first time, look at all. While a place is not read, they stay."""
        pairs = self._store.guard.lineage
        if pairs is None or (self._swept and not pairs.due) or self._store.not_reached():
            return
        if not self._swept:
            pairs.sweep({scope for tier in self._store.tiers.values() for scope in tier.scopes()}, self._is_there)
            self._swept = True
        pairs.tidy(self._is_there)

    def _is_there(self, scope: Scope, key: bytes) -> bool:
        return any(tier.found(scope, key) is not None for tier in self._store.tiers.values())

    def forget(self) -> None:
        self.tidy()
        if self._store.guard.lineage is not None:
            self._store.guard.lineage.wipe()
