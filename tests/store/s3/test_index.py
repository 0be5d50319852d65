"""The local index of the object tier, without a cluster."""

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvctl.store.api import Record
from kvctl.store.s3.bucket import scope_digest
from kvctl.store.s3.index import Index
from kvctl.store.s3.rows import Entry, State, as_header, from_header, is_readable, pack, unpack
from kvctl.types.chunks import Kind, Meta
from tests.store.s3.made import NOW, OTHER, SCOPE

MAP = 16 << 20
u32, u64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
b16 = st.binary(min_size=16, max_size=16)
metas = st.builds(Meta, u64, b16, b16, st.sampled_from(Kind), u32, u32)
records = st.builds(Record, st.binary(min_size=32, max_size=32), u64, b16, u64, metas)
DIGEST = scope_digest(SCOPE)


def record(number: int, length: int = 100) -> Record:
    return Record(number.to_bytes(32, "big"), length, bytes(16), NOW, Meta(expires_at=length % 7))


@given(records, st.sampled_from(State), u64)
def test_a_row_is_read_back(made: Record, state: State, asked: int) -> None:
    assert unpack(made.key, pack(Entry(made, state, asked))) == Entry(made, state, asked)


@given(records, st.sampled_from(State), st.integers(0, 2**64))
def test_a_row_is_readable_while_it_is_live_and_not_expired(made: Record, state: State, now: int) -> None:
    ends = made.meta.expires_at
    wanted = state is State.LIVE and (ends == 0 or ends > now)
    assert is_readable(pack(Entry(made, state)), now) == wanted


@given(records)
def test_a_header_is_read_back_and_must_fit_its_object(made: Record) -> None:
    assert from_header(made.key, as_header(made), made.length) == made
    assert from_header(made.key, as_header(made), made.length + 1) is None


@given(st.text())
def test_another_header_is_no_record(text: str) -> None:
    assert from_header(b"k" * 32, text, 1) is None
    assert from_header(b"k" * 32, None, 1) is None


steps = st.lists(
    st.tuples(
        st.sampled_from(["put", "mark", "drop", "rebuild", "reopen"]),
        st.integers(0, 5),
        st.sampled_from(State),
        st.integers(0, 1000),
    ),
    max_size=25,
)


@settings(deadline=None, max_examples=60)  # every step waits for the disk
@given(steps)
def test_tallies_are_what_the_rows_add_up_to(tmp_path_factory: pytest.TempPathFactory, todo: list[object]) -> None:
    directory = tmp_path_factory.mktemp("index")
    index, rows = Index(directory, MAP), {}
    for what, number, state, length in todo:  # type: ignore[misc]
        key = record(number).key
        if what == "put":
            rows[key] = Entry(record(number, length), state)
            index.put(DIGEST, rows[key].record, state, SCOPE)
        elif what == "mark":
            index.mark(DIGEST, [key], state)
            if key in rows:
                rows[key] = Entry(rows[key].record, state)
        elif what == "drop":
            index.drop(DIGEST, [key], state)
            if key in rows and rows[key].state is state:
                del rows[key]
        elif what == "rebuild":
            index.rebuild()
        else:
            index.close()
            index = Index(directory, MAP)
    assert {entry.record.key: entry for _, entry in index.every(None)} == rows
    assert index.used == sum(entry.record.length for entry in rows.values())
    live = [entry for entry in rows.values() if entry.state is State.LIVE]
    assert {entry.record.key for _, entry in index.by_recency()} == {entry.record.key for entry in live}
    ended = {entry.record.key for entry in live if entry.record.meta.expires_at in range(1, 4)}
    assert {entry.record.key for _, entry in index.expired(3, 100)[0]} == ended
    unsettled = {key for key, entry in rows.items() if entry.state in (State.PENDING, State.DOOMED)}
    assert {key for _, key in index.unsettled()} == unsettled
    held = index.holdings()
    assert (
        (held[DIGEST].scope == SCOPE and held[DIGEST].live.chunks + held[DIGEST].other.chunks == len(rows))
        if (rows)
        else not held
    )
    index.close()
    shutil.rmtree(directory)


