"""`.tlog-proof` texts (C2SP tlog-proof) and texts of consistency proofs (the head of a C2SP tlog-witness request)."""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kvctl.ledger.note import Checkpoint, decode64, open_checkpoint, parse_number
from kvctl.ledger.tiles import TileFiles, damaged
from kvctl.ledger.tree import HASH_BYTES, WIDTH, Hash, Proofs, leaf_hash, root_of_inclusion
from kvctl.types.errors import RefusedError, UsageError

FIRST = "c2sp.org/tlog-proof@v1"
MAX_HASHES = 63


@dataclass(frozen=True, slots=True)
class Proof:
    """That one entry is in a tree: its index, the hashes from the leaf's sibling upwards, the checkpoint's note."""

    index: int
    path: tuple[Hash, ...]
    note: str
    extra: bytes = b""  # not authenticated

    def text(self) -> str:
        extra = [f"extra {base64.b64encode(self.extra).decode()}"] if self.extra else []
        lines = [FIRST, *extra, f"index {self.index}", *encode_hashes(self.path)]
        return "\n".join(lines) + "\n\n" + self.note


def encode_hashes(hashes: Sequence[Hash]) -> list[str]:
    return [base64.b64encode(one).decode() for one in hashes]


def decode_hashes(lines: Sequence[str]) -> tuple[Hash, ...]:
    found = tuple(decode64(line) for line in lines)
    if len(found) > MAX_HASHES or any(len(one) != HASH_BYTES for one in found):
        raise ValueError(f"at most {MAX_HASHES} hashes of {HASH_BYTES} bytes each were expected")
    return found


def parse_proof(text: str) -> Proof:
    """UsageError KV-LEDGER-010 for a text that is no proof of inclusion."""
    head, gap, note = text.partition("\n\n")
    lines = head.split("\n")
    try:
        if not gap or lines.pop(0) != FIRST:
            raise ValueError(f"the first line is not {FIRST}")
        extra = decode64(lines.pop(0)[len("extra ") :]) if lines[:1] and lines[0].startswith("extra ") else b""
        word, _, index = (lines.pop(0) if lines else "").partition(" ")
        if word != "index":
            raise ValueError("there is no line `index N`")
        return Proof(parse_number(index), decode_hashes(lines), note, extra)
    except (ValueError, binascii.Error) as error:
        raise UsageError("KV-LEDGER-010", "this is no proof of inclusion", why=str(error)) from None


def check_proof(text: str, entry: bytes, origin: str, public: bytes, where: str = "") -> Checkpoint:
    """The checkpoint whose tree has `entry`, by a proof that the log `origin` signed.

    UsageError KV-LEDGER-010 for a malformed text, RefusedError KV-LEDGER-005 for a checkpoint of another log or key,
    KV-LEDGER-012 when the entry is not the one that was logged.
    """
    proof = parse_proof(text)
    checkpoint = open_checkpoint(proof.note, origin, public, where)
    if root_of_inclusion(leaf_hash(entry), proof.index, checkpoint.size, proof.path) != checkpoint.root:
        raise RefusedError(
            "KV-LEDGER-012",
            "the proof does not hold",
            where=where,
            why=f"entry {proof.index} of the log of {checkpoint.size} entries is another one",
            fix="check that the entry's bytes are those that were logged, without a change",
        )
    return checkpoint


def prove(files: TileFiles, note: str, checkpoint: Checkpoint, index: int) -> str:
    """The proof of entry `index` below a checkpoint. KV-LEDGER-004 when the tiles do not lead to its root."""
    size = checkpoint.size
    if not 0 <= index < size:
        raise out_of_range(f"there is no entry {index}", size)
    bundle, offset = divmod(index, WIDTH)
    entry = files.entries(bundle, offset + 1)[offset]
    path = tuple(Proofs(files.hashes).inclusion(index, size))
    if root_of_inclusion(leaf_hash(entry), index, size, path) != checkpoint.root:
        raise damaged(files.directory, f"the tiles of entry {index} do not lead to the root of {size} entries")
    return Proof(index, path, note).text()


def out_of_range(what: str, size: int) -> UsageError:
    return UsageError("KV-LEDGER-007", what, why=f"the log has {size} entries, numbered from 0")


def consistency_text(old: int, path: Sequence[Hash]) -> str:
    return "\n".join([f"old {old}", *encode_hashes(path)]) + "\n"


def parse_consistency(text: str, where: Path | str = "") -> tuple[int, tuple[Hash, ...]]:
    """The old size and the proof's hashes. UsageError KV-LEDGER-013."""
    head, *lines = text.rstrip("\n").split("\n")
    try:
        word, _, size = head.partition(" ")
        if word != "old":
            raise ValueError("the first line is not `old N`")
        return parse_number(size), decode_hashes(lines)
    except (ValueError, binascii.Error) as error:
        raise UsageError("KV-LEDGER-013", "this is no proof of consistency", where=str(where), why=str(error)) from None
