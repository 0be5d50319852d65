"""A backup of a controller while it runs: control log, tables and keys as of one moment, in one tar file.

Keys travel wrapped by the key store's master key, which is not in it: a backup alone opens nothing. What is secret
beside them is sealed by a key derived from the same master key. The manifest names every file with its SHA-256 and is
signed by the site. docs/controller.md has the format.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
import shutil
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from kvctl import __version__
from kvctl.connector.secretfile import read_secret, write_secret
from kvctl.controller.keystore import MASTER, root_file, subject_file
from kvctl.types.chunks import Scope
from kvctl.types.errors import KvctlError, RefusedError, UsageError

if TYPE_CHECKING:
    from kvctl.controller.core import Controller
    from kvctl.state.governance import Connection

SCHEMA = "kvctl.backup/1"
MANIFEST, SIGNATURE, SEALED = "manifest.json", "manifest.sig", "secrets.sealed"
DATABASE, LOG, KEYS = "governance.duckdb", "ledger/control", "keys"
SECRETS = ("site.key", "accounts.json", "tls/ca.key", "tls/server.key")
PLAIN = ("controller.yaml", "tls/ca.crt", "tls/server.crt")
LABEL = b"kvctl backup 1\0"
NONCE_BYTES = 12
MAX_SECRET = 16 << 20
BLOCK = 1 << 20
RUN = f".staging-{secrets.token_hex(4)}-"  # of this process: no other one has the books
NOT_COPIED = ("lock", "tmp")  # of a log's directory


def write(ctl: Controller, target: Path, about: dict[str, Any], decide: Callable[[], None]) -> dict[str, Any]:
    """Write the archive, mode 0600; its manifest. `about`: label, expires_at, and whatever else the manifest says.

    `decide` is called at the moment that the archive is of, and puts on record that what is there then may be in it;
    what it raises ends the backup. Changes wait for it, and while keys and the newest files of the log are copied.
    KvctlError KV-CTL-050 when there is no room, UsageError KV-CTL-051 when the file is there or cannot be written.
    """
    if target.exists():
        raise UsageError("KV-CTL-051", "the backup's file is there already", where=str(target), fix="give another name")
    have_room(ctl.directory, target.parent)
    with staging(ctl.directory) as stage:
        size, note = copy(ctl, stage, decide)
        manifest = {
            "schema": SCHEMA, "site": ctl.site, "kvctl": __version__, "size": size, "checkpoint": note, **about,
            "files": {name: digest(stage / name) for name in names_in(stage)},
        }  # fmt: skip
        text = json.dumps(manifest, indent=1, sort_keys=True).encode()
        (stage / MANIFEST).write_bytes(text)
        (stage / SIGNATURE).write_bytes(ctl.books.identity.sign(text))
        pack(stage, target)
    return manifest


def copy(ctl: Controller, stage: Path, decide: Callable[[], None]) -> tuple[int, str]:
    """Log, tables and keys as of one moment; the log's size and signed checkpoint then."""
    source, target = ctl.directory / LOG, stage / LOG
    ctl.books.log.checkpoint()
    copy_log(source, target, whole=False)  # most of it, while changes go on
    with ctl.books.state.reading() as db:
        with ctl.books.deciding():
            decide()
            note, size = ctl.books.log.checkpoint(), ctl.books.log.size
            db.begin()
            row = db.execute("SELECT size FROM applied").fetchone()  # what this transaction sees from now on
            if row is None or row[0] != size:
                raise KvctlError(
                    "KV-CTL-052", "the tables are behind the log: nothing was written", fix="run: kvctl audit reindex"
                )
            copy_log(source, target, whole=True)
            copy_keys(db, ctl.directory / KEYS, stage / KEYS)
            copy_rest(ctl.directory, stage)
        copy_tables(db, stage / DATABASE)
    return size, note


def copy_rest(directory: Path, stage: Path) -> None:
    """Small files: accounts, certificates, settings; those that are secret are sealed."""
    (stage / SEALED).write_bytes(seal(directory, master_key(directory / KEYS, make=True)))
    for name in PLAIN:
        if (directory / name).exists():
            put(directory / name, stage / name)
    for path in sorted((directory / "tls" / "services").glob("*.crt")):
        put(path, stage / "tls" / "services" / path.name)


def copy_tables(db: Connection, target: Path) -> None:
    """All rows that the transaction of `db` sees, into a new file. Ends the transaction."""
    row = db.execute("SELECT current_database()").fetchone()
    assert row is not None
    quoted = str(target).replace("'", "''")
    db.execute(f"ATTACH '{quoted}' AS backup_copy")
    try:
        db.execute(f'COPY FROM DATABASE "{row[0]}" TO backup_copy')
        db.commit()
    except BaseException:
        db.rollback()
        raise
    finally:
        db.execute("DETACH backup_copy")


