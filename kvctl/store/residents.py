"""Which chunks a tier holds, in the order in which they would leave: `sizing.evict` behind a lock, and scopes."""

from collections.abc import Callable, Iterable, Mapping
from threading import Lock

from kvctl.sizing import evict
from kvctl.sizing.evict import Taken
from kvctl.sizing.policies import POLICIES
from kvctl.store.api import Record
from kvctl.types.chunks import Scope

Name = tuple[Scope, bytes]


class Residents:
    """Every chunk of one tier. Raises KeyError for a policy that does not exist."""

    def __init__(self, policy: str) -> None:
        self._lock = Lock()
        self._order: evict.Residents[Name] = evict.Residents(POLICIES[policy])
        self._scopes: dict[Scope, set[bytes]] = {}

    def __len__(self) -> int:
        return len(self._order)

    def add(self, scope: Scope, record: Record) -> None:
        """A chunk came in; nothing changes when it is known."""
        name = (scope, record.key)
        with self._lock:
            if not self._order.contains(scope.tenant, name):
                cost = record.meta.recompute_us or None
                self._order.add(scope.tenant, name, record.length, position=record.meta.position, cost=cost)
                self._scopes.setdefault(scope, set()).add(record.key)

    def replace(self, scope: Scope, record: Record) -> int:
        """A chunk came in over one of the same name, if that is known; how many bytes that one had."""
        with self._lock:
            known = self._order.contains(scope.tenant, (scope, record.key))
        before = self.forget(scope, [record.key]) if known else 0  # else the policy would forget that it knew the name
        self.add(scope, record)
        return before

    def touch(self, scope: Scope, key: bytes) -> bool:
        with self._lock:
            return self._order.touch(scope.tenant, [(scope, key)]) > 0

    def remove(self, scope: Scope, key: bytes) -> None:
        with self._lock:
            self._remove(scope, key)

    def _remove(self, scope: Scope, key: bytes) -> None:
        self._order.remove(scope.tenant, (scope, key))
        keys = self._scopes.get(scope)
        if keys is not None:
            keys.discard(key)
            if not keys:
                del self._scopes[scope]

    def keys(self, scope: Scope) -> set[bytes]:
        with self._lock:
            return set(self._scopes.get(scope, ()))

    def forget(self, scope: Scope, keys: Iterable[bytes]) -> int:
        """Remove chunks; how many bytes they had."""
        with self._lock:
            before = self._order.used(scope.tenant)
            for key in keys:
                self._remove(scope, key)
            return before - self._order.used(scope.tenant)

    def take(
        self, size: int, *, leased: Callable[[Name], bool], held: Callable[[str], bool], above: Mapping[str, int]
    ) -> Taken[Name]:
        """Chunks that leave now, `size` bytes or a little more; they are not known here any more."""
        with self._lock:
            taken = self._order.take(size, leased=leased, held=held, above=above)
            for victim in taken.victims:
                self._remove(*victim.key)
            return taken
