"""Firmware of the fabric NICs: what runs, what is stored, and against what it is compared.

A pin decides. Without one, ports with the same device id and PSID are compared across the fleet: agreement of two
nodes or more passes, a difference needs a majority among three nodes or more, anything else is unknown.
"""

from kvctl.fleet.checks.outcome import Outcome, follows, judged, not_applicable, not_known, unclear
from kvctl.fleet.checks.parity import Vote, vote
from kvctl.fleet.checks.registry import check, each_port
from kvctl.fleet.checks.scope import Fleet, Port, family
from kvctl.fleet.checks.versions import branch, canonical, same
from kvctl.types.facts import Nic
from kvctl.types.findings import Remedy, Severity, Verdict

IDENTITY = ("nic.generation", "nic.part", "nic.psid")
RESET = "Reset the NIC (mlxfwreset -d {pci} reset) or reboot {node}; power-cycle it when the reset is refused."


@check(
    id="nic.fw.running",
    severity=Severity.CRITICAL,
    title="The right firmware runs",
    reads=("nic.psid", "nic.fw_running"),
    also=("nic.device_id", "nic.fw_stored"),
    right="the role's pin for the PSID; without a pin, what the majority of the same device id and PSID runs",
    remedy=Remedy("nic_firmware", "Burn the pinned image for the PSID on {subject}, then reset the NIC.", reboot=True),
    after=IDENTITY,
    notes="The running version, never the one in flash or in VPD. When the right version is already stored, "
    "nic.fw.pending has the finding.",
)
@each_port
def running(port: Port, fleet: Fleet) -> Outcome:
    nic, kind = port.nic, family(port.nic)
    if kind in ("ice", "bnxt") and nic.psid.or_none() not in port.host.role.nic.firmware:
        return not_applicable(
            f"nothing is pinned for this card; nic.fw.{'intel' if kind == 'ice' else 'bnxt'} judges it"
        )
    unread = [f for f in (nic.fw_running, *([] if kind == "other" else [nic.psid])) if f.or_none() is None]
    if unread:
        return not_known(*unread)
    target, seen = right_version(port, fleet), str(nic.fw_running.value)
    if target.expected is None:
        return unclear(target.why, nic.fw_running, nic.psid, observed=seen)
    wanted = str(target.expected)
    stored = nic.fw_stored.or_none()
    if not same(seen, wanted) and stored is not None and same(stored, wanted):
        return follows(
            "nic.fw.pending", "it is stored and does not run yet", nic.fw_running, observed=seen, expected=wanted
        )
    return judged(same(seen, wanted), seen, wanted, nic.fw_running, nic.psid, why=target.why)


def right_version(port: Port, fleet: Fleet) -> Vote:
    """The version that must run on a port whose PSID is known (or that has none)."""
    psid, pins = port.nic.psid.or_none(), port.host.role.nic.firmware
    if psid in pins:
        return Vote(pins[psid].version, f"pinned for {psid}")
    if pins:
        return Vote(None, f"the role pins firmware, but not for PSID {psid}")
    device = port.nic.device_id.or_none()
    if device is None:
        return Vote(None, "nothing is pinned and the device id is unknown")
    group = [
        (p.host.node.name, canonical(p.nic.fw_running.value))
        for p in fleet.ports
        if p.nic.device_id.or_none() == device and p.nic.psid.or_none() == psid and p.nic.fw_running.value
    ]
    return vote(group)


@check(
    id="nic.fw.pending",
    severity=Severity.CRITICAL,
    title="The stored firmware is the running one",
    reads=("nic.fw_running", "nic.fw_stored"),
    right="stored version = running version",
    remedy=Remedy("nic_firmware", RESET, reboot=True),
    after=(*IDENTITY, "nic.fw.running"),
)
@each_port
def pending(port: Port, fleet: Fleet) -> Outcome:
    runs, stored = port.nic.fw_running, port.nic.fw_stored
    if runs.or_none() is None or stored.or_none() is None:
        return not_known(runs, stored)
    seen = f"{runs.value} runs, {stored.value} is stored"
    return judged(same(str(runs.value), str(stored.value)), seen, "one version", runs, stored)


