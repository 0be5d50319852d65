"""Whether the tables are what the control log gives, and the key store what the tables say."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvctl.controller import destroyed_keys
from kvctl.controller.books import BATCH
from kvctl.controller.keystore import root_file, subject_file
from kvctl.ledger.log import Log
from kvctl.ledger.verify import Report, verify
from kvctl.state.appliers import APPLIERS
from kvctl.state.governance import SHIPPED, Connection, GovernanceState, rows
from kvctl.types.chunks import Scope
from kvctl.types.errors import KvctlError, RefusedError

if TYPE_CHECKING:
    from kvctl.controller.core import Controller

QUICK = 10_000  # events that are applied again while somebody waits for the answer
LISTED = 1000  # rows of one answer: where a table is not the log's at all, more say nothing new
LONGEST = 300  # characters of a row that is shown
Problem = dict[str, Any]
LOST = "it is not in the key store, and no destruction of it is on record"
BACK = "it was destroyed, and is in the key store"
BACK_AGAIN = "it was destroyed before a backup was put back, which left it out, and is in the key store"
# Keys that must be there, but for those that a restored backup left out. Restores of before there were events of that
# named none: what is older than such a one may be missing.
KEPT = """SELECT tenant, domain, epoch FROM epochs WHERE destroying_at IS NULL AND destroyed_at IS NULL
    AND created_at >= (SELECT coalesce(max(ts), TIMESTAMP '1970-01-01') FROM events
    WHERE kind = 'backup.restored' AND (data->>'keys_left_out') IS NULL) ORDER BY ALL"""
PSEUDONYMS = """SELECT t.tenant, t.state, e.data->>'subject_fingerprint' AS fingerprint FROM tenants t
    JOIN events e ON e.kind = 'tenant.created' AND e.tenant = t.tenant ORDER BY ALL"""


def reported(ctl: "Controller", log: Log, since: str | None = None) -> tuple[Report, str]:
    """A log's verification up to its newest entry, and its checkpoint.

    Its files are looked at once before: a new checkpoint puts others in the place of the newest, and what was done to
    those would be gone without a word.
    """
    before = verify(log.directory, log.origin, ctl.books.identity.public)
    checkpoint = log.checkpoint()
    if not before.sound:
        return before, checkpoint
    return verify(log.directory, log.origin, ctl.books.identity.public, since), checkpoint


def disagreements(ctl: "Controller", *, whole: bool = True) -> list[Problem]:
    """Rows that are not what applying the whole log gives, by table: {place, what, idx}. At most LISTED.

    Applying takes some milliseconds an event. Without `whole` only the index of the log is compared, `events`.
    """
    with ctl.books.state.reading() as db:
        with ctl.books.deciding():
            db.begin()
            row = db.execute("SELECT size FROM applied").fetchone()  # what this transaction sees from now on
            size = ctl.books.log.size
        try:
            if row is None or row[0] != size:
                what = f"the tables hold {row[0] if row else 0} events, the log has {size}"
                return [{"place": "table applied", "what": what, "idx": None}]
            return _compared(ctl, db, size, whole)
        finally:
            db.rollback()


def _compared(ctl: "Controller", db: Connection, size: int, whole: bool) -> list[Problem]:
    retold = GovernanceState(Path(":memory:"), APPLIERS if whole else {})
    try:
        for start in range(0, size, BATCH):
            retold.apply(list(ctl.books.recorded(start, min(start + BATCH, size))))
        with retold.reading() as other:
            found: list[Problem] = []
            for name in tables(other) if whole else ["events"]:
                for page in _pages(size) if name == "events" else [""]:
                    found += _differences(name, _rows_of(db, name, page), _rows_of(other, name, page))
            return found[:LISTED]
    finally:
        retold.close()


def tables(db: Connection) -> list[str]:
    """Those that are made from the log."""
    found = db.execute("SELECT table_name FROM duckdb_tables() WHERE NOT internal AND NOT temporary ORDER BY 1")
    return [name for (name,) in found.fetchall() if name not in (*SHIPPED, "schema_version", "applied")]


def _pages(size: int) -> list[str]:
    """Conditions that take the index of the log apart: it is as long as the log, and nothing else is."""
    inner = [f"WHERE idx >= {start} AND idx < {min(start + BATCH, size)}" for start in range(0, size, BATCH)]
    return [*inner, f"WHERE idx < 0 OR idx >= {size}"]


def _rows_of(db: Connection, name: str, page: str) -> list[dict[str, Any]]:
    columns = [row[0] for row in db.execute(f'DESCRIBE "{name}"').fetchall()]
    order = ", ".join(f'"{column}"' for column in sorted(columns))  # one that was added later stands elsewhere
    return rows(db, f'SELECT {order} FROM "{name}" {page}')  # noqa: S608  names of our own schema


def _differences(name: str, here: list[dict[str, Any]], told: list[dict[str, Any]]) -> Iterator[Problem]:
    """Rows that only one of the two has, the index of their event where they have one."""
    one, other = (Counter(map(_text, found)) for found in (here, told))
    if one == other:
        return
    for found, counts, what in ((here, one - other, "is not what the log says"), (told, other - one, "is missing")):
        for row in found:
            text = _text(row)
            if counts[text] > 0:
                counts[text] -= 1
                shown = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
                yield {"place": f"table {name}", "what": f"a row {what}: {shown}", "idx": row.get("idx")}


def _text(row: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in row.items() if value is not None)


# --- the key store --------------------------------------------------------------------------------------------------
def keys_unlike(ctl: "Controller", *, destroyed: bool) -> list[Problem]:
    """What is wrong with the key store's files: with `destroyed`, keys that are to be gone and are there; without, keys
    that are shared, that do not open, that are not the ones which were made, and that are gone without a record."""
    with ctl.books.deciding() as db:
        epochs = rows(db, "SELECT tenant, domain, epoch, destroyed_at FROM epochs")
        kept = rows(db, KEPT)
        pseudonyms = rows(db, PSEUDONYMS)
        made = {
            (str(row["tenant"]), str(row["domain"]), str(row["epoch"])): row["fingerprint"]
            for row in rows(
                db,
                """SELECT tenant, data->>'domain' AS domain, data->>'epoch' AS epoch,
                   data->>'fingerprint' AS fingerprint FROM events WHERE kind = 'epoch.created'""",
            )
        }
        left_out = destroyed_keys.left_out(db)
        there, subjects = set(ctl.keystore.scopes()), set(ctl.keystore.subjects())
    if destroyed:
        gone = {_scope(row) for row in epochs if row["destroyed_at"] is not None}
        ended = {str(row["tenant"]) for row in pseudonyms if row["state"] == "offboarded"}
        return [*_back(there, gone, left_out), *_pseudonyms_back(ctl, subjects, ended, left_out)]
    lost = [_key(scope, LOST) for scope in map(_scope, kept) if scope not in there and root_file(scope) not in left_out]
    needed = [row for row in pseudonyms if row["state"] not in ("offboarding", "offboarded")]
    return [*_wrong_keys(ctl, there, made), *lost, *_wrong_pseudonyms(ctl, needed, left_out)]


def _back(there: set[Scope], gone: set[Scope], left_out: destroyed_keys.Keys) -> Iterator[Problem]:
    for scope in sorted(there):
        if scope in gone:
            yield _key(scope, BACK)
        elif root_file(scope) in left_out:
            yield _key(scope, BACK_AGAIN)


def _pseudonyms_back(
    ctl: "Controller", subjects: set[str], ended: set[str], left_out: destroyed_keys.Keys
) -> Iterator[Problem]:
    for tenant in sorted(subjects):
        if tenant in ended:
            yield _pseudonyms(tenant, BACK)
        elif subject_file(tenant) in left_out and destroyed_keys.is_among(
            subject_file(tenant), _opened(ctl, tenant), left_out
        ):
            yield _pseudonyms(tenant, BACK_AGAIN)


def _opened(ctl: "Controller", tenant: str) -> str | None:
    """The fingerprint of a tenant's subject key; None when it does not open: it may be any."""
    try:
        return ctl.keystore.subject_fingerprint(tenant)
    except KvctlError:
        return None


