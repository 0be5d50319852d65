"""Which nodes a lab has: their names, roles and addresses."""

from dataclasses import dataclass

from kvctl.fleet.lab.layout import Layout
from kvctl.types.errors import UsageError

ROLES = {"gpu": 1, "storage": 2}  # role -> third octet of its nodes' addresses
MAX_PER_ROLE = 250
DEFAULT_NODES = "gpu=1,storage=3"


@dataclass(frozen=True, slots=True)
class LabNode:
    name: str  # storage2
    role: str  # storage
    number: int  # 2, from 1
    address: str  # management, without prefix length (16)
    rail_address: str  # rail 0, likewise

    @property
    def unique(self) -> int:
        """A small number no other node of the lab has; MAC addresses and serials come from it."""
        return ROLES[self.role] * 256 + self.number


def nodes_of(layout: Layout, text: str) -> tuple[LabNode, ...]:
    """The nodes that a text such as "gpu=1,storage=3" asks for."""
    counts: dict[str, int] = {}
    for part in text.split(","):
        role, _, count = part.strip().partition("=")
        if role not in ROLES or role in counts or not count.isdecimal() or int(count) > MAX_PER_ROLE:
            raise UsageError(
                "KV-LAB-004",
                f"cannot read {part.strip()!r} in the list of lab nodes",
                where="--nodes",
                fix=f"write for example {DEFAULT_NODES}; roles are {', '.join(ROLES)}, at most {MAX_PER_ROLE} of each",
            )
        counts[role] = int(count)
    found = tuple(lab_node(layout, role, n) for role in ROLES for n in range(1, counts.get(role, 0) + 1))
    if not found:
        raise UsageError("KV-LAB-004", "a lab needs at least one node", where="--nodes", fix=f"try {DEFAULT_NODES}")
    return found


def lab_node(layout: Layout, role: str, number: int) -> LabNode:
    management, rail = layout.subnets()
    host = f"{ROLES[role]}.{number}"
    return LabNode(f"{role}{number}", role, number, f"{management}.{host}", f"{rail}.{host}")


def node_named(layout: Layout, name: str) -> LabNode:
    """The node that a name such as "storage2" stands for."""
    role = name.rstrip("0123456789")
    return lab_node(layout, role, int(name[len(role) :]))
