"""What every tier asks before it lets a chunk go, and tells when it did: holds, frozen chunks, counted deltas."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from kvctl.store.api import Record, Removal, Why
from kvctl.store.deltas import Deltas
from kvctl.store.frozen import Frozen
from kvctl.store.holds import Holds, InForce
from kvctl.store.lineage import Lineage
from kvctl.types.chunks import Scope, TierName


class Guard:
    """Without arguments it holds nothing and is told to nobody: for a tier on its own."""

    def __init__(
        self,
        holds: Holds | None = None,
        frozen: Frozen | None = None,
        deltas: Deltas | None = None,
        lineage: Lineage | None = None,
    ) -> None:
        self.holds = Holds() if holds is None else holds
        self.frozen = Frozen() if frozen is None else frozen
        self.deltas = Deltas(0) if deltas is None else deltas
        self.lineage = lineage
        self.listeners: list[Callable[[TierName, Scope, Sequence[Record]], object]] = []  # told what a tier lost

    def deciding(self) -> AbstractContextManager[InForce]:
        """Around a removal, its commit included: what stays, for this removal."""
        return self.holds.deciding()

    def gone(self, tier: TierName, scope: Scope, records: Sequence[Record], removal: Removal) -> None:
        """Chunks have left a tier, durably."""
        removal.gone.extend((scope, record) for record in records)
        if removal.why is not Why.MOVED:
            keys = [record.key for record in records]
            self.frozen.discard(scope, keys)
            if self.lineage is not None:
                self.lineage.gone(scope, keys)
        if removal.why in (Why.QUARANTINED, Why.LOST):  # of the others somebody knows, who asked for the removal
            for hear in self.listeners:
                hear(tier, scope, records)
        if removal.told:
            for record in records:
                self.deltas.removed(tier, scope, record, removal.why)