def test_rows_come_in_portions_and_in_order(tmp_path: Path) -> None:
    index = Index(tmp_path, MAP)
    for scope in (SCOPE, OTHER):
        for number in range(7):
            index.put(scope_digest(scope), record(number), State.LIVE, scope)

    assert [entry.record.key for _, entry in index.rows(DIGEST, record(2).key, limit=2)] == [
        record(3).key,
        record(4).key,
    ]
    assert [entry.record.key for _, entry in index.every(DIGEST)] == [record(number).key for number in range(7)]
    assert len(list(index.every(None))) == 14
    index.close()


@pytest.mark.parametrize("cut", ["building", "first rename", "second rename"])
def test_a_rebuild_that_is_cut_short_loses_nothing(tmp_path: Path, cut: str) -> None:
    index = Index(tmp_path, MAP)
    index.put(DIGEST, record(1), State.LIVE, SCOPE)
    index.close()
    at, new, old = (tmp_path / name for name in ("index", "index.new", "index.old"))
    shutil.copytree(at, new if cut != "second rename" else old)
    if cut == "building":
        (new / "data.mdb").write_bytes(b"half of it")
    elif cut == "first rename":
        at.rename(old)

    index = Index(tmp_path, MAP)

    assert index.get(DIGEST, record(1).key) == Entry(record(1), State.LIVE)
    assert not index.fresh
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index"]
    index.close()


def test_a_rebuild_leaves_no_deleted_value(tmp_path: Path) -> None:
    """Values deleted from pages that stay in use are the hard ones: they are in no free page."""
    index, source = Index(tmp_path, MAP), random.Random(1)
    rows = [replace(record(number), key=source.randbytes(32), checksum=source.randbytes(16)) for number in range(300)]
    for row in rows:
        index.put(DIGEST, row, State.LIVE, SCOPE)
    gone = rows[::7]
    index.mark(DIGEST, [row.key for row in gone], State.DOOMED)
    index.drop(DIGEST, [row.key for row in gone], State.DOOMED)
    assert all(row.checksum in (tmp_path / "index" / "data.mdb").read_bytes() for row in gone)

    index.rebuild()

    data = (tmp_path / "index" / "data.mdb").read_bytes()
    assert [row for row in gone if row.checksum in data or row.key in data] == []
    assert len(list(index.every(None))) == len(rows) - len(gone)
    index.close()


def test_rows_in_order_of_recency(tmp_path: Path) -> None:
    index = Index(tmp_path, MAP)
    for number in range(5):
        index.put(DIGEST, record(number), State.LIVE, SCOPE)
    index.touch({(DIGEST, record(1).key): NOW + 5, (DIGEST, record(0).key): NOW + 9, (DIGEST, b"?" * 32): NOW + 9})
    index.mark(DIGEST, [record(3).key], State.DOOMED)

    def order() -> list[int]:
        return [int.from_bytes(entry.record.key, "big") for _, entry in index.by_recency()]

    assert order() == [2, 4, 1, 0]
    index.rebuild()
    assert order() == [2, 4, 1, 0]
    index.close()


def test_a_row_that_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    index = Index(tmp_path, MAP)
    index.put(DIGEST, record(1, 200), State.LIVE, SCOPE)

    assert not index.change(DIGEST, record(1, 100), State.QUARANTINED)
    assert index.change(DIGEST, record(1, 200), None)
    assert index.get(DIGEST, record(1).key) is None
    assert index.holdings() == {}
    index.close()


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    Index(tmp_path / "d", MAP).close()
    files = list((tmp_path / "d").rglob("*"))
    assert [path for path in files if path.stat().st_mode & 0o077] == []
