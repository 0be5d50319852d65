"""Which chunks a tier holds, in the order in which they would leave: a policy of `sizing`, behind a lock."""

from collections.abc import Callable
from threading import Lock

from kvctl.sizing.policies import POLICIES, Policy
from kvctl.store.api import Record
from kvctl.types.chunks import Scope

PASSED_OVER = 4096  # leased chunks that one search steps over before it gives up

Name = tuple[Scope, bytes]


class Residents:
    """The policy of one tier, behind a lock. Raises KeyError for a policy that does not exist."""

    def __init__(self, policy: str) -> None:
        self._lock = Lock()
        self._policy: Policy[Name] = POLICIES[policy]()
        self._scopes: dict[Scope, set[bytes]] = {}

    def __len__(self) -> int:
        return len(self._policy)

    def add(self, scope: Scope, record: Record) -> None:
        with self._lock:
            self._add(scope, record.key, record.length, record.meta.recompute_us or None, record.meta.position)

    def _add(self, scope: Scope, key: bytes, size: int, cost: float | None, position: int) -> None:
        if (scope, key) in self._policy:
            return
        known = {} if cost is None else {"cost": float(cost)}
        self._policy.add((scope, key), size, position=position, **known)
        self._scopes.setdefault(scope, set()).add(key)

    def touch(self, scope: Scope, key: bytes) -> bool:
        with self._lock:
            return self._policy.touch((scope, key)) is not None

    def remove(self, scope: Scope, key: bytes) -> None:
        with self._lock:
            self._remove(scope, key)

    def _remove(self, scope: Scope, key: bytes) -> None:
        self._policy.remove((scope, key))
        self._scopes.get(scope, set()).discard(key)

    def remove_scope(self, scope: Scope) -> None:
        with self._lock:
            for key in list(self._scopes.get(scope, ())):
                self._remove(scope, key)
            self._scopes.pop(scope, None)

    def leave(self, size: int, kept: Callable[[Scope, bytes], bool]) -> list[tuple[Scope, bytes, int]]:
        """Chunks that leave now, with their bytes: `size` bytes or a little more. Those `kept` stay."""
        chosen: list[tuple[Scope, bytes, int]] = []
        spared: list[tuple[Name, int, float | None, int]] = []
        with self._lock:
            while size > 0 and len(spared) < PASSED_OVER and (found := self._policy.evict()) is not None:
                (scope, key), entry = found
                if kept(scope, key):
                    spared.append(((scope, key), entry.size, entry.cost, entry.position))
                    continue
                self._scopes[scope].discard(key)
                size -= entry.size
                chosen.append((scope, key, entry.size))
            for (scope, key), length, cost, position in spared:
                self._policy.add((scope, key), length, position=position, **({} if cost is None else {"cost": cost}))
        return chosen
