"""What is measured: operations, sizes, connections, and how much each sample may move. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from kvctl.types.errors import UsageError

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
UNITS = {"": 1, "B": 1, "KIB": KIB, "MIB": MIB, "GIB": GIB}
MAX_SIZE = 63 * MIB  # a sealed chunk of the block protocol is at most 64 MiB
MAX_CONNECTIONS = 64


class Op(StrEnum):
    """What a client does to one chunk."""

    GET = "get"
    PUT = "put"  # answered when others can read the chunk
    DURABLE = "put-durable"  # answered when it survives a power cut


@dataclass(frozen=True, slots=True)
class Cell:
    """One row of the table for every contestant."""

    op: Op
    size: int  # plaintext bytes of a chunk
    connections: int

    @property
    def label(self) -> str:
        return f"{self.op} {size_text(self.size)} x{self.connections}"


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is measured. A sample ends with `sample_bytes` or after `seconds`, whichever comes first."""

    sizes: tuple[int, ...]
    connections: tuple[int, ...]
    rounds: int
    directory: Path
    sample_bytes: int = 256 * MIB
    seconds: float = 0.8
    set_bytes: int = 128 * MIB  # of the chunks that GETs read, for each size
    cold_bytes: int = 1 * GIB  # the same for reads from disk

    def chunks(self, size: int, *, cold: bool = False) -> int:
        """How many chunks GETs of a size go through: never fewer than each connection's own two."""
        return max((self.cold_bytes if cold else self.set_bytes) // size, 2 * max(self.connections))

    def limit(self, cell: Cell) -> int:
        """Most operations of one sample: at least two for each connection."""
        return max(self.sample_bytes // cell.size, 2 * cell.connections)

    def cells(self) -> Iterator[Cell]:
        for op in Op:
            for size in self.sizes:
                for connections in self.connections:
                    yield Cell(op, size, connections)


def parse_sizes(text: str) -> tuple[int, ...]:
    """Bytes from "256KiB,2MiB"; sorted, each once. UsageError KV-BENCH-010."""
    found = {parse_size(word.strip()) for word in text.split(",")}
    return tuple(sorted(found))


def parse_size(word: str, most: int = MAX_SIZE, where: str = "--sizes") -> int:
    match = re.fullmatch(r"(\d+)\s*([A-Za-z]*)", word)
    unit = UNITS.get(match[2].upper()) if match else None
    if match is None or unit is None or not 4096 <= int(match[1]) * unit <= most:
        raise UsageError(
            "KV-BENCH-010", f"{word!r} is no size that can be measured", where=where,
            fix=f"write for example 256KiB or 2MiB; from 4KiB to {most // MIB}MiB",
        )  # fmt: skip
    return int(match[1]) * unit


def parse_connections(text: str) -> tuple[int, ...]:
    """Numbers from "1,4"; sorted, each once. UsageError KV-BENCH-011."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and 0 < int(word) <= MAX_CONNECTIONS for word in words):
        raise UsageError(
            "KV-BENCH-011", f"{text!r} are no numbers of connections", where="--connections",
            fix=f"write for example 1,4; each from 1 to {MAX_CONNECTIONS}",
        )  # fmt: skip
    return tuple(sorted({int(word) for word in words}))


def size_text(size: int) -> str:
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"
