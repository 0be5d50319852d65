"""Putting a backup back, while no controller runs: everything is verified beside the state before anything is replaced.

Keys whose destruction any log here tells of are not brought back; kvctl.controller.destroyed_keys keeps that on record.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
import tarfile
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

from kvctl.connector.keys import Identity, verify
from kvctl.connector.secretfile import read_secret, write_secret
from kvctl.controller import backup as archive
from kvctl.controller import destroyed_keys
from kvctl.controller.books import Books
from kvctl.controller.core import Controller
from kvctl.controller.destroyed_keys import Replaced, Told
from kvctl.controller.keystore import ASIDE, MASTER
from kvctl.controller.settings import ControllerSettings
from kvctl.controller.upkeep import decisions
from kvctl.ledger.files import Lock
from kvctl.ledger.reader import Reader
from kvctl.ledger.verify import verify as verify_log
from kvctl.state.governance import SHIPPED, GovernanceState
from kvctl.types.errors import KvctlError, RefusedError, UsageError
from kvctl.types.events import Event
from kvctl.types.principals import Principal

PARTS = (
    archive.DATABASE, f"{archive.DATABASE}.wal", archive.LOG, archive.KEYS, "tls", "site.key", "accounts.json",
    "controller.yaml",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Restored:
    """What was put back. `same`: the tables of the backup are those that its log gives."""

    manifest: dict[str, Any]
    events: int
    same: bool
    differences: list[str]
    keys_left_out: list[str]
    aside: Path | None  # where what was there before lies now


def restore(
    settings: ControllerSettings, file: Path, who: Principal, *, master: Path | None = None, force: str = "",
    dry_run: bool = False,
) -> Restored:  # fmt: skip
    """Verify an archive and put it in the place of the site's state. `force`: the site's name, to replace a newer log.

    KV-CTL-060 for what is no whole backup, 061 when the log that is there is newer, KV-CTL-054 for a wrong master key,
    KV-LEDGER-001 while a controller runs.
    """
    directory = settings.directory
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    (directory / archive.LOG).mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = Lock(directory / archive.LOG)
    try:
        for left in directory.glob(".restoring-*"):  # of a restore that was cut off: it has keys
            shutil.rmtree(left)
        stage = directory / f".restoring-{secrets.token_hex(6)}"
        stage.mkdir(mode=0o700)
        try:
            manifest = unpack(file, stage)
            key = read_secret(master) if master else archive.master_key(directory / archive.KEYS)
            identity = open_secrets(stage, manifest, key, settings.site)
            verified(stage, settings.site, identity)
            own, told = Told(), Told()
            destroyed_keys.read(stage / archive.LOG, own)
            there = known(directory, stage, settings.site, identity, told)
            insist(directory, settings.site, there, force)
            left_out = leave_out(stage / archive.KEYS, own, told)
            about = {"backup": manifest["backup"], "size": manifest["size"], "given_up": there.size - there.common}
            about |= {"unread": there.unread, "keys_left_out": len(left_out)}
            recorded = [*destroyed_keys.events(told, own, manifest["backup"]), Event("backup.restored", about)]
            events, differences = check(stage, settings, manifest, who, recorded)
            aside = None if dry_run else exchange(stage, directory)
        finally:
            shutil.rmtree(stage)
    finally:
        lock.release()
    return Restored(manifest, events, not differences, differences, left_out, aside)


def unpack(file: Path, stage: Path) -> dict[str, Any]:
    """Every file that the manifest names, and no other, with its digest right."""
    try:
        with tarfile.open(file, "r:") as tar:
            tar.extractall(stage, filter="data")
        manifest: dict[str, Any] = json.loads((stage / archive.MANIFEST).read_bytes())
        if manifest["schema"] != archive.SCHEMA:
            raise ValueError(f"it is a {manifest['schema']!r}")
        expected = {**manifest["files"], archive.MANIFEST: None, archive.SIGNATURE: None}
        wrong = sorted(set(expected) ^ set(archive.names_in(stage)))
        wrong += [
            name for name, told in manifest["files"].items() if not wrong and archive.digest(stage / name) != told
        ]
    except (OSError, tarfile.TarError, ValueError, KeyError, TypeError) as error:
        raise no_backup(file, str(error)) from error
    if wrong:
        raise no_backup(file, f"{wrong[0]} is missing, was added or was changed; {len(wrong)} such files")
    return manifest


def open_secrets(stage: Path, manifest: dict[str, Any], master: bytes, site: str) -> Identity:
    """Unseal what is secret, put it in place, and verify the manifest's signature with the site's key."""
    for name, data in archive.unseal((stage / archive.SEALED).read_bytes(), master).items():
        (stage / name).parent.mkdir(exist_ok=True, mode=0o700)
        write_secret(stage / name, data)
    (stage / archive.KEYS).mkdir(exist_ok=True, mode=0o700)
    write_secret(stage / archive.KEYS / MASTER, master)
    identity = Identity.load(stage / "site.key")
    signature = (stage / archive.SIGNATURE).read_bytes()
    if not verify(identity.public, signature, (stage / archive.MANIFEST).read_bytes()):
        raise no_backup(stage, "its manifest is not signed by the site's key")
    if manifest["site"] != site:
        raise UsageError("KV-CTL-062", f"this is a backup of site {manifest['site']!r}", why=f"here is {site!r}")
    return identity


def verified(stage: Path, site: str, identity: Identity) -> None:
    found = verify_log(stage / archive.LOG, f"kvctl.{site}/control", identity.public)
    if not found.sound:
        one = found.problems[0]
        raise no_backup(stage, f"the log in it is not sound: {one.place}: {one.what}")


def check(
    stage: Path, settings: ControllerSettings, manifest: dict[str, Any], who: Principal, recorded: list[Event]
) -> tuple[int, list[str]]:
    """Make the tables again from the log; events, and tables that came out other than the backup's.

    The decisions that it may be here, and then `recorded`, are the log's next events.
    """
    books = Books(stage, settings.site)
    try:
        before = answers(books.state)
        events = books.reindex()
        after = answers(books.state)
        decided = decisions(Controller(settings, books), "restore", settings.site, manifest["backup"])
        refuse(decided)
        books.commit(who, [*decided, *recorded])
    finally:
        books.close()
    return events, sorted(name for name in before | after if before.get(name) != after.get(name))


def refuse(decided: list[Event]) -> None:
    """RefusedError KV-CTL-063 when a tenant's policy keeps it from this site."""
    refused = [event.data["rule"] for event in decided if event.outcome != "ok"]
    if refused:
        raise RefusedError("KV-CTL-063", "residency refuses to restore here", why="; ".join(refused[:3]))


