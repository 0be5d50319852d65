"""What a chunk of KV cache is to everyone who handles it: whose it is, how it is named, what is known about it."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum

KEY_BYTES = 32  # a chunk key: HMAC-SHA-256
EPOCH_BYTES = 16
SUBJECT_BYTES = 16  # a subject's pseudonym; 16 zero bytes: none was given
MODEL_BYTES = 16  # the first bytes of the fingerprint's digest
NO_SUBJECT = bytes(SUBJECT_BYTES)
NO_MODEL = bytes(MODEL_BYTES)
NEVER = 0  # an `expires_at` of 0: the policy names no end


class TierName(StrEnum):
    """Where a chunk lies, from fast to slow. RAM is a cache in front of these, not a tier of its own."""

    FLASH = "flash"
    DISK = "disk"
    OBJECT = "object"
    ARCHIVE = "archive"


class Kind(IntEnum):
    """How a chunk came to be: of one conversation, or of a prompt registered as common to a tenant's domain."""

    PRIVATE = 0
    COMMON = 1


class Ack(IntEnum):
    """When a PUT is answered: when others can read the chunk, or when it survives a power cut."""

    VISIBLE = 0
    DURABLE = 1


@dataclass(frozen=True, order=True)
class Scope:
    """Whose chunks: one tenant's trust domain in one key epoch. All chunks of a scope have one seal key."""

    __slots__ = ("_hash", "domain", "epoch", "tenant")

    tenant: str
    domain: str
    epoch: bytes  # EPOCH_BYTES, random

    def __post_init__(self) -> None:
        if len(self.epoch) != EPOCH_BYTES:
            raise ValueError(f"an epoch is {EPOCH_BYTES} bytes, not {len(self.epoch)}")
        # Every look-up of a chunk hashes its scope: once is enough.
        object.__setattr__(self, "_hash", hash((self.tenant, self.domain, self.epoch)))

    def __hash__(self) -> int:
        return self._hash  # type: ignore[attr-defined, no-any-return]


@dataclass(frozen=True, slots=True)
class Meta:
    """What the writer says about a chunk, besides its bytes."""

    expires_at: int = NEVER  # Unix seconds, fixed at the time of storing by the policy in force
    subject: bytes = NO_SUBJECT
    model: bytes = NO_MODEL
    kind: Kind = Kind.PRIVATE
    position: int = 0  # ordinal of the chunk in its prompt, from 0: tails leave before heads
    recompute_us: int = 0  # predicted cost of computing it again, microseconds; 0: not known
