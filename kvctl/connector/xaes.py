"""XAES-256-GCM, the AEAD of C2SP (https://c2sp.org/XAES-256-GCM): AES-256-GCM under a key derived for each nonce.

A random nonce of 192 bits may be used for 2^80 messages under one key, where plain AES-GCM stops at 2^32.
"""

from threading import Lock
from typing import NoReturn

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
NONCE_BYTES = 24
TAG_BYTES = 16
BLOCK = 16
COUNTERS = tuple(bytes((0, counter, 0x58, 0)) for counter in (1, 2))  # heads of M1 and M2 in the specification


class Xaes:
    """One key's cipher. Any number of threads may use it; sealing and opening run outside the interpreter's lock."""

    __slots__ = ("_ecb", "_heads", "_lock", "_tail")

    def __init__(self, key: bytes) -> None:
        """Derive what all nonces share; ValueError for a key that is not KEY_BYTES long."""
        if len(key) != KEY_BYTES:
            raise ValueError(f"an XAES-256-GCM key is {KEY_BYTES} bytes, not {len(key)}")
        self._ecb = Cipher(algorithms.AES256(key), modes.ECB()).encryptor()
        self._lock = Lock()
        k1 = _subkey(self._ecb.update(bytes(BLOCK)))
        self._heads = [_xor(head, k1[:4]) for head in COUNTERS]
        self._tail = int.from_bytes(k1[4:], "big")

    def encrypt_into(self, nonce: bytes, data: bytes | memoryview, aad: bytes | memoryview, out: memoryview) -> int:
        """Write ciphertext and tag into `out`, which is as long as `data` and TAG_BYTES more; how many bytes.

        Nothing is copied. ValueError when `nonce` or `out` has another length.
        """
        return self._gcm(nonce).encrypt_into(nonce[12:], data, aad, out)

    def decrypt_into(self, nonce: bytes, data: bytes | memoryview, aad: bytes | memoryview, out: memoryview) -> int:
        """Write the plaintext of `data` (ciphertext and tag) into `out`, which is TAG_BYTES shorter; how many bytes.

        `cryptography.exceptions.InvalidTag` when anything was changed: `out` then holds bytes that nobody vouches for,
        and the caller clears them. ValueError when `nonce` or `out` has another length.
        """
        return self._gcm(nonce).decrypt_into(nonce[12:], data, aad, out)

    def derive(self, nonce: bytes) -> bytes:
        """The AES-256-GCM key of this nonce (Kx in the specification)."""
        if len(nonce) != NONCE_BYTES:
            raise ValueError(f"an XAES-256-GCM nonce is {NONCE_BYTES} bytes, not {len(nonce)}")
        tail = (int.from_bytes(nonce[:12], "big") ^ self._tail).to_bytes(12, "big")
        blocks = self._heads[0] + tail + self._heads[1] + tail
        # The cipher object is for one caller at a time. ECB keeps no state from block to block.
        with self._lock:
            return self._ecb.update(blocks)

    def _gcm(self, nonce: bytes) -> AESGCM:
        return AESGCM(self.derive(nonce))

    def __repr__(self) -> str:
        return "Xaes(...)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key does not leave its process")


def _subkey(block: bytes) -> bytes:
    """K1 of CMAC (NIST SP 800-38B, 6.1): the block times x in GF(2^128)."""
    number = int.from_bytes(block, "big") << 1
    if number >> 128:
        number ^= (1 << 128) | 0b10000111
    return number.to_bytes(BLOCK, "big")


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
