"""One lab host: its files, its start, its end."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from kvctl.fleet.lab import cgroups, engine_image, guard, mounts, network, processes, state
from kvctl.fleet.lab.layout import RAIL, Layout
from kvctl.fleet.lab.loops import Loop
from kvctl.fleet.lab.nodes import LabNode
from kvctl.fleet.lab.processes import Started
from kvctl.types.errors import KvctlError

HARDWARE = "/var/lib/kvctl-lab-hw"  # where a host finds its simulated hardware
INIT = "/usr/lib/kvctl-lab/init"  # sets the hardware up and becomes systemd
STOP_SECONDS = 20.0


def upper(layout: Layout, node: str) -> Path:
    return layout.node_dir(node) / "upper"


def prepare(layout: Layout, node: LabNode) -> None:
    """Write what makes this host this host. Keys and the machine id of an earlier start are kept."""
    root = upper(layout, node.name)
    write(root / "etc/hostname", node.name + "\n")
    write(root / "etc/hosts", f"127.0.0.1 localhost\n::1 localhost\n127.0.1.1 {node.name}\n")
    write(root / "etc/machine-id", hashlib.sha256(layout.machine(node.name).encode()).hexdigest()[:32] + "\n")
    write(root / "root/.ssh/authorized_keys", layout.identity.with_suffix(".pub").read_text())
    (root / "root").chmod(0o700)
    (root / "root/.ssh").chmod(0o700)
    key = root / "etc/ssh/ssh_host_ed25519_key"
    if not key.exists():
        key.parent.mkdir(parents=True, exist_ok=True)
        make_key(key, node.name)


def make_key(path: Path, comment: str) -> None:
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)]
    processes.run(argv, what="make an SSH key")


def write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def known_hosts(layout: Layout, nodes: Sequence[LabNode]) -> str:
    lines = []
    for node in nodes:
        kind, key, *_ = (upper(layout, node.name) / "etc/ssh/ssh_host_ed25519_key.pub").read_text().split()
        lines.append(f"{node.address},{node.name} {kind} {key}\n")
    return "".join(lines)


def nspawn_argv(
    layout: Layout, node: str, drives: dict[str, Loop], shared: Mapping[Path, str] | None = None
) -> list[str]:
    """Drives maps a name in /dev to its loop device, `shared` a directory of the machine to where it is read-only.

    CAP_MKNOD goes; `guard` covers the other ways to a device.
    """
    machine = layout.machine(node)
    argv = ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--console=pipe"]
    argv += ["--link-journal=no", "--resolv-conf=off", "--timezone=off", "--kill-signal=SIGRTMIN+4"]
    argv += [f"--machine={machine}", f"--hostname={node}", f"--network-namespace-path={network.RUN / machine}"]
    argv += ["--capability=CAP_NET_ADMIN", "--drop-capability=CAP_MKNOD"]
    argv += [f"--bind={layout.hardware(node)}:{HARDWARE}"]
    argv += [f"--bind={loop.device}:/dev/{name}" for name, loop in drives.items()]
    argv += [f"--bind-ro={directory}:{place}" for directory, place in (shared or {}).items()]
    return [*argv, "-D", str(layout.node_dir(node) / "root"), INIT]


def write_plan(layout: Layout, node: LabNode, drives: dict[str, Loop], boot_mtu: int) -> Path:
    """What the supervisor does; it reads this again at every boot of the host."""
    machine = layout.machine(node.name)
    shared = engine_image.shared() if node.role == "gpu" else {}
    plan = {
        "cgroups": [str(path) for path in cgroups.paths(machine)],
        "argv": nspawn_argv(layout, node.name, drives, shared),
        "environment": {
            "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1",
            "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network",  # net.* sysctls, and nothing of the machine's kernel
        },
        "boot": ["nsenter", f"--net={network.RUN / machine}", "ip", "link", "set", RAIL, "mtu", str(boot_mtu), "up"],
    }
    path = layout.node_dir(node.name) / "plan.json"
    state.write_atomically(path, json.dumps(plan, indent=1))
    return path


def start(layout: Layout, node: LabNode, rootfs: Path, drives: dict[str, Loop], boot_mtu: int) -> Started:
    """Boot a prepared host. The guard is on its cgroup before the first process enters it."""
    directory = layout.node_dir(node.name)
    layout.hardware(node.name).mkdir(parents=True, exist_ok=True)
    mounts.overlay(rootfs, directory / "upper", directory / "work", directory / "root")
    machine = layout.machine(node.name)
    unified, *_ = cgroups.create(machine)
    guard.attach(unified, [loop.minor for loop in drives.values()])
    plan = write_plan(layout, node, drives, boot_mtu)
    supervisor = Path(__file__).with_name("supervisor.py")
    with open(directory / "console.log", "ab") as console:
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", str(supervisor), str(plan)],
            stdin=subprocess.DEVNULL, stdout=console, stderr=console, start_new_session=True, cwd="/",
            env={"PATH": os.environ.get("PATH", "/usr/bin") + ":/usr/sbin:/sbin", "LANG": "C.UTF-8"},
        )  # fmt: skip
    process = processes.started(child.pid)
    if process is None:
        raise not_started(layout, node.name)
    return process


def not_started(layout: Layout, node: str) -> KvctlError:
    console = layout.node_dir(node) / "console.log"
    tail = console.read_text(errors="replace")[-800:].strip() if console.exists() else ""
    return KvctlError("KV-LAB-010", f"lab host {node} did not start", where=str(console), why=tail,
                      fix="kvctl lab down, then kvctl lab up")  # fmt: skip


def stop(layout: Layout, node: str, supervisor: Started | None) -> None:
    """Power a host off; what does not go by itself, and all that a crash left, is ended by its cgroup."""
    machine = layout.machine(node)
    if supervisor is not None and processes.send(supervisor, signal.SIGTERM):
        processes.await_end(supervisor, STOP_SECONDS)
    for _ in range(10):  # a dying process may fork once more
        left = cgroups.members(machine)
        for process in left:
            processes.send(process, signal.SIGKILL)
        if not processes.await_all(left, 5.0) and not cgroups.members(machine):
            break
    else:
        raise KvctlError("KV-LAB-011", f"processes of lab host {node} do not end", where=machine)
    cgroups.remove(machine)
    mounts.unmount_all(layout.node_dir(node))


def remove(layout: Layout, node: str) -> None:
    network.remove(layout.machine(node))
    shutil.rmtree(layout.node_dir(node), ignore_errors=False)


def leader(layout: Layout, node: str) -> int | None:
    """The pid of a host's first process as the machine sees it; None while it does not run."""
    unified, *_ = cgroups.paths(layout.machine(node))
    for procs in unified.glob("**/init.scope/cgroup.procs"):
        pids = cgroups.read_pids(procs)
        if pids:
            return min(pids)
    return None


def run_inside(layout: Layout, node: str, argv: Sequence[str]) -> None:
    """Run a program in a host's namespaces, past its network; nothing when the host does not run."""
    pid = leader(layout, node)
    if pid is not None:
        enter = ["nsenter", f"--target={pid}", "--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd"]
        processes.run([*enter, "--", *argv], what=f"run {argv[0]} on {node}")
