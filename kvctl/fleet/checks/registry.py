"""The list of checks: what each reads, what is right, how bad it is, and what puts it right."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import update_wrapper
from typing import Literal

from kvctl.fleet.checks.outcome import Outcome, Place, follows, not_applicable
from kvctl.fleet.checks.scope import CacheDrive, Fleet, Host, Port, absent_rails, cache_drives, fabric_ports
from kvctl.fleet.checks.scope import virtual_rails as virtual_rails_of
from kvctl.types.findings import Evidence, Remedy, Severity

Kind = Literal["storage", "gpu"]
Judge = Callable[[Fleet], Iterable[tuple[Place, Outcome]]]


@dataclass(frozen=True)
class CheckSpec:
    """One check.

    `reads` are the facts without which it cannot pass; `also` are facts it uses when they are there.
    `right` and `remedy.text` are templates: see `wording.words`. `after` names checks whose failure explains
    a failure of this one.
    """

    id: str
    severity: Severity
    title: str
    reads: tuple[str, ...]
    right: str
    remedy: Remedy
    judge: Judge
    also: tuple[str, ...] = ()
    kinds: tuple[Kind, ...] = ("storage", "gpu")
    after: tuple[str, ...] = ()
    evidence: Evidence = Evidence.READ_BACK
    notes: str = ""
    waivable: bool = True
    site_wide: bool = False  # judged once for the site, not for each node
    fed: bool = True  # False: no fact feeds it yet

    @property
    def anchor(self) -> str:
        return self.id.replace(".", "-")

    @property
    def docs(self) -> str:
        return f"docs/checks.md#{self.anchor}"


REGISTRY: dict[str, CheckSpec] = {}


def check(
    *,
    id: str,
    severity: Severity,
    title: str,
    right: str,
    remedy: Remedy,
    reads: tuple[str, ...] = (),
    also: tuple[str, ...] = (),
    roles: tuple[Kind, ...] = ("storage", "gpu"),
    after: tuple[str, ...] = (),
    evidence: Evidence = Evidence.READ_BACK,
    notes: str = "",
    waivable: bool = True,
    site_wide: bool = False,
    fed: bool = True,
) -> Callable[[Judge], Judge]:
    """Register a judge under an id. Raises ValueError for an id that is taken."""

    def register(judge: Judge) -> Judge:
        if id in REGISTRY:
            raise ValueError(f"check {id!r} is registered twice")
        REGISTRY[id] = CheckSpec(
            id, severity, title, reads, right, remedy, judge, also, roles, after, evidence, notes, waivable,
            site_wide, fed,
        )  # fmt: skip
        return judge

    return register


def from_function(run: Judge, judge: Callable[..., Outcome]) -> Judge:
    """Keep the name and the module of the function that a judge applies: the catalogue groups by module."""
    update_wrapper(run, judge)
    return run


def each_host(judge: Callable[[Host, Fleet], Outcome]) -> Judge:
    """A judge of nodes, from a function of one node."""

    def run(fleet: Fleet) -> Iterator[tuple[Place, Outcome]]:
        for host in fleet.hosts:
            yield host.place, judge(host, fleet)

    return from_function(run, judge)


def each_port(judge: Callable[[Port, Fleet], Outcome]) -> Judge:
    """A judge of fabric ports, from a function of one port."""

    def run(fleet: Fleet) -> Iterator[tuple[Place, Outcome]]:
        for host in fleet.hosts:
            ports = fabric_ports(host)
            for port in ports:
                yield port.place, judge(port, fleet)
            yield from unjudged_rails(host, bool(ports))

    return from_function(run, judge)


def unjudged_rails(host: Host, has_ports: bool) -> Iterator[tuple[Place, Outcome]]:
    """What a port check says of rails without a physical interface, and of a node without any fabric port."""
    absent, virtual = absent_rails(host), virtual_rails_of(host)
    for name in absent:
        yield (host.node.name, name), follows("nic.count", "the node has no such interface")
    for name in virtual:
        yield (host.node.name, name), not_applicable("a virtual function inherits its class from the physical port")
    if not (has_ports or absent or virtual):
        yield host.place, not_applicable("the node has no fabric port; nic.count says whether it should")


def each_drive(judge: Callable[[CacheDrive, Fleet], Outcome]) -> Judge:
    """A judge of cache drives, from a function of one drive."""

    def run(fleet: Fleet) -> Iterator[tuple[Place, Outcome]]:
        for host in fleet.hosts:
            drives = cache_drives(host)
            for drive in drives:
                yield drive.place, judge(drive, fleet)
            if host.role.drives is None:
                yield host.place, not_applicable("the role has no cache drives")
            elif not drives:
                yield host.place, not_applicable("the node shows no cache drive; nvme.count says whether it should")

    return from_function(run, judge)


def specs() -> tuple[CheckSpec, ...]:
    """Every check, by id. Importing the modules registers them."""
    import kvctl.fleet.checks.all  # noqa: F401

    return tuple(REGISTRY[name] for name in sorted(REGISTRY))
