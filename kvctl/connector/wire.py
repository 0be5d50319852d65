"""The block protocol's frames, version 1; docs/block-protocol.md shows them byte by byte.

A frame is a fixed header of 20 bytes and `length` bytes of body. All integers are little-endian. Both sides use these
functions; none of them touches a socket. Lengths are judged before anything is allocated.
"""

from collections.abc import Sequence
from enum import IntEnum
from itertools import chain
from struct import Struct
from typing import NamedTuple

from kvctl.types.chunks import KEY_BYTES, MODEL_BYTES, NO_SUBJECT, SUBJECT_BYTES, Ack, Kind, Meta

MAGIC = b"kv"
VERSION = 1
HEADER = Struct("<2sBBHHIQ")  # magic, version, type, slot, flags (0), request, length of the body
MAX_CHUNK = 64 << 20  # sealed bytes of one chunk
MAX_KEYS = 4096  # of one HAS, GET, TOUCH or LINEAGE
MAX_SLOTS = 1024  # capabilities of one session
MAX_CONTROL = 16 << 10  # body of every frame that carries neither keys nor a chunk
NONCE_BYTES = 32
PUBLIC_KEY_BYTES = 32  # Ed25519
SIGNATURE_BYTES = 64
HELLO_LABEL = b"kvctl block protocol 1: connector\0"
WELCOME_LABEL = b"kvctl block protocol 1: store\0"
DIGITS = bytes.maketrans(b"\0\1", b"01")
BITS = [tuple(bool(byte >> at & 1) for at in range(8)) for byte in range(256)]  # of each byte, lowest first


class Type(IntEnum):
    """What a frame is; c: sent by the connector, s: by the store."""

    HELLO = 1  # c
    CHALLENGE = 2  # s
    PROVE = 3  # c
    WELCOME = 4  # s
    ATTACH = 5  # c: a capability for the slot in the header
    ATTACHED = 6  # s
    HAS = 10  # c
    BITMAP = 11  # s
    GET = 12  # c
    CHUNK = 13  # s: one a key of the GET, in any order
    PUT = 14  # c
    PUT_DONE = 15  # s
    TOUCH = 16  # c
    TOUCHED = 17  # s
    STAT = 18  # c
    STATS = 19  # s: JSON, of the slot's scope
    LINEAGE = 20  # c: a subject used these chunks as well; answered TOUCHED. A store that does not know it closes
    ERROR = 31  # s: this request failed; with request 0, or flag FATAL, the session ends


FATAL = 1  # the one flag of version 1: the sender closes after this ERROR


class GetStatus(IntEnum):
    HIT = 0
    MISS = 1
    DEADLINE = 2  # the request's time was up before this chunk's turn
    BUSY = 3  # the store has no room to read it now


class PutStatus(IntEnum):
    STORED = 0
    EXISTS = 1  # a chunk of this name is there: nothing was changed but its recency
    FULL = 2  # no space, and nothing may leave
    QUOTA = 3  # the tenant's share of this node is used up
    NOT_ADMITTED = 4  # under pressure, and not asked for often enough
    BUSY = 5  # writes cannot keep up, or the store is draining
    FAILED = 6  # the medium refused; nothing was stored
    EXPIRED = 7  # its `expires_at` is past


class Refusal(IntEnum):
    """Why a store refuses; the number is stable, the text beside it is for people."""

    MALFORMED = 1  # a frame that is none: always fatal
    TOO_LARGE = 2  # a length over its limit: always fatal
    VERSION = 3
    UNKNOWN_CONNECTOR = 4  # its public key is not in the store's list
    BAD_PROOF = 5
    BAD_CAPABILITY = 6  # not signed by a controller this store trusts, or for another connector
    EXPIRED = 7  # of the capability of this slot
    REVOKED = 8
    NOT_ATTACHED = 9  # no capability in this slot
    NOT_ALLOWED = 10  # the capability does not name this operation
    TOO_MANY = 11  # sessions, slots or half-open connections
    DRAINING = 12
    TIMEOUT = 13  # the peer was too slow with a frame
    INTERNAL = 14  # a fault of the store itself, logged there


class WireError(Exception):
    """A peer sent what no peer of this protocol sends; the session ends with this reason."""

    def __init__(self, refusal: Refusal, why: str) -> None:
        super().__init__(f"{refusal.name.lower()}: {why}")
        self.refusal = refusal
        self.why = why


class Frame(NamedTuple):
    """A frame's header; the body is still on its way."""

    type: Type
    slot: int
    flags: int
    request: int
    length: int


