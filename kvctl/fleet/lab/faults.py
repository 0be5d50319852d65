"""Faults that can be planted in a lab: each makes one thing wrong, the way it goes wrong on a real node.

A fault changes the node's simulated hardware, or its real interface; it also changes what the node's boot configuration
sets, since a wrong setting does not cure itself at a reboot. Mending puts the planned values back.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kvctl.fleet.lab import cards
from kvctl.fleet.lab.standins import store
from kvctl.fleet.lab.standins.mlnx_qos import set_pfc

State = dict[str, Any]
Change = Callable[[State], None]

PLANNED_MTU, WRONG_MTU = 9000, 1500


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    check: str  # the check that names it
    text: str  # one line for people
    plant: Change | None = None
    mend: Change | None = None
    roles: tuple[str, ...] = ("storage", "gpu")
    replug: bool = False  # /sys has to be mounted anew


def boot_mtu(value: int) -> Change:
    def change(state: State) -> None:
        state["boot_mtu"] = value

    return change


def old_firmware(state: State) -> None:
    old = {"stored": cards.OLD_FIRMWARE, "date": cards.RELEASED[cards.OLD_FIRMWARE], "rom": cards.OLD_ROM}
    state["nics"][0]["firmware"] = {**old, "running": cards.OLD_FIRMWARE}


def pending_firmware(state: State) -> None:
    planned_firmware(state)
    state["nics"][0]["firmware"]["running"] = cards.OLD_FIRMWARE


def planned_firmware(state: State) -> None:
    new = {"stored": cards.FIRMWARE, "date": cards.RELEASED[cards.FIRMWARE], "rom": cards.ROM}
    state["nics"][0]["firmware"] = {**new, "running": cards.FIRMWARE}


def settings(state: State) -> tuple[State, State]:
    """The class now, and the one that the boot configuration sets."""
    nic = state["nics"][0]
    return nic["qos"], nic["at_boot"]["qos"]


def pfc_off(state: State) -> None:
    for qos in settings(state):
        set_pfc(qos, "0,0,0,0,0,0,0,0")


def trust_pcp(state: State) -> None:
    for qos in settings(state):
        qos["app"] = []


def planned_class(state: State) -> None:
    nic = state["nics"][0]
    nic["qos"] = cards.class_as_planned()
    nic["at_boot"]["qos"] = cards.class_as_planned()


def pause(on: bool) -> Change:
    def change(state: State) -> None:
        word = "on" if on else "off"
        for owner in (state["nics"][0], state["nics"][0]["at_boot"]):
            owner["pause"] = {"autoneg": "off", "rx": word, "tx": word}

    return change


def ecn(on: bool) -> Change:
    """The state holds what boot sets; the files hold what is set now, see `apply`."""

    def change(state: State) -> None:
        state["nics"][0]["at_boot"]["ecn"] = [int(on and p == cards.PRIORITY) for p in range(8)]

    return change


def lba(index: int) -> Change:
    def change(state: State) -> None:
        state["drives"][0]["flbas"] = index

    return change


def gone(missing: bool) -> Change:
    def change(state: State) -> None:
        state["drives"][-1]["gone"] = missing

    return change


def port(up: bool) -> Change:
    def change(state: State) -> None:
        state["nics"][0]["port_up"] = up

    return change


def worn(percent: int) -> Change:
    """Endurance used up sets bit 2 of the critical warning at 100 percent; the drive goes on serving."""

    def change(state: State) -> None:
        smart = state["drives"][0]["smart"]
        smart["percent_used"] = percent
        smart["critical_warning"] = 4 if percent >= 100 else 0

    return change


STORAGE = ("storage",)
FAULTS = {
    fault.name: fault
    for fault in (
        Fault("mtu", "net.mtu", "the rail has MTU 1500 in a fabric of 9000", boot_mtu(WRONG_MTU),
              boot_mtu(PLANNED_MTU)),
        Fault("nic-firmware", "nic.fw.running", "the NIC runs and stores older firmware", old_firmware,
              planned_firmware),
        Fault("fw-pending", "nic.fw.pending", "new firmware is stored, the old one runs", pending_firmware,
              planned_firmware),
        Fault("pfc-off", "qos.pfc.host", "no priority is lossless", pfc_off, planned_class),
        Fault("trust-pcp", "qos.trust", "the NIC classifies by PCP and has no DSCP map", trust_pcp, planned_class),
        Fault("pause-on", "qos.pause", "global pause is on beside PFC", pause(True), pause(False)),
        Fault("ecn-off", "ecn.np", "DCQCN's notification point is off", ecn(False), ecn(True)),
        Fault("lba-512", "nvme.lba", "one empty drive is formatted with 512-byte blocks", lba(cards.LBA_512),
              lba(cards.LBA_4096), STORAGE),
        Fault("drive-missing", "nvme.count", "one drive does not answer", gone(True), gone(False), STORAGE, True),
        Fault("wear", "nvme.wear", "one drive has used up its endurance", worn(103), worn(2), STORAGE),
        Fault("link-down", "link.state", "the rail's cable is pulled", port(False), port(True)),
        Fault("cut", "", "the next change of the rail's MTU cuts the node's SSH until it is changed back"),
        Fault("off", "", "the node is switched off; kvctl lab start switches it on"),
    )
}  # fmt: skip

# What `lab up` plants, spread over the nodes it has.
INITIAL = (
    ("storage1", "mtu"), ("storage1", "lba-512"), ("storage2", "nic-firmware"), ("storage3", "pfc-off"),
    ("gpu1", "trust-pcp"),
)  # fmt: skip


def apply(fault: Fault, at: str, *, mend: bool) -> None:
    """Change the stored state below `at`, and the files of the recorded tree that hold current values."""
    change = fault.mend if mend else fault.plant
    if change is None:
        return
    with store.changing(at) as state:
        change(state)
        nic = state["nics"][0]
        rdma = f"/sys/class/infiniband/{nic['rdma']}"
        store.write_sys(f"{rdma}/fw_ver", nic["firmware"]["running"] + "\n", at)
        if fault.name == "ecn-off":
            for point in ("roce_np", "roce_rp") if mend else ("roce_np",):
                for priority, on in enumerate(nic["at_boot"]["ecn"]):
                    store.write_sys(f"/sys/class/net/{nic['netdev']}/ecn/{point}/enable/{priority}", f"{on}\n", at)
        if fault.name == "link-down":
            up = nic["port_up"]
            store.write_sys(f"{rdma}/ports/1/state", "4: ACTIVE\n" if up else "1: DOWN\n", at)
            store.write_sys(f"{rdma}/ports/1/phys_state", "5: LinkUp\n" if up else "3: Disabled\n", at)
