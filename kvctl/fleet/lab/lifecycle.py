"""A lab from nothing to running hosts, and back to nothing whatever happened in between."""

import shutil
import signal
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kvctl.fleet.lab import (
    breaking,
    cgroups,
    engine_image,
    hardware,
    host,
    images,
    inventory,
    loops,
    mounts,
    network,
    processes,
    requirements,
    rootfs,
    state,
)
from kvctl.fleet.lab.layout import Layout
from kvctl.fleet.lab.nodes import LabNode, node_named, nodes_of
from kvctl.fleet.lab.state import LabState
from kvctl.types.errors import KvctlError, UsageError

Say = Callable[[str], None]

INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")
INOTIFY_WANTED = 4096  # every host's systemd takes some; the usual 128 ends at about 29 hosts
POLL = 0.05  # seconds between two looks at a port that is not open yet


@dataclass(frozen=True, slots=True)
class NodeStatus:
    node: str
    role: str
    state: str  # "running" | "starting" | "off"
    address: str
    rail: str
    planted: tuple[str, ...]


def up(layout: Layout, nodes_text: str, *, clean: bool, timeout: float, say: Say) -> tuple[LabNode, ...]:
    """Boot the nodes that are not up yet and wait for their sshd. KV-LAB-012 when other nodes are up already."""
    requirements.require_root()
    requirements.require_tools()
    nodes = nodes_of(layout, nodes_text)
    with state.locked(layout):
        current = state.read(layout)
        if current is not None and nodes_of(layout, current.nodes) != nodes:
            raise UsageError(
                "KV-LAB-012",
                f"a lab with other nodes is up: {current.nodes}",
                where=str(layout.directory),
                fix="kvctl lab down first, or set KVCTL_LAB_NAME for a second lab",
            )
        if current is None:
            current = found(layout, nodes_text, say)
        checksums = images.write(layout.images)
        boot_missing(layout, current, nodes, say, faults=not clean)
        state.write_atomically(layout.inventory, inventory.text(layout, nodes, checksums))
        await_ssh(layout, nodes, timeout, say)
    return nodes


def found(layout: Layout, nodes_text: str, say: Say) -> LabState:
    """What exists once a lab: root file system, key, inotify limit. Recorded before the limit is changed."""
    root = rootfs.ensure(layout.cache, say)
    if not layout.identity.exists():
        host.make_key(layout.identity, layout.name)
    was = int(INOTIFY.read_text())
    new = LabState(nodes_text, str(root), was if was < INOTIFY_WANTED else None)
    state.write(layout, new)
    if new.inotify_was is not None:
        INOTIFY.write_text(str(INOTIFY_WANTED))
    return new


def boot_missing(
    layout: Layout, current: LabState, nodes: Sequence[LabNode], say: Say, *, faults: bool = False
) -> None:
    """Boot the nodes that do not run. A node that has no hardware yet gets it, with its initial faults if wanted."""
    network.create_fabric(layout)
    for node in nodes:
        host.prepare(layout, node)
    everyone = nodes_of(layout, current.nodes)
    state.write_atomically(layout.known_hosts, host.known_hosts(layout, everyone), 0o600)
    for node in nodes:
        if not running(current, node.name):
            current = boot(layout, current, node, faults)
            say(f"{node.name}: booting")


def boot(layout: Layout, current: LabState, node: LabNode, faults: bool) -> LabState:
    host.stop(layout, node.name, None)  # what an interrupted start left
    new = not hardware.has_state(layout, node.name)
    drives = hardware.drives(layout, node)
    hardware.install(layout, node, drives)
    if new and faults:
        current = current.with_planted(node.name, breaking.plant_initial(layout, node))
        state.write(layout, current)
    mtu = hardware.boot_mtu(layout, node.name)
    network.connect(layout, node, mtu)
    process = host.start(layout, node, Path(current.rootfs), drives, mtu)
    current = current.with_supervisor(node.name, process)
    state.write(layout, current)
    return current


def banner(address: str) -> bool:
    """True when an SSH server answers at the address, seen from the calling thread's namespace."""
    try:
        with socket.create_connection((address, 22), 2) as connection:
            connection.settimeout(2)
            return connection.recv(64).startswith(b"SSH-")
    except OSError:
        return False


def await_ssh(layout: Layout, nodes: Sequence[LabNode], timeout: float, say: Say) -> None:
    """Wait until every node's sshd greets; KV-LAB-010 for the first that does not in time."""
    deadline = time.monotonic() + timeout
    left = list(nodes)

    def wait() -> None:
        while left and time.monotonic() < deadline:
            for node in [n for n in left if banner(n.address)]:
                left.remove(node)
                say(f"{node.name}: SSH answers at {node.address}")
            if left:
                time.sleep(POLL)

    network.inside(layout.name, wait)
    if left:
        raise host.not_started(layout, left[0].name)


def down(layout: Layout, say: Say) -> bool:
    """End everything the lab started, also when its state is lost; False when there was nothing."""
    requirements.require_root()
    if not layout.directory.exists() and not traces(layout):
        return False
    with state.locked(layout):
        try:
            current = state.read(layout)
        except KvctlError as error:
            say(str(error))
            current = None
        seen = traces(layout) or current is not None
        end_hosts(layout, current, say)
        network.remove(layout.name)
        if current is not None and current.inotify_was is not None:
            INOTIFY.write_text(str(current.inotify_was))
        clear(layout)
    return bool(seen)


