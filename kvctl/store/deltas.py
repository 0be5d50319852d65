"""Counted deltas of the chunk catalogue: what became visible on a tier and what left it, for whoever mirrors it.

Each has a number from a dense counter of this process, so that a reader knows when it missed one. Telling is one
packed tuple in a ring; rows are made when somebody reads. A reader applies them in order: a put of a name that it
knows replaces it, the removal of one that it does not know is nothing.
"""

import secrets
import time
from collections.abc import Callable
from enum import StrEnum
from struct import Struct
from threading import Condition
from typing import Any, NamedTuple

from kvctl.store.api import Record, Why
from kvctl.types.chunks import NO_SUBJECT, Kind, Meta, Scope, TierName

MOST = 200_000  # kept when nothing else is asked for; about 300 bytes each
LEAST = 16
SLICE = 0.25  # seconds until a reader who waits looks whether the daemon ends
CHUNK = Struct("<32sQQQI16s16sB")  # key, length, stored, expires, position, subject, model, kind


class Op(StrEnum):
    PUT = "put"
    REMOVED = "removed"
    REMOVED_SCOPE = "removed_scope"  # everything of a scope on every tier; what stayed is put again behind it
    SEEN = "seen"  # one more subject used a chunk


class Delta(NamedTuple):
    op: Op
    tier: TierName | None
    scope: Scope
    packed: bytes  # a CHUNK; SEEN: key and subject; REMOVED_SCOPE: nothing
    why: Why | None
    at: float


class Deltas:
    """Every method may be called from any thread. `clock`: Unix seconds. `boot` names this run of the counter."""

    def __init__(self, most: int = MOST, clock: Callable[[], float] = time.time) -> None:
        self.boot = secrets.token_hex(16)
        self._clock = clock
        self._ring: list[Delta | None] = [None] * max(most, LEAST)
        self._last = 0  # number of the newest one
        self._floor = 0  # numbers up to here were let go by `resize`
        self._waiting = 0
        self._changed = Condition()

    def put(self, tier: TierName, scope: Scope, record: Record) -> None:
        self._append(Op.PUT, tier, scope, _pack(record), None)

    def removed(self, tier: TierName, scope: Scope, record: Record, why: Why) -> None:
        self._append(Op.REMOVED, tier, scope, _pack(record), why)

    def removed_scope(self, scope: Scope, why: Why) -> None:
        self._append(Op.REMOVED_SCOPE, None, scope, b"", why)

    def seen(self, scope: Scope, key: bytes, subject: bytes) -> None:
        self._append(Op.SEEN, None, scope, key + subject, None)

    def _append(self, op: Op, tier: TierName | None, scope: Scope, packed: bytes, why: Why | None) -> None:
        delta = Delta(op, tier, scope, packed, why, self._clock())
        with self._changed:
            self._ring[self._last % len(self._ring)] = delta
            self._last += 1
            if self._waiting:
                self._changed.notify_all()

    def resize(self, most: int) -> None:
        """Keep so many from now on; the newest ones stay."""
        with self._changed:
            size = max(most, LEAST)
            if size == len(self._ring):
                return
            first = max(self._first(), self._last - size + 1)
            kept: list[Delta | None] = [None] * size
            for number in range(first, self._last + 1):
                kept[(number - 1) % size] = self._ring[(number - 1) % len(self._ring)]
            self._ring, self._floor = kept, first - 1

    def read(
        self, boot: str | None, after: int, limit: int, seconds: float, stop: Callable[[], bool] = lambda: False
    ) -> dict[str, Any]:
        """Deltas behind number `after`, at most `limit`; waits up to `seconds` for the first one, or until `stop`.

        `next` is the `after` of the next call. A gap: the numbers are another run's, or were let go. It has no deltas:
        read the whole catalogue, which is at least as new as `next`, and go on from there.
        """
        with self._changed:
            gap = boot != self.boot or not self._first() - 1 <= after <= self._last
            if not gap:
                self._await(after, seconds, stop)
                gap = after < self._first() - 1
            first, last = self._first(), self._last
            end = last if gap else min(last, after + limit)
            found = [] if gap else [(number, self._ring[(number - 1) % len(self._ring)]) for number in _run(after, end)]
        rows = [_row(number, delta) for number, delta in found if delta is not None]
        return {"boot": self.boot, "first": first, "next": end, "gap": gap, "deltas": rows}

    def _first(self) -> int:
        """The oldest number that is kept; the next one to come when none is."""
        return max(self._floor, self._last - len(self._ring)) + 1

    def _await(self, after: int, seconds: float, stop: Callable[[], bool]) -> None:
        end = time.monotonic() + seconds
        self._waiting += 1
        try:
            while self._last <= after and (left := end - time.monotonic()) > 0 and not stop():
                self._changed.wait(min(left, SLICE))
        finally:
            self._waiting -= 1

    def counters(self) -> dict[str, int]:
        with self._changed:
            return {"deltas": self._last, "deltas_kept": self._last - self._first() + 1}


def _run(after: int, end: int) -> range:
    return range(after + 1, end + 1)


def _pack(record: Record) -> bytes:
    meta = record.meta
    return CHUNK.pack(
        record.key, record.length, record.stored_at, meta.expires_at, meta.position, meta.subject, meta.model, meta.kind
    )


def _row(number: int, delta: Delta) -> dict[str, Any]:
    scope = delta.scope
    row: dict[str, Any] = {
        "n": number, "op": str(delta.op), "tier": delta.tier and str(delta.tier),
        "tenant": scope.tenant, "domain": scope.domain, "epoch": scope.epoch.hex(), "at": round(delta.at, 3),
        "why": delta.why and str(delta.why),
    }  # fmt: skip
    if delta.op is Op.SEEN:
        return row | {"key": delta.packed[:32].hex(), "subject": delta.packed[32:].hex()}
    if delta.op is Op.REMOVED_SCOPE:
        return row
    key, length, stored, expires, position, subject, model, kind = CHUNK.unpack(delta.packed)
    return row | described(key, length, stored, Meta(expires, subject, model, Kind(kind), position))


def described(key: bytes, length: int, stored_at: int, meta: Meta) -> dict[str, Any]:
    """A chunk in the words of a listing: hexadecimal names, Unix seconds, null for what was not given."""
    return {
        "key": key.hex(), "length": length, "stored_at": stored_at, "expires_at": meta.expires_at or None,
        "kind": meta.kind.name.lower(), "position": meta.position, "model": meta.model.hex(),
        "subject": None if meta.subject == NO_SUBJECT else meta.subject.hex(),
    }  # fmt: skip
