"""Pseudonyms of end users: what is kept instead of an id, the same wherever it is made."""

import hashlib
import hmac

from kvctl.types.chunks import SUBJECT_BYTES

LABEL = b"kvctl subject 1\0"
MAX_ID = 512  # characters


def pseudonym(subject_key: bytes, user: str) -> bytes:
    """SUBJECT_BYTES of HMAC-SHA-256 under the tenant's subject key. ValueError for an id that is empty or too long."""
    if not 0 < len(user) <= MAX_ID:
        raise ValueError(f"a user's id has 1 to {MAX_ID} characters")
    return hmac.digest(subject_key, LABEL + user.encode("utf-8", "surrogatepass"), hashlib.sha256)[:SUBJECT_BYTES]
