"""Files that were made for somebody's browser, kept in memory until it has fetched them."""

import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass

from kvctl.types.errors import UsageError

MOST = 8
MOST_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Kept:
    owner: str
    name: str
    data: bytes
    kind: str


class Shelf:
    """The newest files; the oldest make room. Safe from any thread."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Kept] = OrderedDict()

    def put(self, kept: Kept) -> str:
        """The file's id."""
        name = secrets.token_hex(8)
        with self._lock:
            self._kept[name] = kept
            while len(self._kept) > self._most or (len(self._kept) > 1 and self._bytes > MOST_BYTES):
                self._kept.popitem(last=False)
        return name

    def get(self, name: str, owner: str) -> Kept:
        """UsageError KV-API-023 for one that is not there any more, or is another's."""
        with self._lock:
            found = self._kept.get(name)
        if found is None or found.owner != owner:
            raise UsageError("KV-API-023", "this file is not kept any more", fix="make it again")
        return found

    @property
    def _bytes(self) -> int:
        return sum(len(one.data) for one in self._kept.values())
