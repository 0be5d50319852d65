"""One atomic change of a mount's index: entries, their second indexes, usage and the watermark move together."""

import contextlib
from collections.abc import Iterator, Sequence

from kvctl.store.api import Removal, Usage
from kvctl.store.holds import InForce
from kvctl.store.segments.index import Index
from kvctl.store.segments.layout import (
    U64,
    USED_AT,
    Entry,
    Place,
    expiry_key,
    number_key,
    pack_entry,
    pack_scope,
    place_key,
    subject_key,
    unpack_entry,
)
from kvctl.types.chunks import NO_SUBJECT, Scope


class Change:
    """What a commit will do; made by `change`. Nothing of it is seen by readers before the commit."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._dbs = index.dbs
        self._transaction = index.env.begin(write=True)
        self._usage: dict[int, Usage] = {}
        self._new: dict[Scope, int] = {}
        self._dropped: set[int] = set()
        self._segments: dict[int, list[int]] = {}
        self._moves: list[tuple[int, bytes, int | None]] = []  # scope, key, when it ends; None: it is gone
        self.freed: dict[Place, int] = {}  # to be punched after the commit

    def put(self, entry: Entry, held: InForce) -> None:
        """Enter a chunk. What another record of the same name takes is freed; one that is held stays instead."""
        number = self._number(entry.scope)
        name = number_key(number) + entry.record.key
        there = self._get(entry.scope, number, entry.record.key)
        if (
            there is not None
            and there.record != entry.record
            and held(entry.scope, there.record.key, there.record.meta)
        ):
            self.free(entry.place, entry.size)
            return
        old = self._pop(entry.scope, number, entry.record.key)
        if old is not None and old.place != entry.place:
            self.free(old.place, old.size, live=True)
        elif old is not None:
            self._count_live(old.place.segment, -old.size)
        meta = entry.record.meta
        self._transaction.put(name, pack_entry(entry), db=self._dbs[b"entries"])
        if meta.subject != NO_SUBJECT:
            self._transaction.put(subject_key(number, meta.subject, entry.record.key), b"", db=self._dbs[b"subjects"])
        if meta.expires_at:
            self._transaction.put(expiry_key(meta.expires_at, number, entry.record.key), b"", db=self._dbs[b"expiry"])
        self._count_live(entry.place.segment, entry.size)
        self._count(number, entry.record.length, 1)
        self._moves.append((number, entry.record.key, meta.expires_at))

    def get(self, scope: Scope, key: bytes) -> Entry | None:
        number = self._find(scope)
        return None if number is None else self._get(scope, number, key)

    def remove(self, scope: Scope, key: bytes) -> Entry | None:
        """Forget a chunk and free its place. What a hold says about it is the caller's affair."""
        number = self._find(scope)
        entry = None if number is None else self._pop(scope, number, key)
        if entry is not None:
            self.free(entry.place, entry.size, live=True)
        return entry

    def take_out(self, scope: Scope, keys: Sequence[bytes], held: InForce, removal: Removal) -> list[Entry]:
        """Forget those chunks that may go; the others are noted in the removal."""
        gone = []
        for key in keys:
            entry = self.get(scope, key)
            if entry is None:
                continue
            if held(scope, key, entry.record.meta) and not removal.release:
                removal.held.add((scope, key))
            else:
                self.remove(scope, key)
                gone.append(entry)
        return gone

    def quarantine(self, scope: Scope, key: bytes, place: Place) -> bool:
        """Move a chunk that lies at `place` out of sight; False when it is gone or elsewhere by now."""
        number = self._find(scope)
        entry = None if number is None else self._get(scope, number, key)
        if number is None or entry is None or entry.place != place:
            return False
        self._pop(scope, number, key)
        self.drop_quarantined(scope, key)
        self._transaction.put(number_key(number) + key, pack_entry(entry), db=self._dbs[b"quarantine"])
        return True

    def drop_quarantined(self, scope: Scope, key: bytes) -> bool:
        """Free what a quarantined chunk takes."""
        number = self._find(scope)
        value = None if number is None else self._transaction.pop(number_key(number) + key, db=self._dbs[b"quarantine"])
        if value is None:
            return False
        entry = unpack_entry(scope, key, value)
        self.free(entry.place, entry.size, live=True)
        return True

    def touch(self, scope: Scope, key: bytes, used: int) -> None:
        number = self._find(scope)
        name = b"" if number is None else number_key(number) + key
        value = self._transaction.get(name, db=self._dbs[b"entries"]) if name else None
        if value is not None:
            changed = bytearray(value)
            U64.pack_into(changed, USED_AT, used)
            self._transaction.put(name, bytes(changed), db=self._dbs[b"entries"])

    def free(self, place: Place, size: int, *, live: bool = False) -> None:
        """Note a range that must be punched; it stays noted until that is known to have happened."""
        self._transaction.put(place_key(place), U64.pack(size), db=self._dbs[b"holes"])
        self.freed[place] = size
        if live:
            self._count_live(place.segment, -size)

    def give_up(self, place: Place, size: int, name: tuple[Scope, bytes] | None) -> None:
        """Free a range that holds no chunk, or one that is not to be trusted, whether it was entered or not."""
        number = None if name is None else self._find(name[0])
        entry = None if name is None or number is None else self._get(name[0], number, name[1])
        if name is not None and entry is not None and entry.place == place:
            self.remove(*name)
        else:
            self.free(place, size)

    def punched(self, place: Place) -> None:
        self._transaction.delete(place_key(place), db=self._dbs[b"holes"])

    def drop_segment(self, segment: int) -> None:
        """Forget a segment that holds nothing; its file goes after the commit."""
        self._segments.pop(segment, None)
        self._transaction.delete(segment.to_bytes(4, "big"), db=self._dbs[b"segments"])

    def drop_scope(self, scope: Scope) -> None:
        """Forget the names of a scope that holds nothing any more. Its number is not given again."""
        number = self._find(scope)
        if number is not None and not self._usage_of(number).chunks:
            self._dropped.add(number)

    def mark(self, place: Place, sequence: int) -> None:
        """From here on replay begins: all in front of it is in this commit or an earlier one."""
        self._transaction.put(b"watermark", place_key(place), db=self._dbs[b"state"])
        self._transaction.put(b"sequence", U64.pack(sequence), db=self._dbs[b"state"])

    def commit(self) -> None:
        """Write it and wait until it survives a power cut."""
        for segment, (size, chunks) in self._segments.items():
            value = U64.pack(size) + U64.pack(chunks)
            self._transaction.put(segment.to_bytes(4, "big"), value, db=self._dbs[b"segments"])
        known = {**self._index.scopes, **{number: scope for scope, number in self._new.items()}}
        for number, usage in self._usage.items():
            value = pack_scope(known[number], usage.size, usage.chunks)
            self._transaction.put(number_key(number), value, db=self._dbs[b"scopes"])
        for number in self._dropped:
            self._transaction.delete(number_key(number), db=self._dbs[b"scopes"])
        self._transaction.commit()
        self._publish(known)

    def abort(self) -> None:
        self._transaction.abort()

    def _publish(self, known: dict[int, Scope]) -> None:
        """What is kept in memory of the index follows the commit."""
        self._index.known.follow(self._moves)
        for number, usage in self._usage.items():
            self._index.scopes[number] = known[number]
            self._index.usage[number] = usage
            self._index.numbers[known[number]] = number
        for number in self._dropped:
            self._index.numbers.pop(self._index.scopes.pop(number), None)
            self._index.usage.pop(number, None)

    def _find(self, scope: Scope) -> int | None:
        return self._new.get(scope, self._index.numbers.get(scope))

    def _number(self, scope: Scope) -> int:
        number = self._find(scope)
        if number is None:
            last = self._transaction.get(b"scope", db=self._dbs[b"state"]) or U64.pack(0)
            number = U64.unpack(last)[0] + 1
            self._transaction.put(b"scope", U64.pack(number), db=self._dbs[b"state"])
            self._new[scope] = number
        return number

    def _get(self, scope: Scope, number: int, key: bytes) -> Entry | None:
        value = self._transaction.get(number_key(number) + key, db=self._dbs[b"entries"])
        return None if value is None else unpack_entry(scope, key, value)

    def _pop(self, scope: Scope, number: int, key: bytes) -> Entry | None:
        """Take a chunk out of the entries and both second indexes; its place is the caller's affair."""
        value = self._transaction.pop(number_key(number) + key, db=self._dbs[b"entries"])
        if value is None:
            return None
        entry = unpack_entry(scope, key, value)
        meta = entry.record.meta
        if meta.subject != NO_SUBJECT:
            self._transaction.delete(subject_key(number, meta.subject, key), db=self._dbs[b"subjects"])
        if meta.expires_at:
            self._transaction.delete(expiry_key(meta.expires_at, number, key), db=self._dbs[b"expiry"])
        self._count(number, -entry.record.length, -1)
        self._moves.append((number, key, None))
        return entry

    def _usage_of(self, number: int) -> Usage:
        return self._usage.get(number) or self._index.usage.get(number) or Usage()

    def _count(self, number: int, size: int, chunks: int) -> None:
        old = self._usage_of(number)
        self._usage[number] = Usage(old.size + size, old.chunks + chunks)

    def _count_live(self, segment: int, size: int) -> None:
        live = self._segments.get(segment)
        if live is None:
            value = self._transaction.get(segment.to_bytes(4, "big"), db=self._dbs[b"segments"]) or bytes(16)
            live = self._segments[segment] = [U64.unpack_from(value)[0], U64.unpack_from(value, 8)[0]]
        live[0] += size
        live[1] += 1 if size > 0 else -1


@contextlib.contextmanager
def change(index: Index) -> Iterator[Change]:
    """Commit what the block does to the index, or nothing of it. Raises OSError."""
    with index.writing, index.failures():
        made = Change(index)
        try:
            yield made
        except BaseException:
            made.abort()
            raise
        made.commit()
