"""Deploy: storage nodes get kvstored, its keys, its certificate and its unit, and are judged by a sealed chunk.

First the archive and the user; then keys are made on each node, and only what is public comes back; then the
configuration, signed certificate and unit. Both halves are plans, carried out and journalled as any other.
"""

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_interface
from pathlib import Path
from typing import Any

import yaml

from kvctl.connector.canary import TENANT
from kvctl.connector.capability import ALL, NO_LIMITS, Capability, sign
from kvctl.connector.keys import Identity, KeyLease, RootKey, write_lease
from kvctl.controller import settings as settings_file
from kvctl.controller.books import site_identity
from kvctl.controller.bundle import Bundle, bundle
from kvctl.controller.deploy_steps import Enrolled, Keys, Work, authority_of, enrol, machine, nodes_of_kind, plan_of
from kvctl.controller.observe import observe
from kvctl.controller.provision import OnEvent, provision
from kvctl.controller.site import Site
from kvctl.controller.stores import StoreAddress, ask
from kvctl.fleet.inventory.model import Node
from kvctl.fleet.plan.intent import cache_drives
from kvctl.fleet.remote.target import Target, resolve
from kvctl.types.chunks import Scope
from kvctl.types.errors import KvctlError, RefusedError, UnreachableError, UsageError
from kvctl.types.facts import NodeFacts
from kvctl.types.plans import Change, Plan

