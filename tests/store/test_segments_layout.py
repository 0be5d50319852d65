"""Records and index values on a mount: what is packed comes back, and nothing else passes for a record."""

from hypothesis import given
from hypothesis import strategies as st

from kvctl.store.api import Record
from kvctl.store.buffers import HEAD
from kvctl.store.segments import layout
from kvctl.store.segments.layout import Entry, Place
from kvctl.types.chunks import Kind, Meta, Scope

U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**63 - 1)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)
SCOPES = st.builds(Scope, NAMES, NAMES, st.binary(min_size=16, max_size=16))
METAS = st.builds(
    Meta, U64, st.binary(min_size=16, max_size=16), st.binary(min_size=16, max_size=16), st.sampled_from(Kind), U32, U32
)
RECORDS = st.builds(Record, st.binary(min_size=32, max_size=32), U32, st.binary(min_size=16, max_size=16), U64, METAS)
VOLUME = b"volume number 1!"


def packed(scope: Scope, record: Record, sequence: int = 5) -> bytearray:
    page = bytearray(b"\xff" * HEAD)
    layout.pack_header(memoryview(page), VOLUME, sequence, scope, record)
    return page


@given(SCOPES, RECORDS, U64)
def test_a_header_says_all_that_a_replay_needs(scope: Scope, record: Record, sequence: int) -> None:
    found = layout.unpack_header(memoryview(packed(scope, record, sequence)), VOLUME)
    assert found == layout.Header(scope, record, sequence)


@given(SCOPES, RECORDS, st.integers(0, HEAD - 1), st.integers(1, 255))
def test_no_changed_byte_passes(scope: Scope, record: Record, at: int, flip: int) -> None:
    page = packed(scope, record)
    page[at] ^= flip
    assert layout.unpack_header(memoryview(page), VOLUME) is None


@given(st.binary(max_size=HEAD))
def test_other_bytes_are_no_header(data: bytes) -> None:
    assert layout.unpack_header(memoryview(data.ljust(HEAD, b"\0")), VOLUME) is None


def test_another_volumes_record_is_none_of_ours() -> None:
    page = packed(Scope("t", "d", bytes(16)), Record(bytes(32), 1, bytes(16), 1, Meta()))
    assert layout.unpack_header(memoryview(page), b"another volume!!") is None


@given(SCOPES, RECORDS, st.builds(Place, U32, U64), U64)
def test_an_index_value_comes_back(scope: Scope, record: Record, place: Place, used: int) -> None:
    entry = Entry(scope, record, place, used)
    value = layout.pack_entry(entry)
    assert layout.unpack_entry(scope, record.key, value) == entry
    assert layout.expires_at(value) == record.meta.expires_at


@given(st.builds(Place, U32, U64), st.builds(Place, U32, U64))
def test_places_sort_as_their_keys_do(one: Place, other: Place) -> None:
    assert (one < other) == (layout.place_key(one) < layout.place_key(other))
    assert layout.split_place(layout.place_key(one)) == one


@given(SCOPES, U64, U64)
def test_a_scope_row_comes_back(scope: Scope, size: int, chunks: int) -> None:
    assert layout.unpack_scope(layout.pack_scope(scope, size, chunks)) == (scope, size, chunks)
