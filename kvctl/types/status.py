"""What `kvctl status` answers. Apart from the other reports, because status must start at once."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class NodeStatus:
    node: str
    role: str
    state: str  # unseen | new | in-service | drained
    reason: str
    faults: int  # findings that are bad
    critical: int
    worst: str  # check id and subject of the worst finding, or ""
    read_age: float | None  # seconds since its facts were read; None: never
    error: str = ""  # why the last attempt to read it failed


@dataclass(frozen=True, slots=True)
class StatusReport:
    site: str
    at: str
    nodes: tuple[NodeStatus, ...]  # worst first
    runs: tuple[dict[str, Any], ...] = ()
    next_command: str = ""
    findings: tuple[dict[str, Any], ...] = field(default=())

    def document(self) -> dict[str, Any]:
        return {
            "schema": "kvctl.status/1",
            "site": self.site,
            "at": self.at,
            "nodes": [asdict(n) for n in self.nodes],
            "runs": list(self.runs),
            "findings": list(self.findings),
            "next_command": self.next_command,
        }
