"""A stored chunk as bytes on a disk: where its parts lie, and how to damage them behind the store's back."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kvctl.connector.seal import HEADER_BYTES, OVERHEAD, TAG_BYTES
from tests.store.faults.ledger import Chunk

PAGE = 4096
STEP = 32 << 20


@dataclass(frozen=True, slots=True)
class OnDisk:
    """One record: a page of header, the sealed bytes, padding to the next page. Offsets within the file."""

    file: Path
    start: int
    sealed: int  # bytes

    @property
    def body(self) -> int:
        return self.start + PAGE

    @property
    def end(self) -> int:
        return self.body + -(-self.sealed // PAGE) * PAGE

    def regions(self) -> dict[str, tuple[int, int]]:
        """Name -> (first, behind the last) byte within the file."""
        body, tail = self.body, self.body + self.sealed
        return {
            "record header": (self.start, self.start + PAGE),
            "magic": (body, body + 4),
            "version": (body + 4, body + 5),
            "cipher": (body + 5, body + 6),
            "codec": (body + 6, body + 7),
            "zero": (body + 7, body + 8),
            "epoch": (body + 8, body + 24),
            "nonce": (body + 24, body + 48),
            "length": (body + 48, body + 56),
            "key": (body + 56, body + HEADER_BYTES),
            "ciphertext": (body + HEADER_BYTES, tail - TAG_BYTES),
            "tag": (tail - TAG_BYTES, tail),
            "padding": (tail, self.end),
        }

    def read(self) -> bytes:
        with self.file.open("rb") as file:
            return os.pread(file.fileno(), self.sealed, self.body)

    def flip(self, at: int, bit: int) -> None:
        """Change one bit; `at` is an offset within the file."""
        with self.file.open("r+b") as file:
            (byte,) = os.pread(file.fileno(), 1, at)
            os.pwrite(file.fileno(), bytes((byte ^ 1 << bit,)), at)
            os.fsync(file.fileno())


def swap(one: OnDisk, other: OnDisk, *, headers: bool) -> None:
    """Exchange the sealed bytes of two records of one length; with `headers`, the whole records."""
    first, second = (one.start, other.start) if headers else (one.body, other.body)
    size = one.end - first
    assert other.end - second == size
    with one.file.open("r+b") as left, other.file.open("r+b") as right:
        a, b = os.pread(left.fileno(), size, first), os.pread(right.fileno(), size, second)
        os.pwrite(left.fileno(), b, first)
        os.pwrite(right.fileno(), a, second)
        os.fsync(left.fileno())
        os.fsync(right.fileno())


def locate(folder: Path, chunks: Sequence[Chunk]) -> dict[int, OnDisk]:
    """Seed -> its record, found by the page of sealed bytes that names the chunk's key."""
    wanted = {chunk.key: chunk for chunk in chunks}
    found = {}
    for file in sorted(folder.rglob("*.seg")):
        for at, page in pages(file):
            if page[:4] == b"KVC1" and (chunk := wanted.get(page[56:HEADER_BYTES])) is not None:
                found[chunk.seed] = OnDisk(file, at - PAGE, chunk.length + OVERHEAD)
    assert len(found) == len(chunks), f"{len(found)} of {len(chunks)} chunks are in the segments"
    return found


def pages(path: Path) -> Iterator[tuple[int, bytes]]:
    """(offset, page) of every page with data; holes are skipped."""
    with path.open("rb") as file:
        for begin, end in extents(file.fileno()):
            for at in range(begin, end, PAGE):
                yield at, os.pread(file.fileno(), PAGE, at)


def extents(fd: int) -> Iterator[tuple[int, int]]:
    """(first, behind the last) byte of what is no hole."""
    size = os.fstat(fd).st_size
    at = 0
    while at < size:
        try:
            begin = os.lseek(fd, at, os.SEEK_DATA)
        except OSError:
            return  # ENXIO: only a hole is left
        at = os.lseek(fd, begin, os.SEEK_HOLE)
        yield begin, at


def search(root: Path, wanted: Sequence[bytes]) -> dict[bytes, str]:
    """Fragment -> file and offset of its first occurrence in any file below `root` (or in `root`, a file)."""
    found: dict[bytes, str] = {}
    longest = max(map(len, wanted))
    for path in [root] if root.is_file() else sorted(path for path in root.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            for begin, end in extents(file.fileno()):
                for at in range(begin, end, STEP):
                    data = os.pread(file.fileno(), min(STEP + longest, end + longest - at), at)
                    for fragment in wanted:
                        if fragment not in found and (where := data.find(fragment)) >= 0:
                            found[fragment] = f"{path.name}:{at + where}"
    return found
