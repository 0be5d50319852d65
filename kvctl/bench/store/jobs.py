"""What the benchmark and a contestant's client process say to each other: one JSON object a line."""

from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

from kvctl.bench.store.cells import Op


@dataclass(frozen=True, slots=True)
class Setup:
    """The first line to a client: whom it talks to, and the keys that it seals with. Never on a command line."""

    lane: str  # a name of `kvctl.bench.store.lanes.KINDS`
    address: dict[str, str]
    largest: int  # plaintext bytes of the largest chunk
    connections: int  # most at once
    set_bytes: int
    epoch: str  # hexadecimal, as is the next
    seal_key: str


@dataclass(frozen=True, slots=True)
class Job:
    """One sample, or the filling of the set (`limit` PUTs of chunks 0, 1, ... of the set)."""

    kind: str  # "fill" or "measure"
    op: Op
    size: int
    connections: int
    limit: int  # most operations
    seconds: float
    chunks: int  # of the set that GETs read
    seed: int  # of the names of new chunks
    pids: tuple[int, ...]  # of the server

    @property
    def new(self) -> bool:
        """Whether it writes chunks that nobody wrote before."""
        return self.kind == "measure" and self.op is not Op.GET


@dataclass(frozen=True, slots=True)
class Taken:
    """What a sample gave. Seconds; `server_cpu` goes on until the server has finished what it took."""

    ops: int
    bytes: int  # plaintext
    wall: float
    client_cpu: float
    server_cpu: float | None  # None: there is no server
    seal_cpu: float | None  # of `client_cpu`, spent on sealing or opening; None: cannot be told apart
    p50: float | None  # latency of one operation; None: the tool does not tell
    p99: float | None


class Chunk(NamedTuple):
    """`place`: its number in the set. Servers without keys of 32 bytes use `name`."""

    key: bytes
    name: str
    place: int


def chunk(label: str, size: int, index: int) -> Chunk:
    """The same names for every contestant."""
    key = sha256(f"{label} {size} {index}".encode()).digest()
    return Chunk(key, key.hex(), index)
