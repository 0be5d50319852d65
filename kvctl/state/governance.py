"""The governance state: one DuckDB file, one process that holds it, one writer.

Rows of the control plane are made by applying events of the control log; nothing else writes them.
"""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import _duckdb as duckdb

from kvctl.state.database import storage_error
from kvctl.types.errors import KvctlError, UsageError
from kvctl.types.events import Recorded

Connection = duckdb.DuckDBPyConnection
Apply = Callable[[Connection, Recorded], None]
VERSION = 3
MIGRATIONS = {  # schema version -> what makes it of the one before
    2: """ALTER TABLE erasures ADD COLUMN model VARCHAR; ALTER TABLE erasures ADD COLUMN stored_from TIMESTAMP;
          ALTER TABLE erasures ADD COLUMN stored_until TIMESTAMP""",
    3: "ALTER TABLE accounts ADD COLUMN oidc_issuer VARCHAR; ALTER TABLE accounts ADD COLUMN oidc_subject VARCHAR",
}
SCHEMA = Path(__file__).with_name("governance.sql")
# Not made from the log: what stores and gateways shipped.
SHIPPED = ("chunks", "lineage", "sources", "gaps", "comparisons", "usage")


class GovernanceState:
    """Open for as long as this object lives. `write` is for one thread at a time; `read` for any number."""

    def __init__(self, path: Path, appliers: Mapping[str, Apply]) -> None:
        self.path = path
        self._appliers = appliers
        self._lock = threading.RLock()
        self._main = self._open()

    def _open(self) -> Connection:
        config: dict[str, str | bool | int | float | list[str]] = {
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "threads": "2",
        }
        try:
            connection = duckdb.connect(str(self.path), config=config)
            self._create(connection)
        except duckdb.Error as error:
            raise self._unreadable(error) from error
        return connection

    def _create(self, connection: Connection) -> None:
        found = connection.execute(
            "SELECT count(*) FROM duckdb_tables() WHERE table_name = 'schema_version'"
        ).fetchone()
        if found and found[0]:
            row = connection.execute("SELECT max(version) FROM schema_version").fetchone()
            if row and row[0] is not None and row[0] > VERSION:
                raise KvctlError(
                    "KV-STATE-003",
                    f"the state was written by a newer kvctl (schema {row[0]}, this one knows {VERSION})",
                    where=str(self.path), fix="use that kvctl, or another state directory",
                )  # fmt: skip
            self._migrate(connection, int(row[0]) if row and row[0] is not None else VERSION)
            return
        connection.begin()
        connection.execute(SCHEMA.read_text())
        connection.execute("CREATE TABLE schema_version (version INTEGER NOT NULL, applied_at TIMESTAMP NOT NULL)")
        connection.execute("INSERT INTO schema_version VALUES (?, now()::TIMESTAMP)", [VERSION])
        connection.execute("INSERT INTO applied VALUES (0)")
        connection.commit()
        # Replaying DDL from the write-ahead log is where DuckDB breaks.
        connection.execute("CHECKPOINT")

    def _migrate(self, connection: Connection, version: int) -> None:
        for number in range(version + 1, VERSION + 1):
            connection.begin()
            connection.execute(MIGRATIONS[number])
            connection.execute("INSERT INTO schema_version VALUES (?, now()::TIMESTAMP)", [number])
            connection.commit()
        if version < VERSION:
            connection.execute("CHECKPOINT")

    def _unreadable(self, error: duckdb.Error) -> KvctlError:
        wal = self.path.with_name(self.path.name + ".wal")
        if "WAL" not in str(error) or not wal.exists():
            return storage_error(self.path, error)
        return KvctlError(
            "KV-STATE-006", "the last writes to the governance state cannot be read back", where=str(wal),
            why=str(error).splitlines()[0],
            fix="move that file aside and run: kvctl audit reindex (the log has them all)",
        )  # fmt: skip

    def applied(self) -> int:
        """How many events of the control log the tables hold."""
        with self.reading() as db:
            row = db.execute("SELECT size FROM applied").fetchone()
        return int(row[0]) if row else 0

    def apply(self, events: Sequence[Recorded]) -> None:
        """Bring the tables up to these events, in one transaction. They must follow what was applied."""
        if events:
            with self.writing() as db:
                self._take(db, events)

    @contextlib.contextmanager
    def applying(self, events: Sequence[Recorded]) -> Iterator[None]:
        """The same around a block: seen when it has ended, taken back when it raises. UsageError KV-CTL-076 before it
        for events that the tables do not take."""
        with self.writing() as db:
            try:
                self._take(db, events)
            except (duckdb.DataError, duckdb.IntegrityError) as error:
                raise UsageError(
                    "KV-CTL-076", "this cannot be put on record: nothing was changed",
                    where=", ".join(sorted({event.kind for event in events})), why=str(error).splitlines()[0],
                ) from error  # fmt: skip
            yield

    def _take(self, db: Connection, events: Sequence[Recorded]) -> None:
        insert_events(db, events)
        for event in events:
            if event.kind in self._appliers:
                self._appliers[event.kind](db, event)
        db.execute("UPDATE applied SET size = ?", [events[-1].index + 1])

    @contextlib.contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction. Whatever ends it early leaves nothing of it."""
        with self._lock:
            try:
                self._main.begin()
                yield self._main
                self._main.commit()
            except duckdb.Error as error:
                self._recover(error)
                raise storage_error(self.path, error) from error
            except BaseException:
                self._main.rollback()
                raise

    def _recover(self, error: duckdb.Error) -> None:
        """After a fatal error (a full disk at a checkpoint) DuckDB answers nothing until the file is opened again."""
        if not isinstance(error, duckdb.FatalException) and "invalidated" not in str(error):
            with contextlib.suppress(duckdb.Error):  # a failed commit has rolled back by itself
                self._main.rollback()
            return
        self._main.close()
        self._main = self._open()

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """A cursor of its own: it sees what was committed."""
        with self._lock:
            cursor = self._main.cursor()
        try:
            yield cursor
        except duckdb.Error as error:
            raise storage_error(self.path, error) from error
        finally:
            cursor.close()

    def empty(self) -> None:
        """Take everything away that the control log can give again."""
        with self.writing() as db:
            names = db.execute("SELECT table_name FROM duckdb_tables() WHERE NOT internal").fetchall()
            for (name,) in names:
                if name not in (*SHIPPED, "schema_version", "applied"):
                    db.execute(f'DELETE FROM "{name}"')  # noqa: S608  a name of our own schema
            db.execute("UPDATE applied SET size = 0")

    def close(self) -> None:
        with self._lock:
            self._main.close()


def insert_events(db: Connection, events: Sequence[Recorded]) -> None:
    rows = [
        {
            "idx": e.index, "ts": e.at, "kind": e.kind, "actor": e.actor, "actor_tenant": e.actor_tenant,
            "tenant": e.tenant, "outcome": e.outcome, "data": json.dumps(e.data),
        }
        for e in events
    ]  # fmt: skip
    db.execute(
        """INSERT INTO events BY NAME SELECT unnest(from_json(?::JSON, '[{"idx": "BIGINT", "ts": "TIMESTAMP",
           "kind": "VARCHAR", "actor": "VARCHAR", "actor_tenant": "VARCHAR", "tenant": "VARCHAR", "outcome": "VARCHAR",
           "data": "VARCHAR"}]'), recursive := true)""",
        [json.dumps(rows)],
    )


def rows(db: Connection, sql: str, parameters: Sequence[object] | Mapping[str, object] = ()) -> list[dict[str, object]]:
    """What a query gives, as mappings from column to value; times as RFC 3339 texts."""
    found = db.execute(sql, parameters or None)
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, map(_plain, row), strict=True)) for row in found.fetchall()]


def _plain(value: object) -> object:
    if hasattr(value, "isoformat"):
        return value.isoformat(timespec="milliseconds") + "Z"
    return value.hex() if isinstance(value, bytes) else value
