"""The Merkle tree of RFC 6962, section 2.1 (SHA-256), kept as C2SP tiles of 256 hashes.

A hash is 32 bytes. Level L of the tiles holds the roots of complete subtrees of 256**L entries.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

HASH_BYTES = 32
WIDTH = 256  # hashes of a full tile
HEIGHT = 8  # of the subtree that a tile is
EMPTY_ROOT = sha256(b"").digest()

Hash = bytes
ReadTile = Callable[[int, int, int], Sequence[Hash]]  # level, index, width -> at least `width` hashes


def leaf_hash(entry: bytes) -> Hash:
    return sha256(b"\0" + entry).digest()


def node_hash(left: Hash, right: Hash) -> Hash:
    return sha256(b"\1" + left + right).digest()


def fold(hashes: Sequence[Hash]) -> Hash:
    """The root over a power of two of hashes."""
    row = list(hashes)
    while len(row) > 1:
        row = [sha256(b"\1" + row[i] + row[i + 1]).digest() for i in range(0, len(row), 2)]
    return row[0]


@dataclass(frozen=True, slots=True)
class Tile:
    """Hashes `index` * 256 and on of a level; full with 256 of them."""

    level: int
    index: int
    hashes: tuple[Hash, ...]


class Edge:
    """The right edge of a tree: the unfinished tile of each level, from which the tree grows and its root comes."""

    __slots__ = ("levels", "size")

    def __init__(self, size: int = 0, levels: Iterable[Sequence[Hash]] = ()) -> None:
        self.size = size
        self.levels = [list(hashes) for hashes in levels]

    @classmethod
    def read(cls, size: int, tile: ReadTile) -> "Edge":
        """The edge of the tree of `size` entries, from its partial tiles."""
        levels = []
        for level, index, width in partial_tiles(size):
            levels.append(list(tile(level, index, width)[:width]) if width else [])
        return cls(size, levels)

    def copy(self) -> "Edge":
        return Edge(self.size, self.levels)

    def extend(self, leaves: Sequence[Hash]) -> list[Tile]:
        """Grow by leaf hashes; the tiles that this made full, lower ones first."""
        start = self.size
        self.size += len(leaves)
        return list(self._grow(0, start, leaves))

    def extend_tile(self, root: Hash) -> list[Tile]:
        """Grow by 256 entries of which only the root is known; the size must be a multiple of 256."""
        start = self.size
        self.size += WIDTH
        if not self.levels:
            self.levels.append([])
        return list(self._grow(1, start // WIDTH, [root]))

    def _grow(self, level: int, start: int, hashes: Sequence[Hash]) -> Iterator[Tile]:
        """`start`: how many hashes the level had before these."""
        if level == len(self.levels):
            self.levels.append([])
        row = [*self.levels[level], *hashes]
        whole = len(row) // WIDTH
        self.levels[level] = row[whole * WIDTH :]
        if not whole:
            return
        first = start // WIDTH
        full = [tuple(row[i * WIDTH : (i + 1) * WIDTH]) for i in range(whole)]
        for i, hashes_of_one in enumerate(full):
            yield Tile(level, first + i, hashes_of_one)
        yield from self._grow(level + 1, first, [fold(one) for one in full])

    def partials(self) -> Iterator[Tile]:
        """The unfinished tiles that are not empty."""
        for level, hashes in enumerate(self.levels):
            if hashes:
                yield Tile(level, self.size >> (HEIGHT * (level + 1)), tuple(hashes))

    def root(self) -> Hash:
        root: Hash | None = None
        for hashes in self.levels:
            end = len(hashes)
            while end:
                start = end & (end - 1)
                peak = fold(hashes[start:end])
                root = peak if root is None else node_hash(peak, root)
                end = start
        return EMPTY_ROOT if root is None else root


def partial_tiles(size: int) -> Iterator[tuple[int, int, int]]:
    """Level, index and width of the rightmost tile of each level; a width of 0 means that there is none."""
    level = 0
    while size:
        yield level, size // WIDTH, size % WIDTH
        size //= WIDTH
        level += 1


class Proofs:
    """Roots and proofs of trees of any size, from tiles."""

    def __init__(self, tile: ReadTile) -> None:
        self._read = tile
        self._held: dict[tuple[int, int], Sequence[Hash]] = {}

    def root(self, size: int) -> Hash:
        return self._range(0, size) if size else EMPTY_ROOT

    def inclusion(self, index: int, size: int) -> list[Hash]:
        """RFC 6962, 2.1.1: from the leaf's sibling up to the root's child."""
        path = []
        start, end = 0, size
        while end - start > 1:
            middle = start + split(end - start)
            if index < middle:
                path.append(self._range(middle, end))
                end = middle
            else:
                path.append(self._range(start, middle))
                start = middle
        return path[::-1]

    def consistency(self, old: int, new: int) -> list[Hash]:
        """RFC 6962, 2.1.2; empty for equal sizes, and from the empty tree, which every tree continues."""
        if old in (0, new):
            return []
        path = []
        start, end, known = 0, new, True
        while end != old:
            middle = start + split(end - start)
            if old <= middle:
                path.append(self._range(middle, end))
                end = middle
            else:
                path.append(self._range(start, middle))
                start, known = middle, False
        return path[::-1] if known else [self._range(start, end), *path[::-1]]

    def _range(self, start: int, end: int) -> Hash:
        """The root over entries `start` to `end`, `start` being where a subtree of that size may begin."""
        size = end - start
        if size & (size - 1) == 0:
            return self._node(start, size.bit_length() - 1)
        middle = start + split(size)
        return node_hash(self._range(start, middle), self._range(middle, end))

    def _node(self, start: int, height: int) -> Hash:
        """The root of the complete subtree of 2**height entries from `start` on."""
        level, rest = divmod(height, HEIGHT)
        tile, offset = divmod(start >> (HEIGHT * level), WIDTH)
        end = offset + (1 << rest)
        hashes = self._held.get((level, tile), ())
        if len(hashes) < end:
            hashes = self._held[level, tile] = self._read(level, tile, end)
        return fold(hashes[offset:end])


def split(size: int) -> int:
    """The largest power of two below `size`."""
    return 1 << ((size - 1).bit_length() - 1)


def root_of_inclusion(leaf: Hash, index: int, size: int, path: Sequence[Hash]) -> Hash | None:
    """The root that an inclusion proof leads to; None for a proof of a wrong length (RFC 9162, 2.1.3.2)."""
    if not 0 <= index < size:
        return None
    node, last, found = index, size - 1, leaf
    for sibling in path:
        if last == 0:
            return None
        if node & 1 or node == last:
            found = node_hash(sibling, found)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            found = node_hash(found, sibling)
        node, last = node >> 1, last >> 1
    return found if last == 0 else None


def consistent(old: int, new: int, old_root: Hash, new_root: Hash, path: Sequence[Hash]) -> bool:
    """Whether the proof shows that the tree of `new` entries only added to that of `old` (RFC 9162, 2.1.4.2)."""
    if old == new:
        return old_root == new_root and not path
    if old == 0:
        return not path and old_root == EMPTY_ROOT
    if not 0 < old < new:
        return False
    rest = list(path) if old & (old - 1) else [old_root, *path]
    if not rest:
        return False
    node, last = old - 1, new - 1
    while node & 1:
        node, last = node >> 1, last >> 1
    was = now = rest[0]
    for sibling in rest[1:]:
        if last == 0:
            return False
        if node & 1 or node == last:
            was, now = node_hash(sibling, was), node_hash(sibling, now)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            now = node_hash(now, sibling)
        node, last = node >> 1, last >> 1
    return last == 0 and was == old_root and now == new_root
