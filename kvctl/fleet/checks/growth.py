"""Growth of counters between two readings of one node. One reading shows no growth; a reboot voids the pair."""

from datetime import datetime

from kvctl.fleet.checks.outcome import Outcome, not_applicable, not_known, unclear
from kvctl.fleet.checks.scope import Fleet, Port
from kvctl.types.facts import Fact, Nic
from kvctl.types.findings import Severity

NEEDS_TWO = "needs two readings of the node: run kvctl check twice, or with --probe"


def both_readings(port: Port, fleet: Fleet) -> Nic | Outcome:
    """The port in the earlier reading, or the outcome that says why there is no pair."""
    node = port.host.node.name
    if fleet.previous is None or node not in fleet.previous:
        return not_applicable(NEEDS_TWO)
    then, now = fleet.previous[node], port.host.facts
    if then.at == now.at:
        return not_applicable(f"the node was not read again since {now.at}: {NEEDS_TWO}")
    boots = (then.host.boot_id, now.host.boot_id)
    if any(b.or_none() is None for b in boots):
        return not_known(*boots, severity=Severity.WARNING)
    if boots[0].value != boots[1].value:
        why = "the node booted between the two readings: its counters began again"
        return unclear(why, *boots, severity=Severity.WARNING)
    nic = then.nic(port.nic.netdev)
    if nic is None:
        return unclear("the interface was not there in the earlier reading", severity=Severity.WARNING)
    return nic


def grown(before: Fact[int], now: Fact[int]) -> int | Outcome:
    """Growth of one counter, both values known. A counter that went down was reset: unknown."""
    a, b = before.or_none(), now.or_none()
    if a is None or b is None:
        return not_known(before, now)
    if b < a:
        return unclear(f"a counter went down from {a} to {b}: the driver was reloaded or reset", before, now)
    return b - a


def elapsed(before: str, after: str) -> float | None:
    """Seconds between two RFC 3339 times; None when a text is no time or time went backwards."""
    try:
        seconds = (datetime.fromisoformat(after) - datetime.fromisoformat(before)).total_seconds()
    except (ValueError, TypeError):
        return None
    return seconds if seconds > 0 else None
