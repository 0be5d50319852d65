"""The sealed chunk, format version 1; docs/sealed-chunk.md shows it byte by byte.

A header of 88 bytes, the ciphertext, a tag of 16 bytes. The whole header is associated data: a chunk that was moved
under another name, epoch or length does not open.
"""

import ctypes
import secrets
from dataclasses import InitVar, dataclass, field
from enum import StrEnum
from struct import Struct

from cryptography.exceptions import InvalidTag

from kvctl.connector.xaes import NONCE_BYTES, TAG_BYTES, Xaes
from kvctl.types.chunks import EPOCH_BYTES, KEY_BYTES

MAGIC = b"KVC1"
VERSION = 1
XAES_256_GCM = 1  # cipher
PLAIN = 0  # codec: bytes as the engine gave them
HEADER = Struct(f"<4sBBBB{EPOCH_BYTES}s{NONCE_BYTES}sQ{KEY_BYTES}s")
HEADER_BYTES = HEADER.size
OVERHEAD = HEADER_BYTES + TAG_BYTES
Bytes = bytes | bytearray | memoryview


class SealFault(StrEnum):
    """Why a chunk does not open: cut or of another version, in a wrong place (KEY, EPOCH, LENGTH), or changed (TAG)."""

    SHORT = "short"
    FORMAT = "format"
    KEY = "key"
    EPOCH = "epoch"
    LENGTH = "length"
    TAG = "tag"


class SealError(Exception):
    """A chunk that is not what was asked for; the target holds zeros. To the engine it is a miss."""

    def __init__(self, reason: SealFault, why: str) -> None:
        super().__init__(f"{reason}: {why}")
        self.reason = reason
        self.why = why


@dataclass(frozen=True, slots=True, eq=False)
class Sealer:
    """What seals and opens the chunks of one scope; shared by any number of threads."""

    epoch: bytes  # EPOCH_BYTES
    seal_key: InitVar[bytes]
    cipher: Xaes = field(init=False, repr=False)

    def __post_init__(self, seal_key: bytes) -> None:
        if len(self.epoch) != EPOCH_BYTES:
            raise ValueError(f"an epoch is {EPOCH_BYTES} bytes, not {len(self.epoch)}")
        object.__setattr__(self, "cipher", Xaes(seal_key))


def sealed_length(plain: int) -> int:
    """Bytes of a sealed chunk of `plain` bytes."""
    return plain + OVERHEAD


def plain_length(sealed: int) -> int:
    """Bytes inside a sealed chunk of `sealed` bytes; SealError when no chunk is so short."""
    if sealed < OVERHEAD:
        raise SealError(SealFault.SHORT, f"{sealed} bytes; a sealed chunk has at least {OVERHEAD}")
    return sealed - OVERHEAD


def seal_into(sealer: Sealer, key: bytes, data: Bytes, out: memoryview, *, nonce: bytes | None = None) -> int:
    """Seal `data` as the chunk `key` into the first bytes of `out`; how many they are (`sealed_length`).

    `data` and `out` do not overlap; nothing is copied. `nonce` is for golden vectors alone: two chunks under one nonce
    give each other away. ValueError when `key` is no chunk key or `out` is too short.
    """
    if len(key) != KEY_BYTES:
        raise ValueError(f"a chunk key is {KEY_BYTES} bytes, not {len(key)}")
    plain = memoryview(data).nbytes
    total = sealed_length(plain)
    if out.nbytes < total:
        raise ValueError(f"{plain} bytes sealed are {total}; there is room for {out.nbytes}")
    nonce = secrets.token_bytes(NONCE_BYTES) if nonce is None else nonce
    header = HEADER.pack(MAGIC, VERSION, XAES_256_GCM, PLAIN, 0, sealer.epoch, nonce, plain, key)
    sealer.cipher.encrypt_into(nonce, memoryview(data), header, out[HEADER_BYTES:total])
    out[:HEADER_BYTES] = header
    return total


def open_into(sealer: Sealer, key: bytes, sealed: Bytes, target: memoryview) -> int:
    """Open the chunk `key` into `target`, which is as long as its plaintext; how many bytes that is.

    SealError when it is not this chunk of this epoch, has another length than `target` (what a shorter one left behind
    would be read as KV), or was changed. `target` then holds zeros, whatever was there. The two do not overlap.
    """
    if target.readonly or not target.c_contiguous:
        raise ValueError("a target is writable memory in one piece")
    view = memoryview(sealed)
    try:
        nonce = check_header(sealer.epoch, key, view, target.nbytes)
        return sealer.cipher.decrypt_into(nonce, view[HEADER_BYTES:], view[:HEADER_BYTES], target)
    except InvalidTag:
        clear(target)
        raise SealError(SealFault.TAG, "its tag is not that of these bytes under this key") from None
    except BaseException:
        clear(target)
        raise


def check_header(epoch: bytes, key: bytes, sealed: memoryview, plain: int) -> bytes:
    """The nonce of a chunk whose header says what was asked for; SealError for any other."""
    inside = plain_length(sealed.nbytes)
    magic, version, cipher, codec, zero, written_epoch, nonce, length, name = HEADER.unpack_from(sealed)
    if (magic, version, cipher, codec, zero) != (MAGIC, VERSION, XAES_256_GCM, PLAIN, 0):
        raise SealError(SealFault.FORMAT, f"its head is {bytes(sealed[:8]).hex()}")
    if name != key:
        raise SealError(SealFault.KEY, f"it is chunk {name.hex()}")
    if written_epoch != epoch:
        raise SealError(SealFault.EPOCH, f"it is of epoch {written_epoch.hex()}")
    if length != inside or length != plain:
        raise SealError(SealFault.LENGTH, f"its header says {length} bytes, {inside} are there, {plain} are wanted")
    assert isinstance(nonce, bytes)
    return nonce


def clear(target: memoryview) -> None:
    """Overwrite writable memory with zeros, without a block of zeros to copy from."""
    if target.nbytes:
        start = ctypes.addressof(ctypes.c_char.from_buffer(target))
        ctypes.memset(start, 0, target.nbytes)
