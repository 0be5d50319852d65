"""Which event makes which rows: the tables of all nouns together. A kind that is in none of them has no rows but its
own in `events`."""

from kvctl.state import accounts, approvals, decisions, erasures, holds, moves, policies, records, tenants
from kvctl.state.governance import Apply

APPLIERS: dict[str, Apply] = {
    kind: apply
    for noun in (accounts, approvals, decisions, erasures, holds, moves, policies, records, tenants)
    for kind, apply in noun.APPLY.items()
}
