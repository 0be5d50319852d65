"""XAES-256-GCM against the vectors of its specification, https://c2sp.org/XAES-256-GCM."""

import hashlib
import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import algorithms
from cryptography.hazmat.primitives.kdf.kbkdf import KBKDFCMAC, CounterLocation, Mode
from hypothesis import given
from hypothesis import strategies as st

from kvctl.connector.xaes import NONCE_BYTES, TAG_BYTES, Xaes

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "connector" / "xaes.json").read_text())
KEYS = st.binary(min_size=32, max_size=32)
NONCES = st.binary(min_size=NONCE_BYTES, max_size=NONCE_BYTES)


def sealed(cipher: Xaes, nonce: bytes, plain: bytes, aad: bytes) -> bytes:
    out = bytearray(len(plain) + TAG_BYTES)
    assert cipher.encrypt_into(nonce, plain, aad, memoryview(out)) == len(out)
    return bytes(out)


def opened(cipher: Xaes, nonce: bytes, data: bytes, aad: bytes) -> bytes:
    out = bytearray(len(data) - TAG_BYTES)
    assert cipher.decrypt_into(nonce, data, aad, memoryview(out)) == len(out)
    return bytes(out)


@pytest.mark.parametrize("vector", VECTORS)
def test_the_specifications_vectors(vector):
    case = {name: bytes.fromhex(value) for name, value in vector.items()}
    cipher = Xaes(case["key"])
    assert cipher.derive(case["nonce"]) == case["derived"]
    assert sealed(cipher, case["nonce"], case["plain"], case["aad"]) == case["sealed"]
    assert opened(cipher, case["nonce"], case["sealed"], case["aad"]) == case["plain"]


def test_the_specifications_accumulated_vector_of_10_000():
    """Key, nonce, text and associated data come from SHAKE-128; the ciphertexts go into another SHAKE-128."""
    rounds = 10_000
    stream = hashlib.shake_128(b"").digest(rounds * (32 + 24 + 2 * 256))
    assert stream[:16].hex() == "7f9c2ba4e88f827d616045507605853e"
    found, at = hashlib.shake_128(), 0

    def take(size: int) -> bytes:
        nonlocal at
        at += size
        return stream[at - size : at]

    for _ in range(rounds):
        key, nonce = take(32), take(24)
        plain = take(take(1)[0])
        aad = take(take(1)[0])
        cipher = Xaes(key)
        data = sealed(cipher, nonce, plain, aad)
        assert opened(cipher, nonce, data, aad) == plain
        found.update(data)
    assert found.hexdigest(32) == "e6b9edf2df6cec60c8cbd864e2211b597fb69a529160cd040d56c0c210081939"


@given(KEYS, NONCES)
def test_the_derived_key_is_that_of_the_standard_kdf(key, nonce):
    """NIST SP 800-108r1 in counter mode with CMAC, as the specification describes the same derivation."""
    fixed = b"X\0" + nonce[:12]
    kdf = KBKDFCMAC(algorithms.AES256, Mode.CounterMode, 32, 2, None, CounterLocation.BeforeFixed, None, None, fixed)
    assert Xaes(key).derive(nonce) == kdf.derive(key)


@given(st.binary(max_size=100), st.binary(max_size=100), st.data())
def test_one_changed_bit_anywhere_does_not_open(plain, aad, data):
    cipher, nonce = Xaes(bytes(32)), bytes(NONCE_BYTES)
    parts = {"nonce": nonce, "data": sealed(cipher, nonce, plain, aad), "aad": aad}
    name = data.draw(st.sampled_from([name for name, part in parts.items() if part]))
    bit = data.draw(st.integers(0, len(parts[name]) * 8 - 1))
    changed = bytearray(parts[name])
    changed[bit // 8] ^= 1 << bit % 8
    parts[name] = bytes(changed)
    with pytest.raises(InvalidTag):
        opened(cipher, parts["nonce"], parts["data"], parts["aad"])


def test_threads_share_one_cipher():
    cipher = Xaes(bytes(range(32)))
    nonces = [number.to_bytes(NONCE_BYTES, "big") for number in range(2000)]
    expected = [sealed(Xaes(bytes(range(32))), nonce, b"chunk", b"head") for nonce in nonces]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda nonce: sealed(cipher, nonce, b"chunk", b"head"), nonces)) == expected


@pytest.mark.parametrize("size", [0, 16, 31, 33])
def test_a_key_of_another_size_is_refused(size):
    with pytest.raises(ValueError, match="32 bytes"):
        Xaes(bytes(size))


@pytest.mark.parametrize("size", [0, 12, 23, 25])
def test_a_nonce_of_another_size_is_refused(size):
    with pytest.raises(ValueError, match="24 bytes"):
        sealed(Xaes(bytes(32)), bytes(size), b"", b"")


def test_the_key_is_not_shown_and_not_pickled():
    cipher = Xaes(b"K" * 32)
    assert repr(cipher) == "Xaes(...)"
    with pytest.raises(TypeError, match="does not leave"):
        pickle.dumps(cipher)