def _wrong_keys(ctl: "Controller", there: set[Scope], made: dict[tuple[str, str, str], Any]) -> Iterator[Problem]:
    seen: dict[str, Scope] = {}
    for scope in sorted(there):
        try:
            print_ = ctl.keystore.fingerprint(scope)
        except KvctlError as error:
            yield _key(scope, f"{error.code}: {error.what}")
            continue
        other = seen.setdefault(print_, scope)
        if other != scope:
            yield _key(scope, f"it is the key of {other.tenant}/{other.domain} as well")
        was = made.get((scope.tenant, scope.domain, scope.epoch.hex()))
        if was not in (None, print_):
            yield _key(scope, "it is not the key that was made for this epoch")


def _wrong_pseudonyms(
    ctl: "Controller", tenants: list[dict[str, Any]], left_out: destroyed_keys.Keys
) -> Iterator[Problem]:
    for row in tenants:
        tenant, was = str(row["tenant"]), row["fingerprint"]
        try:
            if was not in (None, ctl.keystore.subject_fingerprint(tenant)):
                yield _pseudonyms(tenant, "it is not the key that was made for this tenant")
        except RefusedError:
            if not destroyed_keys.is_among(subject_file(tenant), was, left_out):
                yield _pseudonyms(tenant, LOST)
        except KvctlError as error:
            yield _pseudonyms(tenant, f"{error.code}: {error.what}")


def _scope(row: dict[str, Any]) -> Scope:
    return Scope(str(row["tenant"]), str(row["domain"]), bytes.fromhex(str(row["epoch"])))


def _key(scope: Scope, what: str) -> Problem:
    place = f"key store: {scope.tenant}/{scope.domain}, epoch {scope.epoch.hex()}"
    return {"place": place, "what": what, "idx": None, "tenant": scope.tenant}


def _pseudonyms(tenant: str, what: str) -> Problem:
    return {"place": f"key store: {tenant}, pseudonyms", "what": what, "idx": None, "tenant": tenant}
