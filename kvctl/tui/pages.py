"""The pages by their names, in the order of their digits; `:NAME` finds one, too."""

from kvctl.tui import approvals, audit, fleet, moves, runs, tenants
from kvctl.tui.tables import Level

PAGES: dict[str, Level] = {
    "fleet": Level("fleet", (fleet.NODES,)),
    "tenants": Level("tenants", (tenants.TENANTS, moves.MOVES, approvals.PENDING)),
    "runs": Level("runs", (runs.RUNS,)),
    "audit": Level("audit", (audit.AUDIT,)),
    "findings": Level("findings", (fleet.FINDINGS,)),
    "moves": Level("moves", (moves.MOVES,)),
    "approvals": Level("approvals", (approvals.APPROVALS,)),
    "stores": Level("stores", (tenants.STORES,)),
}


def named(word: str) -> str | None:
    """The page whose name begins so."""
    return next((name for name in PAGES if word and name.startswith(word)), None)
