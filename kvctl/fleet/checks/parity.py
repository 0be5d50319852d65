"""Agreement: of ports that face each other, and of equal parts across the fleet."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from kvctl.fleet.checks.outcome import Outcome, Place, judged, listed, not_applicable, not_known, unclear
from kvctl.fleet.checks.registry import unjudged_rails
from kvctl.fleet.checks.scope import Fleet, Host, Port
from kvctl.types.facts import Fact
from kvctl.types.findings import Severity, Verdict

NAMED = 4  # other ends that a finding names before it only counts them


@dataclass(frozen=True)
class Reading:
    """A comparable value with the facts it rests on; None when one of them is unknown."""

    value: Hashable | None
    facts: tuple[Fact[Any], ...]
    show: str = ""  # how people read it

    @property
    def text(self) -> str:
        return self.show or str(self.value)


def reading(fact: Fact[Any], unit: str = "") -> Reading:
    value = fact.or_none()
    return Reading(value, (fact,), f"{value}{unit}")


@dataclass(frozen=True)
class Vote:
    """What the majority has, or why there is none."""

    expected: Hashable | None
    why: str


def vote(ballots: Iterable[tuple[str, Hashable]], voters: str = "nodes") -> Vote:
    """One ballot is (voter, value). Agreement of two voters decides; a difference needs three of them and a value
    that more than half of the ballots have."""
    cast = list(ballots)
    names = {name for name, _ in cast}
    counts = Counter(value for _, value in cast)
    if len(names) < 2:
        return Vote(None, "nothing is pinned and there is no equal part elsewhere to compare with")
    value, count = counts.most_common(1)[0]
    if len(counts) == 1:
        return Vote(value, f"{len(names)} {voters} agree")
    seen = listed(counts)
    if len(names) < 3:
        return Vote(None, f"nothing is pinned and two {voters} differ: {seen}")
    if count * 2 <= len(cast):
        return Vote(None, f"nothing is pinned and there is no majority: {seen}")
    return Vote(value, f"the majority, {count} of {len(cast)}")


def compare_facing(
    fleet: Fleet, read: Callable[[Port], Reading], *, unread: Severity | None = None
) -> Iterator[tuple[Place, Outcome]]:
    """One outcome a port: does its value equal that of every port it faces?

    A difference is reported at the end that differs from at least half of the ports it faces; the other end
    only refers to it, so that one odd node among fifty gives one failure and not forty-nine. `unread` is the
    severity of a value that is not known, where a check of the port alone reports that as well.
    """
    readings = {p.place: read(p) for p in fleet.ports}
    differing = {p.place: differing_peers(fleet, p, readings) for p in fleet.ports}
    blamed = {
        p.place for p in fleet.ports if 2 * len(differing[p.place]) >= len(compared(fleet, p, readings)) > 0
        and differing[p.place]
    }  # fmt: skip
    for host in fleet.hosts:
        ports = [p for p in fleet.ports if p.host is host]
        for port in ports:
            if readings[port.place].value is None and fleet.facing[port.place]:
                yield port.place, not_known(*readings[port.place].facts, severity=unread)
            else:
                yield port.place, port_outcome(fleet, port, readings, differing[port.place], blamed)
        yield from unjudged_rails(host, bool(ports))


def compared(fleet: Fleet, port: Port, readings: dict[Place, Reading]) -> list[Port]:
    return [q for q in fleet.facing[port.place] if readings[q.place].value is not None]


def differing_peers(fleet: Fleet, port: Port, readings: dict[Place, Reading]) -> list[Port]:
    mine = readings[port.place].value
    if mine is None:
        return []
    return [q for q in compared(fleet, port, readings) if readings[q.place].value != mine]


def port_outcome(
    fleet: Fleet, port: Port, readings: dict[Place, Reading], differing: list[Port], blamed: set[Place]
) -> Outcome:
    mine, facing = readings[port.place], fleet.facing[port.place]
    if not facing:
        return nobody_faces(fleet, port)
    known = compared(fleet, port, readings)
    if not known:
        return unclear("no facing port says its value", *mine.facts, observed=mine.text)
    if not differing:
        return judged(True, mine.text, f"as on {ends(known)}", *mine.facts)
    there = "; ".join(f"{q.name} has {readings[q.place].text}" for q in differing[:NAMED])
    more = f" (and {len(differing) - NAMED} more)" if len(differing) > NAMED else ""
    places = tuple(q.place for q in differing)
    if port.place not in blamed and any(place in blamed for place in places):
        return Outcome(
            Verdict.FOLLOWS, mine.text, there + more, "the other end is the odd one", mine.facts, peers=places
        )
    return judged(False, mine.text, f"the same on both ends: {there}{more}", *mine.facts, peers=places)


def ends(ports: list[Port]) -> str:
    more = f" and {len(ports) - NAMED} more" if len(ports) > NAMED else ""
    return ", ".join(p.name for p in ports[:NAMED]) + more


def nobody_faces(fleet: Fleet, port: Port) -> Outcome:
    """No facing port: nothing to compare, or nothing that could be read."""
    there = {h.node.name for h in fleet.hosts}
    others = [n for n in fleet.inventory.nodes if n.name != port.host.node.name and may_face(fleet, port.host, n.role)]
    if not others:
        return not_applicable("no other node of the inventory faces this port")
    silent = [n.name for n in others if n.name not in there]
    if silent:
        return unclear(f"no facts from {listed(silent)}, and no other port faces this one")
    if port.rail is None and not port.nic.addresses.or_none():
        return unclear("the role lists no rails and the port shows no address: nothing says which ports it faces")
    return not_applicable("no other node has a port on this rail")


def may_face(fleet: Fleet, host: Host, role: str) -> bool:
    return "storage" in (host.role.kind, fleet.inventory.roles[role].kind)
