"""The command lines that are compared, over the same hosts, keys, host keys and network namespace."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvctl.bench.hosts import FOREIGN, Hosts, program
from kvctl.fleet.inventory.load import load
from kvctl.fleet.remote.ansible import Play, environment
from kvctl.fleet.remote.target import Target, resolve
from kvctl.types.resources import resource

FORKS = 50
# What pyinfra has of what the probe reads without vendor tools. The probe also reads RDMA, PCI, NVMe and DCB, sysctls
# and SSH's environment, for which pyinfra has no fact; its systemd facts run a tool, so they are left out.
PYINFRA_FACTS = (
    "server.Hostname", "server.KernelVersion", "server.Arch", "server.OsRelease", "server.Uptime", "hardware.Cpus",
    "hardware.Memory", "hardware.NetworkDevices", "hardware.BlockDevices", "server.Mounts", "server.KernelModules",
)  # fmt: skip

Proof = Callable[[str], str]  # a command's stdout -> "" or why it did not do its work


@dataclass(frozen=True, slots=True)
class Contestant:
    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    ok: tuple[int, ...] = (0,)
    proof: Proof = field(default=lambda out: "")


def facts(hosts: Hosts) -> tuple[Contestant, ...]:
    """kvctl check as its user runs it, the same without vendor tools, Ansible's setup, and pyinfra's facts."""
    targets = resolve(load(hosts.inventory).inventory, hosts.directory)
    bare = {**hosts.env, "KVCTL_STATE_DIR": str(hosts.directory / "state-no-tools")}
    # A check that finds something exits 3: it read every node all the same. Unreachable nodes exit 4 or 5.
    return (
        Contestant("kvctl", (program("kvctl"), "check"), hosts.env, (0, 3)),
        Contestant("kvctl-no-tools", (sys.executable, "-m", "kvctl.bench.without_tools", "check"), bare, (0, 3)),
        setup(hosts, targets),
        pyinfra(hosts, targets),
    )


def setup(hosts: Hosts, targets: Mapping[str, Target]) -> Contestant:
    inventory = ansible_hosts(hosts, "setup-hosts.yml", {name: {} for name in hosts.names})
    argv = (*prefix(targets), program("ansible"), "all", "-i", inventory, "-m", "ansible.builtin.setup")
    return Contestant("ansible", argv, ansible_env(hosts, targets, "setup"), proof=all_setup(len(hosts.names)))


def pyinfra(hosts: Hosts, targets: Mapping[str, Target]) -> Contestant:
    path = hosts.directory / "pyinfra_hosts.py"
    data = {"ssh_config_file": targets[hosts.names[0]].config}
    path.write_text(f"hosts = {[(name, data) for name in hosts.names]!r}\n")
    count = len(hosts.names)
    argv = (*prefix(targets), program("pyinfra"), "--json", "--parallel", str(count), str(path), "fact", *PYINFRA_FACTS)
    env = {k: v for k, v in hosts.env.items() if not k.startswith("KVCTL_")}
    return Contestant("pyinfra", argv, env, proof=all_facts(count))


def converge(hosts: Hosts, count: int, desired: Mapping[str, Any]) -> tuple[Contestant, ...]:
    """kvctl's converge of `count` hosts and the same playbook with the same host variables."""
    names = hosts.names[:count]
    targets = resolve(load(converge_inventory(hosts, count)).inventory, hosts.directory)
    values = {name: {"kvctl_desired": desired[name]} for name in names}
    inventory = ansible_hosts(hosts, f"converge-{count}-hosts.yml", values)
    playbook = str(resource("playbooks") / "converge.yml")
    argv = (*prefix(targets), program("ansible-playbook"), "-i", inventory, playbook)
    env = ansible_env(hosts, targets, f"converge-{count}")
    return (
        kvctl_converge(hosts, count),
        Contestant("ansible-playbook", argv, env, proof=recap_unchanged(count)),
    )


