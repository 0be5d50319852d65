"""YAML as daemons read it: plain values, and the line of each."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvctl.daemon.document import MAX_BYTES, MAX_DEPTH, read
from kvctl.types.errors import UsageError

TEXT = b"""\
name: one
key: 5555
none: ~
quoted: "~"
list:
  - a: 1
  - a: 2
"""


def test_scalars_stay_text_and_every_part_has_its_line():
    document = read(TEXT, "f")
    assert document.data == {
        "name": "one",
        "key": "5555",
        "none": None,
        "quoted": "~",
        "list": [{"a": "1"}, {"a": "2"}],
    }
    assert document.where(("list", 1, "a")) == "f:7"
    assert document.where(("list", 1, "b")) == "f:7"
    assert document.where(("nothing",)) == "f:1"


@pytest.mark.parametrize(
    ("raw", "code", "where"),
    [
        (b"a: 1\nb: 2\na: 3\n", "KV-STORE-004", "f:3"),
        (b"a: &x 1\n", "KV-STORE-003", "f:1"),
        (b"a: 1\n---\nb: 1\n", "KV-STORE-003", "f:2"),
        (b"a: !!int 1\n", "KV-STORE-003", "f:1"),
        (b"? [a]\n: 1\n", "KV-STORE-003", "f:1"),
        (b"a: " + b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), "KV-STORE-003", "f:1"),
        (b"#" * (MAX_BYTES + 1), "KV-STORE-003", "f"),
    ],
)
def test_what_reads_otherwise_than_it_looks_is_refused_with_its_line(raw: bytes, code: str, where: str):
    with pytest.raises(UsageError) as caught:
        read(raw, "f")
    assert (caught.value.code, caught.value.where) == (code, where)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_with_a_code(raw: bytes):
    with suppress(UsageError):
        assert isinstance(read(raw, "f").data, dict | list | str | None)
