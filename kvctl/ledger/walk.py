"""Goes through bundles and tiles from the left, computes the tree from the entries, and says which file is wrong."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from kvctl.ledger.counters import Counters
from kvctl.ledger.report import Problem
from kvctl.ledger.tiles import ENTRIES, Kind, TileFiles, begin_bundle, tile_path
from kvctl.ledger.tree import HASH_BYTES, WIDTH, Edge, Hash, Tile, fold, leaf_hash
from kvctl.types.errors import KvctlError


class Walk:
    """The tree of `size` entries. `root`: what the checkpoint says; None when there is none to go by.

    After `run`: `problems`; `roots` of the sizes in `marks`; `edge`, or None when too much is missing to know the tree;
    `blamed`: bundles whose entries are not to be trusted.
    """

    def __init__(self, files: TileFiles, size: int, root: Hash | None, marks: Iterable[int], counters: Counters | None):
        self._files, self._size, self._root, self._counters = files, size, root, counters
        self._marks = sorted(set(marks))
        self.roots: dict[int, Hash] = {}
        self.problems: list[Problem] = []
        self.blamed: set[int] = set()
        self.edge: Edge | None = Edge()

    def run(self) -> None:
        self._mark([])
        for number in range(-(-self._size // WIDTH)):
            self._bundle(number, min(WIDTH, self._size - number * WIDTH))
        if self.edge:
            self._compare_upper(self.edge.partials())

    def _bundle(self, number: int, width: int) -> None:
        stored = self._hashes(0, number, width)
        entries = self._entries(number, width, stored)
        leaves = None if entries is None else [leaf_hash(entry) for entry in entries]
        chosen = self._choose(number, leaves, stored)
        if entries is None or chosen != leaves:
            self.blamed.add(number)
        if self._counters and number in self.blamed:
            self._counters.skip()
        elif self._counters and entries is not None:
            self.problems += self._counters.check(tile_path(ENTRIES, number, width), number * WIDTH, entries)
        self._grow(number, width, chosen)

    def _grow(self, number: int, width: int, chosen: Sequence[Hash] | None) -> None:
        if self.edge is None:
            return
        if chosen is not None:
            self._mark(chosen)
            self._compare_upper(self.edge.extend(chosen))
        elif width == WIDTH and (parent := self._parent(number)):
            self._compare_upper(self.edge.extend_tile(parent))
        else:
            self.edge = None

    def _mark(self, leaves: Sequence[Hash]) -> None:
        """Keep the roots of the asked sizes that end within these leaves."""
        assert self.edge is not None
        while self._marks and self._marks[0] <= self.edge.size + len(leaves):
            size = self._marks.pop(0)
            if size >= self.edge.size:
                grown = self.edge.copy()
                grown.extend(leaves[: size - grown.size])
                self.roots[size] = grown.root()

    def _read(self, kind: Kind, index: int, width: int) -> tuple[str, bytes, bool] | None:
        """Path, bytes, and whether it is the very file of this width; a live log may have a wider one by now."""
        try:
            path, data = self._files.read(kind, index, width)
        except KvctlError as error:
            first, last = spans(kind, index, width)
            what = f"of entries {first} to {last}: {error.why}"
            self.problems.append(Problem(self._relative(error.where), what, first))
            return None
        name = self._relative(path)
        return name, data, name == tile_path(kind, index, width)

    def _relative(self, path: Path | str) -> str:
        return str(Path(path).relative_to(self._files.directory))

    def _hashes(self, level: int, index: int, width: int) -> list[Hash] | None:
        found = self._read(level, index, width)
        if found is None:
            return None
        name, data, exact = found
        size = width * HASH_BYTES
        if len(data) < size or (exact and len(data) != size):
            first, last = spans(level, index, width)
            what = f"of entries {first} to {last}: it has {len(data)} bytes, not {size}"
            self.problems.append(Problem(name, what, first))
            return None
        return [data[at : at + HASH_BYTES] for at in range(0, size, HASH_BYTES)]

    def _entries(self, number: int, width: int, stored: Sequence[Hash] | None) -> list[bytes] | None:
        found = self._read(ENTRIES, number, width)
        if found is None:
            return None
        name, data, exact = found
        entries, end = begin_bundle(data)
        if len(entries) == width and end == len(data):
            return entries
        if len(entries) > width and not exact:
            return entries[:width]
        good = [leaf_hash(entry) for entry in entries[:width]]
        at = first_difference(good, stored) if stored else None
        index = number * WIDTH + (len(good) if at is None else at)
        what = f"entry {index}: from there on the file's {len(data)} bytes are not the {width} entries that were logged"
        self.problems.append(Problem(name, what, index))
        return None

    def _choose(
        self, number: int, leaves: Sequence[Hash] | None, stored: Sequence[Hash] | None
    ) -> Sequence[Hash] | None:
        """The hashes that the rest of the tree speaks for: those of the entries, or those of the tile."""
        if leaves is None or stored is None:
            return stored if leaves is None else leaves
        at = first_difference(leaves, stored)
        if at is None:
            return leaves
        speaks_for = self._by_parent(number) if len(leaves) == WIDTH else self._by_root
        tile_holds, entries_hold = speaks_for(stored), speaks_for(leaves)
        count = sum(a != b for a, b in zip(leaves, stored, strict=True)) - 1
        more = f", and {count} more in this file" if count else ""
        index = number * WIDTH + at
        if not entries_hold:
            what = f"entry {index} is not the one that was logged{more}"
            self.problems.append(Problem(tile_path(ENTRIES, number, len(leaves)), what, index))
        if not tile_holds:
            what = f"the hash of entry {index} is not the one of the entry{more}"
            self.problems.append(Problem(tile_path(0, number, len(leaves)), what, index))
        return stored if tile_holds else leaves

    def _by_parent(self, number: int) -> Callable[[Sequence[Hash]], bool]:
        parent = self._parent(number)
        return lambda hashes: fold(hashes) == parent

    def _by_root(self, hashes: Sequence[Hash]) -> bool:
        if self.edge is None:
            return False
        grown = self.edge.copy()
        grown.extend(hashes)
        return grown.root() == self._root

    def _parent(self, number: int) -> Hash | None:
        """What the tile above says of a full bundle; None when it cannot be read."""
        tile, offset = divmod(number, WIDTH)
        try:
            return self._files.hashes(1, tile, offset + 1)[offset]
        except KvctlError:  # told when the walk comes to that tile
            return None

    def _compare_upper(self, tiles: Iterable[Tile]) -> None:
        for tile in tiles:
            if tile.level == 0:
                continue
            stored = self._hashes(tile.level, tile.index, len(tile.hashes))
            at = first_difference(tile.hashes, stored) if stored else None
            if at is not None:
                each = WIDTH**tile.level
                first = (tile.index * WIDTH + at) * each
                what = f"hash {at}, over entries {first} to {first + each - 1}, is not that of the entries"
                self.problems.append(Problem(tile_path(tile.level, tile.index, len(tile.hashes)), what, first))


def spans(kind: Kind, index: int, width: int) -> tuple[int, int]:
    """The first and last entry below a tile."""
    each = WIDTH**kind if isinstance(kind, int) else 1
    return index * WIDTH * each, (index * WIDTH + width) * each - 1


def first_difference(one: Sequence[Hash], other: Sequence[Hash]) -> int | None:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
