"""Readings beside the facts of nodes: switch ports, results of marked probes, the site's certificates."""

from dataclasses import dataclass, field
from datetime import date

from kvctl.types.facts import Fact, absent


@dataclass(frozen=True)
class SwitchPort:
    """One port as the switch's own `show` output tells it.

    `node` and `netdev` say what is plugged in, when that is known (LLDP, port description). `whole`: the output speaks
    of the whole switch and not of one port.
    """

    os: str  # "sonic" | "cumulus" | "nxos" | "eos"
    port: str  # Ethernet0, Ethernet1/1
    node: str = ""
    netdev: str = ""
    whole: bool = False
    pfc: Fact[frozenset[int]] = field(default_factory=absent)  # lossless priorities
    mode: Fact[str] = field(default_factory=absent)  # NX-OS "on" | "auto" | "off"; Cumulus "lossless" | "lossy"
    oper: Fact[bool] = field(default_factory=absent)  # PFC runs on the port
    watchdog: Fact[bool] = field(default_factory=absent)  # PFC watchdog configured
    storm: Fact[bool] = field(default_factory=absent)  # the watchdog says a queue is stormed now


@dataclass(frozen=True)
class ProbeResult:
    """One bounded, marked RDMA transfer from `node` to `peer`, one direction.

    `sent` and `received` are the growth of the bytes counters by priority, at the sender and at the receiver.
    """

    node: str
    netdev: str
    peer: str
    peer_netdev: str
    volume: int  # bytes the probe moved
    gbits: Fact[float] = field(default_factory=absent)  # Gb/s
    sent: Fact[dict[int, int]] = field(default_factory=absent)
    received: Fact[dict[int, int]] = field(default_factory=absent)


@dataclass(frozen=True)
class Certificate:
    """One that the site's CA signed, or its own. `ends` is None when it cannot be read: `why`."""

    name: str  # gpu1-engine
    use: str  # engine, gateway, store, service, client, server, ca
    node: str = ""  # of the inventory; none: the controller's, or a service of somebody else's
    ends: date | None = None
    why: str = ""
