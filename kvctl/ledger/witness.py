"""`python -m kvctl.ledger.witness`: keeps the last checkpoint of each log, and cosigns only what continues it.

Run by a party other than the log's operator. Rules and texts are those of C2SP tlog-witness and tlog-cosignature
(Ed25519); checkpoint and proof come as files, the cosignature goes to standard output.
"""

import argparse
import fcntl
import os
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from kvctl.ledger.files import Stage
from kvctl.ledger.note import COSIGNATURE, ED25519, Checkpoint, check_name, cosign, open_checkpoint, parse_verifier_key
from kvctl.ledger.note import verifier_key as make_verifier_key
from kvctl.ledger.proof import parse_consistency
from kvctl.ledger.tree import EMPTY_ROOT, HASH_BYTES, Hash, consistent
from kvctl.types.errors import ExitCode, KvctlError, RefusedError, UsageError


def judge(last: Checkpoint | None, new: Checkpoint, old: int, path: Sequence[Hash]) -> None:
    """Pass when `new` only adds to `last`, by a consistency proof from a tree of `old` entries.

    RefusedError KV-LEDGER-020 for a smaller tree, -021 for a proof from another size than the last, -022 for a tree
    that does not continue it. `last` is None before the first checkpoint.
    """
    size, root = (last.size, last.root) if last else (0, EMPTY_ROOT)
    if new.size < size:
        raise RefusedError(
            "KV-LEDGER-020",
            "the log became smaller; not cosigned",
            where=new.origin,
            why=f"it had {size} entries, now {new.size}",
            fix="entries were removed, or an old checkpoint was sent: ask the log's operator, and keep this one",
        )
    if old != size:
        raise RefusedError(
            "KV-LEDGER-021",
            "the proof begins elsewhere; not cosigned",
            where=new.origin,
            why=f"it is from {old} entries; the last cosigned checkpoint has {size}",
            fix=f"make the proof from {size}",
        )
    if not consistent(size, new.size, root, new.root, path) or (new.size == 0 and new.root != EMPTY_ROOT):
        raise RefusedError(
            "KV-LEDGER-022",
            "the log does not continue what was cosigned before; not cosigned",
            where=new.origin,
            why=f"the tree of {new.size} entries is not the one of {size} with entries added",
            fix="the log was rewritten, or the proof is of another checkpoint: keep both checkpoints as evidence",
        )


class State:
    """The last cosigned checkpoint of each log, in a directory. One witness at a time uses it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._stage = Stage(directory)
        self._stage.clear()

    def _name(self, origin: str) -> str:
        return f"{sha256(origin.encode()).hexdigest()}.checkpoint"

    def last(self, origin: str, public: bytes) -> Checkpoint | None:
        path = self._directory / self._name(origin)
        if not path.exists():
            return None
        return open_checkpoint(path.read_text("utf-8"), origin, public, str(path))

    def keep(self, origin: str, note: str) -> None:
        """On the medium when this returns."""
        self._stage.put([(self._name(origin), note.encode())])


@contextmanager
def opened(directory: Path) -> Iterator[State]:
    """The state in a directory, which is made if need be; another witness waits for its end."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (directory / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield State(directory)


class PrivateKey:
    """A witness's Ed25519 key, from a file of mode 0600: PEM (PKCS#8, no passphrase) or its 32 bytes."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            data = file.read()
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            why = "it is not of this user alone (mode 0600)"
            raise RefusedError("KV-LEDGER-023", "the witness's key is not kept secret", where=str(path), why=why)
        raw = len(data) == HASH_BYTES
        try:
            key = Ed25519PrivateKey.from_private_bytes(data) if raw else load_pem_private_key(data, None)
        except (ValueError, TypeError) as error:
            raise _no_key(path, str(error)) from None
        if not isinstance(key, Ed25519PrivateKey):
            raise _no_key(path, "it is a key of another algorithm")
        self._key = key
        self.public = key.public_key().public_bytes_raw()

    def sign(self, text: bytes) -> bytes:
        return self._key.sign(text)


def _no_key(path: Path, why: str) -> UsageError:
    return UsageError("KV-LEDGER-024", "this is no Ed25519 key", where=str(path), why=why)


def read_log_key(path: Path) -> tuple[str, bytes]:
    """Origin and public key of a log, from a file with its verifier key."""
    try:
        name, kind, public = parse_verifier_key(path.read_text("utf-8"))
        if kind != ED25519:
            raise ValueError("it is the key of a witness")
    except ValueError as error:
        raise _no_key(path, f"a line name+number+key was expected: {error}") from None
    return name, public


def witness(state: State, name: str, key: PrivateKey, log: tuple[str, bytes], note: str, proof: str, now: int) -> str:
    """The cosignature line for a checkpoint, after it was kept. KV-LEDGER-005, -013, and as `judge`."""
    origin, public = log
    new = open_checkpoint(note, origin, public, "the checkpoint")
    old, path = parse_consistency(proof, "the proof")
    judge(state.last(origin, public), new, old, path)
    line = cosign(note, name, key, now)
    state.keep(origin, note)
    return line


def main(argv: Sequence[str] | None = None) -> int:
    """Exit codes of kvctl: 0 cosigned, 7 refused, 2 a wrong file or flag."""
    parser = argparse.ArgumentParser("python -m kvctl.ledger.witness", description=__doc__, allow_abbrev=False)
    parser.add_argument("--state", required=True, type=Path, metavar="DIR", help="where the last checkpoints are kept")
    parser.add_argument("--key", required=True, type=Path, metavar="FILE", help="the witness's Ed25519 key, mode 0600")
    parser.add_argument("--name", required=True, help="the witness's name, such as witness.example.org/w1")
    parser.add_argument("--log", required=True, type=Path, metavar="FILE", help="the log's verifier key")
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT")
    parser.add_argument("proof", type=Path, metavar="PROOF", help="`old N`, then the proof's hashes in base64")
    asked = parser.parse_args(argv)
    try:
        key, name = PrivateKey(asked.key), check_name(asked.name)
        sys.stderr.write(f"witness key: {make_verifier_key(name, key.public, COSIGNATURE)}\n")
        note, proof = asked.checkpoint.read_text("utf-8"), asked.proof.read_text("utf-8")
        with opened(asked.state) as state:
            line = witness(state, name, key, read_log_key(asked.log), note, proof, int(time.time()))
    except KvctlError as error:
        sys.stderr.write(f"{error}\n")
        return int(error.exit_code)
    except (OSError, UnicodeDecodeError) as error:
        sys.stderr.write(f"a file cannot be read or written: {error}\n")
        return int(ExitCode.USAGE)
    sys.stdout.write(line)
    return int(ExitCode.OK)


if __name__ == "__main__":
    sys.exit(main())
