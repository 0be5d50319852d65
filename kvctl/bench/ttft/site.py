"""The stores of the benchmark: one with every tier, two behind a relay; and what an engine needs to use them."""

import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvctl.bench.pool_site import Store
from kvctl.bench.store.cells import GIB, MIB, Settings
from kvctl.bench.store.kvstored import admin, lease
from kvctl.bench.store.processes import Child, await_line, free_ports, module, running
from kvctl.bench.store.services import HOST, seaweedfs
from kvctl.bench.ttft.engine import ROW, TOKENS_PER_SECOND
from kvctl.connector.handle import PARAMETER, Handle, cache_salt, salt_digest, sign
from kvctl.connector.keys import Identity, KeyLease, write_lease
from kvctl.types.errors import KvctlError

DOMAINS = ("contexts", "kept", "pair", "filler")
RAM = 1 * GIB
PAIR_RAM = 768 * MIB
CAPACITY = 8 * GIB
LEASE_MS = 1000  # what is leased is not moved between tiers: a short lease is waited for
WRITE_RATE = 200e6  # bytes a second of the large write
SLOW_RATE = 1e6
STRIPE = 2  # chunks that lie together on one of two stores
PATIENCE = 120.0  # seconds
POLL = 0.05


def await_that(what: str, true: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Wait until a condition holds. KV-BENCH-032 with `what` did not come."""
    end, pause = time.monotonic() + seconds, threading.Event()
    while not true():
        if time.monotonic() > end:
            raise KvctlError("KV-BENCH-032", "the stores did not get there", why=f"not within {seconds:.0f} s: {what}")
        pause.wait(POLL)


@dataclass(slots=True)
class Site:
    """`main` has every tier; `pair` are two stores, which an engine reaches through `relay`."""

    directory: Path
    connector: Identity
    gateway: Identity
    leases: Mapping[str, KeyLease]
    main: Store
    pair: tuple[Store, ...]
    ports: tuple[int, ...]  # of the relay, one a store of the pair
    relay: Child
    without: str = ""  # why there is no object tier

    def body(self, domain: str) -> dict[str, object]:
        """What a gateway adds to a request."""
        held = self.leases[domain]
        salt, scope = cache_salt(held.key.salt_key, domain), held.scope
        handle = Handle(
            tenant=scope.tenant, domain=scope.domain, epoch=scope.epoch, salt_digest=salt_digest(salt),
            expires_at=int(time.time() + 3600),
        )  # fmt: skip
        return {"cache_salt": salt, "kv_transfer_params": {PARAMETER: sign(handle, self.gateway)}}

    def tier(self, stores: list[dict[str, object]], **more: object) -> dict[str, object]:
        """The engine's options of KvctlTier."""
        return {
            "type": "KvctlTier",
            "module_path": "kvctl.connector.vllm_tier",
            "identity": str(self.directory / "engine.key"),
            "leases": str(self.directory / "leases"),
            "gateways": [self.gateway.public.hex()],
            "assumed_tokens_per_second": TOKENS_PER_SECOND,
            "lease_ms": LEASE_MS,
            "stores": stores,
            **more,
        }

    def main_tier(self) -> dict[str, object]:
        return self.tier([described(self.main)])

    def pair_tier(self) -> dict[str, object]:
        relayed = zip(self.pair, self.ports, strict=True)
        return self.tier([described(store, f"tcp:{HOST}:{port}") for store, port in relayed], stripe=STRIPE)

    def chunks(self, stores: tuple[Store, ...]) -> int:
        """How many chunks stores have on their tiers."""
        return sum(tier_chunks(admin(self.place(store), "stat")) for store in stores)

    def await_chunks(self, stores: tuple[Store, ...], count: int) -> None:
        """Return when stores have so many chunks. KV-BENCH-032."""
        await_that(f"{count} chunks stored", lambda: self.chunks(stores) >= count)

    def place(self, store: Store) -> Path:
        return self.directory / store.name

    def move(self, domain: str, source: str, target: str, chunks: int) -> None:
        """Bring a domain's chunks to another tier. Afterwards the store's memory has none of them. KV-BENCH-032."""
        moved = 0

        def all_moved() -> bool:
            nonlocal moved
            asked = {"id": secrets.token_hex(8), "source": source, "target": target, "domain": domain}
            told = admin(self.place(self.main), "move", asked)
            if told["failed"]:
                raise KvctlError(
                    "KV-BENCH-032", "the stores did not get there", why=f"move to {target}: {told['failed']}"
                )
            moved += told["moved"]
            return bool(moved >= chunks)

        await_that(f"{chunks} chunks moved from {source} to {target}", all_moved)

    def erase(self, domain: str, store: Store) -> None:
        scope = self.leases[domain].scope
        admin(self.place(store), "erase", {"tenant": scope.tenant, "domain": domain, "epoch": scope.epoch.hex()})

    def memory(self) -> tuple[int, int]:
        """GETs that the main store answered from memory, and others."""
        ram = admin(self.place(self.main), "stat")["ram"]
        return ram["ram_hits"], ram["ram_misses"]

    def slow(self, rate: float) -> None:
        """Bytes a second that the relay lets through; 0: all."""
        self.relay.stdin.write(f"{rate}\n".encode())
        self.relay.stdin.flush()
        await_line(self.relay, b"ready")

    @contextmanager
    def writing(self) -> Iterator[dict[str, float]]:
        """A large write runs at the main store; how fast is in the mapping afterwards. What it wrote is erased."""
        told: dict[str, float] = {}
        setup = {
            "lease": str(self.directory / "leases" / "filler.json"), "identity": str(self.directory / "engine.key"),
            "address": self.main.node.addresses[0], "store_key": self.main.node.public_key, "chunk": ROW,
            "rate": WRITE_RATE,
        }  # fmt: skip
        with running("writer", module("kvctl.bench.ttft.writer"), self.directory, pipes=True) as child:
            child.stdin.write(json.dumps(setup).encode() + b"\n")
            child.stdin.flush()
            await_line(child, b"going")
            yield told
            child.stdin.close()
            line = child.stdout.readline()
            if not line:
                raise child.failed("ended before it was told to")
            end = json.loads(line)
            told["rate"] = end["bytes"] / end["seconds"]
        self.erase("filler", self.main)


def described(store: Store, address: str | None = None) -> dict[str, object]:
    node = store.node
    return {"name": node.name, "addresses": [address or node.addresses[0]], "public_key": node.public_key}


def tier_chunks(stat: Mapping[str, Any]) -> int:
    return sum(int(tier["chunks"]) for tier in stat["tiers"])


@contextmanager
def site(directory: Path, *, objects: bool) -> Iterator[Site]:
    """Stores that answer, with files below `directory`. KV-BENCH-012. `objects`: with a bucket of SeaweedFS."""
    connector, controller, gateway = (Identity.generate() for _ in range(3))
    connector.save(directory / "engine.key")
    (directory / "leases").mkdir()
    leases = {domain: lease(domain, connector, controller) for domain in DOMAINS}
    for domain, held in leases.items():
        write_lease(directory / "leases" / f"{domain}.json", held)
    with ExitStack() as stack:
        tiers, without = mounts(directory / "main"), "it was not asked for"
        if objects:
            bucket, without = object_tier(stack, directory)
            tiers |= bucket
        main = Store("main", directory / "main", connector, controller, ram=RAM, tiers=tiers)
        names = ("left", "right")
        pair = tuple(Store(name, directory / name, connector, controller, ram=PAIR_RAM) for name in names)
        for store in (main, *pair):
            stack.callback(store.close)
            store.begin()
        for store in (main, *pair):
            store.ready()
        ports = free_ports(len(pair))
        pairs = [f"{port}:{target(store)}" for port, store in zip(ports, pair, strict=True)]
        relay = stack.enter_context(running("relay", module("kvctl.bench.ttft.relay", *pairs), directory, pipes=True))
        await_line(relay, b"ready")
        yield Site(directory, connector, gateway, leases, main, pair, tuple(ports), relay, without)


def target(store: Store) -> str:
    return store.node.addresses[0].rpartition(":")[2]


def mounts(directory: Path) -> dict[str, Any]:
    """Flash and disk below a store's directory; the store makes that of its flash itself."""
    (directory / "disk").mkdir(parents=True)
    return {name: {"mounts": [{"path": str(directory / name), "capacity": CAPACITY}]} for name in ("flash", "disk")}


def object_tier(stack: ExitStack, directory: Path) -> tuple[dict[str, Any], str]:
    """The configuration of a bucket; or none, and why it cannot be had."""
    settings = Settings((MIB,), (1,), 1, directory)
    try:
        address = stack.enter_context(seaweedfs(settings, directory)).addresses["seaweedfs"]
    except (KvctlError, ImportError) as error:
        return {}, str(error)
    keys = directory / "s3.json"
    keys.touch(mode=0o600)
    keys.write_text(json.dumps({"access_key": address["access"], "secret_key": address["secret"]}))
    bucket = {"bucket": address["bucket"], "endpoint": address["endpoint"], "credentials": str(keys)}
    return {"object": {"s3": bucket, "capacity": CAPACITY}}, ""
