"""Operation -> the function that does it, by the operation's noun; a module is imported when it is first needed."""

import importlib
from typing import TYPE_CHECKING

from kvctl.types.errors import UsageError

if TYPE_CHECKING:
    from kvctl.controller.core import Service

MODULES = {
    "account": "kvctl.controller.accounts",
    "approve": "kvctl.controller.approvals",
    "audit": "kvctl.controller.audit",
    "controller": "kvctl.controller.upkeep",
    "erase": "kvctl.controller.erasure",
    "event": "kvctl.controller.record",
    "fleet": "kvctl.controller.fleet",
    "hold": "kvctl.controller.holds",
    "key": "kvctl.controller.tenants",
    "lease": "kvctl.controller.leases",
    "model": "kvctl.controller.models",
    "move": "kvctl.controller.moves",
    "policy": "kvctl.controller.policies",
    "residency": "kvctl.controller.residency",
    "retention": "kvctl.controller.retention",
    "run": "kvctl.controller.fleet",
    "service": "kvctl.controller.certificates",
    "snapshot": "kvctl.controller.leases",
    "store": "kvctl.controller.catalogue",
    "tenant": "kvctl.controller.tenants",
    "tier": "kvctl.controller.moves",
    "usage": "kvctl.controller.usage",
}


def service(name: str) -> "Service":
    """The function of an operation. Each module lists its own in SERVICES."""
    noun = name.split(".")[0]
    found: dict[str, Service] = importlib.import_module(MODULES[noun]).SERVICES
    if name not in found:
        raise UsageError("KV-CTL-005", f"{name} is not available in this version of kvctl")
    return found[name]