def traces(layout: Layout) -> set[str]:
    """Nodes of this lab that left a directory, a namespace or a cgroup, by their names."""
    directory = layout.directory / "nodes"
    found = {p.name for p in directory.iterdir()} if directory.is_dir() else set()
    machines = [*network.namespaces(layout.name), *cgroups.names(layout.name)]
    return found | {node for m in machines if (node := layout.node_of(m)) is not None}


def end_hosts(layout: Layout, current: LabState | None, say: Say) -> None:
    supervisors = {} if current is None else current.supervisors
    watchers = [] if current is None else list(current.watchers.values())
    for process in [*supervisors.values(), *watchers]:
        processes.send(process, signal.SIGTERM)  # all at once; `stop` waits for each
    for node in sorted(traces(layout)):
        host.stop(layout, node, supervisors.get(node))
        network.remove(layout.machine(node))
        say(f"{node}: gone")
    processes.await_all(watchers, 5.0)
    mounts.unmount_all(layout.directory)
    loops.detach_all(layout.directory)


def clear(layout: Layout) -> None:
    """Remove the lab's own files; a directory the operator named may hold others."""
    for path in (layout.directory / "nodes", layout.images):
        if path.is_dir():
            shutil.rmtree(path)
    own = (layout.inventory, layout.serving, layout.known_hosts, layout.identity, layout.identity.with_suffix(".pub"))
    for path in (*own, layout.state_file, layout.directory / ".lock"):
        path.unlink(missing_ok=True)
    if not any(layout.directory.iterdir()):
        layout.directory.rmdir()


def status(layout: Layout) -> list[NodeStatus]:
    """Every node's state as it is now; KV-LAB-013 when no lab is up."""
    current = require_up(layout)
    nodes = nodes_of(layout, current.nodes)

    def answering() -> set[str]:
        return {node.name for node in nodes if running(current, node.name) and banner(node.address)}

    ready = network.inside(layout.name, answering) if network.exists(layout.name) else set()
    return [
        NodeStatus(
            node.name, node.role,
            "running" if node.name in ready else "starting" if running(current, node.name) else "off",
            node.address, node.rail_address, current.planted.get(node.name, ()),
        )
        for node in nodes
    ]  # fmt: skip


def running(current: LabState, node: str) -> bool:
    process = current.supervisors.get(node)
    return process is not None and process.alive()


def require_up(layout: Layout) -> LabState:
    current = state.read(layout)
    if current is None:
        raise UsageError("KV-LAB-013", "no lab is up", where=str(layout.directory), fix="kvctl lab up")
    return current


def require_node(layout: Layout, current: LabState, name: str) -> LabNode:
    nodes = nodes_of(layout, current.nodes)
    if name not in {n.name for n in nodes}:
        known = ", ".join(n.name for n in nodes)
        raise UsageError("KV-LAB-014", f"the lab has no node {name!r}", fix=f"its nodes are {known}")
    return node_named(layout, name)


def put_engine(layout: Layout) -> Path:
    """The engine in its place on every GPU host that runs; the description for `kvctl deploy serving`."""
    requirements.require_root()
    commands = engine_image.commands()
    with state.locked(layout):
        current = require_up(layout)
        for node in nodes_of(layout, current.nodes):
            if node.role == "gpu":
                host.run_inside(layout, node.name, ["sh", "-euc", commands])
        state.write_atomically(layout.serving, engine_image.description())
    return layout.serving


def power_on(layout: Layout, name: str, *, timeout: float, say: Say) -> None:
    """Switch a node on and wait for its sshd; nothing when it is on."""
    requirements.require_root()
    with state.locked(layout):
        current = require_up(layout)
        node = require_node(layout, current, name)
        boot_missing(layout, current, [node], say)
        await_ssh(layout, [node], timeout, say)


def break_node(layout: Layout, name: str, fault_name: str) -> None:
    """Plant one fault; KV-LAB-016 when the node cannot have it."""
    requirements.require_root()
    with state.locked(layout):
        current = require_up(layout)
        node = require_node(layout, current, name)
        fault = breaking.fault_named(fault_name, node)
        if fault.name == "off":
            host.stop(layout, name, current.supervisors.get(name))
            current = current.with_supervisor(name, None)
        else:
            current = breaking.plant(layout, current, node, fault)
        state.write(layout, current)


def mend_node(layout: Layout, name: str, fault_name: str, *, timeout: float, say: Say) -> tuple[str, ...]:
    """Undo one fault, or with an empty name every planted one and a missing power; gives the names undone."""
    requirements.require_root()
    with state.locked(layout):
        current = require_up(layout)
        node = require_node(layout, current, name)
        names = (fault_name,) if fault_name else current.planted.get(name, ())
        chosen = [f for f in (breaking.fault_named(n, node) for n in names) if f.name != "off"]
        current = breaking.mend(layout, current, node, chosen)
        state.write(layout, current)
        if fault_name in ("", "off"):
            boot_missing(layout, current, [node], say)
            await_ssh(layout, [node], timeout, say)
    return tuple(names)
