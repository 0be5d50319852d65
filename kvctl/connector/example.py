"""`python -m kvctl.connector.example`: a chunk's names, keys and sealed bytes, step by step, as the docs show them."""

import sys
from collections.abc import Iterator

from kvctl.connector.keys import RootKey
from kvctl.connector.naming import chunk_key
from kvctl.connector.seal import HEADER_BYTES, Sealer, seal_into, sealed_length
from kvctl.connector.xaes import TAG_BYTES
from kvctl.types.chunks import Scope

SCOPE = Scope("acme", "default", bytes(range(0xE0, 0xF0)))
ROOT = bytes(range(32))
FINGERPRINT = bytes(range(0x20, 0x40))
ENGINE_HASH = bytes(range(0x40, 0x60))
NONCE = bytes(range(0x60, 0x78))
PLAIN = b"keys and values!"
# offset, length, name of each part of the header
PARTS = (
    (0, 4, "magic"),
    (4, 1, "version"),
    (5, 1, "cipher"),
    (6, 1, "codec"),
    (7, 1, "zero"),
    (8, 16, "epoch"),
    (24, 24, "nonce"),
    (48, 8, "plaintext length"),
    (56, 32, "key"),
)


def lines() -> Iterator[str]:
    """The whole example. Its nonce is fixed, which a real one must never be."""
    key = RootKey(SCOPE, ROOT)
    name = chunk_key(key.name_key, FINGERPRINT, ENGINE_HASH, 0)
    yield f"tenant {SCOPE.tenant!r}, domain {SCOPE.domain!r}, epoch {SCOPE.epoch.hex()}"
    yield f"root key      {ROOT.hex()}"
    for use in ("name", "seal", "salt"):
        yield f"{use} key      {getattr(key, f'{use}_key').hex()}"
    yield f"fingerprint   {FINGERPRINT.hex()}"
    yield f"engine hash   {ENGINE_HASH.hex()}, group 0"
    yield f"chunk key     {name.hex()}"
    sealed = bytearray(sealed_length(len(PLAIN)))
    seal_into(Sealer(SCOPE.epoch, key.seal_key), name, PLAIN, memoryview(sealed), nonce=NONCE)
    yield f"plaintext     {PLAIN.hex()}"
    yield ""
    yield from table(bytes(sealed))


def table(sealed: bytes) -> Iterator[str]:
    """Offset, length, name and bytes of each part of a sealed chunk."""
    body = len(sealed) - HEADER_BYTES - TAG_BYTES
    rest = ((HEADER_BYTES, body, "ciphertext"), (HEADER_BYTES + body, TAG_BYTES, "tag"))
    for at, size, name in (*PARTS, *rest):
        yield f"{at:6}  {size:4}  {name:16}  {sealed[at : at + size].hex()}"


if __name__ == "__main__":
    sys.stdout.write("\n".join(lines()) + "\n")
