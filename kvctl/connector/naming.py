"""Names of chunks: who holds the name key can compute them, a storage node cannot tell what they stand for.

Two tenants' chunks of one text have unrelated names, so a node cannot see that they are equal.
"""

import hmac
from struct import Struct

from kvctl.types.chunks import KEY_BYTES

LABEL = b"kvctl chunk key 1\0"
NAME_KEY_BYTES = 32
DIGEST_BYTES = 32
MAX_HASH = 64  # of the engine's hashes; sha256_cbor gives 32
LENGTH = Struct("<I")
GROUP = Struct("<I")


def chunk_key(name_key: bytes, fingerprint_digest: bytes, engine_hash: bytes, group: int) -> bytes:
    """The chunk key, KEY_BYTES: HMAC-SHA-256 under the name key of a tenant's domain and epoch.

    The text is the label, the fingerprint's digest, the engine's chained hash of the chunk's last block behind its
    length (u32), and the KV cache group (u32): no two inputs give one text. ValueError for a part of another size.
    """
    if len(name_key) != NAME_KEY_BYTES or len(fingerprint_digest) != DIGEST_BYTES:
        raise ValueError(f"a name key is {NAME_KEY_BYTES} bytes, a fingerprint's digest {DIGEST_BYTES}")
    if not 0 < len(engine_hash) <= MAX_HASH or not 0 <= group < 1 << 32:
        raise ValueError(f"an engine hash has 1 to {MAX_HASH} bytes, a group is a u32")
    text = LABEL + fingerprint_digest + LENGTH.pack(len(engine_hash)) + engine_hash + GROUP.pack(group)
    key = hmac.digest(name_key, text, "sha256")
    assert len(key) == KEY_BYTES
    return key