# fw.mgmt.api is left out: the driver's kernel decides how it is printed.
INTEL_COMPONENTS = ("fw.mgmt", "fw.psid.api", "fw.bundle_id", "fw.app")


@check(
    id="nic.fw.intel",
    severity=Severity.CRITICAL,
    title="E810 firmware, NVM and DDP package agree",
    reads=("nic.fw_components", "nic.device_id"),
    right="equal fw.mgmt, fw.psid.api, fw.bundle_id and fw.app on all ports of one device id",
    remedy=Remedy(
        text="Run Intel's nvmupdate64e for the NVM; install the same ice.pkg (DDP) and rebuild the initramfs.",
        reboot=True,
    ),
    after=("nic.generation", "nic.part"),
)
@each_port
def intel(port: Port, fleet: Fleet) -> Outcome:
    kind = family(port.nic)
    if kind is None:
        return not_known(port.nic.driver, port.nic.vendor_id)
    if kind != "ice":
        return not_applicable("not an Intel E810")
    mine = components(port.nic)
    facts = (port.nic.fw_components, port.nic.device_id)
    if any(f.or_none() is None for f in facts):
        return not_known(*facts)
    if not mine:
        return unclear("devlink names none of " + ", ".join(INTEL_COMPONENTS), *facts)
    device = port.nic.device_id.value
    equals = [p for p in fleet.ports if family(p.nic) == "ice" and p.nic.device_id.or_none() == device]
    result = vote((p.host.node.name, components(p.nic)) for p in equals if components(p.nic))
    if result.expected is None:
        return unclear(result.why, *facts, observed=spelled(mine))
    wanted = dict(result.expected)  # type: ignore[call-overload]
    return judged(mine == result.expected, spelled(mine), spelled(tuple(wanted.items())), *facts, why=result.why)


def components(nic: Nic) -> tuple[tuple[str, str], ...]:
    found = nic.fw_components.or_none() or {}
    return tuple((name, found[name]) for name in INTEL_COMPONENTS if name in found)


def spelled(parts: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"{name} {version}" for name, version in parts)


# Broadcom branches that ROCm/mori's tools/env_check.sh lists from experience on Thor and Thor2.
BNXT_BAD = ("231", "232")
BNXT_GOOD = ("237.1.137", "235.2.86")


@check(
    id="nic.fw.bnxt",
    severity=Severity.CRITICAL,
    title="Broadcom firmware is from a branch known to carry RoCE",
    reads=("nic.fw_running",),
    right="a pin, or a branch known to be good: " + ", ".join(BNXT_GOOD) + "; 231 and 232 are known to be bad",
    remedy=Remedy(
        text="Install a known-good package on {subject}: niccli --dev N install PACKAGE; then reset.", reboot=True
    ),
    after=("nic.generation", "nic.part"),
    notes="A branch that is on neither list is unknown: not validated is not good. Pin it once it is tried.",
)
@each_port
def bnxt(port: Port, fleet: Fleet) -> Outcome:
    kind = family(port.nic)
    if kind is None:
        return not_known(port.nic.driver, port.nic.vendor_id)
    if kind != "bnxt":
        return not_applicable("not a Broadcom NIC")
    version = port.nic.fw_running.or_none()
    if version is None:
        return not_known(port.nic.fw_running)
    if port.nic.psid.or_none() in port.host.role.nic.firmware:
        return not_applicable("the version is pinned; nic.fw.running compares it")
    if branch(version, 1) in BNXT_BAD:
        return judged(False, version, "not branch " + " or ".join(BNXT_BAD), port.nic.fw_running)
    if branch(version, 3) in BNXT_GOOD:
        return Outcome(Verdict.PASS, version, facts=(port.nic.fw_running,))
    return unclear("this branch is on neither list", port.nic.fw_running, observed=version)
