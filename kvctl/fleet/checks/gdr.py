"""GPUs, and whether the NIC can reach their memory."""

from kvctl.fleet.checks.outcome import Outcome, judged, not_applicable, not_known, unclear
from kvctl.fleet.checks.registry import check, each_host
from kvctl.fleet.checks.scope import Fleet, Host
from kvctl.types.findings import Remedy, Severity


@check(
    id="gpu.count",
    severity=Severity.CRITICAL,
    title="Every GPU is there",
    reads=("gpus",),
    right="as many as the role's gpus says",
    remedy=Remedy(text="Find the missing GPU of {node} in lspci and in the kernel log (Xid); reseat or replace it."),
    roles=("gpu",),
    notes="No GPU at all is unknown: the driver or nvidia-smi may be what is missing.",
)
@each_host
def count(host: Host, fleet: Fleet) -> Outcome:
    wanted, seen = host.role.gpus, len(host.facts.gpus)
    if wanted is None:
        return not_applicable("the role does not say how many")
    if wanted and not seen:
        return unclear("the node shows no GPU: driver or nvidia-smi may be missing")
    return judged(seen == wanted, seen, wanted)


@check(
    id="gdr",
    severity=Severity.CRITICAL,
    title="GPU memory can be registered with the NIC",
    reads=("host.peermem_registered", "host.dmabuf"),
    right="nvidia_peermem registered, or dma-buf supported: one is enough",
    remedy=Remedy(
        text="modprobe nvidia_peermem (rebuild the GPU driver after OFED), or use the open driver with dma-buf."
    ),
    roles=("gpu",),
    notes="nvidia_peermem in lsmod is not enough: it must be registered with the RDMA core.",
)
@each_host
def direct(host: Host, fleet: Fleet) -> Outcome:
    if host.role.gpus == 0:
        return not_applicable("the role has no GPUs")
    peermem, dmabuf = host.facts.host.peermem_registered, host.facts.host.dmabuf
    ways = [name for name, f in (("nvidia_peermem", peermem), ("dma-buf", dmabuf)) if f.or_none() is True]
    if ways:
        return judged(True, " and ".join(ways), "nvidia_peermem or dma-buf", peermem, dmabuf)
    if peermem.or_none() is None or dmabuf.or_none() is None:
        return not_known(peermem, dmabuf)
    return judged(False, "neither", "nvidia_peermem or dma-buf", peermem, dmabuf)
