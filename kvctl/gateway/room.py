"""The waiting room: who waits, by class and tenant, and who has to leave it when it is full."""

from typing import Generic, TypeVar

from kvctl.types.snapshot import Sla

Item = TypeVar("Item")
LOWEST_FIRST: tuple[Sla, ...] = ("bronze", "silver", "gold")


class Room(Generic[Item]):
    def __init__(self) -> None:
        # Dictionaries keep the order of arrival.
        self._tenants: dict[Sla, dict[str, dict[Item, None]]] = {sla: {} for sla in LOWEST_FIRST}

    def of_tenant(self, sla: Sla, tenant: str) -> int:
        return len(self._tenants[sla].get(tenant, ()))

    def add(self, sla: Sla, tenant: str, item: Item) -> None:
        self._tenants[sla].setdefault(tenant, {})[item] = None

    def remove(self, sla: Sla, tenant: str, item: Item) -> None:
        mine = self._tenants[sla].get(tenant, {})
        mine.pop(item, None)
        if not mine:
            self._tenants[sla].pop(tenant, None)

    def last(self) -> Item:
        """The newest of the tenant with the most waiting, of the lowest class that waits."""
        tenants = next(found for sla in LOWEST_FIRST if (found := self._tenants[sla]))
        most = max(tenants, key=lambda name: len(tenants[name]))
        return next(reversed(tenants[most]))