def pack(kind: Type, length: int, *, slot: int = 0, flags: int = 0, request: int = 0) -> bytes:
    return HEADER.pack(MAGIC, VERSION, kind, slot, flags, request, length)


# What a frame's body may be long; HELLO and its kin have one length, the others a range.
KEYED_HEAD = {Type.HAS: 4, Type.GET: 4, Type.TOUCH: 0, Type.LINEAGE: SUBJECT_BYTES}
# With a frame's header these are 128 and 64 bytes: the kernel then copies what follows on aligned addresses, which
# takes a sixth less of a sender's time than behind 28 bytes. Padding is sent as zero and not read.
# key, ack, kind, 0, position, cost, expiry, subject, model; the sealed bytes follow
PUT_HEAD = Struct(f"<{KEY_BYTES}sBBHIIQ{SUBJECT_BYTES}s{MODEL_BYTES}s24x")
CHUNK_HEAD = Struct("<IB39x")  # index of the key in the GET, GetStatus; the sealed bytes follow a HIT
LIMITS: dict[Type, tuple[int, int]] = {
    Type.HELLO: (4 + PUBLIC_KEY_BYTES + NONCE_BYTES,) * 2,
    Type.CHALLENGE: (PUBLIC_KEY_BYTES + NONCE_BYTES,) * 2,
    Type.PROVE: (SIGNATURE_BYTES,) * 2,
    Type.WELCOME: (SIGNATURE_BYTES + 24,) * 2,
    Type.ATTACH: (SIGNATURE_BYTES, MAX_CONTROL),
    Type.ATTACHED: (8, 8),
    Type.HAS: (4 + KEY_BYTES, 4 + MAX_KEYS * KEY_BYTES),
    Type.BITMAP: (1, MAX_KEYS // 8),
    Type.GET: (4 + KEY_BYTES, 4 + MAX_KEYS * KEY_BYTES),
    Type.CHUNK: (CHUNK_HEAD.size, CHUNK_HEAD.size + MAX_CHUNK),
    Type.PUT: (PUT_HEAD.size + 1, PUT_HEAD.size + MAX_CHUNK),
    Type.PUT_DONE: (4, 4),
    Type.TOUCH: (KEY_BYTES, MAX_KEYS * KEY_BYTES),
    Type.TOUCHED: (4, 4),
    Type.LINEAGE: (SUBJECT_BYTES + KEY_BYTES, SUBJECT_BYTES + MAX_KEYS * KEY_BYTES),
    Type.STAT: (0, 0),
    Type.STATS: (2, MAX_CONTROL),
    Type.ERROR: (2, MAX_CONTROL),
}

BY_NUMBER = {int(kind): (kind, low, high) for kind, (low, high) in LIMITS.items()}


def unpack(header: bytes | bytearray | memoryview) -> Frame:
    """Read a frame's header of HEADER.size bytes; WireError for anything that version 1 does not send."""
    magic, version, kind, slot, flags, request, length = HEADER.unpack(header)
    if magic != MAGIC:
        raise WireError(Refusal.MALFORMED, "not a frame of the block protocol")
    if version != VERSION:
        raise WireError(Refusal.VERSION, f"protocol version {version}, not {VERSION}")
    known = BY_NUMBER.get(kind)
    if known is None:
        raise WireError(Refusal.MALFORMED, f"no frame has type {kind}")
    kind, low, high = known
    if length > high:
        raise WireError(Refusal.TOO_LARGE, f"{kind.name} of {length} bytes; at most {high}")
    if length < low:
        raise WireError(Refusal.MALFORMED, f"{kind.name} of {length} bytes; at least {low}")
    if slot >= MAX_SLOTS:
        raise WireError(Refusal.MALFORMED, f"slot {slot}; the last one is {MAX_SLOTS - 1}")
    if flags and (kind is not Type.ERROR or flags != FATAL):
        raise WireError(Refusal.MALFORMED, f"{kind.name} with flags {flags}")
    return Frame(kind, slot, flags, request, length)


def pack_hello(public_key: bytes, nonce: bytes) -> bytes:
    """Versions this connector speaks (from, to), the mover it asks for (1: this stream), its key, its nonce."""
    return bytes((VERSION, VERSION, 1, 0)) + public_key + nonce


def unpack_hello(body: bytes) -> tuple[bytes, bytes]:
    """(public key, nonce); WireError when no version or mover is shared."""
    low, high, mover, zero = body[:4]
    if not low <= VERSION <= high:
        raise WireError(Refusal.VERSION, f"the connector speaks versions {low} to {high}, this store {VERSION}")
    if mover != 1 or zero:
        raise WireError(Refusal.MALFORMED, f"no mover {mover}")
    return bytes(body[4:36]), bytes(body[36:68])


WELCOME = Struct("<16sII")  # session id, most bytes of a sealed chunk, most keys of a request
ATTACHED = Struct("<Q")  # when the capability of this slot ends, Unix seconds
NUMBER = Struct("<I")  # PUT_DONE: PutStatus; TOUCHED: how many of the keys are there


def proof_text(label: bytes, store: bytes, store_nonce: bytes, connector: bytes, connector_nonce: bytes) -> bytes:
    """What each side signs: both keys and both nonces, so that neither a replay nor a relay to another store helps."""
    return label + store + store_nonce + connector + connector_nonce


def pack_keys(kind: Type, keys: Sequence[bytes], number: int = 0) -> bytes:
    """Body of HAS (number: lease, ms), GET (number: deadline, ms; 0: none) or TOUCH. ValueError for what is no key."""
    return number.to_bytes(KEYED_HEAD[kind], "little") + _joined(keys)


def pack_lineage(subject: bytes, keys: Sequence[bytes]) -> bytes:
    """Body of LINEAGE. ValueError for what is no subject or no key."""
    if len(subject) != SUBJECT_BYTES or subject == NO_SUBJECT:
        raise ValueError(f"a subject is {SUBJECT_BYTES} bytes, not all of them zero")
    return subject + _joined(keys)


def _joined(keys: Sequence[bytes]) -> bytes:
    if any(len(key) != KEY_BYTES for key in keys):
        raise ValueError(f"a key is {KEY_BYTES} bytes")
    return b"".join(keys)


def unpack_keys(kind: Type, body: bytes | bytearray | memoryview) -> tuple[int, list[bytes]]:
    """(lease or deadline in ms, keys) of a HAS, GET or TOUCH; of a LINEAGE, its subject as a number and the keys."""
    skip = KEYED_HEAD[kind]
    whole, rest = divmod(len(body) - skip, KEY_BYTES)
    if rest or not whole:
        raise WireError(Refusal.MALFORMED, f"{kind.name} does not hold whole keys")
    data = bytes(body)
    return int.from_bytes(data[:skip], "little"), [
        data[at : at + KEY_BYTES] for at in range(skip, len(data), KEY_BYTES)
    ]


def pack_put(key: bytes, meta: Meta, ack: Ack) -> bytes:
    """The head of a PUT's body; the sealed bytes follow it."""
    return PUT_HEAD.pack(
        key, ack, meta.kind, 0, meta.position, meta.recompute_us, meta.expires_at, meta.subject, meta.model
    )


def unpack_put(head: bytes | bytearray | memoryview) -> tuple[bytes, Meta, Ack]:
    key, ack, kind, zero, position, cost, expires_at, subject, model = PUT_HEAD.unpack(head)
    try:
        meta = Meta(expires_at, subject, model, Kind(kind), position, cost)
        level = Ack(ack)
    except ValueError as bad:
        raise WireError(Refusal.MALFORMED, f"PUT: {bad}") from None
    if zero:
        raise WireError(Refusal.MALFORMED, "PUT: a reserved field is not zero")
    return key, meta, level


def pack_bitmap(present: Sequence[bool]) -> bytes:
    """One bit a key, the first key in the lowest bit of the first byte; bits behind the last key are 0."""
    digits = bytes(present)[::-1].translate(DIGITS)
    return int(digits, 2).to_bytes((len(present) + 7) // 8, "little")


def unpack_bitmap(body: bytes | bytearray | memoryview, count: int) -> list[bool]:
    if len(body) != (count + 7) // 8:
        raise WireError(Refusal.MALFORMED, f"a bitmap of {len(body)} bytes for {count} keys")
    bits = list(chain.from_iterable(map(BITS.__getitem__, body)))
    if any(bits[count:]):
        raise WireError(Refusal.MALFORMED, f"a bitmap with bits behind its {count} keys")
    return bits[:count]


def pack_error(refusal: Refusal, why: str) -> bytes:
    return refusal.to_bytes(2, "little") + why.encode()[: MAX_CONTROL - 2]


def unpack_error(body: bytes | bytearray | memoryview) -> WireError:
    """The error that the peer sent; a number this version does not know is INTERNAL with its text."""
    data = bytes(body)
    number = int.from_bytes(data[:2], "little")
    known = number in set(Refusal)
    return WireError(Refusal(number) if known else Refusal.INTERNAL, data[2:].decode(errors="replace"))
