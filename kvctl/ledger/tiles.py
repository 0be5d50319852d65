"""Files of a log as C2SP tlog-tiles lays them out: `tile/<L>/<N>[.p/<W>]` and `tile/entries/<N>[.p/<W>]`.

Of unfinished tiles only the widest is kept: a narrower one is how it begins.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from kvctl.ledger.tree import HASH_BYTES, WIDTH, Hash
from kvctl.types.errors import KvctlError, UsageError

ENTRIES = "entries"
MAX_ENTRY = 65_535  # an entry's length is a uint16
MODE = 0o600
DIRECTORY_MODE = 0o700

Kind = int | str  # a level, or ENTRIES


def number_path(index: int) -> str:
    """`x001/x234/067` for 1234067."""
    groups = [f"{index % 1000:03}"]
    while index := index // 1000:
        groups.append(f"x{index % 1000:03}")
    return "/".join(reversed(groups))


def tile_path(kind: Kind, index: int, width: int = WIDTH) -> str:
    suffix = "" if width == WIDTH else f".p/{width}"
    return f"tile/{kind}/{number_path(index)}{suffix}"


def encode_bundle(entries: Iterable[bytes]) -> bytes:
    return b"".join([part for entry in entries for part in (len(entry).to_bytes(2, "big"), entry)])


def check_entry(entry: bytes) -> None:
    """UsageError KV-LEDGER-003 for an entry that no bundle can hold."""
    if len(entry) > MAX_ENTRY:
        raise UsageError(
            "KV-LEDGER-003",
            "an entry of the log is too long",
            why=f"it has {len(entry)} bytes; the format allows {MAX_ENTRY}",
            fix="put the long part elsewhere and its SHA-256 into the entry",
        )


def decode_bundle(data: bytes) -> list[bytes]:
    """The entries of a bundle. ValueError naming the offset at which it stops being one."""
    entries, at = begin_bundle(data)
    if at < len(data):
        raise ValueError(f"entry {len(entries)} of the bundle, at byte {at}, is cut short")
    return entries


def begin_bundle(data: bytes) -> tuple[list[bytes], int]:
    """The whole entries that a bundle begins with, and the offset behind them."""
    entries: list[bytes] = []
    at, size = 0, len(data)
    while at + 2 <= size:
        end = at + 2 + (data[at] << 8 | data[at + 1])
        if end > size:
            break
        entries.append(data[at + 2 : end])
        at = end
    return entries, at


def split_hashes(data: bytes) -> list[Hash]:
    """The hashes of a tile. ValueError when it is not a whole number of them."""
    if len(data) % HASH_BYTES:
        raise ValueError(f"its {len(data)} bytes are not a whole number of hashes")
    return [data[i : i + HASH_BYTES] for i in range(0, len(data), HASH_BYTES)]


def damaged(where: Path | str, why: str) -> KvctlError:
    return KvctlError(
        "KV-LEDGER-004",
        "the log is damaged",
        where=str(where),
        why=why,
        fix="kvctl audit verify names every place; put the log's directory back from a copy, and keep the damaged one",
    )


class TileFiles:
    """Reads and writes the tiles below a log's directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def entries(self, index: int, width: int = WIDTH) -> list[bytes]:
        """The first `width` entries of a bundle. KV-LEDGER-004 when they are not there."""
        path, data = self.read(ENTRIES, index, width)
        try:
            found = decode_bundle(data)
        except ValueError as error:
            raise damaged(path, str(error)) from None
        if len(found) < width:
            raise damaged(path, f"it has {len(found)} entries, not {width}")
        return found[:width]

    def hashes(self, level: int, index: int, width: int) -> Sequence[Hash]:
        """At least `width` hashes of a tile. KV-LEDGER-004 when they are not there."""
        path, data = self.read(level, index, width)
        if len(data) % HASH_BYTES or len(data) < width * HASH_BYTES:
            raise damaged(path, f"it has {len(data)} bytes, not {width} hashes of {HASH_BYTES}")
        return split_hashes(data)

    def read(self, kind: Kind, index: int, width: int) -> tuple[Path, bytes]:
        """A tile of at least `width`; the writer may be widening it meanwhile, so each name is tried again."""
        whole = self.directory / tile_path(kind, index)
        for _ in range(3):
            for path in (self._partial(whole, width), whole):
                try:
                    if path is not None:
                        return path, path.read_bytes()
                except FileNotFoundError:
                    continue
                except OSError as error:
                    raise damaged(path or whole, error.strerror or str(error)) from error
        raise damaged(
            whole if width == WIDTH else self.directory / tile_path(kind, index, width), "there is no such file"
        )

    def _partial(self, whole: Path, width: int) -> Path | None:
        """The narrowest unfinished tile that holds `width`."""
        if width == WIDTH:
            return None
        place = partials_of(whole)
        widths = [w for w in partial_widths(place) if w >= width]
        return place / str(min(widths)) if widths else None

    def drop_partials(self, kind: Kind, index: int, keep: int | None = None) -> None:
        """Remove the unfinished tiles of one place, all but the one of the width `keep`."""
        place = partials_of(self.directory / tile_path(kind, index))
        for width in partial_widths(place):
            if width != keep:
                (place / str(width)).unlink(missing_ok=True)
        if keep is None and place.is_dir():
            place.rmdir()


def partials_of(whole: Path) -> Path:
    return whole.with_name(whole.name + ".p")


def partial_widths(place: Path) -> list[int]:
    try:
        names = [path.name for path in place.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [int(name) for name in names if name.isascii() and name.isdigit() and name == str(int(name))]
