"""Plants faults in a running lab and mends them again."""

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from kvctl.fleet.lab import faults, hardware, host, loops, network, processes
from kvctl.fleet.lab.faults import FAULTS, Fault
from kvctl.fleet.lab.layout import RAIL, Layout
from kvctl.fleet.lab.nodes import LabNode
from kvctl.fleet.lab.processes import Started
from kvctl.fleet.lab.state import LabState
from kvctl.fleet.lab.watcher import TABLE
from kvctl.types.errors import KvctlError, UsageError

UNMOUNT = 'findmnt --noheadings --raw --output TARGET --source "$1" | xargs --no-run-if-empty umount'


def fault_named(name: str, node: LabNode) -> Fault:
    """KV-LAB-016 for a fault that does not exist, or that this node cannot have."""
    fault = FAULTS.get(name)
    if fault is None or node.role not in fault.roles:
        possible = ", ".join(f.name for f in FAULTS.values() if node.role in f.roles)
        raise UsageError("KV-LAB-016", f"{node.name} cannot have the fault {name!r}", fix=f"choose from {possible}")
    return fault


def plant_initial(layout: Layout, node: LabNode) -> tuple[str, ...]:
    """Plant what a new lab has on this node; it does not run yet."""
    mine = tuple(name for place, name in faults.INITIAL if place == node.name)
    for name in mine:
        change(layout, node, FAULTS[name], mend=False)
    return mine


def change(layout: Layout, node: LabNode, fault: Fault, *, mend: bool) -> None:
    """Make one fault, or put right what it made wrong: first the real thing, then the simulated one."""
    at = str(layout.hardware(node.name))
    if fault.name == "lba-512":
        name, drive = next(iter(hardware.drives(layout, node).items()))
        # As when a spare with the factory's format is put in: whatever was mounted went with the old drive.
        host.run_inside(layout, node.name, ["sh", "-c", UNMOUNT, "sh", f"/dev/{name}"])
        loops.reformat(drive.device, 4096 if mend else 512)
    faults.apply(fault, at, mend=mend)
    if fault.name == "mtu":
        set_mtu(layout, node)
    if fault.name == "link-down":
        network.set_port(layout, f"r-{node.name}", state="up" if mend else "down")
    if fault.replug:
        host.run_inside(layout, node.name, ["/usr/lib/kvctl-lab/replug"])


def set_mtu(layout: Layout, node: LabNode) -> None:
    """The rail's MTU now, and what the supervisor sets at every boot."""
    mtu = hardware.boot_mtu(layout, node.name)
    if not network.exists(layout.machine(node.name)):
        return
    network.set_link(layout, node.name, RAIL, mtu=mtu)
    host.write_plan(layout, node, hardware.drives(layout, node), mtu)


def plant(layout: Layout, current: LabState, node: LabNode, fault: Fault) -> LabState:
    """Plant one fault on a node and remember it. Planting it twice changes nothing."""
    if fault.name == "cut":
        if (watching := current.watchers.get(node.name)) is None or not watching.alive():
            current = current.with_watcher(node.name, start_watcher(layout, node))
    else:
        change(layout, node, fault, mend=False)
    before = current.planted.get(node.name, ())
    return current if fault.name in before else current.with_planted(node.name, (*before, fault.name))


def mend(layout: Layout, current: LabState, node: LabNode, chosen: Sequence[Fault]) -> LabState:
    """Undo faults of a node, planted or not."""
    for fault in chosen:
        if fault.name == "cut":
            current = end_watcher(layout, current, node)
        else:
            change(layout, node, fault, mend=True)
    names = {fault.name for fault in chosen}
    left = tuple(name for name in current.planted.get(node.name, ()) if name not in names)
    return current.with_planted(node.name, left)


def start_watcher(layout: Layout, node: LabNode) -> Started:
    plan = json.dumps({"namespace": layout.machine(node.name), "interface": RAIL})
    script = Path(__file__).with_name("watcher.py")
    with open(layout.node_dir(node.name) / "watcher.log", "ab") as log:
        child = subprocess.Popen(
            [sys.executable, "-I", str(script), plan], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
            start_new_session=True, cwd="/",
        )  # fmt: skip
    assert child.stdout is not None
    ready = child.stdout.readline()
    process = processes.started(child.pid)
    if ready != b"ready\n" or process is None:
        log_file = str(layout.node_dir(node.name) / "watcher.log")
        raise KvctlError("KV-LAB-017", f"cannot watch the rail of {node.name}", where=log_file)
    return process


def end_watcher(layout: Layout, current: LabState, node: LabNode) -> LabState:
    watcher = current.watchers.get(node.name)
    if watcher is not None and processes.send(watcher, signal.SIGTERM):
        processes.await_end(watcher, 5.0)
    machine = network.RUN / layout.machine(node.name)
    if machine.exists():  # the table is there only while the path is cut
        enter = ["nsenter", f"--net={machine}", "nft", "-f", "-"]
        processes.run(enter, what="restore the path", stdin=f"table inet {TABLE}\ndelete table inet {TABLE}\n")
    return current.with_watcher(node.name, None)
