"""The pages by their names. The first four have a digit; all are found by `:NAME`."""

from kvctl.tui import audit, fleet, runs, tenants
from kvctl.tui.tables import Level

PAGES: dict[str, Level] = {
    "fleet": Level("fleet", (fleet.NODES,)),
    "tenants": Level("tenants", (tenants.TENANTS, tenants.MOVES, tenants.PENDING)),
    "runs": Level("runs", (runs.RUNS,)),
    "audit": Level("audit", (audit.AUDIT,)),
    "findings": Level("findings", (fleet.FINDINGS,)),
    "moves": Level("moves", (tenants.MOVES,)),
    "approvals": Level("approvals", (tenants.APPROVALS,)),
    "stores": Level("stores", (tenants.STORES,)),
}


def named(word: str) -> str | None:
    """The page whose name begins so."""
    return next((name for name in PAGES if word and name.startswith(word)), None)