def answers(state: GovernanceState) -> dict[str, str]:
    """Table -> a digest of its rows, whatever their order. Tables that are not made from the log are left out."""
    with state.reading() as db:
        names = db.execute("SELECT table_name FROM duckdb_tables() WHERE NOT internal ORDER BY 1").fetchall()
        found = {}
        for (name,) in names:
            if name in (*SHIPPED, "schema_version"):
                continue
            rows = sorted(map(repr, db.execute(f'SELECT * FROM "{name}"').fetchall()))  # noqa: S608  of our own schema
            found[name] = hashlib.sha256("\n".join(rows).encode()).hexdigest()
    return found


def known(directory: Path, stage: Path, site: str, identity: Identity, told: Told) -> Replaced:
    """What the log that is there has, beside the backup's; into `told`, what it tells of keys.

    Logs that were set aside before are read as well while they are there: a restore may have been cut off.
    """
    for aside in sorted(directory.glob(f"{ASIDE}*")):
        if (aside / archive.LOG).is_dir():
            destroyed_keys.read(aside / archive.LOG, told)
    origin = f"kvctl.{site}/control"
    there, ours = directory / archive.LOG, Reader(stage / archive.LOG, origin, identity.public)
    if not has_log(there):
        return Replaced()
    if (there / "checkpoint").exists():
        Reader(there, origin, identity.public)  # another site's is refused
    return destroyed_keys.read(there, told, ours.read(0, ours.size))


def has_log(directory: Path) -> bool:
    """More than the lock, which is made for this."""
    return any(path.name not in archive.NOT_COPIED for path in directory.iterdir())


def insist(directory: Path, site: str, there: Replaced, force: str) -> None:
    """RefusedError KV-CTL-061 when something would be given up and nobody said that it may."""
    if force == site or (there.size == there.common and not there.unread):
        return
    why = f"{there.size} events there, {there.common} of them in the backup: the others would be given up"
    if there.unread:
        why += f"; {there.unread} cannot be read: keys whose destruction they tell of would come back"
    raise RefusedError(
        "KV-CTL-061", "the log that is there is newer than the backup", where=str(directory), why=why,
        fix=f"to replace it all the same: --force {site}",
    )  # fmt: skip


def leave_out(keys: Path, own: Told, told: Told) -> list[str]:
    """Remove what must not come back: keys that are gone, and those of no event, with which nothing was sealed."""
    left_out = []
    for path in sorted(keys.iterdir()):
        if path.name == MASTER:
            continue
        fingerprint = own.made.get(path.name)
        if path.name in own.made and not any(
            destroyed_keys.is_among(path.name, fingerprint, one.gone) for one in (own, told)
        ):
            continue
        path.unlink()
        left_out.append(path.name)
    return left_out


def exchange(stage: Path, directory: Path) -> Path | None:
    """Move what is there aside and the verified parts into its place."""
    place = directory / f"{ASIDE}{datetime.now(UTC):%Y%m%d-%H%M%S}"
    aside = next(path for n in count() if not (path := Path(f"{place}-{n}" if n else place)).exists())
    moved = False
    if not has_log(directory / archive.LOG):
        shutil.rmtree(directory / archive.LOG)
    for name in PARTS:
        if (directory / name).exists():
            (aside / name).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            (directory / name).rename(aside / name)
            moved = True
    for name in PARTS:
        if (stage / name).exists():
            (directory / name).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            (stage / name).rename(directory / name)
    return aside if moved else None


def no_backup(where: Path, why: str) -> KvctlError:
    return UsageError(
        "KV-CTL-060",
        "this is no whole backup of a controller",
        where=str(where),
        why=why,
        fix="take another copy of it",
    )