PORT, ADMIN_PORT = 7740, 7741
ROLE, BECAUSE = "kvstored", "deploy.storage"
SHARE = 0.9  # of a drive: the rest is the file system's and the index's
RAM_SHARE = 0.25  # of the node's memory
LEAST_RAM = 256 << 20
CANARY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Mount:
    path: str
    capacity: int  # bytes
    serial: str
    tier: str  # flash | disk


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one storage node is to run."""

    node: Node
    facts: NodeFacts
    bundle: Bundle
    mounts: tuple[Mount, ...]

    @property
    def address(self) -> str:
        """Where connectors reach it: its first rail, or the address that SSH uses."""
        rails = [str(ip_interface(text).ip) for text in self.node.addresses.values()]
        return rails[0] if rails else self.node.address

    def args(self, **more: Any) -> dict[str, Any]:
        about = {"bundle": str(self.bundle.path), "sha256": self.bundle.sha256, "name": self.bundle.name}
        return {**about, "mounts": [mount.path for mount in self.mounts], **more}


def storage_nodes(site: Site, names: tuple[str, ...]) -> tuple[Node, ...]:
    """The nodes to deploy to; UsageError KV-DEP-002 for one that is no storage node."""
    found, wrong = nodes_of_kind(site, names, "storage")
    if wrong:
        raise UsageError("KV-DEP-002", f"no storage node: {', '.join(wrong)}", fix="name nodes whose role is storage")
    return found


def wanted(site: Site, nodes: Sequence[Node], wheels: Path | None) -> tuple[list[Wanted], dict[str, str]]:
    """Read the nodes; what each is to run, and why some cannot be deployed to."""
    seen = observe(site, nodes)
    found: list[Wanted] = []
    problems = {one.node: one.why for one in seen.unreachable}
    for node in nodes:
        if node.name not in seen.facts:
            continue
        facts = seen.facts[node.name]
        mounts, why = mounts_of(site, node, facts)
        python, arch = facts.host.python.or_none(), facts.host.arch.or_none()
        if why or not python or not arch:
            problems[node.name] = why or "its Python version or machine type is unknown"
            continue
        short = ".".join(python.split(".")[:2])
        found.append(Wanted(node, facts, bundle("store", short, arch, site.directory / "bundles", wheels), mounts))
    return found, problems


def mounts_of(site: Site, node: Node, facts: NodeFacts) -> tuple[tuple[Mount, ...], str]:
    """The mounted cache drives of a node, by serial; or why there are none."""
    policy = site.inventory.role_of(node).drives
    if policy is None:
        return (), "its role names no drives"
    found, missing = [], []
    for drive in cache_drives(policy, facts):
        serial = drive.serial.value or ""
        path = f"{policy.mount_root}/{serial}"
        mounted = [ns for ns in drive.namespaces if (on := ns.contents.or_none()) and path in on.mounts]
        size = mounted[0].size.or_none() if mounted else None
        if size:
            found.append(Mount(path, int(size * SHARE) >> 20 << 20, serial, "flash"))
        else:
            missing.append(serial)
    if missing:
        return (), f"not mounted below {policy.mount_root}: {', '.join(missing)} (kvctl provision does that)"
    if not found:
        return (), "it has no cache drive"
    found.sort(key=lambda mount: mount.serial)
    first = len(found) - policy.disk_tier
    if first < 1:
        return (), f"disk_tier is {policy.disk_tier} of {len(found)} drives: none is left for the flash tier"
    return tuple(replace(mount, tier="disk") if n >= first else mount for n, mount in enumerate(found)), ""


def step(one: Wanted, args: dict[str, Any], changes: tuple[Change, ...]) -> Work:
    drives = [f"drive.pci:{mount.serial}" for mount in one.mounts]
    return Work(one.node.name, args, changes, machine(one.facts, drives))


def install_plan(site: Site, nodes: Sequence[Wanted]) -> Plan:
    work = (step(one, one.args(), (Change(one.bundle.name, "archive", "", one.bundle.sha256[:16]),)) for one in nodes)
    return plan_of(site, ROLE, "install", BECAUSE, work)


def apply_plan(site: Site, nodes: Sequence[Wanted], enrolled: Mapping[str, Enrolled]) -> Plan:
    """Configuration, certificate and unit of each node. Nothing in it is secret."""
    authority, controller = authority_of(site), site_identity(site.directory / "site.key")
    about = settings_file.read(site.directory, site=site.inventory.site.name)
    connectors = {"kvctld": controller.public.hex(), **about.connectors}
    steps = []
    for one in nodes:
        certificate = authority.daemon(
            one.node.name, enrolled[one.node.name].request.encode(), [one.node.address, one.address]
        )
        text = config(one, site.inventory.site.name, controller.public.hex(), connectors)
        args = one.args(config=text, certificate=certificate, client_ca=authority.certificate_path.read_text())
        changes = tuple(Change(m.path, "capacity", "", f"{m.capacity / (1 << 30):.1f} GiB") for m in one.mounts)
        steps.append(step(one, args, changes))
    return plan_of(site, ROLE, "apply", BECAUSE, steps)


def config(one: Wanted, site: str, controller: str, connectors: Mapping[str, str]) -> str:
    """kvstored's configuration for this node (docs/kvstored.md)."""
    memory = one.facts.host.memory.or_none()
    ram = max(LEAST_RAM, int(memory * RAM_SHARE)) if memory else LEAST_RAM
    document = {
        "schema": 1,
        "node": one.node.name,
        "listen": [f"tcp:{one.address}:{PORT}", "unix:/run/kvctl/store.sock"],
        "admin": {
            "socket": "/run/kvctl/store-admin.sock",
            "tls": {
                "listen": f"tcp:{one.node.address}:{ADMIN_PORT}", "certificate": "/etc/kvctl/store.crt",
                "key": "/etc/kvctl/store-tls.key", "client_ca": "/etc/kvctl/client-ca.crt", "clients": ["kvctld"],
            },
        },
        "identity": "/etc/kvctl/store.key",
        "connectors": dict(sorted(connectors.items())),
        "controllers": {site: controller},
        "ram": f"{min(ram, 8 << 30) >> 20}MiB",
        "tiers": tiers(one.mounts),
        "state": "/var/lib/kvctl/store",
    }  # fmt: skip
    return "# Written by kvctl deploy storage.\n" + yaml.safe_dump(document, sort_keys=False)


