"""Held objects stay in the bucket, whoever wants them gone."""

from typing import Any

import pytest

from kvctl.connector.wire import PutStatus
from kvctl.store.api import Record, Removal, State, Why
from kvctl.store.guard import Guard
from kvctl.store.holds import Hold, HoldSet
from kvctl.store.s3.bucket import scope_digest
from tests.store.s3.made import NOW, SCOPE, Opener, chunk, get, put

ANNE = b"a" * 16


class Bench:
    def __init__(self, opener: Opener) -> None:
        self.now = NOW
        self.guard = Guard()
        self.opener = opener
        self.version = 0
        self.open()

    def open(self) -> None:
        self.tier = self.opener(clock=lambda: self.now)
        self.tier._objects.guard = self.tier._guard = self.guard

    def hold(self, *, on: bool = True) -> None:
        self.version += 1
        holds = (Hold(id="h", tenant=SCOPE.tenant, subject=ANNE.hex()),) if on else ()
        self.guard.holds.replace(HoldSet(version=self.version, holds=holds))

    def stored(self, number: int, **meta: Any) -> tuple[Record, bytes]:
        made = chunk(number, 20_000, **meta)
        assert put(self.tier, *made) is PutStatus.STORED
        return made


@pytest.fixture
def bench(opener: Opener) -> Bench:
    return Bench(opener)


@pytest.mark.parametrize("by", ["remove", "erase_keys", "erase_subject", "erase_scope"])
def test_no_removal_takes_a_held_object(bench: Bench, by: str) -> None:
    record, data = bench.stored(1, subject=ANNE)
    other, _ = bench.stored(2)
    bench.hold()
    removal = Removal(Why.ERASED)
    what: tuple[Any, ...] = {"erase_subject": (ANNE,), "erase_scope": ()}.get(by, ([record.key, other.key],))
    gone = getattr(bench.tier, by)(SCOPE, *what, removal)
    assert gone == (0 if by == "erase_subject" else 1)
    assert removal.held == {(SCOPE, record.key)}
    assert get(bench.tier, record.key) == data
    assert bench.opener.name(record.key) in bench.opener.objects()
    bench.hold(on=False)
    assert getattr(bench.tier, by)(SCOPE, *what) >= 1
    assert bench.opener.name(record.key) not in bench.opener.objects()


def test_a_whole_scope_goes_around_held_objects_that_the_index_does_not_know(bench: Bench) -> None:
    held, _ = bench.stored(1, subject=ANNE)
    other, _ = bench.stored(2)
    bench.hold()
    for record in (held, other):  # an index that was lost
        assert bench.tier._index.change(scope_digest(SCOPE), record, None)
    bench.tier.erase_scope(SCOPE)
    assert bench.opener.objects() == {bench.opener.name(held.key)}


def test_expiry_passes_over_held_objects_and_a_put_does_not_replace_them(bench: Bench) -> None:
    held, data = bench.stored(1, subject=ANNE, expires_at=NOW + 10)
    other, _ = bench.stored(2, expires_at=NOW + 20)
    bench.hold()
    bench.now = NOW + 100
    gone = [record for _ in range(4) for _, record in bench.tier.expire(1)]
    assert gone == [other]
    found = bench.tier.found(SCOPE, held.key)
    assert found is not None
    assert found.state is State.EXPIRED
    again, more = chunk(1, 30_000)
    again = Record(held.key, again.length, again.checksum, bench.now, again.meta)
    assert put(bench.tier, again, more) is PutStatus.EXISTS
    bench.now = NOW
    assert get(bench.tier, held.key) == data
