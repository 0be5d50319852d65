"""Which chunks a tier holds, in the order in which they would leave: `sizing.evict` behind a lock, and scopes."""

from collections import Counter
from collections.abc import Callable, Mapping
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
        self._sizes: dict[Scope, dict[bytes, int]] = {}  # what is counted, in the order or taken out of it to leave
        self._nameless: Counter[Scope] = Counter()  # bytes from before the start whose names are not known yet
        self._left: set[Name] | None = set()  # went before they were recalled; None: everything was

    def __len__(self) -> int:
        return len(self._order)

    def expect(self, scope: Scope, size: int) -> None:
        """So many bytes were there at the start; `recalled` gives them names."""
        self._nameless[scope] += size

    def replace(self, scope: Scope, record: Record) -> int:
        """A chunk comes in, over one of the same name if that is known; how many bytes that one had."""
        with self._lock:
            if self._left is not None:
                self._left.discard((scope, record.key))
            before = self._sizes.get(scope, {}).get(record.key, 0)
            if before:  # else the policy would forget that it knew the name
                self._remove(scope, record.key)
            self._add(scope, record)
            return before

    def settle(self, scope: Scope, key: bytes, there: Record | None, length: int) -> int:
        """A chunk is as its tier has it (None: not at all); by how many bytes there are more than were counted."""
        with self._lock:
            before = self._sizes.get(scope, {}).get(key, 0)
            if there is not None:
                if before != there.length or not self._order.contains(scope.tenant, (scope, key)):
                    if before:
                        self._remove(scope, key)
                    self._add(scope, there)
                return there.length - (before or self._take_nameless(scope, there.length))
            self._remove(scope, key)
            if self._left is not None:
                self._left.add((scope, key))
                before = before or self._take_nameless(scope, length)
            return -before

    def recalled(self, scope: Scope, record: Record) -> int:
        """A chunk from before the start has its name now; how many bytes it has beyond what was expected."""
        with self._lock:
            if self._left is None or (scope, record.key) in self._left or record.key in self._sizes.get(scope, {}):
                return 0
            self._add(scope, record)
            return record.length - self._take_nameless(scope, record.length)

    def all_recalled(self) -> dict[Scope, int]:
        """What was expected and did not come, by scope: it is not there."""
        with self._lock:
            rest, self._nameless, self._left = dict(self._nameless), Counter(), None
            return rest

    def _take_nameless(self, scope: Scope, length: int) -> int:
        found = min(length, self._nameless[scope])
        if found:
            self._nameless[scope] -= found
        return found

    def touch(self, scope: Scope, key: bytes) -> bool:
        with self._lock:
            return self._order.touch(scope.tenant, [(scope, key)]) > 0

    def _add(self, scope: Scope, record: Record) -> None:
        cost = record.meta.recompute_us or None
        name = (scope, record.key)
        self._order.add(scope.tenant, name, record.length, position=record.meta.position, cost=cost)
        self._sizes.setdefault(scope, {})[record.key] = record.length

    def _remove(self, scope: Scope, key: bytes) -> None:
        self._order.remove(scope.tenant, (scope, key))
        keys = self._sizes.get(scope)
        if keys is not None:
            keys.pop(key, None)
            if not keys:
                del self._sizes[scope]

    def take(
        self, size: int, *, leased: Callable[[Name], bool], held: Callable[[str], bool], above: Mapping[str, int]
    ) -> Taken[Name]:
        """Chunks that are to leave now, `size` bytes or a little more; `settle` says of each whether it did."""
        with self._lock:
            taken = self._order.take(size, leased=leased, held=held, above=above)
            for victim in taken.victims:
                self._order.remove(victim.tenant, victim.key)
            return taken