def tiers(mounts: Sequence[Mount]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for mount in mounts:
        held = found.setdefault(mount.tier, {"mounts": []})
        held["mounts"].append({"path": mount.path, "capacity": f"{mount.capacity >> 20}MiB"})
    return found


def keys_of(one: Wanted) -> Keys:
    addresses = (one.node.address, one.address)
    return Keys("kvctl", "/etc/kvctl/store.key", "/etc/kvctl/store-tls.key", one.node.name, addresses)


def deploy_storage(
    site: Site, nodes: Sequence[Wanted], *, on_event: OnEvent, say: Callable[[str], None], concurrency: int = 8
) -> dict[str, Any]:
    """Deploy, register the stores with the controller and judge each by a sealed chunk. The runs, and what was seen.

    A run that did not end well stops the deployment there; what it left is on record and `kvctl run resume` goes on.
    """
    runs = [provision(site, install_plan(site, nodes), converge=False, on_event=on_event, concurrency=concurrency)]
    if runs[-1]["exit_code"]:
        return {"runs": runs, "stores": []}
    targets = resolve(site.inventory, site.directory, nodes=[one.node.name for one in nodes])
    enrolled = {
        one.node.name: enrol(targets[one.node.name], "python3", f"/opt/kvctl/{one.bundle.name}", keys_of(one))
        for one in nodes
    }
    plan = apply_plan(site, nodes, enrolled)
    runs.append(provision(site, plan, converge=False, on_event=on_event, concurrency=concurrency))
    if runs[-1]["exit_code"]:
        return {"runs": runs, "stores": []}
    register(site, nodes, targets)
    judged = []
    for one in nodes:
        seen = judge(site, one, targets[one.node.name], enrolled[one.node.name])
        times = f"written in {seen['durable_ms']:.0f} ms, read back in {seen['read_ms']:.0f} ms"
        say(f"{one.node.name}: kvstored {seen['version']}; a sealed chunk {times}")
        judged.append(seen)
    return {"runs": runs, "stores": judged}


def register(site: Site, nodes: Sequence[Wanted], targets: Mapping[str, Target]) -> None:
    """Write the stores into the controller's settings, beside those that are there."""
    authority = authority_of(site)
    certificate, key = authority.client("kvctld")
    found = {
        one.node.name: settings_file.StoreSettings(
            admin=f"https://{one.node.address}:{ADMIN_PORT}", endpoint=f"tcp:{one.address}:{PORT}",
            certificate=str(certificate), key=str(key), ca=str(authority.certificate_path),
            netns=targets[one.node.name].netns,
        )
        for one in nodes
    }  # fmt: skip
    settings_file.add_stores(site.directory, found)


def judge(site: Site, one: Wanted, target: Target, enrolled: Enrolled) -> dict[str, Any]:
    """Ask the store over its admin side, then write a sealed chunk and read it back.

    RefusedError KV-DEP-003 when the one that answers is not the one enrolled; KV-DEP-004 when the chunk did not come
    back.
    """
    about = settings_file.read(site.directory, site=site.inventory.site.name)
    address = StoreAddress.of(about.stores[one.node.name])
    stat = ask(address, "stat")["daemon"]
    if stat["identity"] != enrolled.identity:
        raise RefusedError(
            "KV-DEP-003", f"another store answers at {one.node.address}", why=f"it is {stat['identity'][:16]}…",
            fix="see which daemon listens there",
        )  # fmt: skip
    lease = canary_lease(site_identity(site.directory / "site.key"))
    try:
        seen = canary(site, one, target, enrolled, lease)
    finally:  # nobody's chunk is not to be counted, nor judged by residency
        scope = lease.scope
        ask(address, "erase", {"tenant": scope.tenant, "domain": scope.domain, "epoch": scope.epoch.hex()})
    if not seen["well"]:
        raise KvctlError(
            "KV-DEP-004", f"{one.node.name} does not give back what it took",
            why=f"PUT: {seen['put']}; GET: {seen['read']}",
            fix="journalctl -u kvstored on the node",
        )  # fmt: skip
    return {"store": one.node.name, "version": stat["version"], **seen}


def canary(site: Site, one: Wanted, target: Target, enrolled: Enrolled, lease: KeyLease) -> dict[str, Any]:
    """From a process in the node's network: what kvctl.connector.canary prints."""
    with tempfile.TemporaryDirectory(dir=site.directory) as scratch:
        file = Path(scratch) / "lease.json"
        write_lease(file, lease)
        argv = [
            *target.netns_prefix(), sys.executable, "-m", "kvctl.connector.canary", "--store",
            f"tcp:{one.address}:{PORT}", "--store-key", enrolled.identity, "--identity",
            str(site.directory / "site.key"), "--lease", str(file),
        ]  # fmt: skip
        done = subprocess.run(argv, capture_output=True, text=True, timeout=CANARY_SECONDS, check=False)
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except ValueError as error:
        raise UnreachableError(
            "KV-DEP-005", f"{one.node.name} did not take a sealed chunk", why=done.stderr.strip()[-400:],
            fix="journalctl -u kvstored on the node",
        ) from error  # fmt: skip
    return found


def canary_lease(controller: Identity, holder: bytes | None = None) -> KeyLease:
    """A lease on a scope that nobody else has, for a few minutes; `holder`: a connector's public key."""
    begin, scope = int(time.time()), Scope(TENANT, "canary", os.urandom(16))
    capability = Capability(
        scope.tenant,
        scope.domain,
        scope.epoch,
        ALL,
        holder or controller.public,
        NO_LIMITS,
        secrets.token_bytes(16),
        begin,
        begin + 300,
    )
    return KeyLease(RootKey(scope, os.urandom(32)), sign(capability, controller), begin + 300)
