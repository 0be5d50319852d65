"""A sealed chunk opens as itself and as nothing else."""

import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvctl.connector.seal import (
    HEADER_BYTES,
    OVERHEAD,
    Sealer,
    SealError,
    SealFault,
    clear,
    open_into,
    plain_length,
    seal_into,
    sealed_length,
)

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "connector" / "sealed.json").read_text())
EPOCH, SEAL_KEY, KEY, NONCE = b"e" * 16, b"s" * 32, b"k" * 32, b"n" * 24
SEALER = Sealer(EPOCH, SEAL_KEY)
PLAIN = bytes(range(256)) * 4


def seal(plain: bytes = PLAIN, sealer: Sealer = SEALER, key: bytes = KEY, nonce: bytes | None = NONCE) -> bytearray:
    out = bytearray(sealed_length(len(plain)))
    assert seal_into(sealer, key, plain, memoryview(out), nonce=nonce) == len(out)
    return out


def refused(sealed: bytes, *, size: int = len(PLAIN), sealer: Sealer = SEALER, key: bytes = KEY) -> SealFault:
    """Why it does not open; whatever was in the target is gone."""
    target = bytearray(b"\xa5" * size)
    with pytest.raises(SealError) as caught:
        open_into(sealer, key, memoryview(sealed), memoryview(target))
    assert not any(target)
    return caught.value.reason


@pytest.mark.parametrize("vector", VECTORS)
def test_golden_vectors(vector):
    case = {name: bytes.fromhex(value) for name, value in vector.items()}
    sealer = Sealer(case["epoch"], case["seal_key"])
    assert seal(case["plain"], sealer, case["key"], case["nonce"]) == case["sealed"]
    target = bytearray(len(case["plain"]))
    assert open_into(sealer, case["key"], memoryview(case["sealed"]), memoryview(target)) == len(target)
    assert target == case["plain"]


@given(st.binary(max_size=3000), st.binary(min_size=32, max_size=32))
def test_what_is_sealed_opens(plain, key):
    sealed = seal(plain, key=key, nonce=None)
    target = bytearray(len(plain))
    assert open_into(SEALER, key, sealed, memoryview(target)) == len(plain)
    assert target == plain


def test_two_seals_of_one_chunk_have_different_nonces():
    assert seal(nonce=None)[24:48] != seal(nonce=None)[24:48]


@given(st.integers(0, (len(PLAIN) + OVERHEAD) * 8 - 1))
def test_one_flipped_bit_anywhere_is_noticed(bit):
    sealed = seal()
    sealed[bit // 8] ^= 1 << bit % 8
    refused(sealed)


@given(st.integers(0, len(PLAIN) + OVERHEAD - 1))
def test_a_truncated_chunk_is_noticed(size):
    fault = refused(seal()[:size])
    assert fault is (SealFault.SHORT if size < OVERHEAD else SealFault.LENGTH)


def test_bytes_behind_a_chunk_are_noticed():
    assert refused(seal() + b"\0") is SealFault.LENGTH


def test_a_chunk_under_another_name_is_told_from_a_broken_one():
    assert refused(seal(), key=b"j" * 32) is SealFault.KEY


def test_a_chunk_renamed_in_its_header_does_not_open():
    sealed = seal()
    sealed[HEADER_BYTES - 32 : HEADER_BYTES] = b"j" * 32
    assert refused(sealed, key=b"j" * 32) is SealFault.TAG


def test_a_chunk_of_another_epoch_does_not_open():
    other = Sealer(b"f" * 16, SEAL_KEY)
    assert refused(seal(), sealer=other) is SealFault.EPOCH
    sealed = seal()
    sealed[8:24] = b"f" * 16
    assert refused(sealed, sealer=other) is SealFault.TAG


def test_another_tenants_key_does_not_open_it():
    assert refused(seal(), sealer=Sealer(EPOCH, b"t" * 32)) is SealFault.TAG


@pytest.mark.parametrize("at", [0, 3, 4, 5, 6, 7])
def test_another_format_is_refused_by_its_head(at):
    sealed = seal()
    sealed[at] += 1
    assert refused(sealed) is SealFault.FORMAT


@pytest.mark.parametrize("size", [len(PLAIN) - 1, len(PLAIN) + 1, 0])
def test_a_chunk_that_does_not_fill_its_target_is_refused(size):
    assert refused(seal(), size=size) is SealFault.LENGTH


def test_a_length_forged_in_the_header_does_not_open():
    sealed = seal()
    sealed[48:56] = (len(PLAIN) + 8).to_bytes(8, "little")
    assert refused(sealed + bytes(8), size=len(PLAIN) + 8) is SealFault.TAG


def test_lengths():
    assert (HEADER_BYTES, OVERHEAD, sealed_length(10), plain_length(114)) == (88, 104, 114, 10)
    with pytest.raises(SealError, match="at least 104"):
        plain_length(103)


def test_the_rest_of_a_larger_buffer_is_left_alone():
    out = bytearray(b"\xa5" * (sealed_length(2) + 8))
    assert seal_into(SEALER, KEY, b"kv", memoryview(out)) == sealed_length(2)
    assert out[-8:] == b"\xa5" * 8


@pytest.mark.parametrize(
    ("key", "room", "nonce", "why"),
    [(b"short", 200, NONCE, "chunk key"), (KEY, 100, NONCE, "room"), (KEY, 200, b"n" * 23, "nonce")],
)
def test_a_callers_mistake_is_a_value_error_and_writes_nothing(key, room, nonce, why):
    out = bytearray(room)
    with pytest.raises(ValueError, match=why):
        seal_into(SEALER, key, b"kv", memoryview(out), nonce=nonce)
    assert not any(out)


@pytest.mark.parametrize("target", [memoryview(bytes(len(PLAIN))), memoryview(bytearray(2 * len(PLAIN)))[::2]])
def test_a_target_that_cannot_be_written_in_one_piece_is_refused(target):
    with pytest.raises(ValueError, match="writable memory in one piece"):
        open_into(SEALER, KEY, seal(), target)


def test_a_chunk_of_16_mib_is_sealed_and_opened_without_a_copy():
    size = 16 << 20
    plain, target = bytearray(size), bytearray(size)
    plain[::4096] = b"x" * (size // 4096)
    out = bytearray(sealed_length(size))
    tracemalloc.start()
    try:
        seal_into(SEALER, KEY, memoryview(plain), memoryview(out))
        open_into(SEALER, KEY, memoryview(out), memoryview(target))
        out[-1] ^= 1
        _, peak = tracemalloc.get_traced_memory()
        assert target == plain
        with pytest.raises(SealError):
            open_into(SEALER, KEY, memoryview(out), memoryview(target))
    finally:
        tracemalloc.stop()
    assert peak < 64 << 10
    assert not any(target)


def test_clearing_nothing_and_a_part():
    clear(memoryview(bytearray()))
    memory = bytearray(b"abcdef")
    clear(memoryview(memory)[2:4])
    assert memory == b"ab\0\0ef"


def test_the_seal_key_is_not_shown():
    assert "s" * 8 not in repr(SEALER)
    assert repr(SEAL_KEY) not in repr(SEALER)


def test_an_epoch_of_another_size_is_refused():
    with pytest.raises(ValueError, match="16 bytes"):
        Sealer(b"short", SEAL_KEY)
