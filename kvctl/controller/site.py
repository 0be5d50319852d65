"""One site as the controller holds it: the inventory, the settings and the state directory."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from kvctl.controller import site_index
from kvctl.controller.acts import Ledger, NoLedger
from kvctl.fleet.inventory.load import LoadedInventory, load
from kvctl.fleet.inventory.model import Inventory, Node
from kvctl.state.database import Database
from kvctl.types.errors import UsageError


@dataclass(frozen=True)
class Site:
    loaded: LoadedInventory
    directory: Path  # <state dir>/<site name>
    concurrency: int = 32
    timeout: float = 60.0  # seconds for one node's facts
    transport: str = ""  # "" is the inventory's choice
    ledger: Ledger = field(default_factory=NoLedger)  # where its changes go on record

    @property
    def inventory(self) -> Inventory:
        return self.loaded.inventory

    @cached_property
    def database(self) -> Database:
        return Database(self.directory)

    def select(self, names: tuple[str, ...]) -> tuple[Node, ...]:
        """The nodes with these names, in the inventory's order; none given means all."""
        if not names:
            return self.inventory.nodes
        missing = [n for n in names if self.inventory.node(n) is None]
        if missing:
            raise UsageError(
                "KV-INV-020",
                f"no such node: {', '.join(missing)}",
                where=str(self.loaded.path),
                fix=f"nodes are {', '.join(n.name for n in self.inventory.nodes)}",
            )
        return tuple(n for n in self.inventory.nodes if n.name in names)


def open_site(
    inventory: Path, state_dir: Path, *, concurrency: int = 32, timeout: float = 60.0, transport: str = ""
) -> Site:
    """Load the inventory and name the site's state directory. Raises UsageError with every problem of the file."""
    loaded = load(inventory)
    name = loaded.inventory.site.name
    site_index.remember(state_dir, inventory, name)
    return Site(loaded, state_dir / name, concurrency, timeout, transport)
