"""What the store must reach, as ratios of medians of one run. Pure."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from kvctl.bench.store.cells import MIB, Cell, Op, size_text
from kvctl.bench.store.figures import Figures, Scaled

Table = Mapping[Cell, Mapping[str, Figures]]
LARGE = (2 * MIB, 16 * MIB)
BUSY = 4  # connections


@dataclass(frozen=True, slots=True)
class Target:
    """`measured` and `ok` are None when one side of the comparison was not measured: that is no pass."""

    name: str
    measured: float | None
    required: str  # ">= 0.70"
    ok: bool | None


def at_least(name: str, measured: float | None, limit: float) -> Target:
    return Target(name, measured, f">= {limit:.2f}", None if measured is None else measured >= limit)


def at_most(name: str, measured: float | None, limit: float) -> Target:
    return Target(name, measured, f"<= {limit:.2f}", None if measured is None else measured <= limit)


def less_than(name: str, measured: float | None, limit: float) -> Target:
    return Target(name, measured, f"< {limit:.2f}", None if measured is None else measured < limit)


def more_than(name: str, measured: float | None, limit: float) -> Target:
    return Target(name, measured, f"> {limit:.2f}", None if measured is None else measured > limit)


def targets(table: Table, scale: Scaled | None) -> list[Target]:
    """Every target, in the order of the design; those of parts that were left out are not measured."""
    return [*over_tcp(table), *same_host(table), *on_disk(table), *at_scale(scale)]


def over_tcp(table: Table) -> Iterator[Target]:
    """Sealed GET over TCP, opened by the client, against a plain socket pair and against peers."""
    for size in LARGE:
        cell = Cell(Op.GET, size, BUSY)
        name = f"GET {size_text(size)} x{BUSY}, opened: kvstored"
        yield at_least(f"{name} / raw TCP, GB/s", speed(table, cell, "kvstored-tcp", "raw-tcp"), 0.7)
        more = compared(table, cell, "kvstored-tcp", "raw-tcp", lambda ours, raw: ours.total_cpu - raw.total_cpu)
        yield at_most(f"{name} - raw TCP, CPU s/GB", more, 0.15)
        for peer in ("redis", "mooncake"):
            yield more_than(f"{name} / {peer}, GB/s", speed(table, cell, "kvstored-tcp", peer), 1.0)
    cell = Cell(Op.GET, 2 * MIB, BUSY)
    ratio = speed(table, cell, "kvstored-tcp", "seaweedfs")
    yield at_least(f"GET {size_text(2 * MIB)} x{BUSY}, opened: kvstored / S3 by boto3, GB/s", ratio, 2.0)


def same_host(table: Table) -> Iterator[Target]:
    for size in LARGE:
        ratio = speed(table, Cell(Op.GET, size, BUSY), "kvstored-unix", "memcpy")
        yield at_least(f"GET {size_text(size)} x{BUSY}, same host, opened: kvstored / memcpy, GB/s", ratio, 0.6)


def on_disk(table: Table) -> Iterator[Target]:
    """At every number of connections that was measured, which is the number of operations in flight."""
    depths = sorted({cell.connections for cell in table}) or [BUSY]
    for size in LARGE:
        for depth in depths:
            ratio = speed(table, Cell(Op.GET, size, depth), "kvstored-cold", "fio")
            yield at_least(f"GET {size_text(size)} x{depth}, cold, opened: kvstored / fio O_DIRECT, GB/s", ratio, 0.85)
    for size in LARGE:
        for depth in depths:
            ratio = speed(table, Cell(Op.DURABLE, size, depth), "kvstored-tcp", "fio")
            yield at_least(f"PUT {size_text(size)} x{depth}, durable: kvstored / fio write + flush, GB/s", ratio, 0.6)


def at_scale(scale: Scaled | None) -> Iterator[Target]:
    yield less_than(
        "HAS of 1000 keys in a million chunks, p50 ms", None if scale is None else 1000 * scale.has_p50, 3.0
    )
    yield at_most("GET p99 with 100x the stored data / with 1x", None if scale is None else scale.p99_ratio, 1.2)


def speed(table: Table, cell: Cell, ours: str, theirs: str) -> float | None:
    return compared(table, cell, ours, theirs, lambda one, other: one.gbps / other.gbps)


def compared(table: Table, cell: Cell, ours: str, theirs: str, by: Callable[[Figures, Figures], float]) -> float | None:
    """A comparison of two contestants' figures of one cell; None when one of them has none."""
    rows = table.get(cell, {})
    one, other = rows.get(ours), rows.get(theirs)
    return None if one is None or other is None else by(one, other)
