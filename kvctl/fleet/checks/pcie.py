"""PCI Express: devices at the width and speed they can do. Bridges are not judged."""

from collections.abc import Iterator

from kvctl.fleet.checks.outcome import Outcome, Place, judged, listed, not_applicable, not_known
from kvctl.fleet.checks.registry import check, each_host, each_port
from kvctl.fleet.checks.scope import Fleet, Host, Port
from kvctl.types.facts import Gpu, PcieLink
from kvctl.types.findings import Remedy, Severity


def at_full(link: PcieLink) -> Outcome:
    """Current speed and width against what the device can do."""
    facts = (link.current_width, link.max_width, link.current_speed, link.max_speed)
    if any(f.or_none() is None for f in facts):
        return not_known(*facts)
    right = link.current_width.value == link.max_width.value and link.current_speed.value == link.max_speed.value
    seen = f"x{link.current_width.value} at {link.current_speed.value:g} GT/s"
    return judged(right, seen, f"x{link.max_width.value} at {link.max_speed.value:g} GT/s", *facts)


@check(
    id="pcie.width",
    severity=Severity.CRITICAL,
    title="The NIC has all its PCIe lanes and speed",
    reads=("nic.pcie.current_width", "nic.pcie.max_width", "nic.pcie.current_speed", "nic.pcie.max_speed"),
    right="current width and speed = the device's maximum",
    remedy=Remedy(
        text="Power off {node}, reseat {subject} (PCI {pci}) or use a wider slot; check slot settings in firmware.",
        reboot=True,
    ),
    notes="A slot that is narrower on purpose needs a waiver: the inventory has no slot plan.",
)
@each_port
def width(port: Port, fleet: Fleet) -> Outcome:
    return at_full(port.nic.pcie)


@check(
    id="pcie.gpu",
    severity=Severity.CRITICAL,
    title="The GPU has all its PCIe lanes",
    reads=("gpu.pcie.current_width", "gpu.pcie.max_width"),
    also=("gpu.pcie.current_speed", "gpu.pcie.max_speed", "gpu.busy"),
    right="current width = maximum; the speed too, but only while the GPU is busy",
    remedy=Remedy(
        text="Power off {node}, reseat the GPU or its riser; check the slot settings in firmware.", reboot=True
    ),
    roles=("gpu",),
    notes="An idle GPU lowers its link speed to save power: that is no fault.",
)
def gpu_width(fleet: Fleet) -> Iterator[tuple[Place, Outcome]]:
    for host in fleet.hosts:
        for gpu in host.facts.gpus:
            yield (host.node.name, gpu.uuid), gpu_link(gpu)
        if not host.facts.gpus:
            yield host.place, not_applicable("the node shows no GPU; gpu.count says whether it should")


def gpu_link(gpu: Gpu) -> Outcome:
    link = gpu.pcie
    if gpu.busy.or_none() is True:
        return at_full(link)
    if link.current_width.or_none() is None or link.max_width.or_none() is None:
        return not_known(link.current_width, link.max_width)
    right = link.current_width.value == link.max_width.value
    return judged(right, f"x{link.current_width.value}", f"x{link.max_width.value}", link.current_width, link.max_width)


@check(
    id="acs.redirect",
    severity=Severity.WARNING,
    title="No PCIe bridge redirects peer-to-peer traffic",
    reads=("host.acs_redirect",),
    right="no bridge with ReqRedir, CmpltRedir or UpstreamFwd",
    remedy=Remedy(
        text="On bare metal, disable ACS redirection in the firmware setup or by setpci in a boot unit; leave it on "
        "where virtual machines get devices, and waive the check."
    ),
    roles=("gpu",),
    notes="SrcValid alone is harmless and not judged. Storage nodes move no data between PCIe devices.",
)
@each_host
def acs(host: Host, fleet: Fleet) -> Outcome:
    bridges = host.facts.host.acs_redirect.or_none()
    if bridges is None:
        return not_known(host.facts.host.acs_redirect)
    return judged(not bridges, listed(bridges), "none", host.facts.host.acs_redirect)
