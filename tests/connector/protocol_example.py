"""Every frame of the block protocol with fixed keys and nonces; `python -m tests.connector.protocol_example` puts them
into docs/block-protocol.md."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from kvctl.connector import wire
from kvctl.connector.keys import Identity
from kvctl.connector.wire import GetStatus, PutStatus, Refusal, Type
from kvctl.types.chunks import Ack, Kind, Meta

PAGE = Path(__file__).parents[2] / "docs" / "block-protocol.md"
BEGIN, END = "<!-- frames: made by python -m tests.connector.protocol_example -->", "<!-- end of frames -->"
CONNECTOR = Identity(Ed25519PrivateKey.from_private_bytes(b"connector's private key, example"))
STORE = Identity(Ed25519PrivateKey.from_private_bytes(b"the store's private key, example"))
NONCE, STORE_NONCE = bytes(range(0x10, 0x30)), bytes(range(0x40, 0x60))
NONCES = (STORE.public, STORE_NONCE, CONNECTOR.public, NONCE)
ONE, TWO = b"\x11" * 32, b"\x22" * 32
SEALED = b"sealed bytes"
META = Meta(1_800_000_000, b"\x55" * 16, b"\x66" * 16, Kind.COMMON, 3, 250_000)
Part = tuple[int, str]  # bytes, what they are


@dataclass(frozen=True)
class Example:
    type: Type
    says: str
    body: bytes
    parts: tuple[Part, ...]
    slot: int = 0
    request: int = 0
    flags: int = 0

    @property
    def frame(self) -> bytes:
        head = wire.pack(self.type, len(self.body), slot=self.slot, flags=self.flags, request=self.request)
        return head + self.body


HEAD: tuple[Part, ...] = (
    (2, "magic `kv`"),
    (1, "version"),
    (1, "type"),
    (2, "slot"),
    (2, "flags"),
    (4, "request"),
    (8, "length of the body"),
)

EXAMPLES = (
    Example(
        Type.HELLO,
        "The connector opens. Nonces are random and used once.",
        wire.pack_hello(CONNECTOR.public, NONCE),
        (
            (1, "lowest version spoken"),
            (1, "highest version spoken"),
            (1, "mover: 1 is this stream"),
            (1, "zero"),
            (32, "the connector's public key"),
            (32, "the connector's nonce"),
        ),
    ),
    Example(
        Type.CHALLENGE,
        "The store answers. A connector that has pinned another key hangs up here.",
        STORE.public + STORE_NONCE,
        ((32, "the store's public key"), (32, "the store's nonce")),
    ),
    Example(
        Type.PROVE,
        "The connector signs `connector`'s text.",
        CONNECTOR.sign(wire.proof_text(wire.HELLO_LABEL, *NONCES)),
        ((64, "Ed25519 signature"),),
    ),
    Example(
        Type.WELCOME,
        "The store signs `store`'s text, and says what it takes. A connector without this proof sends nothing more.",
        STORE.sign(wire.proof_text(wire.WELCOME_LABEL, *NONCES))
        + wire.WELCOME.pack(bytes(range(0x70, 0x80)), wire.MAX_CHUNK, wire.MAX_KEYS),
        (
            (64, "Ed25519 signature"),
            (16, "session id, for logs"),
            (4, "most bytes of a sealed chunk"),
            (4, "most keys of a request"),
        ),
    ),
    Example(
        Type.ATTACH,
        "A capability for the slot in the header (its token is abridged here). A slot that is taken is taken over.",
        b"\x77" * 64 + b"{...}",
        ((64, "the controller's signature"), (5, "the signed text")),
        slot=2,
        request=1,
    ),
    Example(
        Type.ATTACHED,
        "Requests with this slot are for the capability's tenant, domain and epoch from now on.",
        wire.ATTACHED.pack(1_790_000_000),
        ((8, "when the capability ends, Unix seconds"),),
        slot=2,
        request=1,
    ),
    Example(
        Type.HAS,
        "Which of these chunks are there? Those that are stay for the lease's time.",
        wire.pack_keys(Type.HAS, [ONE, TWO], 2000),
        ((4, "lease, ms; 0: none"), (32, "key 0"), (32, "key 1")),
        slot=2,
        request=2,
    ),
    Example(
        Type.BITMAP,
        "Key 0 is there, key 1 is not. Bits behind the last key are 0.",
        wire.pack_bitmap([True, False]),
        ((1, "a bit a key, key 0 in the lowest bit of the first byte"),),
        slot=2,
        request=2,
    ),
    Example(
        Type.GET,
        "Send these chunks, in any order; answer DEADLINE for those whose turn has not come by then.",
        wire.pack_keys(Type.GET, [ONE, TWO], 950),
        ((4, "deadline, ms from its arrival; 0: none"), (32, "key 0"), (32, "key 1")),
        slot=2,
        request=3,
    ),
    Example(
        Type.CHUNK,
        "One for each key of the GET. A HIT has the sealed bytes behind it, every other status has none.",
        wire.CHUNK_HEAD.pack(0, GetStatus.HIT) + SEALED,
        (
            (4, "index of the key in the GET"),
            (1, "status"),
            (39, "padding: sent as zero, not read"),
            (12, "sealed bytes"),
        ),
        slot=2,
        request=3,
    ),
    Example(
        Type.CHUNK,
        "Key 1 is not there.",
        wire.CHUNK_HEAD.pack(1, GetStatus.MISS),
        ((4, "index of the key in the GET"), (1, "status"), (39, "padding: sent as zero, not read")),
        slot=2,
        request=3,
    ),
    Example(
        Type.PUT,
        "Store a chunk. It can be read when all of it has come, not before.",
        wire.pack_put(TWO, META, Ack.DURABLE) + SEALED,
        (
            (32, "key"),
            (1, "answer when: 0 visible, 1 durable"),
            (1, "kind: 0 private, 1 common"),
            (2, "zero"),
            (4, "position in its prompt"),
            (4, "predicted cost of computing it, µs; 0: not known"),
            (8, "expires at, Unix seconds; 0: never"),
            (16, "the subject's pseudonym; zero: none"),
            (16, "model: first bytes of the fingerprint's digest"),
            (24, "padding: sent as zero, not read"),
            (12, "sealed bytes"),
        ),
        slot=2,
        request=4,
    ),
    Example(
        Type.PUT_DONE,
        "",
        wire.NUMBER.pack(PutStatus.STORED),
        ((4, "status"),),
        slot=2,
        request=4,
    ),
    Example(
        Type.TOUCH,
        "These chunks were just used.",
        wire.pack_keys(Type.TOUCH, [ONE]),
        ((32, "key 0"),),
        slot=2,
        request=5,
    ),
    Example(
        Type.TOUCHED,
        "",
        wire.NUMBER.pack(1),
        ((4, "how many of the keys are there"),),
        slot=2,
        request=5,
    ),
    Example(Type.STAT, "How does the slot's scope stand?", b"", (), slot=2, request=6),
    Example(
        Type.STATS,
        "A JSON object about the slot's scope.",
        b'{"chunks":1}',
        ((12, "UTF-8"),),
        slot=2,
        request=6,
    ),
    Example(
        Type.LINEAGE,
        "A subject used chunks that were stored for another: its erasure takes them too. Answered by TOUCHED, durably.",
        wire.pack_lineage(b"\x77" * 16, [ONE]),
        ((16, "the subject's pseudonym"), (32, "key 0")),
        slot=2,
        request=7,
    ),
    Example(
        Type.ERROR,
        "This request failed; the session goes on.",
        wire.pack_error(Refusal.EXPIRED, "the capability is over"),
        ((2, "refusal"), (22, "why, UTF-8, for people")),
        slot=2,
        request=7,
    ),
    Example(
        Type.ERROR,
        "The session ends: flag 1, or request 0.",
        wire.pack_error(Refusal.DRAINING, ""),
        ((2, "refusal"),),
        flags=wire.FATAL,
    ),
)


def rows(example: Example) -> Iterator[str]:
    """A table row for each field; AssertionError when the parts are not the frame."""
    at = 0
    for size, name in HEAD + example.parts:
        field = example.frame[at : at + size]
        assert len(field) == size
        yield f"| {at} | {size} | `{shown(field)}` | {name} |"
        at += size
    assert at == len(example.frame), (example.type, at, len(example.frame))


def shown(field: bytes) -> str:
    return field.hex(" ") if len(field) <= 16 else f"{field[:16].hex(' ')} ..."


def frames() -> str:
    """The part of the page that is made."""
    text = [BEGIN, ""]
    for example in EXAMPLES:
        title = f"### {example.type.name} ({int(example.type)})"
        text += [title, "", *([example.says, ""] if example.says else [])]
        text += ["| at | bytes | value | |", "|---|---|---|---|", *rows(example), ""]
        text += ["```text", *wrapped(example.frame), "```", ""]
    return "\n".join([*text, END])


def wrapped(frame: bytes) -> list[str]:
    return [frame[at : at + 32].hex() for at in range(0, len(frame), 32)]


def with_frames(page: str) -> str:
    before, after = page.index(BEGIN), page.index(END) + len(END)
    return page[:before] + frames() + page[after:]


if __name__ == "__main__":
    PAGE.write_text(with_frames(PAGE.read_text()))
