"""One chunk has one name, and every part of what it is decides that name."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvctl.connector.naming import chunk_key

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "connector" / "chunk_keys.json").read_text())
KEYS = st.binary(min_size=32, max_size=32)
PARTS = st.tuples(KEYS, KEYS, st.binary(min_size=1, max_size=64), st.integers(0, 2**32 - 1))


@pytest.mark.parametrize("vector", VECTORS)
def test_golden_vectors(vector):
    parts = [bytes.fromhex(vector[name]) for name in ("name_key", "fingerprint", "engine_hash")]
    assert chunk_key(*parts, vector["group"]).hex() == vector["key"]


@given(PARTS, PARTS)
def test_names_are_equal_only_for_equal_parts(left, right):
    assert (chunk_key(*left) == chunk_key(*right)) == (left == right)


@given(PARTS, st.integers(0, 3))
def test_each_part_alone_changes_the_name(parts, at):
    changed = list(parts)
    value = changed[at]
    changed[at] = value ^ 1 if isinstance(value, int) else bytes([value[0] ^ 1]) + value[1:]
    assert chunk_key(*changed) != chunk_key(*parts)


def test_a_hash_does_not_run_into_the_group():
    shorter, longer = b"h" * 28, b"h" * 28 + b"\0" * 4
    assert chunk_key(bytes(32), bytes(32), shorter, 0) != chunk_key(bytes(32), bytes(32), longer, 0)


@pytest.mark.parametrize(
    "parts",
    [
        (b"n" * 31, bytes(32), b"h", 0),
        (bytes(32), b"f" * 33, b"h", 0),
        (bytes(32), bytes(32), b"", 0),
        (bytes(32), bytes(32), b"h" * 65, 0),
        (bytes(32), bytes(32), b"h", -1),
        (bytes(32), bytes(32), b"h", 2**32),
    ],
)
def test_parts_of_another_size_are_refused(parts):
    with pytest.raises(ValueError, match="bytes"):
        chunk_key(*parts)