def kvctl_converge(hosts: Hosts, count: int) -> Contestant:
    env = {
        **hosts.env,
        "KVCTL_STATE_DIR": str(state_of(hosts, count)),
        "KVCTL_INVENTORY": str(converge_inventory(hosts, count)),
    }
    argv = (program("kvctl"), "provision", "--converge", "--yes", "-o", "json")
    return Contestant("kvctl", argv, env, proof=run_unchanged)


def state_of(hosts: Hosts, count: int) -> Path:
    return hosts.directory / f"state-converge-{count}"


def converge_inventory(hosts: Hosts, count: int) -> Path:
    """The lab's inventory with its first `count` nodes alone, made when it is first asked for."""
    path = hosts.directory / f"inventory-{count}.yaml"
    if not path.exists():
        whole = load(hosts.inventory).inventory
        part = whole.model_copy(update={"nodes": whole.nodes[:count]})
        path.write_text(json.dumps(part.model_dump(mode="json", exclude_unset=True, by_alias=True)))
    return path


def ansible_hosts(hosts: Hosts, name: str, values: Mapping[str, Mapping[str, Any]]) -> str:
    """An inventory file. The interpreter is named, so that Ansible need not look for one."""
    path = hosts.directory / name
    entries = {host: {"ansible_python_interpreter": "/usr/bin/python3", **own} for host, own in values.items()}
    path.write_text(json.dumps({"all": {"hosts": entries}}))
    return str(path)


def ansible_env(hosts: Hosts, targets: Mapping[str, Target], label: str) -> dict[str, str]:
    """Ansible's settings as kvctl itself uses them: pipelining, one rendered SSH configuration, SSH masters."""
    private = hosts.directory / f"ansible-{label}"
    private.mkdir(mode=0o700, exist_ok=True)
    (private / "ansible.cfg").write_text("[defaults]\n")
    play = Play(run="", label="", playbook="", hosts=tuple(targets), forks=FORKS)
    env = environment(play, targets, private, resource("playbooks"), private)
    return {k: v for k, v in {**hosts.env, **env}.items() if not k.startswith(FOREIGN) or k.startswith("ANSIBLE_")}


def prefix(targets: Mapping[str, Target]) -> tuple[str, ...]:
    return next(iter(targets.values())).netns_prefix()


def all_setup(count: int) -> Proof:
    def proof(out: str) -> str:
        found = out.count("| SUCCESS =>")
        return "" if found == count else f"{found} of {count} hosts answered"

    return proof


def all_facts(count: int) -> Proof:
    """pyinfra's own exit code is 0 when a host or a fact failed."""

    def proof(out: str) -> str:
        try:
            found = json.loads(out)
        except ValueError as error:
            return f"its output is no JSON: {error}"
        short = [name for name, by_host in found.items() if len(by_host) != count]
        if len(found) != len(PYINFRA_FACTS) or short:
            return f"{len(found)} of {len(PYINFRA_FACTS)} facts, not of all hosts: {', '.join(short) or 'none'}"
        return ""

    return proof


def run_unchanged(out: str) -> str:
    try:
        view = json.loads(out)
    except ValueError as error:
        return f"its output is no JSON: {error}"
    return "" if view.get("changed") == 0 else f"it is no no-op: changed = {view.get('changed')!r}"


def recap_unchanged(count: int) -> Proof:
    def proof(out: str) -> str:
        rows = [line for line in out.splitlines() if " changed=" in line]
        settled = [row for row in rows if " changed=0 " in row and " failed=0 " in row and " unreachable=0 " in row]
        return "" if len(settled) == len(rows) == count else "it is no no-op: " + " | ".join(rows)[:400]

    return proof


def relative(argv: tuple[str, ...], directory: Path) -> str:
    """A command line for readers: programs by name, and no path of one machine."""
    words = [word.replace(str(directory), "DIR") for word in argv]
    return " ".join(os.path.basename(w) if w.startswith("/") else w for w in words)  # noqa: PTH119
