"""The node itself: operating system, clock, kernel settings, kvctl's own daemon, and whether it is real."""

from kvctl.fleet.checks.outcome import Outcome, judged, not_applicable, not_known, unclear
from kvctl.fleet.checks.registry import check, each_host
from kvctl.fleet.checks.scope import Fleet, Host
from kvctl.types.findings import Remedy, Severity

SUPPORTED = {
    "debian": ("12", "13"),
    "ubuntu": ("22.04", "24.04"),
    **dict.fromkeys(("rhel", "rocky", "almalinux", "centos", "ol"), ("9", "10")),
}
CLOCK_LIMIT = 1.0  # seconds
KVNODED = "kvnoded.service"


@check(
    id="host.lab",
    severity=Severity.CRITICAL,
    title="Lab hosts stay in a lab inventory",
    reads=("lab",),
    right="no lab marker on a node of a site that is not a lab",
    remedy=Remedy(
        text="Take {node} out of this inventory: its hardware is simulated. Only site.lab: true may hold it."
    ),
    waivable=False,
    notes="A node without the marker in a lab inventory is only mentioned. This check cannot be waived.",
)
@each_host
def lab(host: Host, fleet: Fleet) -> Outcome:
    marked, expected = host.facts.lab, fleet.inventory.site.lab
    seen = "lab host" if marked else "no lab marker"
    if marked and not expected:
        return judged(False, seen, "a real node")
    return judged(marked == expected, seen, "lab host" if expected else "a real node", severity=Severity.INFO)


@check(
    id="host.os",
    severity=Severity.WARNING,
    title="The operating system is a supported one",
    reads=("host.os_id", "host.os_version"),
    right="Debian 12, 13; Ubuntu 22.04, 24.04; RHEL 9, 10 and kin",
    remedy=Remedy(text="Install a supported release on {node}; others may work and are not tested."),
)
@each_host
def operating_system(host: Host, fleet: Fleet) -> Outcome:
    name, version = host.facts.host.os_id, host.facts.host.os_version
    if name.or_none() is None or version.or_none() is None:
        return not_known(name, version)
    text = str(version.value)
    # RHEL and kin number minor releases: 9.4 is 9.
    right = any(text == good or text.startswith(f"{good}.") for good in SUPPORTED.get(str(name.value).lower(), ()))
    wanted = "Debian 12, 13; Ubuntu 22.04, 24.04; RHEL 9, 10 and kin"
    return judged(right, f"{name.value} {text}", wanted, name, version)


@check(
    id="host.clock",
    severity=Severity.WARNING,
    title="The node's clock is the controller's",
    reads=("host.clock_offset",),
    right="less than 1 s apart",
    remedy=Remedy(text="Run chrony or systemd-timesyncd on {node} and on the controller against the same servers."),
)
@each_host
def clock(host: Host, fleet: Fleet) -> Outcome:
    offset = host.facts.host.clock_offset
    if offset.or_none() is None:
        return not_known(offset)
    seen = float(offset.value or 0.0)
    return judged(abs(seen) < CLOCK_LIMIT, f"{seen:+.3f} s", f"within {CLOCK_LIMIT:g} s", offset)


@check(
    id="host.sysctl",
    severity=Severity.WARNING,
    title="Kernel settings are as the role says",
    reads=("host.sysctls",),
    right="each of the role's sysctls",
    remedy=Remedy("host", "Write the role's sysctls to /etc/sysctl.d on {node} and load them (sysctl --system)."),
)
@each_host
def sysctl(host: Host, fleet: Fleet) -> Outcome:
    wanted = host.role.sysctls
    if not wanted:
        return not_applicable("the role lists no sysctls")
    seen = host.facts.host.sysctls
    table = seen.or_none()
    if table is None:
        return not_known(seen)
    # The kernel separates the numbers of one setting by tabs.
    wrong = {n: table[n] for n in wanted if n in table and table[n].split() != wanted[n].split()}
    if wrong:
        shown = ", ".join(f"{name}={value}" for name, value in wrong.items())
        return judged(False, shown, ", ".join(f"{name}={wanted[name]}" for name in wrong), seen)
    absent = [name for name in wanted if name not in table]
    if absent:
        return unclear(f"not read: {', '.join(absent)}", seen)
    return judged(True, ", ".join(f"{n}={v}" for n, v in wanted.items()), "as the role says", seen)


@check(
    id="node.kvnoded",
    severity=Severity.WARNING,
    title="kvnoded keeps the class over flaps and boots",
    reads=("host.services",),
    right="kvnoded.service active and enabled",
    remedy=Remedy("node", "kvctl provision installs it; systemctl enable --now kvnoded.service where it is installed"),
    notes="Not installed at all is only mentioned: a cluster that kvctl has not provisioned passes without it.",
)
@each_host
def kvnoded(host: Host, fleet: Fleet) -> Outcome:
    seen = host.facts.host.services
    services = seen.or_none()
    if services is None:
        return not_known(seen)
    unit = services.get(KVNODED)
    if unit is None or unit.enabled in ("", "not-found"):
        return judged(False, "not installed", "active, enabled", seen, severity=Severity.INFO)
    right = unit.active == "active" and unit.enabled.startswith("enabled")
    return judged(right, f"{unit.active}, {unit.enabled}", "active, enabled", seen)