def copy_log(source: Path, target: Path, *, whole: bool) -> None:
    """Copy what is not there yet. Unless `whole`, files may vanish meanwhile; then, nothing else is in `target`."""
    there = set()
    for path in sorted(source.rglob("*")):
        name = path.relative_to(source)
        if name.parts[0] in NOT_COPIED or not path.is_file():
            continue
        there.add(name)
        # Tiles never change once they are written; the checkpoint and the journal do.
        if name.parts[0] == "tile" and (target / name).exists():
            continue
        try:
            put(path, target / name)
        except FileNotFoundError:
            if whole:
                raise
    if whole:
        for path in [one for one in target.rglob("*") if one.is_file() and one.relative_to(target) not in there]:
            path.unlink()


def copy_keys(db: Connection, source: Path, target: Path) -> None:
    """The wrapped keys that the tables know of, not what they are wrapped with; none whose destruction has begun."""
    target.mkdir(parents=True, exist_ok=True, mode=0o700)
    live = "SELECT tenant, domain, epoch FROM epochs WHERE destroying_at IS NULL AND destroyed_at IS NULL"
    names = [root_file(Scope(t, d, bytes.fromhex(e))) for t, d, e in db.execute(live).fetchall()]
    here = "SELECT tenant FROM tenants WHERE state NOT IN ('offboarding', 'offboarded')"
    names += [subject_file(tenant) for (tenant,) in db.execute(here).fetchall()]
    for name in names:
        if (source / name).exists():
            put(source / name, target / name)


def put(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    shutil.copyfile(source, target)
    target.chmod(0o600)


def master_key(keys: Path, *, make: bool = False) -> bytes:
    """The key store's master key; a store that has no keys yet gets one. UsageError KV-CTL-053 when it is lost."""
    path = keys / MASTER
    if not path.exists():
        if not make or any(keys.glob("*.root")):
            raise UsageError("KV-CTL-053", "there is no master key", where=str(path), fix="give --master-key FILE")
        keys.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_secret(path, secrets.token_bytes(32))
    return read_secret(path)


def sealing_key(master: bytes) -> bytes:
    return HKDF(SHA256(), 32, None, LABEL).derive(master)


def seal(directory: Path, master: bytes) -> bytes:
    found = {
        name: base64.b64encode(read_secret(directory / name, MAX_SECRET)).decode()
        for name in SECRETS
        if (directory / name).exists()
    }
    nonce = secrets.token_bytes(NONCE_BYTES)
    return nonce + AESGCM(sealing_key(master)).encrypt(nonce, json.dumps(found).encode(), LABEL)


def unseal(data: bytes, master: bytes) -> dict[str, bytes]:
    """Path -> bytes. RefusedError KV-CTL-054 with a master key of another key store, or for changed bytes."""
    try:
        text = AESGCM(sealing_key(master)).decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], LABEL)
    except (InvalidTag, ValueError):
        raise RefusedError(
            "KV-CTL-054", "this master key does not open the backup", why="it is another key store's, or bytes changed",
            fix="give the master key that was exported with it: --master-key FILE",
        ) from None  # fmt: skip
    found = {name: base64.b64decode(value) for name, value in json.loads(text).items()}
    return {name: value for name, value in found.items() if name in SECRETS}


@contextmanager
def staging(directory: Path) -> Iterator[Path]:
    for left in (directory / "backups").glob(".staging-*"):
        if not left.name.startswith(RUN):  # of a process that was killed: it has keys
            shutil.rmtree(left)
    path = directory / "backups" / f"{RUN}{secrets.token_hex(6)}"
    path.mkdir(parents=True, mode=0o700)
    try:
        yield path
    finally:
        shutil.rmtree(path)


def pack(stage: Path, target: Path) -> None:
    """The manifest first, then the rest by name; in place whole or not at all."""
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
                for name in (MANIFEST, SIGNATURE, *(n for n in names_in(stage) if n not in (MANIFEST, SIGNATURE))):
                    tar.add(stage / name, name)
            file.flush()
            os.fsync(file.fileno())
        part.rename(target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise UsageError(
            "KV-CTL-051", "the backup cannot be written", where=str(target), why=error.strerror or str(error)
        ) from error


def have_room(directory: Path, target: Path) -> None:
    needed = sum(one.stat().st_size for one in (directory / LOG).rglob("*") if one.is_file())
    needed += (directory / DATABASE).stat().st_size
    for place in {directory, target}:
        found = os.statvfs(place)
        if found.f_bavail * found.f_frsize < 2 * needed + (128 << 20):
            raise KvctlError(
                "KV-CTL-050", "there is no room for a backup", where=str(place),
                why=f"about {needed >> 20} MiB are copied, then packed", fix="make room, or give a file elsewhere",
            )  # fmt: skip


def names_in(stage: Path) -> list[str]:
    return sorted(str(path.relative_to(stage)) for path in stage.rglob("*") if path.is_file())


def digest(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def days_from_now(days: int) -> str:
    end = datetime.now(UTC) + timedelta(days=days)
    return end.isoformat(timespec="milliseconds").replace("+00:00", "Z")
