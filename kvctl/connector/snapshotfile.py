"""The snapshot's file: signed by the controller, mode 0600 because salts and pseudonyms come from keys in it."""

from collections.abc import Iterable
from pathlib import Path

from kvctl.connector.keys import Identity
from kvctl.connector.secretfile import read_secret, write_secret
from kvctl.connector.signed import SignatureError, sign_text, verify_text
from kvctl.types.errors import KvctlError, RefusedError
from kvctl.types.snapshot import Snapshot, from_text, to_text

LABEL = b"kvctl snapshot 1\0"
MAX_BYTES = 64 << 20


def write_snapshot(path: Path | str, snapshot: Snapshot, identity: Identity) -> None:
    """Put a snapshot in the place of the last one, in one step. KV-CONN-011 and 012 as in `write_secret`."""
    write_secret(Path(path), sign_text(to_text(snapshot), LABEL, identity))


def read_snapshot(path: Path | str, trusted: Iterable[bytes], *, now: float, newest: int = 0) -> Snapshot:
    """A snapshot that a controller with one of the public keys `trusted` signed.

    KV-CONN-010 and 011 as in `read_secret`; RefusedError KV-GATE-010 for a bad signature, KV-GATE-011 for a text that
    is no snapshot of this version, KV-GATE-012 when its number is below `newest`, KV-GATE-013 when it is over at `now`.
    """
    place = Path(path)
    data = read_secret(place, MAX_BYTES)
    try:
        text = verify_text(data, LABEL, trusted)
    except SignatureError as error:
        raise _refused("KV-GATE-010", "the snapshot is not signed by a trusted controller", place, str(error)) from None
    try:
        snapshot = from_text(text)
    except ValueError as error:
        raise _refused("KV-GATE-011", "this is no snapshot that this version knows", place, str(error)) from None
    if snapshot.number < newest:
        why = f"it has number {snapshot.number}, and {newest} is in use"
        raise _refused("KV-GATE-012", "the snapshot is older than the one in use", place, why)
    check_expiry(snapshot, now, str(place))
    return snapshot


def check_expiry(snapshot: Snapshot, now: float, where: str) -> None:
    """RefusedError KV-GATE-013 when it is over at `now` (Unix seconds)."""
    if now >= snapshot.expires_at:
        why = f"it ended {int(now) - snapshot.expires_at} s ago"
        raise _refused("KV-GATE-013", "the snapshot is over", Path(where), why)


def _refused(code: str, what: str, where: Path, why: str) -> KvctlError:
    return RefusedError(code, what, where=str(where), why=why, fix="have the controller publish a new snapshot")
