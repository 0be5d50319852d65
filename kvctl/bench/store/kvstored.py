"""kvstored as a contestant: its daemon with its own keys and directories, and what its clients are told."""

import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from kvctl.bench.store.cells import GIB, MIB, Settings
from kvctl.bench.store.processes import Child, await_true, free_ports, listens, module, running
from kvctl.bench.store.services import HOST, Service
from kvctl.connector.capability import ALL, NO_LIMITS, Capability, sign
from kvctl.connector.keys import Identity, KeyLease, RootKey, write_lease
from kvctl.connector.seal import sealed_length
from kvctl.connector.unixhttp import UnixConnection
from kvctl.types.chunks import Scope
from kvctl.types.errors import KvctlError

ANSWER = 3600.0  # seconds: a scrub of everything is one answer
TENANT = "bench"
DOMAINS = ("set", "new")  # what GETs read, and what a sample of PUTs writes
HOT_RAM = 2 * GIB
CAPACITY = 16 * GIB
BATCH_BYTES = 32 << 20  # of the chunks that one GET asks for, where they come from disk
LEASE_SECONDS = 24 * 3600


@contextmanager
def hot(settings: Settings, directory: Path) -> Iterator[Service]:
    """RAM that holds every set; chunks are on the disk too."""
    with daemon("kvstored", settings, directory, HOT_RAM) as service:
        yield service


@contextmanager
def cold(settings: Settings, directory: Path) -> Iterator[Service]:
    """RAM for the chunks in flight alone, so that reads come from the disk."""
    with daemon("kvstored-cold", settings, directory, cold_ram(settings)) as service:
        ways = {name: address | {"batch_bytes": str(BATCH_BYTES)} for name, address in service.addresses.items()}
        yield replace(service, addresses=ways)


def cold_ram(settings: Settings) -> int:
    """Three chunks for each connection, for one that is sent and one that is read ahead."""
    return 3 * max(*settings.connections, 2) * largest(settings)


def largest(settings: Settings) -> int:
    """Bytes of a sealed chunk and its header in a segment, in whole MiB."""
    return -(-sealed_length(max(settings.sizes)) // MIB) * MIB + MIB


@contextmanager
def daemon(label: str, settings: Settings, directory: Path, ram: int, capacity: int = CAPACITY) -> Iterator[Service]:
    """A kvstored that answers. Addresses name files, because keys are in them."""
    private = directory / label
    address = prepare(label, private, settings, ram, capacity)
    with started(label, private, address) as child:
        ways = {f"{label}-tcp": "tcp", f"{label}-unix": "unix"} if label == "kvstored" else {label: "tcp"}
        yield Service((child,), {name: address | {"address": address[way]} for name, way in ways.items()})


@contextmanager
def started(label: str, private: Path, address: Mapping[str, str]) -> Iterator[Child]:
    """Start the daemon of a prepared directory, and wait until it takes connections."""
    argv = module("kvctl.store.main", "--config", str(private / "kvstored.yaml"))
    with running(label, argv, private) as child:
        place = address["tcp"].removeprefix("tcp:")
        await_true(child, f"{place} answers", lambda: listens(place), seconds=600.0)
        yield child


def prepare(label: str, private: Path, settings: Settings, ram: int, capacity: int = CAPACITY) -> dict[str, str]:
    """Directories, keys, leases and the configuration of one daemon; what a client needs to reach it."""
    (private / "flash").mkdir(parents=True)
    store, connector, controller = Identity.generate(), Identity.generate(), Identity.generate()
    store.save(private / "store.key")
    connector.save(private / "connector.key")
    for domain in DOMAINS:
        write_lease(private / f"{domain}.lease", lease(domain, connector, controller))
    tcp, unix = f"tcp:{HOST}:{free_ports(1)[0]}", f"unix:{private / 'store.sock'}"
    config = {
        "schema": 1,
        "node": label,
        "listen": [tcp, unix],
        "state": str(private / "state"),
        "admin": {"socket": str(private / "admin.sock")},
        "identity": str(private / "store.key"),
        "connectors": {"bench": connector.public.hex()},
        "controllers": {"bench": controller.public.hex()},
        "ram": ram,
        "tiers": {"flash": {"mounts": [{"path": str(private / "flash"), "capacity": capacity}]}},
        "limits": {"chunk": largest(settings)},
    }
    (private / "kvstored.yaml").write_text(json.dumps(config))  # JSON is YAML
    return {"tcp": tcp, "unix": unix, "directory": str(private), "store_key": store.public.hex()}


def lease(domain: str, connector: Identity, controller: Identity) -> KeyLease:
    scope = Scope(TENANT, domain, secrets.token_bytes(16))
    now = int(time.time())
    end = now + LEASE_SECONDS
    capability = Capability(
        scope.tenant, scope.domain, scope.epoch, ALL, connector.public, NO_LIMITS, secrets.token_bytes(16), now, end
    )
    return KeyLease(RootKey(scope, secrets.token_bytes(32)), sign(capability, controller), end)


def ram_share(private: Path) -> float | None:
    """Share of GETs that a daemon answered from RAM since its start; None when there were none."""
    ram = admin(private, "stat")["ram"]
    hits, all_reads = ram["ram_hits"], ram["ram_hits"] + ram["ram_misses"]
    return hits / all_reads if all_reads else None


def counted(private: Path) -> bool:
    """Whether a daemon has read the recency of what it held at its start, which it does while it serves."""
    return bool(admin(private, "stat")["counters"]["counted"])


def admin(private: str | os.PathLike[str], verb: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Ask a daemon's admin socket: GET without a body, POST with one. KV-BENCH-016 when it refuses."""
    connection = UnixConnection(os.path.join(private, "admin.sock"), ANSWER)  # noqa: PTH118 - of a text
    try:
        if body is None:
            connection.request("GET", f"/v1/{verb}")
        else:
            connection.request("POST", f"/v1/{verb}", json.dumps(body))
        answer = connection.getresponse()
        text = answer.read()
    finally:
        connection.close()
    if answer.status != 200:
        raise KvctlError("KV-BENCH-016", f"kvstored did not {verb}", where=str(private), why=text.decode())
    found: dict[str, Any] = json.loads(text)
    return found
