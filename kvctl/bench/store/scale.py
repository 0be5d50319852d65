"""What does not show in one sample: a million chunks in the index, and a hundred times the stored data."""

import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from kvctl.bench.hosts import say
from kvctl.bench.measures import rotated
from kvctl.bench.store import fill, kvstored
from kvctl.bench.store.cells import GIB, KIB, MIB, Cell, Op, Settings
from kvctl.bench.store.contestants import Contestant
from kvctl.bench.store.figures import Scaled, percentile
from kvctl.bench.store.jobs import chunk
from kvctl.bench.store.processes import Child, await_true, end_group, module, running
from kvctl.bench.store.stage import Stage
from kvctl.connector.client import StoreClient
from kvctl.connector.keys import Identity, KeyLease, load_lease
from kvctl.types.errors import KvctlError

MILLION = 1_000_000
ASKED = 1000  # keys of one HAS
REQUESTS = 300
SIZE = 256 * KIB  # of the chunks of the smaller and the larger store
SMALL = 64 * MIB
FACTOR = 100
CELL = Cell(Op.GET, SIZE, 4)
COUNT_SECONDS = 600.0
GETS = 2000  # of a sample: twenty of them lie above its p99


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large; tests take smaller ones."""

    chunks: int = MILLION
    requests: int = REQUESTS
    small: int = SMALL  # bytes
    factor: int = FACTOR
    gets: int = GETS


@dataclass(frozen=True, slots=True)
class Indexed:
    """Seconds of each step with a store of very many chunks; Scaled says what they are."""

    fill: float
    reopen: float
    counted: float
    reopen_killed: float
    has: tuple[float, ...]


def measure_scale(settings: Settings, sizes: Sizes = Sizes()) -> Scaled:
    """Both parts, one after the other, each on stores of its own."""
    found, p99s = index(settings, sizes), stored_data(settings, sizes)
    return Scaled(
        chunks=sizes.chunks,
        fill_seconds=found.fill,
        reopen_seconds=found.reopen,
        counted_seconds=found.counted,
        reopen_killed_seconds=found.reopen_killed,
        has_p50=median(found.has),
        has_p99=rank(sorted(found.has), 0.99),
        small_bytes=sizes.small,
        factor=sizes.factor,
        p99_small=median(small for small, _ in p99s),
        p99_large=median(large for _, large in p99s),
        has_times=found.has,
        p99s=tuple(p99s),
    )


def index(settings: Settings, sizes: Sizes) -> Indexed:
    """Fill, open, ask, kill and open again. HAS is asked once the daemon has nothing else to do."""
    private = settings.directory / "million"
    capacity = max(kvstored.CAPACITY, sizes.chunks * 16 * KIB)
    address = kvstored.prepare("million", private, settings, kvstored.HOT_RAM, capacity)
    say(f"fill the index with {sizes.chunks} chunks")
    seconds = filled(private, sizes.chunks)
    say("open it")
    with opened(private, address) as (reopened, client, lease, child):
        begun = time.perf_counter()
        await_true(child, "everything is counted", lambda: kvstored.counted(private), COUNT_SECONDS)
        counted = reopened + time.perf_counter() - begun
        times = tuple(asked(client, lease, at, sizes.chunks) for at in range(sizes.requests))
        os.killpg(child.process.pid, signal.SIGKILL)
        end_group(child.process)
    with opened(private, address) as (killed, _, _, _):
        pass
    return Indexed(seconds, reopened, counted, killed, times)


def filled(private: Path, count: int) -> float:
    """Seconds that `kvctl.bench.store.fill` took; KV-BENCH-012 when it failed."""
    argv = module("kvctl.bench.store.fill", str(private / "kvstored.yaml"), str(private / "set.lease"), str(count))
    with running("fill", argv, private, pipes=True) as child:
        line = child.stdout.readline()
        if child.process.wait() or not line:
            raise child.failed(f"ended with {child.process.returncode}")
    return float(line)


@contextmanager
def opened(private: Path, address: dict[str, str]) -> Iterator[tuple[float, StoreClient, KeyLease, Child]]:
    """A daemon that was started, how long it took to its first answer, and a client of it."""
    lease = load_lease(private / "set.lease")
    identity = Identity.load(private / "connector.key")
    begun = time.perf_counter()
    with (
        kvstored.started("million", private, address) as child,
        StoreClient(address["tcp"], identity, bytes.fromhex(address["store_key"])) as client,
    ):
        if not all(client.has(lease, [chunk(fill.LABEL, fill.SIZE, 0).key])):
            raise child.failed("does not have the first chunk any more")
        yield time.perf_counter() - begun, client, lease, child


def asked(client: StoreClient, lease: KeyLease, seed: int, chunks: int) -> float:
    """Seconds of one HAS of keys that lie anywhere, every other one stored. KV-BENCH-018 for a wrong answer."""
    places = random.Random(seed).sample(range(chunks), ASKED // 2)
    keys = [chunk(label, fill.SIZE, place).key for place in places for label in (fill.LABEL, "absent")]
    begun = time.perf_counter()
    found = client.has(lease, keys)
    seconds = time.perf_counter() - begun
    if found != [True, False] * len(places):
        raise KvctlError("KV-BENCH-018", "kvstored answered HAS wrongly", why=f"{sum(found)} of {len(keys)} are there")
    return seconds


def stored_data(settings: Settings, sizes: Sizes) -> list[tuple[float, float]]:
    """p99 of GETs from disk by round: of a store, and of one with `factor` times the data. Both have the same RAM."""
    found: list[tuple[float, float]] = []
    with ExitStack() as stack:
        takers = {}
        for label, size in (("1x", sizes.small), (f"{sizes.factor}x", sizes.factor * sizes.small)):
            own = replace(
                settings, sizes=(SIZE,), connections=(CELL.connections,), set_bytes=size, cold_bytes=size,
                sample_bytes=sizes.gets * SIZE, seconds=60.0,
            )  # fmt: skip
            stage = stack.enter_context(Stage(own))
            capacity = max(2 * size, GIB)
            stage.services[label] = stack.enter_context(
                kvstored.daemon(label, own, own.directory, kvstored.cold_ram(own), capacity)
            )
            takers[label] = stage.client(Contestant(label, label, "kvstored", frozenset({Op.GET}))).take
        for turn in range(settings.rounds + 1):
            say(f"stored data: {'warm-up' if turn == 0 else f'round {turn} of {settings.rounds}'}")
            p99 = {label: takers[label](CELL, turn).p99 for label in rotated(list(takers), turn)}
            small, large = (p99[label] for label in takers)
            if turn and small is not None and large is not None:
                found.append((small, large))
    return found


def rank(ordered: Sequence[float], share: float) -> float:
    found = percentile(ordered, share)
    assert found is not None
    return found
